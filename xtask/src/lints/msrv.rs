//! Checks that no dependency requires a newer compiler than this workspace.

use super::assert_none;
use crate::compiler::numbers;
use crate::workspace;

/// Packages that may require a newer compiler, each with a reason.
const EXCEPTIONS: &[&str] = &[
    // Temporal's SDK needs Rust 1.92, and there is no other SDK. Only users of `neuron-durable-temporal` depend on it.
    "temporalio-sdk",
    "neuron-durable-temporal",
];

#[test]
fn no_dependency_needs_a_newer_compiler() {
    let ours = env!("CARGO_PKG_RUST_VERSION");
    let mut problems = Vec::new();
    for package in workspace::graph().unwrap().packages {
        if let Some(theirs) = &package.rust_version
            && numbers(theirs) > numbers(ours)
            && !EXCEPTIONS.contains(&package.name.as_str())
        {
            let (name, version) = (&package.name, &package.version);
            problems.push(format!("{name} {version} needs Rust {theirs}, we promise {ours}"));
        }
    }
    assert_none(&problems);
}

/// Checks that plain `cargo build` and `cargo test` include exactly the packages that our minimum compiler can build.
#[test]
fn default_members_are_the_packages_for_our_compiler() {
    let ours = numbers(env!("CARGO_PKG_RUST_VERSION"));
    let workspace = workspace::members().unwrap();
    let mut problems = Vec::new();
    for package in &workspace.packages {
        let is_default = workspace.workspace_default_members.contains(&package.id);
        let theirs = package.rust_version.as_deref().unwrap_or_default();
        if is_default != (numbers(theirs) <= ours) {
            let name = &package.name;
            problems.push(format!("{name} needs Rust {theirs}; default member: {is_default}"));
        }
    }
    assert_none(&problems);
}
