//! The step `examples`, which builds every example once and runs it like a user without keys.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::Ending;
use crate::workspace::{self, Package};
use crate::{compiler, fetch, process};

/// Time limit of an example. Only an example that hangs reaches it.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs every example of the workspace, except in packages that opt out in their manifest.
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

/// Builds all examples. Returns the program of each source file.
///
/// The programs are started directly. `cargo run -p` selects features for one package alone, and would build most
/// dependencies again for each package.
fn build() -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let mut command = compiler::cargo(["build", "--examples", "--all-features"])?;
    command.arg("--message-format=json-render-diagnostics");
    let mut programs = BTreeMap::new();
    for (source, program) in process::programs(&process::capture(command)?) {
        if programs.values().any(|known| *known == program) {
            let program = program.display();
            return Err(format!("two examples share {program}: give them different names"));
        }
        programs.insert(source, program);
    }
    Ok(programs)
}

/// Runs one example, and shows its output if it fails.
fn run_one(package: &Package, program: &Path, output: &Path) -> Result<(), String> {
    let mut command = process::program(program);
    // `cargo run` also sets this variable.
    command.env("CARGO_MANIFEST_DIR", package.folder());
    // An example must work, or report what is missing, without the developer's accounts and servers.
    process::hide_variables(&mut command, |key| key == "OLLAMA_HOST" || key.ends_with("_API_KEY"));
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
