//! Excludes the packages that require a newer compiler than this machine has, and prints their names.

use std::process::Command;
use std::sync::OnceLock;

use crate::workspace::{self, Package};
use crate::{prerequisites, process};

/// Returns a cargo command for all packages of the workspace that this machine's compiler can build.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Result<Command, String> {
    let mut command = process::cargo(args);
    command.arg("--workspace");
    for name in too_new()? {
        command.args(["--exclude", name]);
    }
    Ok(command)
}

/// Returns `true` if this machine's compiler can build the package.
pub(crate) fn builds(package: &Package) -> Result<bool, String> {
    Ok(!too_new()?.contains(&package.name))
}

/// Returns the names of the packages that require a newer compiler than this machine's. The first call also prints each
/// name.
fn too_new() -> Result<&'static [String], String> {
    static TOO_NEW: OnceLock<Result<Vec<String>, String>> = OnceLock::new();
    TOO_NEW.get_or_init(find).as_deref().map_err(Clone::clone)
}

/// Finds and reports the packages that require a newer compiler than this machine's.
fn find() -> Result<Vec<String>, String> {
    let compiler = version(process::rustc())?;
    let mut found = Vec::new();
    for package in workspace::members()?.packages {
        if let Some(wanted) = &package.rust_version
            && numbers(wanted) > numbers(&compiler)
        {
            let reason = format!("it needs Rust {wanted}, and this is {compiler}");
            prerequisites::not_checked(&package.name, &reason)?;
            found.push(package.name);
        }
    }
    Ok(found)
}

/// Runs a program with `--version`, and returns the second word of its output.
pub(crate) fn version(mut command: Command) -> Result<String, String> {
    command.arg("--version");
    let name = process::display(&command);
    let text = process::quietly(command)?;
    let version = text.split_whitespace().nth(1);
    version.map(str::to_owned).ok_or_else(|| format!("`{name}` says {text}"))
}

/// Parses a version into three numbers, so that versions can be compared. Missing numbers are 0. A prefix `v` and a
/// suffix such as `-nightly` are ignored.
pub(crate) fn numbers(version: &str) -> [u32; 3] {
    let version = version.split(['-', '+']).next().unwrap_or_default().trim_start_matches('v');
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("1.90") == numbers("1.90.0"));
        assert!(numbers("1.100") > numbers("1.90.1"));
        assert!(numbers("1.9") < numbers("1.90"));
        assert!(numbers("1.92.0-nightly") == numbers("1.92"));
        assert!(numbers("v1.5.4") > numbers("1.5.3"));
    }

    #[test]
    fn current_compiler_builds_xtask() {
        assert!(
            numbers(&version(process::rustc()).unwrap()) >= numbers(env!("CARGO_PKG_RUST_VERSION"))
        );
    }

    #[test]
    fn packages_for_a_newer_compiler_are_excluded() {
        let command = cargo(["check"]).unwrap();
        let excluded = too_new().unwrap();
        assert_eq!(command.get_args().count(), 2 + 2 * excluded.len());
    }
}
