//! Checks the dependencies between our crates. Dev-dependencies are not restricted.

use super::{assert_none, tree};
use crate::process;
use crate::workspace;

/// The allowed dependencies of each package on other packages of this workspace, one package per line.
const ARROWS: &str = "
    neuron-types:
    neuron-tool-macros:
    neuron-tool: neuron-types neuron-tool-macros
    neuron-catalog: neuron-types
    neuron-context: neuron-types
    neuron-http: neuron-types
    neuron-provider-anthropic: neuron-types neuron-http
    neuron-provider-openai: neuron-types neuron-http
    neuron-provider-ollama: neuron-types neuron-http
    neuron-provider-gemini: neuron-types neuron-http
    neuron-provider-bedrock: neuron-types neuron-http
    neuron-otel: neuron-types
    neuron-router: neuron-types
    neuron-tower: neuron-types
    neuron-loop: neuron-types neuron-tool
    neuron-mcp: neuron-types neuron-tool
    neuron-sandbox: neuron-types
    neuron-durable: neuron-types neuron-tool
    neuron-runtime: neuron-types neuron-durable neuron-sandbox
    neuron-subagent: neuron-types neuron-tool neuron-loop
    neuron-sqlite: neuron-types
    neuron-session-sqlite: neuron-types neuron-sqlite
    neuron-session-postgres: neuron-types
    neuron-durable-sqlite: neuron-types neuron-tool neuron-durable neuron-sqlite
    neuron-durable-restate: neuron-types neuron-tool neuron-durable
    neuron-durable-temporal: neuron-types neuron-tool neuron-durable
    neuron-testing: neuron-types
    neuron-conformance: neuron-types neuron-testing
    neuron-conformance-durable: neuron-types neuron-testing neuron-conformance neuron-tool neuron-context neuron-loop neuron-subagent neuron-durable
    neuron-examples:
    neuron-testkit:
    xtask: neuron-testkit
";

/// Packages that may depend on every package. Only packages in this list may depend on them.
const OUTSIDE: [&str; 13] = [
    "neuron",
    "neuron-benches",
    "neuron-e2e",
    "neuron-example-programs",
    "neuron-fuzz-properties",
    "neuron-template-mcp-server",
    "neuron-template-terminal-agent",
    "neuron-template-web-service",
    "neuron-tests",
    "neuron-tool-macros-direct",
    "neuron-tool-macros-renamed",
    "neuron-tool-macros-umbrella",
    "neuron-wasm",
];

#[test]
fn dependency_arrows_point_up_only() {
    let members = workspace::members().unwrap().packages;
    let arrows: Vec<(&str, Vec<&str>)> = ARROWS
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .map(|(name, allowed)| (name, allowed.split_whitespace().collect()))
        .collect();
    let mut problems = Vec::new();
    for package in members.iter().filter(|package| !OUTSIDE.contains(&package.name.as_str())) {
        let name = package.name.as_str();
        let Some((_, allowed)) = arrows.iter().find(|(known, _)| *known == name) else {
            let file = file!();
            problems.push(format!("{name} is unknown: add it to ARROWS in {file}"));
            continue;
        };
        let is_ours = |name: &str| members.iter().any(|member| member.name == name);
        for dependency in &package.dependencies {
            let target = dependency.name.as_str();
            let is_free = dependency.kind.as_deref() == Some("dev") || !is_ours(target);
            if !is_free && !allowed.contains(&target) {
                problems.push(format!("{name} must not depend on {target}"));
            }
        }
    }
    assert_none(&problems);
}

/// Packages that must not depend on the crate `neuron-loop`, so that their tests are not rebuilt when it changes.
const WITHOUT_LOOP: [&str; 10] = [
    "neuron-testing",
    "neuron-conformance",
    "neuron-provider-anthropic",
    "neuron-provider-bedrock",
    "neuron-provider-gemini",
    "neuron-provider-ollama",
    "neuron-provider-openai",
    "neuron-session-postgres",
    "neuron-session-sqlite",
    "neuron-testkit",
];

#[test]
fn tests_of_providers_and_storages_do_not_need_the_loop() {
    // `cargo tree` includes the dev-dependencies of these packages, but not those of their dependencies.
    let built = tree(&WITHOUT_LOOP, &["--edges", "all", "--all-features", "--target", "all"]);
    assert!(
        !built.iter().any(|line| line.starts_with("neuron-loop ")),
        "some of these tests are rebuilt when neuron-loop changes: {WITHOUT_LOOP:?}"
    );
}

#[test]
fn crates_with_our_name_are_ours() {
    // In the registry, the name `neuron` belongs to another project.
    let graph = workspace::graph().unwrap();
    let foreign = graph.packages.iter().filter(|package| {
        let is_here = package.source.is_none() && package.folder().starts_with(process::root());
        package.name.starts_with("neuron") && !is_here
    });
    let problems: Vec<String> = foreign
        .map(|package| format!("{} {} is not from this workspace", package.name, package.version))
        .collect();
    assert_none(&problems);
}
