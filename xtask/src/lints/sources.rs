//! What every source file and page keeps to. The forbidden words are put together here from parts,
//! so that this file does not match itself.

use std::fs;
use std::path::Path;

use super::assert_none;
use crate::process;

const MACROS: [&str; 2] = [concat!("todo", "!("), concat!("unimplemented", "!(")];
const IGNORED: &str = concat!("#[", "ignore");

#[test]
fn sources_open_with_their_documentation() {
    let mut problems = Vec::new();
    for (path, text) in files() {
        if is_our_source(&path) && !text.starts_with("//!") {
            problems.push(format!("{path}: does not open with `//!`"));
        }
    }
    assert_none(&problems);
}

#[test]
fn nothing_is_ignored_or_left_to_do() {
    let mut problems = Vec::new();
    for (path, text) in files() {
        for (index, line) in text.lines().enumerate() {
            if let Some(problem) = problem(&path, line) {
                problems.push(format!("{path}:{}: {problem}", index + 1));
            }
        }
    }
    assert_none(&problems);
}

/// What is wrong with a line.
fn problem(path: &str, line: &str) -> Option<&'static str> {
    if is_ignored_fence(line) {
        Some("an example that is not compiled: use `no_run`, `compile_fail` or `text`")
    } else if has_ignored_test(line) {
        Some("an ignored test: run it or remove it")
    } else if path.starts_with("crates/")
        && path.contains("/src/")
        && MACROS.iter().any(|name| line.contains(name))
    {
        Some("unfinished code")
    } else {
        None
    }
}

/// Whether the line opens a code block that rustdoc leaves out.
fn is_ignored_fence(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', '>', ' ']);
    let Some(info) = text.strip_prefix("```") else {
        return false;
    };
    info.trim_start_matches('`')
        .split([',', ' ', '{', '}'])
        .any(|word| word == "ignore" || word.starts_with("ignore-"))
}

/// Whether the line ignores a test; prose may name the attribute between backticks.
fn has_ignored_test(line: &str) -> bool {
    line.match_indices(IGNORED).any(|(at, _)| !line[..at].ends_with('`'))
}

/// Whether a file is Rust under the `src` of a crate or of xtask.
fn is_our_source(path: &str) -> bool {
    let in_src = path.starts_with("xtask/src/")
        || (path.starts_with("crates/") && path.split('/').nth(2) == Some("src"));
    in_src && path.ends_with(".rs")
}

/// Rust and Markdown files that are committed or could be, with their text.
fn files() -> Vec<(String, String)> {
    let mut command = process::program("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let listed = process::capture(command).unwrap();
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| path.ends_with(".rs") || path.ends_with(".md")) {
        let file = process::root().join(path);
        // Git still lists a file that was removed without telling it.
        if Path::new(&file).is_file() {
            files.push((path.to_owned(), fs::read_to_string(&file).unwrap()));
        }
    }
    assert!(files.iter().any(|(path, _)| is_our_source(path)), "git lists no sources");
    files
}

#[test]
fn forbidden_lines_are_recognised() {
    let fence = "```";
    for info in ["ignore", "rust,ignore", " ignore", "ignore-wasm32,no_run"] {
        assert!(is_ignored_fence(&format!("    /// {fence}{info}")), "{info}");
        assert!(is_ignored_fence(&format!("{fence}{info}")), "{info}");
    }
    for info in ["", "no_run", "text", "rust", "ignored"] {
        assert!(!is_ignored_fence(&format!("//! {fence}{info}")), "{info}");
    }
    assert!(!is_ignored_fence("/// to ignore"));

    assert!(has_ignored_test(&format!("    {IGNORED}]")));
    assert!(has_ignored_test(&format!("#[test] {IGNORED} = \"slow\"]")));
    assert!(!has_ignored_test(&format!("No `{IGNORED}]` here.")));

    let [todo, unimplemented] = MACROS;
    assert!(problem("crates/a/src/b.rs", &format!("    {todo})")).is_some());
    assert!(problem("crates/a/src/b.rs", &format!("    {unimplemented}\"x\")")).is_some());
    assert!(problem("crates/a/tests/b.rs", &format!("    {todo})")).is_none());
}
