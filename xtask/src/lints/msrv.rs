//! Checks that no dependency requires a newer compiler than we do.

use super::assert_none;
use crate::compiler::numbers;
use crate::workspace;

/// Packages that may require a newer compiler, each with a reason.
const EXCEPTIONS: &[&str] = &[
    // Temporal's SDK needs 1.92, and there is no other SDK. Only users of this crate get it.
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

/// Checks that plain `cargo build` and `cargo test` use all packages that our compiler can build.
#[test]
fn only_what_needs_a_newer_compiler_is_no_default_member() {
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
