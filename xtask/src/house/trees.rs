//! How much a user builds who wants one provider and nothing else.

use std::collections::BTreeSet;

use super::assert_none;
use crate::process;

/// The most crates that a provider may need, HTTP and TLS included.
const MOST: usize = 110;

const PROVIDERS: [&str; 3] =
    ["neuron-provider-anthropic", "neuron-provider-openai", "neuron-provider-ollama"];

#[test]
fn a_provider_alone_needs_few_crates() {
    let mut problems = Vec::new();
    for name in PROVIDERS {
        let tree =
            process::cargo(["tree", "--edges", "normal", "--prefix", "none", "--package", name]);
        let tree = process::capture(tree).unwrap();
        let crates = tree.lines().map(|line| line.trim_end_matches(" (*)"));
        let count = crates.filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len();
        if count > MOST {
            problems.push(format!("{name} needs {count} crates, and {MOST} are the most"));
        }
        println!("{name}: {count} crates");
    }
    assert_none(&problems);
}
