//! Virtual environments with pinned Python packages, under `target/`: made once, and then no network
//! is needed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::process;

/// Stands in an environment that has everything.
const MARKER: &str = "complete";

/// The interpreter of the environment with these requirements; makes the environment if `folder`
/// has no complete one, after an announcement.
pub(crate) fn interpreter(
    folder: &Path,
    requirements: &Path,
    announcement: &str,
) -> Result<PathBuf, String> {
    let wanted = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let version = version()?;
    let environment = folder.join(name(&wanted, &version));
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !environment.join(MARKER).is_file() {
        eprintln!("{announcement} (once per target folder)");
        make(&environment, &python, requirements)?;
    }
    Ok(python)
}

/// What Python calls itself.
fn version() -> Result<String, String> {
    let mut command = process::program("python3");
    command.arg("--version");
    process::quietly(command)
}

/// An environment's name: other requirements, or another Python, make another.
fn name(requirements: &str, version: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (requirements, version).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn make(environment: &Path, python: &Path, requirements: &Path) -> Result<(), String> {
    // What is left of an interrupted attempt goes with `--clear`.
    let mut create = process::program("python3");
    create.args(["-m", "venv", "--clear"]).arg(environment);
    process::quietly(create)?;
    let mut install = process::program(python);
    // Wheels alone: nothing is built, so no code of theirs runs while they are installed.
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-input", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", "-r"])
        .arg(requirements);
    process::quietly(install)?;
    let marker = environment.join(MARKER);
    fs::write(&marker, "").map_err(|error| format!("cannot write {}: {error}", marker.display()))
}

/// The version of a package that a file of requirements pins.
#[cfg(test)]
pub(crate) fn pinned(requirements: &Path, name: &str) -> String {
    let text = fs::read_to_string(requirements).unwrap();
    let pin = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=="));
    let version = pin.and_then(|pin| pin.split_whitespace().next());
    version.unwrap_or_else(|| panic!("{name} is not pinned")).to_owned()
}

/// Fails unless pip takes only what has the hash that stands in the file.
#[cfg(test)]
pub(crate) fn assert_hashes_are_required(requirements: &Path) {
    let text = fs::read_to_string(requirements).unwrap();
    assert!(text.lines().any(|line| line == "--require-hashes"), "{}", requirements.display());
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
}
