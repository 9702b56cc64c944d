//! Checks the commands, paths and code blocks of the README, of `AGENTS.md`, of `CONTRIBUTING.md` and of the book.

use super::assert_none;
use super::sources::files;
use crate::{process, workspace};

/// Returns the path and the text of each page with instructions.
fn pages() -> Vec<(String, String)> {
    let is_page = |path: &str| {
        let names = ["README.md", "AGENTS.md", "CONTRIBUTING.md"];
        names.contains(&path) || (path.starts_with("book/pages/") && path.ends_with(".md"))
    };
    let pages: Vec<_> = files().filter(|(path, _)| is_page(path)).collect();
    assert!(pages.len() > 40, "only {} pages were found", pages.len());
    pages
}

/// Returns the words of each command on a page that starts with `prefix`.
fn commands<'a>(page: &'a str, prefix: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    page.match_indices(prefix).map(move |(at, _)| {
        let command = &page[at + prefix.len()..];
        // A command in backticks may continue on the next line. In a code block, it ends with the line or at a comment.
        let end: &[char] = if page[..at].ends_with('`') { &['`'] } else { &['\n', '#'] };
        command.split(end).next().unwrap_or_default().split_whitespace().collect()
    })
}

/// Checks that every `cargo run` command on the pages runs a program that the tests also run.
#[test]
fn cargo_run_commands_name_programs_that_the_tests_run() {
    let members = workspace::members().unwrap();
    let (mut problems, mut found) = (Vec::new(), 0);
    for (page, text) in pages() {
        for words in commands(&text, "cargo run ") {
            let value = |flag: &str| {
                let mut words = words.iter().skip_while(|word| **word != flag);
                words.nth(1).copied().unwrap_or_default()
            };
            let is_example = |package: &workspace::Package, name: &str| {
                package.targets.iter().any(|target| target.is("example") && target.name == name)
            };
            let package = members.packages.iter().find(|package| package.name == value("-p"));
            let runs = package.is_some_and(|package| {
                // The program of this package starts the program whose name follows `--`. `NAME` stands for any.
                let example = value("--");
                let names = std::fs::read_to_string(package.folder().join("../src/names.rs"));
                let names = names.unwrap_or_default();
                let is_listed = ["", "NAME"].contains(&example)
                    || names.lines().any(|line| line.trim() == example);
                (package.name == "neuron-examples" && is_listed)
                    || (package.runs_examples() && is_example(package, value("--example")))
            });
            if !runs {
                problems.push(format!("{page}: no test runs `cargo run {}`", words.join(" ")));
            }
            found += 1;
        }
    }
    assert_none(&problems);
    assert!(found > 15, "only {found} commands were found");
}

#[test]
fn xtask_commands_of_the_pages_exist() {
    let (mut problems, mut found) = (Vec::new(), 0);
    for (page, text) in pages() {
        for words in commands(&text, "cargo xtask ") {
            let name = words.first().copied().unwrap_or_default();
            let name = name.trim_end_matches(|last: char| !last.is_alphanumeric());
            if !crate::USAGE.lines().any(|line| line.trim().split(' ').next() == Some(name)) {
                problems.push(format!("{page}: there is no `cargo xtask {name}`"));
            }
            found += 1;
        }
    }
    assert_none(&problems);
    assert!(found > 10, "only {found} commands were found");
}

#[test]
fn paths_in_backticks_exist() {
    let folders = [
        "benches/",
        "book/",
        "crates/",
        "docs/",
        "e2e/",
        "examples/",
        "templates/",
        "testkit/",
        "tests/src/",
        "wasm/",
        "xtask/",
    ];
    let (mut problems, mut found) = (Vec::new(), 0);
    for (page, text) in pages() {
        for path in text.split('`').skip(1).step_by(2) {
            let is_path = folders.iter().any(|folder| path.starts_with(folder));
            if !is_path || path.contains([' ', '*', '{', '<', '…']) {
                continue;
            }
            found += 1;
            if !process::root().join(path).exists() {
                problems.push(format!("{page}: {path} does not exist"));
            }
        }
    }
    assert_none(&problems);
    assert!(found > 20, "only {found} paths were found");
}

/// Checks that all Rust code of the book is included from programs, which are compiled and run.
#[test]
fn rust_code_of_the_book_is_included() {
    let (mut problems, mut found) = (Vec::new(), 0);
    for (page, text) in pages().into_iter().filter(|(page, _)| page.starts_with("book/")) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(language) =
                line.trim_start().strip_prefix("```").filter(|name| !name.is_empty())
            else {
                continue;
            };
            let code: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            if language.starts_with("rust") {
                found += 1;
                let is_included =
                    |line: &&str| line.trim().is_empty() || line.trim().starts_with("{{#include ");
                if !code.iter().all(is_included) {
                    problems.push(format!("{page}: include this code from a program: {code:?}"));
                }
            }
        }
    }
    assert_none(&problems);
    assert!(found > 40, "only {found} blocks were found");
}
