//! Finds the programs from the registry that the steps of `cargo xtask test` use, such as cargo-nextest and mdBook. A
//! program that is missing or too old is installed under `target/tools`.

use std::ffi::OsStr;
use std::process::Command;

use crate::{compiler, prerequisites, process, workspace};

/// A program from a package in the registry. A package such as `cargo-nextest` is a subcommand of cargo.
pub(crate) struct Tool {
    /// Name of the package, such as `cargo-nextest`.
    package: &'static str,
    /// Minimum version, which is also the version to install.
    version: &'static str,
    /// The cargo profile to build the tool with. `dev` is for tools whose optimised build would take longer than their
    /// work.
    profile: &'static str,
    /// Arguments of `cargo install` that select features.
    features: &'static [&'static str],
}

pub(crate) const NEXTEST: Tool =
    Tool { package: "cargo-nextest", version: "0.9.128", profile: "dev", features: &[] };

pub(crate) const DENY: Tool =
    Tool { package: "cargo-deny", version: "0.20.2", profile: "dev", features: &[] };

pub(crate) const SEMVER_CHECKS: Tool =
    Tool { package: "cargo-semver-checks", version: "0.51.0", profile: "dev", features: &[] };

/// Without its web server and its file watcher.
pub(crate) const MDBOOK: Tool = Tool {
    package: "mdbook",
    version: "0.5.4",
    profile: "dev",
    features: &["--no-default-features", "--features", "search"],
};

impl Tool {
    /// Runs a cargo command that uses the tool. If the tool cannot be installed, reports that the check `what` is
    /// skipped.
    pub(crate) fn run(&self, mut command: Command, what: &str) -> Result<(), String> {
        match self.add_to(&mut command) {
            Ok(()) => process::run(command),
            Err(reason) => prerequisites::not_checked(what, &reason),
        }
    }

    /// Adds our own copy of the tool to the `PATH` of a command, if the machine's version is missing or too old.
    /// Installs the copy under `target/tools` if necessary.
    pub(crate) fn add_to(&self, command: &mut Command) -> Result<(), String> {
        // A tool that the developer has installed is preferred to a second installation.
        if self.is_new_enough(None) {
            return Ok(());
        }
        let root = workspace::members()?.target_directory.join("tools");
        let mut folders = vec![root.join("bin")];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
        if !self.is_new_enough(Some(&path)) {
            println!("installing {} {} (once per target folder)", self.package, self.version);
            let mut install = process::cargo(["install", "--quiet", "--locked", self.package]);
            install.args(["--version", self.version, "--profile", self.profile]);
            install
                .args(self.features)
                .arg("--root")
                .arg(&root)
                .env("CARGO_TARGET_DIR", root.join("build"));
            process::run(install)?;
            // The build folder is large, and only the program is needed.
            std::fs::remove_dir_all(root.join("build"))
                .map_err(|error| format!("cannot remove {}: {error}", root.display()))?;
        }
        command.env("PATH", path);
        Ok(())
    }

    /// Returns `true` if the tool in the folders of `path` has at least the minimum version. The default is the `PATH` of
    /// this process.
    fn is_new_enough(&self, path: Option<&OsStr>) -> bool {
        let mut command = match self.package.strip_prefix("cargo-") {
            Some(name) => process::cargo([name]),
            None => process::program(self.package),
        };
        command.envs(path.map(|path| ("PATH", path)));
        compiler::version(command)
            .is_ok_and(|version| compiler::numbers(&version) >= compiler::numbers(self.version))
    }
}
