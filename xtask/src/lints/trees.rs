//! Limits the number of crates that a user of a single crate has to build.

use super::{assert_none, tree};

/// The maximum number of crates for each package, including itself. The providers need HTTP and TLS.
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
