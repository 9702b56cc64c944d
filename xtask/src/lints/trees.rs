//! How much a user builds who wants one crate and nothing else.

use super::{assert_none, tree};

/// The most crates that each may need, itself included; of a provider with HTTP and TLS.
const MOST: [(&str, usize); 6] = [
    ("neuron-provider-anthropic", 110),
    ("neuron-provider-openai", 110),
    ("neuron-provider-ollama", 110),
    ("neuron-tool", 44),
    ("neuron-context", 44),
    ("neuron-testing", 55),
];

#[test]
fn a_crate_alone_needs_few_others() {
    let mut problems = Vec::new();
    for (name, most) in MOST {
        let count = tree(&[name], &["--edges", "normal"]).len();
        if count > most {
            problems.push(format!("{name} needs {count} crates, and {most} are the most"));
        }
        println!("{name}: {count} crates");
    }
    assert_none(&problems);
}
