//! Checks that the `cargo run` commands in the README and the guide run examples that exist.

use super::assert_none;
use crate::{process, workspace};

/// Checks that every `cargo run` command on the pages runs an example that the step `examples` of `cargo xtask test`
/// also runs.
#[test]
fn commands_of_the_pages_name_examples_that_run() {
    let members = workspace::members().unwrap();
    let (mut problems, mut found) = (Vec::new(), 0);
    for page in ["README.md", "docs/guide.md"] {
        let text = std::fs::read_to_string(process::root().join(page)).unwrap();
        // Joins all lines, because a command may continue on the next line.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for command in text.split("cargo run ").skip(1) {
            let command = command.split('`').next().unwrap_or_default();
            let value = |flag: &str| {
                let mut words = command.split(' ').skip_while(|word| *word != flag);
                words.nth(1).unwrap_or_default()
            };
            let (package, example) = (value("-p"), value("--example"));
            let mut packages = members.packages.iter();
            let runs = packages.any(|member| {
                let mut targets = member.targets.iter();
                member.name == package
                    && member.runs_examples()
                    && targets.any(|target| target.is("example") && target.name == example)
            });
            if !runs {
                problems.push(format!("{page}: no example runs for `cargo run {command}`"));
            }
            found += 1;
        }
    }
    assert_none(&problems);
    assert!(found > 10, "only {found} commands were found");
}
