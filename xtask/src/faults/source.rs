//! Reads the deliberate faults from the comments of the sources.
//!
//! The comment of a fault is above the line that the fault breaks. Further lines of the comment are indented:
//!
//! ```text
//! // FAULT name: change, change (module::test)
//! //     rest of a long change
//! line of code
//! ```
//!
//! The test in parentheses is the test of `tests/it` that must find the fault. Without it, the model must. A change is
//! one of these, where `code` stands for code in backticks:
//!
//! | change | meaning |
//! |---|---|
//! | `code` `->` `code` | Replaces the first code, which begins once in the lines up to a `;`, `,`, `{` or `}`. |
//! | `the line ->` `code` | Replaces the line. Also `the statement` and `the arm`, which can have several lines. |
//! | `without` `code` | Removes the code. Also `the line`, `the statement` and `the arm`. |
//! | `add` `code` | Inserts the code above the line. |
//! | `after the next 2` | Moves the statement behind the two statements after it. Without a number, behind one. |
//!
//! Code is compared without its white space. The code of a second change begins behind that of the first one.

use std::fs;
use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::parse::Parser;
use syn::spanned::Spanned;

use crate::{changes, process};

const MARK: &str = "// FAULT ";

/// The beginning of a further line of a fault's comment.
const FURTHER: &str = "//   ";

/// A source file with deliberate faults.
pub(super) struct Source {
    /// Path of the file, relative to the workspace's root.
    pub(super) path: String,
    pub(super) text: String,
    pub(super) faults: Vec<Fault>,
    /// The contents of all pairs of braces, outer pairs before inner pairs.
    braces: Vec<Braces>,
}

/// A deliberate fault.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) name: String,
    /// Name of the test of `tests/it` that must find the fault. `None` means that the model must find it.
    pub(super) test: Option<String>,
    /// The replaced ranges of the source's text, in order, each with the new text.
    pub(super) edits: Vec<(Range<usize>, String)>,
}

/// The content of a pair of braces.
pub(super) struct Braces {
    pub(super) range: Range<usize>,
    content: TokenStream,
}

/// Returns the sources of all crates that have faults.
pub(super) fn read_all() -> Result<Vec<Source>, String> {
    let is_source = |file: &String| file.starts_with("crates/") && file.contains("/src/");
    let files = changes::files()?.into_iter().filter(is_source);
    let mut sources = Vec::new();
    for path in files.filter(|file| file.ends_with(".rs")) {
        let text = fs::read_to_string(process::root().join(&path))
            .map_err(|error| format!("cannot read {path}: {error}"))?;
        if text.contains(MARK) {
            sources.push(Source::parse(path, text)?);
        }
    }
    Ok(sources)
}

impl Source {
    /// Parses a source file and the comments of its faults.
    pub(super) fn parse(path: String, text: String) -> Result<Self, String> {
        let tokens: TokenStream =
            text.parse().map_err(|error| format!("cannot parse {path}: {error}"))?;
        let mut source = Self { path, text, faults: Vec::new(), braces: Vec::new() };
        add_braces(tokens, &mut source.braces);
        for (comment, start) in comments(&source.text) {
            let fault = source.fault(&comment, start);
            source.faults.push(fault.map_err(|reason| {
                format!("{}: the fault `{comment}` is not valid: {reason}", source.path)
            })?);
        }
        Ok(source)
    }

    /// Returns the pairs of braces that contain the whole range, inner pairs first.
    pub(super) fn braces_around(&self, range: &Range<usize>) -> impl Iterator<Item = &Braces> {
        let is_around = |it: &&Braces| it.range.start <= range.start && range.end <= it.range.end;
        self.braces.iter().rev().filter(is_around)
    }

