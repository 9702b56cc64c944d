//! Checks that no source file or page contains an ignored test or example, that all unit tests run, and that source
//! files begin with documentation.
//!
//! Clippy's lints for ignored tests do not check examples in documentation and tests that are ignored with a reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::assert_none;
use crate::{changes, process, workspace};

/// The beginning of the attribute for an ignored test. The text is assembled from parts, so that the check does not
/// find it in this file.
const IGNORED: &str = concat!("#[", "ignore");

#[test]
fn sources_open_with_their_documentation() {
    let is_undocumented = |(path, text): &(String, String)| {
        let is_source = ["crates/", "testkit/", "xtask/"].iter().any(|top| path.starts_with(top));
        is_source && path.contains("/src/") && path.ends_with(".rs") && !text.starts_with("//!")
    };
    let problems = files().filter(is_undocumented);
    let problems: Vec<String> =
        problems.map(|(path, _)| format!("{path}: does not open with `//!`")).collect();
    assert_none(&problems);
}

/// With `test = false` in the manifest, cargo links no program with the unit tests of a library or program, and they
/// would never run.
#[test]
fn targets_that_are_not_tested_have_no_unit_tests() {
    let files: Vec<(String, String)> = files().collect();
    // A program of tests can have the file of another program as a module.
    let tests = files.iter().filter(|(path, _)| path.contains("/tests/"));
    let included: Vec<PathBuf> =
        tests.flat_map(|(path, text)| named_files(path, text, "#[path = \"")).collect();
    let mut problems = Vec::new();
    for package in workspace::members().unwrap().packages {
        for target in package.targets.iter().filter(|target| !target.test) {
            let is_in_folder = ["lib", "proc-macro", "bin"].iter().any(|kind| target.is(kind));
            let Some(folder) = target.src_path.parent().filter(|_| is_in_folder) else { continue };
            let is_of_target = |path: &str| process::root().join(path).starts_with(folder);
            for (path, text) in files.iter().filter(|(path, _)| is_of_target(path)) {
                let is_included = included.iter().any(|included| included == Path::new(path));
                if !is_included && text.lines().any(is_for_tests) {
                    problems.push(format!("{path}: has unit tests that never run"));
                }
            }
        }
    }
    assert_none(&problems);
}

/// A library can leave a page out of the documentation whose examples run. Then another package must run them.
#[test]
fn examples_that_a_library_leaves_out_run_in_another_package() {
    let files: Vec<(String, String)> = files().filter(|(path, _)| path.ends_with(".rs")).collect();
    let named = |attribute: &str| -> BTreeSet<PathBuf> {
        let prefixes = ["#[", "#!["].map(|sign| format!("{sign}{attribute}include_str!(\""));
        let in_file = |prefix: &String| {
            let named = files.iter().map(|(path, text)| named_files(path, text, prefix));
            named.flatten().collect::<Vec<_>>()
        };
        prefixes.iter().flat_map(in_file).collect()
    };
    let (run, left_out) = (named("doc = "), named("cfg_attr(not(doctest), doc = "));
    assert!(!left_out.is_empty());
    let problems: Vec<String> = left_out
        .difference(&run)
        .map(|page| format!("{}: has examples that never run", page.display()))
        .collect();
    assert_none(&problems);
}

/// Returns the files that the lines of a source file name after `prefix`, relative to the root of the workspace. `path` is
/// the path of the source file.
fn named_files(path: &str, text: &str, prefix: &str) -> Vec<PathBuf> {
    let names = text.lines().filter_map(|line| line.trim().strip_prefix(prefix)?.split('"').next());
    let resolve = |name: &str| {
        let mut resolved = PathBuf::from(path);
        resolved.pop();
        for part in name.split('/') {
            match part {
                ".." => drop(resolved.pop()),
                part => resolved.push(part),
            }
        }
        resolved
    };
    names.map(resolve).collect()
}

#[test]
fn named_files_are_resolved() {
    let text = "#[path = \"../../src/a.rs\"]\nmod a;\n    #[path = \"b.rs\"]\n// \"c.rs\"";
    let found = named_files("crates/x/tests/it/main.rs", text, "#[path = \"");
    assert_eq!(found, ["crates/x/src/a.rs", "crates/x/tests/it/b.rs"].map(PathBuf::from));
}

/// Returns `true` if a line begins a test, or a part that is compiled only for tests. The attributes of asynchronous tests
/// are not recognised, because macros of libraries generate them. Such tests are in a part for tests.
fn is_for_tests(line: &str) -> bool {
    let attribute = line.trim();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    attribute == "#[test]"
        || attribute.starts_with("#[cfg(")
            && attribute.split(|c| !is_word(c)).any(|word| word == "test")
}

#[test]
fn parts_for_tests_are_recognised() {
    for (line, expected) in [
        ("    #[test]", true),
        ("#[cfg(test)]", true),
        ("#[cfg(all(test, unix))]", true),
        ("#[cfg(feature = \"latest\")]", false),
        ("#[tokio::test]", false),
        ("// #[test]", false),
        ("fn test() {}", false),
    ] {
        assert_eq!(is_for_tests(line), expected, "{line}");
    }
}

#[test]
fn no_example_and_no_test_is_ignored() {
    let mut problems = Vec::new();
    for (path, text) in files() {
        for (index, line) in text.lines().enumerate() {
            if let Some(problem) = problem(line) {
                problems.push(format!("{path}:{}: {problem}", index + 1));
            }
        }
    }
    assert_none(&problems);
}

/// Returns a message if a line ignores an example or a test, and `None` otherwise.
fn problem(line: &str) -> Option<&'static str> {
    if is_ignored_fence(line) {
        Some("an example that is not compiled: use `no_run`, `compile_fail` or `text`")
    } else if line.match_indices(IGNORED).any(|(at, _)| !line[..at].ends_with('`')) {
        // Documentation may mention the attribute between backticks.
        Some("an ignored test: run it or remove it")
    } else {
        None
    }
}

/// Returns `true` if the line opens a code block with `ignore`, which rustdoc does not compile.
fn is_ignored_fence(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches(['/', '!', '*', '>', ' ']);
    let Some(info) = text.strip_prefix("```") else {
        return false;
    };
    info.trim_start_matches('`')
        .split([',', ' ', '{', '}'])
        .any(|word| word == "ignore" || word.starts_with("ignore-"))
}

/// Returns the path and the text of every Rust and Markdown file of the workspace.
pub(super) fn files() -> impl Iterator<Item = (String, String)> {
    let files = changes::files().unwrap().into_iter();
    let files = files.filter(|path| path.ends_with(".rs") || path.ends_with(".md"));
    files.map(|path| {
        let text = fs::read_to_string(process::root().join(&path)).unwrap();
        (path, text)
    })
}

#[test]
fn forbidden_lines_are_recognised() {
    let fence = "```";
    for info in ["ignore", "rust,ignore", " ignore", "ignore-wasm32,no_run"] {
        assert!(problem(&format!("    /// {fence}{info}")).is_some(), "{info}");
        assert!(problem(&format!("{fence}{info}")).is_some(), "{info}");
    }
    for info in ["", "no_run", "text", "rust", "ignored"] {
        assert!(problem(&format!("//! {fence}{info}")).is_none(), "{info}");
    }
    assert!(problem("/// to ignore").is_none());
    assert!(problem(&format!("    {IGNORED}]")).is_some());
    assert!(problem(&format!("#[test] {IGNORED} = \"slow\"]")).is_some());
    assert!(problem(&format!("No `{IGNORED}]` here.")).is_none());
}
