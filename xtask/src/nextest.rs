//! Runs the tests with cargo-nextest. Each test has its own process, so tests of all programs run at the same time.
//! `.config/nextest.toml` has the profiles.

use std::collections::BTreeSet;

use crate::tools::NEXTEST;
use crate::{compiler, fetch};

/// The packages whose tests run.
#[derive(Debug, PartialEq)]
pub(crate) enum Filter {
    All,
    /// These packages, and the packages that depend on them.
    DependentsOf(BTreeSet<String>),
}

/// Runs the tests of a profile, with these environment variables.
pub(crate) fn run(
    profile: &str,
    filter: &Filter,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    // Always the whole workspace, because a selection of packages would build their dependencies with other features.
    let mut command = compiler::cargo(["nextest", "run", "--all-features"])?;
    NEXTEST.add_to(&mut command)?;
    command.args(["--profile", profile]).envs(variables.iter().copied());
    // Many tests wait for servers and time limits, so that two share a core.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.args(["--test-threads", &(2 * cores).to_string()]);
    if let Filter::DependentsOf(packages) = filter {
        // The rules over the whole workspace are tests of xtask.
        let mut set = "package(=xtask)".to_owned();
        packages.iter().for_each(|name| set += &format!(" + rdeps(={name})"));
        command.args(["--filterset", &set]);
    }
    fetch::run(command)
}
