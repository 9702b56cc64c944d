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
fn targets(members: &Metadata) -> Result<BTreeSet<String>, String> {
    let argument = |target: &Target| match target.kind.first()?.as_str() {
        "test" => Some(format!("--test={}", target.name)),
        "bin" => Some(format!("--bin={}", target.name)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_with_tests() {
        let targets = targets(&workspace::members().unwrap()).unwrap();
        for selected in ["--test=it", "--bin=xtask", "--bin=neuron-e2e"] {
            assert!(targets.contains(selected), "{selected}");
        }
        // `neuron-wasm` has a test with `test = false`, which the step `wasm` runs.
        for other in ["--test=node", "--bin=neuron-examples"] {
            assert!(!targets.contains(other), "{other}");
        }
    }
}
