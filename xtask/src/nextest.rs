//! Runs the tests with cargo-nextest, which runs each test in its own process. Tests of different test programs can
//! thus run concurrently. The profiles are in `.config/nextest.toml`.

use std::collections::BTreeSet;

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
    let mut command = compiler::cargo(["nextest", "run", "--all-features"])?;
    NEXTEST.add_to(&mut command)?;
    command.args(["--profile", profile]).envs(variables.iter().copied());
    command.arg("--lib").args(targets(&workspace::members()?));
    // Many tests only wait for servers and time limits. Three tests per core take four fifths of the time of two.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(["--test-threads", &(3 * cores).to_string()]);
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
/// The programs in the folders `src/bin` have no unit tests. Without the selection, cargo would link each of them a
/// second time.
fn targets(members: &Metadata) -> BTreeSet<String> {
    let targets = members.packages.iter().flat_map(|package| &package.targets);
    let argument = |target: &Target| match target.kind.first()?.as_str() {
        "test" => Some(format!("--test={}", target.name)),
        "bin" if !is_in_bin(target) => Some(format!("--bin={}", target.name)),
        _ => None,
    };
    targets.filter(|target| target.test).filter_map(argument).collect()
}

/// Returns `true` if the file of a target is in a folder `src/bin`.
fn is_in_bin(target: &Target) -> bool {
    target.src_path.parent().is_some_and(|folder| folder.ends_with("src/bin"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn program_in_bin_has_no_tests() {
        let members = workspace::members().unwrap();
        let targets = members.packages.iter().flat_map(|package| &package.targets);
        let programs: Vec<&Target> = targets.filter(|target| is_in_bin(target)).collect();
        assert!(programs.len() > 50);
        for program in programs {
            let text = fs::read_to_string(&program.src_path).unwrap();
            assert!(!text.contains("#[test]") && !text.contains("::test]"), "{}", program.name);
        }
    }

    #[test]
    fn targets_are_those_with_tests() {
        let targets = targets(&workspace::members().unwrap());
        for selected in ["--test=it", "--bin=xtask", "--bin=neuron-e2e"] {
            assert!(targets.contains(selected), "{selected}");
        }
        // `neuron-wasm` has a test with `test = false`, which the step `wasm` runs.
        for other in ["--test=node", "--bin=first_agent"] {
            assert!(!targets.contains(other), "{other}");
        }
    }
}
