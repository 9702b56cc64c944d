//! Tokens as one line of text, with blanks where a reader expects them. The text does not depend on
//! how the source was laid out.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The line for these tokens.
pub(super) fn line(tokens: TokenStream) -> String {
    let mut words = Vec::new();
    collect(tokens, &mut words);
    drop_trailing_comma(&mut words);
    let mut line = String::new();
    let mut previous: Option<&str> = None;
    for word in &words {
        if previous.is_some_and(|previous| wants_blank(previous, word)) {
            line.push(' ');
        }
        line.push_str(word);
        previous = Some(word);
    }
    line
}

/// Operators of several characters, which arrive as single ones. Not `>>`: here it only ever
/// closes two lists of generics.
const OPERATORS: [&str; 5] = ["->", "=>", "::", "..", "=="];

fn collect(tokens: TokenStream, words: &mut Vec<String>) {
    let mut joint = false;
    for token in tokens {
        let mut next_joint = false;
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                push(open, words);
                collect(group.stream(), words);
                push(close, words);
            }
            TokenTree::Punct(punct) => {
                next_joint = punct.spacing() == Spacing::Joint;
                let character = punct.as_char();
                let operator = words.last().map(|last| format!("{last}{character}"));
                match operator.filter(|text| joint && OPERATORS.contains(&text.as_str())) {
                    Some(operator) => {
                        words.pop();
                        words.push(operator);
                    }
                    None => push(&character.to_string(), words),
                }
            }
            // A lifetime is a quote and a name.
            TokenTree::Ident(name) if joint && words.last().is_some_and(|last| last == "'") => {
                words.pop();
                words.push(format!("'{name}"));
            }
            TokenTree::Ident(name) => words.push(name.to_string()),
            TokenTree::Literal(literal) => words.push(literal.to_string()),
        }
        joint = next_joint;
    }
}

fn push(word: &str, words: &mut Vec<String>) {
    if matches!(word, ")" | "]" | "{" | "}" | ">" | ";") {
        drop_trailing_comma(words);
    }
    if !word.is_empty() {
        words.push(word.to_owned());
    }
}

/// A comma before a closing bracket is a matter of layout.
fn drop_trailing_comma(words: &mut Vec<String>) {
    if words.last().is_some_and(|last| last == ",") {
        words.pop();
    }
}

fn wants_blank(previous: &str, next: &str) -> bool {
    match (previous, next) {
        ("{", "}") => false,
        ("(" | "[" | "<" | "::" | "&" | "?" | "!" | "*" | "#", _) => false,
        (_, ")" | "]" | ">" | "," | ";" | ":") => false,
        ("for", "(") | (">", "!") => true,
        (name, "<" | "(" | "::" | "!") => !is_name(name) && name != ">",
        _ => true,
    }
}

/// Whether the word may be called, have generics or start a path: a name, but not a keyword.
fn is_name(word: &str) -> bool {
    const KEYWORDS: [&str; 7] = ["where", "as", "dyn", "mut", "const", "in", "unsafe"];
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && !KEYWORDS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str) {
        let item: syn::Item = syn::parse_str(source).unwrap();
        assert_eq!(line(quote::quote!(#item)), source);
    }

    #[test]
    fn blanks_are_where_a_reader_expects_them() {
        check(
            "fn f<T>(&self, name: impl Into<String>) -> Result<Vec<Vec<T>>, E> where T: A + B {}",
        );
        check("fn f<'a, T: ?Sized>(a: &'a mut T, b: &'static [u8; 4], c: *const T) -> &'a T {}");
        check("fn f(g: Box<dyn for<'a> Fn(&'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>>>) {}");
        check("fn f() -> impl Future<Output = <Self as Tool>::Output> + use<Self> {}");
        check("#[cfg(feature = \"a\")] struct S<const N: usize = 4>(pub [u8; N]);");
        check("impl<T> !Send for (A<T>, B) {}");
        check("type Never = fn(A) -> !;");
    }

    #[test]
    fn layout_makes_no_difference() {
        let item: syn::Item = syn::parse_str("fn f(\n    a: A,\n    b: B<\nC,>,\n) {}").unwrap();
        assert_eq!(line(quote::quote!(#item)), "fn f(a: A, b: B<C>) {}");
    }
}
