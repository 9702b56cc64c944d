//! The step `sdks`, which tests with the vendors' official Python clients. The clients call our loopback servers and
//! check the requests of our providers. The step `pairs` moves many more conversations between the vendors. The scripts
//! are in the folder `e2e`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use neuron_testkit::fetch::{Packages, Program};

use crate::{budget, compiler, prerequisites, process, workspace};

const VENDORS: [&str; 5] = ["anthropic", "openai", "gemini", "bedrock", "ollama"];

/// The Python program with the vendors' official clients.
const CLIENTS: Program = Program {
    id: "sdks",
    name: "the vendors' clients for Python",
    variable: None,
    installed: || None,
    packages: Packages::Python(include_str!("../../e2e/requirements.txt")),
    size: "some 55 MB",
    file: "bin/python",
    // After an update of the system's Python, the virtual environment is broken, because the new version does not find
    // the packages of the old one.
    trial: &["-c", "import anthropic, boto3, google.genai, ollama, openai"],
};

/// Number of conversations that the step `sdks` moves between the vendors.
const CONVERSATIONS: u64 = 500;

/// Runs the scripts for every vendor. Returns an error that names the vendors whose scripts failed.
///
/// If a prerequisite is missing, prints a message and returns `Ok`. With the environment variable `CI=true`, a missing
/// prerequisite is an error.
pub(crate) fn check() -> Result<(), String> {
    let scripts = process::root().join("e2e");
    let folder = workspace::members()?.target_directory;
    let Some(python) = clients("servers and requests against the vendors' clients")? else {
        return Ok(());
    };
    let program = build()?;
    let checks = in_parallel(|vendor| {
        let requests = folder.join(format!("{vendor}-requests.jsonl"));
        let mut write = process::program(&program);
        write.args(["requests", vendor]).arg(&requests);
        let written = process::run(write).is_ok();

        let drive = [scripts.join(format!("drive_{vendor}.py")), program.clone()];
        let check = [scripts.join("check_requests.py"), vendor.into(), requests];
        let (driven, driven_well) = run_script(&python, &drive);
        let (checked, checked_well) = run_script(&python, &check);
        (format!("{driven}, {checked}"), written && driven_well && checked_well)
    });
    report(&checks)?;
    move_conversations(&program, &python, 0, CONVERSATIONS)
}

/// Moves `count` conversations between the vendors, beginning with the seed `first`. Each request is checked by the
/// vendor's client.
pub(crate) fn pairs(first: u64, count: u64) -> Result<(), String> {
    match clients("moved conversations against the vendors' clients")? {
        Some(python) => move_conversations(&build()?, &python, first, count),
        None => Ok(()),
    }
}

/// Downloads the vendors' clients.
pub(crate) fn fetch() -> Result<(), String> {
    CLIENTS.provide().map(drop)
}

/// Returns the Python program with the vendors' clients. Returns `None` if the program is missing, and prints that
/// `what` is not checked.
fn clients(what: &str) -> Result<Option<PathBuf>, String> {
    match CLIENTS.provide() {
        Ok(python) => Ok(Some(python)),
        Err(reason) => prerequisites::not_checked(what, &reason).map(|()| None),
    }
}

fn move_conversations(program: &Path, python: &Path, first: u64, count: u64) -> Result<(), String> {
    let folder = workspace::members()?.target_directory.join("pairs");
    let mut write = process::program(program);
    write.arg("pairs").arg(&folder).args([first.to_string(), count.to_string()]);
    process::run(write)?;
    let script = process::root().join("e2e/check_requests.py");
    report(&in_parallel(|vendor| {
        let file = folder.join(format!("{vendor}-pairs.jsonl"));
        run_script(python, &[script.clone(), vendor.into(), "--pairs".into(), file])
    }))
}

/// The summary of a vendor's checks, and `true` if they succeeded.
type Checked = (String, bool);

/// Checks all vendors at the same time. The scripts of a vendor use one core.
fn in_parallel(
    check: impl Fn(&'static str) -> Checked + Sync,
) -> [(&'static str, Checked); VENDORS.len()] {
    std::thread::scope(|scope| {
        let check = &check;
        let checks = VENDORS.map(|vendor| (vendor, scope.spawn(move || check(vendor))));
        checks.map(|(vendor, checked)| (vendor, checked.join().unwrap_or_default()))
    })
}

/// Prints the summaries. Returns an error with the names of the vendors whose checks failed.
fn report(checks: &[(&str, Checked)]) -> Result<(), String> {
    for (vendor, (summary, _)) in checks {
        println!("{vendor}: {summary}");
    }
    let failed = checks.iter().filter(|(_, (_, succeeded))| !succeeded);
    let failed: Vec<&str> = failed.map(|(vendor, _)| *vendor).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(format!("the clients of {} object", failed.join(" and "))),
    }
}

/// Runs a Python script. `args` are the script and its arguments. Returns the first line of the script's standard
/// output, and `true` if the script succeeded.
///
/// The problems that the script finds are printed to our standard error.
fn run_script(python: &Path, args: &[PathBuf]) -> (String, bool) {
    let mut command = process::program(python);
    command.args(args).stderr(Stdio::inherit());
    process::hide_variables(&mut command, is_a_setting);
    // Without this variable, Python writes its bytecode into the source folder.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return (process::cannot_start(&command, &error), false),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = text.lines().next().unwrap_or("a script that ended early");
    (summary.to_owned(), output.status.success())
}

/// Returns the path of the program `neuron-e2e`, which runs our servers and writes our requests.
fn build() -> Result<PathBuf, String> {
    let source = process::root().join("e2e/src/main.rs");
    // The shared build contains only the unit tests of the program.
    let mut command =
        compiler::cargo(["build", "--bin", "neuron-e2e", "--profile", compiler::PROFILE])?;
    // With the examples, cargo selects the features of the shared build.
    command.arg("--examples");
    let messages = budget::SDKS.run(command)?;
    let program = process::programs(&messages, false).find(|(file, _)| *file == source);
    program.map(|(_, program)| program).ok_or_else(|| "the build made no neuron-e2e".to_owned())
}

/// Returns `true` if a script must not inherit the environment variable `key`.
///
/// These variables set keys, URLs and other settings of the clients, Python's module path, or a proxy. The clients need
/// no proxy, because the servers are on this machine.
fn is_a_setting(key: &str) -> bool {
    let key = key.to_uppercase();
    let starts = ["ANTHROPIC_", "AWS_", "OPENAI_", "GEMINI_", "GOOGLE_", "OLLAMA_", "PYTHON"];
    key.ends_with("_PROXY") || starts.iter().any(|start| key.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_clients_are_recognised() {
        for key in [
            "ANTHROPIC_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "OPENAI_BASE_URL",
            "GOOGLE_API_KEY",
            "OLLAMA_HOST",
            "https_proxy",
            "PYTHONPATH",
        ] {
            assert!(is_a_setting(key), "{key}");
        }
        for key in ["PATH", "HOME", "NEURON_ANTHROPIC_"] {
            assert!(!is_a_setting(key), "{key}");
        }
    }
}
