//! The build of the workspace that the steps of a tier share, and the packages that it leaves out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::workspace::{self, Package, Target};
use crate::{budget, changes, driver, prerequisites, process};

/// The profile of the build, in the workspace's manifest. It optimises the crates in which the tests spend their time.
pub(crate) const PROFILE: &str = "checked";

/// Builds the programs of all tests and examples. Returns a map from the source file of a program to the program.
///
/// The build also runs the lints, and prepares [`documentation`]. A second call builds only what changed.
pub(crate) fn build() -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let messages = budget::BUILD.run(cargo(["test", "--no-run", "--profile", PROFILE])?)?;
    Ok(process::programs(&messages, false).collect())
}

/// Builds what changed, and documents the libraries and programs that [`build`] compiled.
pub(crate) fn documentation() -> Result<(), String> {
    build()?;
    let members = workspace::members()?;
    let mut crates = BTreeSet::new();
    for package in &members.packages {
        if builds(package)? {
            let documented = package.targets.iter().filter(|target| target.doc);
            let kinds = ["lib", "proc-macro", "bin"];
            let documented = documented.filter(|target| kinds.iter().any(|kind| target.is(kind)));
            crates.extend(documented.map(Target::crate_name));
        }
    }
    driver::document(&members.target_directory, PROFILE, &crates)
}

/// Returns a cargo command for the packages of the workspace, with all features.
///
/// All commands select the same packages. With other packages, cargo would select other features for the dependencies
/// and build them again. Commands that compile need [`PROFILE`] too.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Result<Command, String> {
    cargo_with(&driver::program()?, args)
}

/// Returns the same command as [`cargo`], with another compiler of our packages. Another path makes cargo build them apart
/// from those of [`build`], with the same libraries of others.
pub(crate) fn cargo_with<const N: usize>(
    compiler: &Path,
    args: [&str; N],
) -> Result<Command, String> {
    let mut command = process::cargo(args);
    command.args(["--workspace", "--all-features"]);
    for name in excluded()? {
        command.args(["--exclude", name]);
    }
    // As an argument, and not as a variable, which tests would inherit that run cargo.
    command.arg("--config").arg(format!("build.rustc-workspace-wrapper={compiler:?}"));
    Ok(command)
}

/// Returns `true` if the build contains the package.
pub(crate) fn builds(package: &Package) -> Result<bool, String> {
    Ok(!excluded()?.contains(&package.name))
}

/// Returns the names of the packages that the build leaves out. The first call prints the reasons.
fn excluded() -> Result<&'static [String], String> {
    static EXCLUDED: OnceLock<Result<Vec<String>, String>> = OnceLock::new();
    EXCLUDED.get_or_init(find).as_deref().map_err(Clone::clone)
}

/// Finds the packages that require a newer compiler than this machine's, and the packages that are built on request.
fn find() -> Result<Vec<String>, String> {
    let compiler = version(process::rustc())?;
    let members = workspace::members()?;
    let mut found = Vec::new();
    for package in &members.packages {
        if let Some(wanted) = &package.rust_version
            && numbers(wanted) > numbers(&compiler)
        {
            let reason = format!("it needs Rust {wanted}, and this is {compiler}");
            prerequisites::not_checked(&package.name, &reason)?;
            found.push(package.name.clone());
        } else if package.is_built_on_request() && !changes::affect(package)? {
            println!("{}: left out, because nothing that it uses changed", package.name);
            found.push(package.name.clone());
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
    fn some_packages_are_excluded() {
        let command = cargo_with(Path::new("xtask"), ["check"]).unwrap();
        let excluded = excluded().unwrap();
        assert_eq!(command.get_args().count(), 5 + 2 * excluded.len());
    }
}
