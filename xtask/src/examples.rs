//! The step `examples`, which runs each example without API keys.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::process::Ending;
use crate::workspace::{self, Package};
use crate::{compiler, fetch, process};

/// Time limit for an example. The limit only stops an example that hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// The example whose output the first `text` block of the README contains.
const SHOWN: &str = "neuron/quickstart";

/// Runs every example of the workspace, except the examples of packages that opt out in their manifest.
pub(crate) fn run() -> Result<(), String> {
    let metadata = workspace::members()?;
    // The programs are started directly, because `cargo run -p` would select other features for each package and build
    // most dependencies again.
    let programs = compiler::build()?;
    let output = metadata.target_directory.join("example-output.txt");
    for package in metadata.packages.iter().filter(|package| package.runs_examples()) {
        if !compiler::builds(package)? {
            continue;
        }
        for target in package.targets.iter().filter(|target| target.is("example")) {
            let label = format!("{}/{}", package.name, target.name);
            let program = programs
                .get(&target.src_path)
                .ok_or_else(|| format!("the build made no program for example {label}"))?;
            let text = run_one(package, program, &output).map_err(|reason| {
                let (package, example) = (&package.name, &target.name);
                format!("`cargo run -p {package} --example {example} --all-features` {reason}")
            })?;
            if label == SHOWN {
                let page = process::root().join("README.md");
                let page =
                    fs::read_to_string(page).map_err(|error| format!("README.md: {error}"))?;
                compare(&page, &text).map_err(|line| {
                    format!(
                        "README.md shows `{line}`, which is not the next line of {label}:\n{text}"
                    )
                })?;
            }
            println!("ran {label}");
        }
    }
    Ok(())
}

/// Compares the first code block with the language `text` on a page with the output of an example.
///
/// The block may start at a later line of the output. A line `…` in the block stands for the rest of the output.
/// Numbers before `ms` are ignored.
///
/// # Errors
///
/// Returns the first line of the block that differs from the output.
fn compare(page: &str, output: &str) -> Result<(), String> {
    let block = page.split("```text\n").nth(1).and_then(|block| block.split("```").next());
    let shown = block.ok_or("no block of the language `text`")?.lines();
    let shown: Vec<String> =
        shown.take_while(|line| line.trim() != "…").map(without_durations).collect();
    let output: Vec<String> = output.lines().map(without_durations).collect();
    // The page may leave out lines at the beginning of the output.
    let start = output.iter().position(|line| Some(line) == shown.first()).unwrap_or_default();
    let differs = |(place, line): &(usize, &String)| output.get(start + place) != Some(*line);
    match shown.iter().enumerate().find(differs) {
        Some((_, line)) => Err(line.clone()),
        None => Ok(()),
    }
}

/// Returns the words of a line, without numbers before `ms`.
fn without_durations(line: &str) -> String {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    while let Some(place) = words.iter().position(|word| *word == "ms") {
        words.drain(place.saturating_sub(1)..=place);
    }
    words.join(" ")
}

/// Runs an example, and returns its output. Prints the output if the example fails.
fn run_one(package: &Package, program: &Path, output: &Path) -> Result<String, String> {
    let mut command = process::program(program);
    // Some examples read this variable, which `cargo run` would set.
    command.env("CARGO_MANIFEST_DIR", package.folder());
    // The developer's keys and servers are hidden. An example must work without them, or report what is missing.
    process::hide_variables(&mut command, |key| key == "OLLAMA_HOST" || key.ends_with("_API_KEY"));
    fetch::hide_missing(&mut command);
    match process::run_within(command, output, LIMIT)? {
        Ending::Success(text) => Ok(text),
        Ending::Failure(status, text) => {
            println!("{}", text.trim_end());
            Err(format!("ended with {status}"))
        }
        Ending::TimedOut => Err(format!("was stopped after {} s", LIMIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n```text\nrun  12 ms\n  call 3 ms 7 tokens\n…\nend\n```\n";

    #[test]
    fn compare_ignores_durations_and_additional_lines() {
        assert_eq!(compare(PAGE, "start\nrun 9 ms\n  call   100 ms 7 tokens\nmore\n"), Ok(()));
    }

    #[test]
    fn compare_reports_the_first_different_line() {
        for (output, line) in [
            ("", "run"),
            ("run 1 ms\n", "call 7 tokens"),
            ("run 1 ms\ncall 1 ms 8 tokens", "call 7 tokens"),
            ("run 1 ms\nother\ncall 1 ms 7 tokens", "call 7 tokens"),
        ] {
            assert_eq!(compare(PAGE, output), Err(line.to_owned()));
        }
        assert!(compare("# Page\n", "run").is_err());
    }
}
