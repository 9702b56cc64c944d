//! A virtual environment with the pinned clients, under `target/`: made once, and then no network
//! is needed.

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// Stands in an environment that has everything.
const MARKER: &str = "complete";

/// The interpreter of the environment with these requirements; makes the environment if `folder`
/// has no complete one.
pub(super) fn python(folder: &Path, requirements: &Path) -> Result<PathBuf, String> {
    let wanted = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let version = version()?;
    let environment = folder.join(name(&wanted, &version));
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !environment.join(MARKER).is_file() {
        make(&environment, &python, requirements)?;
    }
    Ok(python)
}

/// What Python calls itself.
fn version() -> Result<String, String> {
    let mut command = process::program("python3");
    command.arg("--version");
    quietly(command)
}

/// An environment's name: other requirements, or another Python, make another.
fn name(requirements: &str, version: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (requirements, version).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn make(environment: &Path, python: &Path, requirements: &Path) -> Result<(), String> {
    println!("installing the vendors' clients for Python (once per target folder)");
    // What is left of an interrupted attempt goes with `--clear`.
    let mut create = process::program("python3");
    create.args(["-m", "venv", "--clear"]).arg(environment);
    quietly(create)?;
    let mut install = process::program(python);
    // Wheels alone: nothing is built, so no code of theirs runs while they are installed.
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-input", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", "-r"])
        .arg(requirements);
    quietly(install)?;
    let marker = environment.join(MARKER);
    fs::write(&marker, "").map_err(|error| format!("cannot write {}: {error}", marker.display()))
}

/// Runs a command that shows nothing; an error has the last line of what it said.
fn quietly(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| process::cannot_start(&command, &error))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    let complaints = said(&[output.stdout, output.stderr].concat());
    let last = complaints.lines().last().unwrap_or("it does not say why");
    Err(format!("`{}` failed: {last}", process::display(&command)))
}

/// Keeps what a developer has set from a script: keys, addresses and settings of the clients,
/// proxies (the servers are on this machine), and modules of other Pythons.
pub(super) fn seclude(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if is_a_setting(&key) {
            command.env_remove(&key);
        }
    }
    // The sources' folder stays as it is.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUTF8", "1");
}

fn is_a_setting(key: &OsStr) -> bool {
    let key = key.to_string_lossy().to_uppercase();
    let starts = ["ANTHROPIC_", "OPENAI_", "OLLAMA_", "PYTHON"];
    key.ends_with("_PROXY") || starts.iter().any(|start| key.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_named_after_what_is_in_it() {
        let environment = name("anthropic==1", "Python 3.11.7");
        assert_eq!(environment, name("anthropic==1", "Python 3.11.7"));
        assert_ne!(environment, name("anthropic==2", "Python 3.11.7"));
        assert_ne!(environment, name("anthropic==1", "Python 3.12.1"));
        assert_eq!(environment.len(), 16);
    }

    #[test]
    fn settings_of_the_clients_are_recognised() {
        for key in
            ["ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "OLLAMA_HOST", "https_proxy", "PYTHONPATH"]
        {
            assert!(is_a_setting(OsStr::new(key)), "{key}");
        }
        for key in ["PATH", "HOME", "NEURON_ANTHROPIC_"] {
            assert!(!is_a_setting(OsStr::new(key)), "{key}");
        }
    }

    #[test]
    fn a_command_that_fails_is_an_error_with_its_last_words() {
        let mut missing = Command::new("cargo");
        missing.arg("no-such-command");
        let error = quietly(missing).unwrap_err();
        assert!(error.starts_with("`cargo no-such-command` failed: "), "{error}");
        let error = quietly(Command::new("no-such-program")).unwrap_err();
        assert!(error.starts_with("cannot start `no-such-program`: "), "{error}");
    }
}
