//! Which crate of ours may depend on which. Dev-dependencies are free.

use super::assert_none;
use crate::process;
use crate::workspace::{self, Package};

/// Each package with the packages of ours that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("neuron-types", &[]),
    ("neuron-tool-macros", &[]),
    ("neuron-tool", &["neuron-types", "neuron-tool-macros"]),
    ("neuron-context", &["neuron-types"]),
    ("neuron-http", &["neuron-types"]),
    ("neuron-provider-anthropic", &["neuron-types", "neuron-http"]),
    ("neuron-provider-openai", &["neuron-types", "neuron-http"]),
    ("neuron-provider-ollama", &["neuron-types", "neuron-http"]),
    ("neuron-otel", &["neuron-types"]),
    ("neuron-tower", &["neuron-types"]),
    ("neuron-loop", &["neuron-types", "neuron-tool"]),
    ("neuron-mcp", &["neuron-types", "neuron-tool"]),
    ("neuron-runtime", &["neuron-types", "neuron-tool"]),
    ("neuron-subagent", &["neuron-types", "neuron-tool", "neuron-loop"]),
    ("neuron-sqlite", &["neuron-types"]),
    ("neuron-session-sqlite", &["neuron-types", "neuron-sqlite"]),
    ("neuron-session-postgres", &["neuron-types"]),
    ("neuron-durable-sqlite", &["neuron-types", "neuron-tool", "neuron-runtime", "neuron-sqlite"]),
    ("neuron-durable-restate", &["neuron-types", "neuron-tool", "neuron-runtime"]),
    ("neuron-durable-temporal", &["neuron-types", "neuron-tool", "neuron-runtime"]),
    (
        "neuron-testing",
        &["neuron-types", "neuron-tool", "neuron-context", "neuron-loop", "neuron-runtime"],
    ),
];

/// The umbrella may depend on every crate of the table.
const UMBRELLA: &str = "neuron";

/// Packages on which nobody depends, and which may depend on all others.
const OUTSIDE: [&str; 6] = [
    "benches",
    "crates/neuron-tool-macros/tests/names/renamed",
    "crates/neuron-tool-macros/tests/names/umbrella",
    "e2e",
    "fuzz/properties",
    "xtask",
];

#[test]
fn dependency_arrows_point_up_only() {
    let members = workspace::members().unwrap().packages;
    let names: Vec<&str> = members.iter().map(|package| package.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in &members {
        let name = package.name.as_str();
        let umbrella: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
        let allowed = match ARROWS.iter().find(|(known, _)| *known == name) {
            Some((_, allowed)) => *allowed,
            None if name == UMBRELLA => umbrella.as_slice(),
            None if is_outside(package) => continue,
            None => {
                problems.push(format!(
                    "{name} is unknown: add it, with the crates it may depend on, to ARROWS in {}",
                    file!()
                ));
                continue;
            }
        };
        for dependency in &package.dependencies {
            let target = dependency.name.as_str();
            let is_ours = names.contains(&target);
            if is_ours && dependency.kind.as_deref() != Some("dev") && !allowed.contains(&target) {
                problems.push(format!("{name} must not depend on {target}"));
            }
        }
    }
    assert_none(&problems);
}

#[test]
fn crates_with_our_name_are_ours() {
    // A registry's crate of this name would be a stranger, or an old release of ours.
    let graph = workspace::graph().unwrap();
    let is_foreign = |package: &&Package| {
        let is_here = package.source.is_none() && package.folder().starts_with(process::root());
        package.name.starts_with("neuron") && !is_here
    };
    let problems: Vec<String> = graph
        .packages
        .iter()
        .filter(is_foreign)
        .map(|package| format!("{} {} is not from this workspace", package.name, package.version))
        .collect();
    assert_none(&problems);
}

/// Whether the package is one of those beside `crates/`, by its folder or its name.
fn is_outside(package: &Package) -> bool {
    let is_known =
        |name: &str| package.name == name || package.folder() == process::root().join(name);
    OUTSIDE.iter().any(|name| is_known(name))
}
