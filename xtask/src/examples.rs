//! The step `examples`: builds every example once and runs it as a user without keys would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::process::Ending;
use crate::workspace::{self, Package};
use crate::{compiler, fetch, process};

/// Time limit of an example, which only ends one that hangs.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs every example of the workspace, except those of packages that opt out in their manifest.
pub(crate) fn run() -> Result<(), String> {
    let metadata = workspace::members()?;
    let programs = build()?;
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
            run_one(package, program, &output).map_err(|reason| {
                let (package, example) = (&package.name, &target.name);
                format!("`cargo run -p {package} --example {example} --all-features` {reason}")
            })?;
            println!("ran {label}");
        }
    }
    Ok(())
}

/// Builds all examples; returns the program of each source file.
///
/// The programs are started directly: `cargo run -p` chooses features for one package alone, and
/// would build most dependencies again for each.
fn build() -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let mut command = process::cargo(["build", "--examples", "--all-features"]);
    compiler::select_workspace(&mut command)?;
    command.arg("--message-format=json-render-diagnostics");
    let mut programs = BTreeMap::new();
    for line in process::capture(command)?.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let source = message.pointer("/target/src_path").and_then(Value::as_str);
        let program = message.pointer("/executable").and_then(Value::as_str);
        if let (Some(source), Some(program)) = (source, program) {
            let program = PathBuf::from(program);
            if programs.values().any(|known| *known == program) {
                let program = program.display();
                return Err(format!("two examples share {program}: give them different names"));
            }
            programs.insert(PathBuf::from(source), program);
        }
    }
    Ok(programs)
}

/// Runs one example, and shows its output if it fails.
fn run_one(package: &Package, program: &Path, output: &Path) -> Result<(), String> {
    let mut command = process::program(program);
    // As `cargo run` sets it.
    command.env("CARGO_MANIFEST_DIR", package.folder());
    hide_keys(&mut command);
    fetch::hide_missing(&mut command);
    match process::run_within(command, output, LIMIT)? {
        Ending::Success => Ok(()),
        Ending::Failure(status, text) => {
            println!("{}", text.trim_end());
            Err(format!("ended with {status}"))
        }
        Ending::TimedOut => Err(format!("was stopped after {} s", LIMIT.as_secs())),
    }
}

/// An example must work, or say what it misses, without the developer's accounts and servers.
fn hide_keys(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key == "OLLAMA_HOST" || key.to_string_lossy().ends_with("_API_KEY") {
            command.env_remove(&key);
        }
    }
}