    /// Parses the comment of a fault. `start` is the place of the first character below it.
    fn fault(&self, comment: &str, start: usize) -> Result<Fault, String> {
        let (name, changes) = comment.split_once(": ").ok_or("no colon follows the name")?;
        let (mut edits, mut rest): (Vec<(Range<usize>, String)>, _) = (Vec::new(), changes);
        loop {
            let from = edits.last().map_or(start, |(range, _)| range.end);
            rest = self.change(rest, start, from, &mut edits)?.trim_start();
            match rest.strip_prefix(',') {
                Some(more) => rest = more.trim_start(),
                None => break,
            }
        }
        let test = match rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(test) => Some(test.to_owned()),
            None if rest.is_empty() => None,
            None => return Err(format!("`{rest}` is not a test in parentheses")),
        };
        edits.sort_by_key(|(range, _)| range.start);
        Ok(Fault { name: name.to_owned(), test, edits })
    }

    /// Parses the first change in `text`, and returns the rest. `start` is the place of the line below the comment, and
    /// `from` is the end of the previous change.
    fn change<'t>(
        &self,
        text: &'t str,
        start: usize,
        from: usize,
        edits: &mut Vec<(Range<usize>, String)>,
    ) -> Result<&'t str, String> {
        if let Some(rest) = text.strip_prefix("add ") {
            let (code, rest) = code(rest).ok_or("`add` needs code in backticks")?;
            edits.push((start..start, format!("{code} ")));
            return Ok(rest);
        }
        if let Some(rest) = text.strip_prefix("after the next") {
            let digits = rest.trim_start();
            let end = digits.find(|char: char| !char.is_ascii_digit()).unwrap_or(digits.len());
            let (count, rest) = digits.split_at_checked(end).unwrap_or((digits, ""));
            let statements = self.statements(start).ok_or("no statement begins here")?;
            let later = statements.get(count.parse().unwrap_or(1)).ok_or("no statement follows")?;
            let first = statements.first().cloned().unwrap_or_default();
            let moved = self.text.get(first.clone()).unwrap_or_default();
            edits.push((later.end..later.end, format!(" {moved}")));
            edits.push((first, String::new()));
            return Ok(rest);
        }
        let (is_removed, text) = match text.strip_prefix("without ") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (range, rest) = self.target(text, start, from)?;
        if is_removed {
            edits.push((range, String::new()));
            return Ok(rest);
        }
        let put = rest.trim_start().strip_prefix("->").ok_or("no `->` follows")?;
        let (put, rest) = code(put.trim_start()).ok_or("no code in backticks follows `->`")?;
        edits.push((range, put.to_owned()));
        Ok(rest)
    }

    /// Parses the code or the part of the source that a change replaces. Returns its range and the rest of `text`.
    fn target<'t>(
        &self,
        text: &'t str,
        start: usize,
        from: usize,
    ) -> Result<(Range<usize>, &'t str), String> {
        if let Some(rest) = text.strip_prefix("the line") {
            let line = self.text.get(start..).unwrap_or_default().lines().next();
            return Ok((start..start + line.unwrap_or_default().len(), rest));
        }
        if let Some(rest) = text.strip_prefix("the statement") {
            let statements = self.statements(start).unwrap_or_default();
            return Ok((statements.first().ok_or("no statement begins here")?.clone(), rest));
        }
        if let Some(rest) = text.strip_prefix("the arm") {
            return Ok((self.arm(start).ok_or("no arm of a match begins here")?, rest));
        }
        let (code, rest) = code(text).ok_or("no code in backticks")?;
        let end = if from > start { self.text.len() } else { end_of_head(&self.text, start) };
        let mut found = (from..end).filter_map(|place| self.range_of(code, place));
        match (found.next(), found.next()) {
            (None, _) => Err(format!("the code below does not contain `{code}`")),
            (Some(_), Some(_)) if from == start => {
                Err(format!("the code below contains `{code}` several times"))
            }
            (Some(range), _) => Ok((range, rest)),
        }
    }

    /// Returns the range of `code` in the text if it begins at `place`. White space is ignored.
    fn range_of(&self, code: &str, place: usize) -> Option<Range<usize>> {
        let rest = self.text.get(place..)?;
        let mut chars = rest.char_indices().filter(|(_, char)| !char.is_whitespace());
        let mut end = place;
        for expected in code.chars().filter(|char| !char.is_whitespace()) {
            let (index, char) = chars.next().filter(|(_, char)| *char == expected)?;
            end = place + index + char.len_utf8();
        }
        // White space before the code would be a second occurrence.
        (!rest.starts_with(char::is_whitespace)).then_some(place..end)
    }

    /// Returns the statement that begins at `start`, and the later statements of its block. Returns `None` if no
    /// statement begins there.
    fn statements(&self, start: usize) -> Option<Vec<Range<usize>>> {
        let mut statements = self.braces_around(&(start..start)).next()?.statements()?;
        let index = statements.iter().position(|range| range.start == start)?;
        Some(statements.split_off(index))
    }

    /// Returns the range of the arm of a `match` that begins at `start`.
    fn arm(&self, start: usize) -> Option<Range<usize>> {
        let body = self.braces_around(&(start..start)).next()?.content.clone();
        let arms = |input: syn::parse::ParseStream<'_>| {
            let mut arms = Vec::new();
            while !input.is_empty() {
                arms.push(input.parse::<syn::Arm>()?);
            }
            Ok(arms)
        };
        let arms = arms.parse2(body).ok()?;
        arms.iter().map(|arm| arm.span().byte_range()).find(|range| range.start == start)
    }
}

impl Braces {
    /// Returns the ranges of the statements if the braces are those of a block. Returns `None` otherwise.
    pub(super) fn statements(&self) -> Option<Vec<Range<usize>>> {
        let statements = syn::Block::parse_within.parse2(self.content.clone()).ok()?;
        Some(statements.iter().map(|statement| statement.span().byte_range()).collect())
    }
}

/// Adds the contents of all pairs of braces, outer pairs before inner pairs.
fn add_braces(tokens: TokenStream, braces: &mut Vec<Braces>) {
    for tree in tokens {
        if let TokenTree::Group(group) = tree {
            if group.delimiter() == Delimiter::Brace {
                let [open, close] =
                    [group.span_open(), group.span_close()].map(|span| span.byte_range());
                braces.push(Braces { range: open.end..close.start, content: group.stream() });
            }
            add_braces(group.stream(), braces);
        }
    }
}

