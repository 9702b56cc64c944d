//! Limits the number of crates that a user of a package must build.

use super::{assert_none, tree};
use crate::workspace;

/// Maximum number of crates, including the package itself, for each package with its default features.
///
/// The providers need up to 8 crates to decode compressed responses (flate2) and to share connections (h2).
const PACKAGES: [(&str, usize); 9] = [
    ("neuron-provider-anthropic", 82),
    ("neuron-provider-openai", 82),
    ("neuron-provider-ollama", 84),
    ("neuron-provider-gemini", 84),
    ("neuron-provider-bedrock", 82),
    ("neuron-tool", 42),
    ("neuron-catalog", 36),
    ("neuron-context", 44),
    ("neuron-testing", 57),
];

/// Maximum number of crates in the dependency tree of `neuron`, for combinations of its features.
const FEATURES: [(&str, usize); 15] = [
    ("anthropic", 89),
    // The default features.
    ("anthropic,macros", 90),
    ("openai", 89),
    ("ollama", 91),
    ("gemini", 91),
    ("bedrock", 91),
    ("anthropic,openai,ollama,macros", 94),
    ("anthropic,macros,runtime", 101),
    ("anthropic,macros,session-sqlite", 106),
    ("anthropic,macros,durable-sqlite", 109),
    ("anthropic,macros,otel", 99),
    // The router itself, and no other crate.
    ("anthropic,macros,router", 91),
    ("anthropic,macros,subagent,tower", 96),
    ("anthropic,macros,validation", 132),
    ("anthropic,macros,mcp", 160),
];

#[test]
fn package_alone_needs_few_crates() {
    let count = |name: &str| tree(&[name], &["--edges", "normal"]).len();
    check(&PACKAGES, count);
}

#[test]
fn combined_features_need_few_crates() {
    let count = |features: &str| {
        let args = ["--edges", "normal", "--no-default-features", "--features", features];
        tree(&["neuron"], &args).len()
    };
    check(&FEATURES, count);
}

/// The first command of a new user, `cargo run -p neuron --example quickstart`, also builds the dev-dependencies.
#[test]
fn quickstart_needs_few_crates() {
    check(&[("neuron", 98)], |name| tree(&[name], &["--edges", "normal,build,dev"]).len());
}

#[test]
fn signatures_of_aws_need_few_crates_and_no_second_cryptography() {
    let package = "neuron-provider-bedrock";
    let crates = tree(&[package], &["--edges", "normal", "--features", "sigv4"]);
    check(&[(package, 162)], |_| crates.len());
    // The default of AWS's SDK. It needs more build tools than ring.
    assert!(!crates.iter().any(|line| line.starts_with("aws-lc-")));
}

/// Checks that each crate of a build without the packages that are built on request has the same features in a build with
/// them. Otherwise each change from one build to the other would compile hundreds of crates again. `neuron-tests` selects
/// the features that differ.
#[test]
fn builds_with_and_without_packages_on_request_share_their_crates() {
    let packages = workspace::members().unwrap().packages;
    let on_request: Vec<String> = packages
        .into_iter()
        .filter(|package| package.is_built_on_request())
        .flat_map(|package| ["--exclude".to_owned(), package.name])
        .collect();
    assert!(!on_request.is_empty());
    let common =
        ["--workspace", "--all-features", "--edges", "normal,build,dev", "--format", "{p}: {f}"];
    let all = tree(&[], &common);
    let without: Vec<&str> =
        common.into_iter().chain(on_request.iter().map(String::as_str)).collect();
    let only_without: Vec<String> = tree(&[], &without).difference(&all).cloned().collect();
    assert_none(&only_without);
}

/// Panics if `count` returns more than the limit for one of the names.
fn check(limits: &[(&str, usize)], count: impl Fn(&str) -> usize) {
    let mut problems = Vec::new();
    for &(name, most) in limits {
        let count = count(name);
        if count > most {
            problems.push(format!("{name} needs {count} crates, and {most} is the maximum"));
        }
        println!("{name}: {count} crates");
    }
    assert_none(&problems);
}
