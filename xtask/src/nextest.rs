//! Runs the tests with cargo-nextest, which runs each test in its own process. Tests of different test programs can
//! thus run concurrently. The profiles are in `.config/nextest.toml`.

use std::collections::BTreeSet;

use crate::compiler::PROFILE;
use crate::tools::NEXTEST;
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
    // With `--lib`, cargo would link a test program for each library, also with `test = false` in its manifest.
    command.arg("--tests");
    // Many tests only wait for servers and time limits, so three tests run per core.
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
