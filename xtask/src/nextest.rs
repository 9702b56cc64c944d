//! Runs the tests with cargo-nextest, which runs each test in its own process. Tests of different test programs can
//! thus run concurrently. The profiles are in `.config/nextest.toml`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::compiler::PROFILE;
use crate::tools::NEXTEST;
use crate::workspace::{self, Metadata, Target};
use crate::{compiler, fetch};

/// The packages whose tests to run.
#[derive(Debug, PartialEq)]
pub(crate) enum Filter {
    /// All packages of the workspace.
    All,
    /// The packages with these names, and all packages that depend on them.
    DependentsOf(BTreeSet<String>),
}

/// Runs the tests of `filter` with a profile of nextest. `variables` are additional environment variables of the tests.
pub(crate) fn run(
    profile: &str,
    filter: &Filter,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    // Builds the whole workspace even if few tests run. `--package` would select other features for the dependencies
    // and build them again.
    let mut command = compiler::cargo(["nextest", "run", "--cargo-profile", PROFILE])?;
    NEXTEST.add_to(&mut command)?;
    command.args(["--profile", profile]).envs(variables.iter().copied());
    command.arg("--lib").args(targets(&workspace::members()?)?);
    // Many tests only wait for servers and time limits, so two tests run per core.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(["--test-threads", &(2 * cores).to_string()]);
    if let Filter::DependentsOf(packages) = filter {
        // The lints over the whole workspace are tests of xtask, so they always run.
        let mut set = "package(=xtask)".to_owned();
        packages.iter().for_each(|name| set += &format!(" + rdeps(={name})"));
        command.args(["--filterset", &set]);
    }
    fetch::run(command)
}

/// Returns the arguments that select all integration tests, and the programs with unit tests.
///
/// Most programs in the folders `src/bin` have no unit tests. Without the selection, cargo would link each of them a
/// second time.
fn targets(members: &Metadata) -> Result<BTreeSet<String>, String> {
    let argument = |target: &Target| match target.kind.first()?.as_str() {
        "test" => Some(format!("--test={}", target.name)),
        "bin" if may_have_unit_tests(&target.src_path) => Some(format!("--bin={}", target.name)),
        _ => None,
    };
    let mut arguments = BTreeSet::new();
    for package in &members.packages {
        if compiler::builds(package)? {
            let targets = package.targets.iter().filter(|target| target.test);
            arguments.extend(targets.filter_map(argument));
        }
    }
    Ok(arguments)
}

/// Returns `false` if a program is a single file in a folder `src/bin`, and contains no attribute like `#[test]`,
/// `#[tokio::test]` or `#[cfg(test)]`.
fn may_have_unit_tests(file: &Path) -> bool {
    let attributes = ["(test", "[test", "::test", "test]"];
    let is_in_bin = file.parent().is_some_and(|folder| folder.ends_with("src/bin"));
    !is_in_bin
        || fs::read_to_string(file)
            .map_or(true, |text| attributes.iter().any(|attribute| text.contains(attribute)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_with_tests() {
        let targets = targets(&workspace::members().unwrap()).unwrap();
        for selected in ["--test=it", "--bin=xtask", "--bin=neuron-e2e", "--bin=custom_storage"] {
            assert!(targets.contains(selected), "{selected}");
        }
        // `neuron-wasm` has a test with `test = false`, which the step `wasm` runs.
        for other in ["--test=node", "--bin=first_agent"] {
            assert!(!targets.contains(other), "{other}");
        }
    }
}
