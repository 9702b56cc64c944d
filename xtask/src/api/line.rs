//! A line in the listing of a crate's public API. Its text does not depend on the formatting of the source code.

use quote::ToTokens;

/// A line in the listing of a crate's public API. Lines are sorted by path, segment by segment, and then by text.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Line {
    segments: Vec<String>,
    pub(super) text: String,
}

impl Line {
    /// Creates the line of the item at `path`. The gates (`cfg` attributes) precede the text.
    pub(super) fn new(path: &str, gates: &[String], text: String) -> Self {
        let mut words = gates.to_vec();
        words.push(text);
        Self { segments: path.split("::").map(str::to_owned).collect(), text: words.join(" ") }
    }

    /// Returns the segments of the item's path, and the gates before the text.
    pub(super) fn place(&self) -> (&[String], &str) {
        let gates = self.text.find("pub ").and_then(|at| self.text.get(..at)).unwrap_or_default();
        // This attribute is not a gate. It precedes only the line of the item, not the lines of its re-exports.
        (&self.segments, gates.strip_suffix("#[non_exhaustive] ").unwrap_or(gates))
    }

    /// Creates the line of an `impl` block. `head` is its text up to the brace, and the `gates` (`cfg` attributes)
    /// precede it. The line is sorted after the line of `owner` and before the items of `owner`.
    pub(super) fn of_impl(owner: &str, gates: &[String], head: impl ToTokens) -> Self {
        Self::new(&format!("{owner}:: impl"), gates, layout(head))
    }
}

/// Formats tokens as rustfmt would on one line. A comma before a closing bracket is removed.
pub(super) fn layout(tokens: impl ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if word.starts_with([')', ']', '{', '}', '>', ';']) && line.ends_with(',') {
            line.pop();
        }
        if wants_blank(&line, word) {
            line.push(' ');
        }
        line.push_str(word);
    }
    line.trim_end_matches(',').replace(",)", ")")
}

/// Returns `true` if the next word must be separated from the line so far by a blank.
fn wants_blank(line: &str, word: &str) -> bool {
    if line.is_empty()
        || line.ends_with(['(', '[', '<', '&', '?', '!', '*', '#'])
        || line.ends_with("::")
        || word.starts_with([')', ']', '>', ',', ';'])
        || word == ":"
    {
        return false;
    }
    let may_attach = word.starts_with(['(', '<']) || word.starts_with("::");
    !(may_attach && ends_with_name(line, word))
}

/// Returns `true` if the line ends with a name or with generics, so that a following `(`, `<` or `::` needs no blank.
///
/// Keywords and lifetimes are not names. `next` is the word that follows the line.
fn ends_with_name(line: &str, next: &str) -> bool {
    const KEYWORDS: [&str; 7] = ["as", "const", "dyn", "in", "mut", "unsafe", "where"];
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    match line.rsplit(|c| !is_of_name(c)).next().unwrap_or_default() {
        "" => line.ends_with('>') && !line.ends_with("->"),
        "for" => !next.starts_with('('),
        name => !name.starts_with('\'') && !KEYWORDS.contains(&name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str) {
        let item: syn::Item = syn::parse_str(source).unwrap();
        assert_eq!(layout(item), source);
    }

    #[test]
    fn layout_sets_blanks_like_rustfmt() {
        check("fn f<T>(&self, name: impl Into<String>) -> Result<Vec<Vec<T>>, E> where T: A + B;");
        check("fn f<'a, T: ?Sized>(a: &'a mut T, b: &'static [u8; 4], c: *const T) -> &'a T;");
        check("fn f(g: Box<dyn for<'a> Fn(&'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>>>);");
        check("fn f() -> impl Future<Output = <Self as Tool>::Output> + use<Self>;");
        check("fn f(a: &'a (A, B), b: &mut (A, B)) -> (A, B);");
        check("#[cfg(all(feature = \"a\", not(unix)))] struct S<const N: usize = 4>(pub [u8; N]);");
        check("impl<T> !Send for (A<T>, B) { type Item = u8; }");
        check("type Never = fn(A) -> !;");
    }

    #[test]
    fn layout_ignores_the_formatting_of_the_source() {
        let item: syn::Item =
            syn::parse_str("fn f(\n    a: A,\n    b: B<\nC,>,\n) where A: B, {\n}").unwrap();
        assert_eq!(layout(item), "fn f(a: A, b: B<C>) where A: B { }");
    }
}
