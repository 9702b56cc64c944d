//! Rules for the whole workspace that no other tool checks. Each rule is a test of xtask.

mod arrows;
mod errors;
mod listings;
mod manifests;
mod msrv;
mod pages;
mod prose;
mod sources;
mod trees;
mod wasm;

use std::collections::BTreeSet;

use crate::process;

/// Panics with the list of all problems, unless the list is empty.
#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Runs `cargo tree` with `args`, and returns its lines. They name `packages` and all of their dependencies.
fn tree(packages: &[&str], args: &[&str]) -> BTreeSet<String> {
    let mut tree = process::cargo(["tree", "--prefix", "none"]);
    tree.args(args).args(packages.iter().flat_map(|package| ["--package", *package]));
    let lines = process::capture(tree).unwrap();
    let lines = lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}