/// Returns the comments of the faults without their marks, each with the place of the line of code below it.
fn comments(text: &str) -> Vec<(String, usize)> {
    let mut comments: Vec<(String, usize)> = Vec::new();
    let (mut place, mut open) = (0, 0);
    let mut is_further = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim();
        if let Some(comment) = content.strip_prefix(MARK) {
            comments.push((comment.to_owned(), 0));
            is_further = true;
        } else if let Some(more) = content.strip_prefix(FURTHER).filter(|_| is_further)
            && let Some((comment, _)) = comments.last_mut()
        {
            comment.push(' ');
            comment.push_str(more.trim_start());
        } else {
            is_further = false;
            if !content.is_empty() && !content.starts_with("//") {
                let indent = line.len() - line.trim_start().len();
                comments.iter_mut().skip(open).for_each(|(_, start)| *start = place + indent);
                open = comments.len();
            }
        }
        place += line.len();
    }
    comments
}

/// Returns the code between backticks at the beginning of `text`, and the rest.
fn code(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('`')?.split_once('`')
}

/// Returns the end of the lines in which a change can begin. It is the end of the first line after `start` that ends
/// with `;`, `,`, `{` or `}`.
fn end_of_head(text: &str, start: usize) -> usize {
    let mut end = start;
    for line in text.get(start..).unwrap_or_default().split_inclusive('\n') {
        end += line.len();
        if line.trim_end().ends_with([';', ',', '{', '}']) {
            break;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the source with each fault of `source` alone, without comments and white space at the ends of lines.
    fn broken(source: &str) -> Vec<String> {
        let source = Source::parse("a.rs".into(), source.into()).unwrap();
        let mut all = Vec::new();
        for fault in &source.faults {
            let mut text = source.text.clone();
            for (range, put) in fault.edits.iter().rev() {
                text.replace_range(range.clone(), put);
            }
            let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let lines = lines.map(str::trim).filter(|line| !line.is_empty());
            all.push(lines.collect::<Vec<_>>().join(" "));
        }
        all
    }

    fn error(source: &str) -> String {
        Source::parse("a.rs".into(), source.into()).err().unwrap()
    }

    #[test]
    fn each_change_breaks_the_line_below_it() {
        for (change, expected) in [
            ("`a()` -> `b( )`", "b( );"),
            ("`a ( )` -> `b()`", "b();"),
            ("without `a()`", ";"),
            ("the line -> `b();`", "b();"),
            ("without the line", ""),
            ("add `b();`", "b(); a();"),
        ] {
            let source =
                format!("fn f() {{\n    // FAULT x: {change}\n    // A reason.\n    a();\n}}");
            let expected = format!("fn f() {{ {expected} }}").replace("{  }", "{ }");
            assert_eq!(broken(&source), [expected], "{change}");
        }
    }

    #[test]
    fn changes_of_statements_and_arms_cover_all_of_their_lines() {
        let source = "fn f() {
            // FAULT 1: without the statement
            // FAULT 2: after the next
            // FAULT 3: after the next 2
            if a {
                b();
            }
            c();
            d();
            match e {
                // FAULT 4: without the arm
                E => {
                    1
                }
                _ => 2,
            }
        }";
        let rest = "match e { E => { 1 } _ => 2, } }";
        assert_eq!(
            broken(source),
            [
                format!("fn f() {{ c(); d(); {rest}"),
                format!("fn f() {{ c(); if a {{ b(); }} d(); {rest}"),
                format!("fn f() {{ c(); d(); if a {{ b(); }} {rest}"),
                "fn f() { if a { b(); } c(); d(); match e { _ => 2, } }".to_owned(),
            ]
        );
    }

    #[test]
    fn a_fault_has_several_changes_and_lines_and_a_test() {
        let source = "fn f() {
            // FAULT x: without `.a()`, `b()` ->
            //     `c()` (m::t)
            x.a();
            y.b();
        }";
        assert_eq!(broken(source), ["fn f() { x; y.c(); }"]);
        let source = Source::parse("a.rs".into(), source.into()).unwrap();
        assert_eq!(source.faults[0].test.as_deref(), Some("m::t"));
    }

    #[test]
    fn a_change_that_does_not_fit_is_an_error() {
        for (change, expected) in [
            ("`b()` -> `c()`", "does not contain `b()`"),
            ("`later()` -> `c()`", "does not contain `later()`"),
            ("`a` -> `c`", "several times"),
            ("`x` => `y`", "no `->` follows"),
            ("without the arm", "no arm"),
            ("after the next 3", "no statement follows"),
            ("without `x` m::t", "not a test"),
        ] {
            let source =
                format!("fn f() {{\n    // FAULT x: {change}\n    a(x, a());\n    later();\n}}");
            let error = error(&source);
            assert!(error.contains(expected), "{change}: {error}");
        }
        assert!(error("// FAULT without a change\nfn f() {}").contains("no colon"));
    }
}
