//! The step `sdks`: the vendors' official Python clients judge our loopback servers and what our
//! providers send. What they check is in the folder `e2e`.

mod seclusion;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use neuron_testkit::fetch::{Packages, Program};
use serde_json::Value;

use crate::{compiler, means, process, workspace};

/// Each vendor, with the script that drives its server.
const VENDORS: [(&str, &str); 3] = [
    ("anthropic", "drive_anthropic.py"),
    ("openai", "drive_openai.py"),
    ("ollama", "drive_ollama.py"),
];

const PACKAGE: &str = "neuron-e2e";

/// A Python with the vendors' clients.
const CLIENTS: Program = Program {
    id: "sdks",
    name: "the vendors' clients for Python",
    variable: None,
    installed: || None,
    packages: Packages::Python(include_str!("../../e2e/requirements.txt")),
    size: "some 20 MB",
    file: "bin/python",
    // A new Python of the system does not see the packages of the old one.
    trial: &["-c", "import anthropic, ollama, openai"],
};

/// Runs every check of every vendor.
///
/// A machine without the means says so and goes on; on CI (`CI=true`) that is a failure.
pub(crate) fn check() -> Result<(), String> {
    let scripts = process::root().join("e2e");
    let folder = workspace::members()?.target_directory;
    let python = match CLIENTS.provide() {
        Ok(python) => python,
        Err(reason) => {
            return means::not_checked(
                "servers and requests against the vendors' clients",
                &reason,
            );
        }
    };
    let program = build()?;
    let mut failed = Vec::new();
    for (vendor, driver) in VENDORS {
        let requests = folder.join(format!("{vendor}-requests.jsonl"));
        let mut write = process::program(&program);
        write.args(["requests", vendor]).arg(&requests);
        let written = process::run(write);

        let drive = [scripts.join(driver), program.clone()];
        let check = [scripts.join("check_requests.py"), vendor.into(), requests];
        let results = [run_script(&python, &drive), run_script(&python, &check)];
        let summaries: Vec<&str> = results.iter().map(|(summary, _)| summary.as_str()).collect();
        println!("{vendor}: {}", summaries.join(", "));
        if written.is_err() || results.iter().any(|(_, passed)| !passed) {
            failed.push(vendor);
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("the clients of {} object", failed.join(" and ")))
    }
}

/// Runs a script; returns what it says that it checked, and whether all was well.
///
/// What is wrong it tells on standard error, which is our own.
fn run_script(python: &Path, args: &[PathBuf]) -> (String, bool) {
    let mut command = process::program(python);
    command.args(args).stderr(Stdio::inherit());
    seclusion::seclude(&mut command);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return (process::cannot_start(&command, &error), false),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().next().unwrap_or("a script that ended early");
    (summary.to_owned(), output.status.success())
}

/// Builds the program with our servers and requests; returns where it is.
///
/// The examples are built with it, as the step `examples` does: alone it would get other features
/// of its dependencies, and they would be built once more.
fn build() -> Result<PathBuf, String> {
    let mut command = process::cargo(["build", "--all-features", "--examples"]);
    compiler::select_workspace(&mut command)?;
    command.args(["--bin", PACKAGE, "--message-format=json-render-diagnostics"]);
    let messages = process::capture(command)?;
    program(&messages).ok_or_else(|| format!("the build made no program {PACKAGE}"))
}

/// The program among the messages of a build.
fn program(messages: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        if message.pointer("/target/name")? != PACKAGE {
            return None;
        }
        message.get("executable")?.as_str().map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages_of_a_build() {
        let messages = "not json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"quickstart\"},\"executable\":\"/t/q\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"neuron-e2e\"},\"executable\":\"/t/e\"}\n";
        assert_eq!(program(messages), Some("/t/e".into()));
        assert_eq!(program(""), None);
    }
}
