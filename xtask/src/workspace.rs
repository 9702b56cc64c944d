//! Reads the output of `cargo metadata` for this workspace. The types have only the fields that xtask needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::process;

/// The output of a call of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    /// The ids of the packages that cargo uses if a command selects no package.
    #[cfg(test)]
    pub(crate) workspace_default_members: Vec<String>,
    pub(crate) target_directory: PathBuf,
}

/// A package of this workspace or, in the result of `graph`, a dependency.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    #[cfg(test)]
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) targets: Vec<Target>,
    pub(crate) version: String,
    #[cfg(test)]
    pub(crate) description: Option<String>,
    #[cfg(test)]
    pub(crate) license: Option<String>,
    #[cfg(test)]
    pub(crate) readme: Option<PathBuf>,
    #[cfg(test)]
    pub(crate) keywords: Vec<String>,
    #[cfg(test)]
    pub(crate) categories: Vec<String>,
    /// The registries to which the package may be published. `None` means all, and an empty list none.
    #[cfg(test)]
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) rust_version: Option<String>,
    /// The registry or repository of the package. `None` for a package at a path, such as the packages of this
    /// workspace.
    #[cfg(test)]
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The features, each with the features and dependencies that it enables.
    pub(crate) features: std::collections::BTreeMap<String, Vec<String>>,
    /// The table `[package.metadata]`, which may contain any value.
    metadata: Option<Value>,
}

/// A library, binary, example, test or benchmark target of a package.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
    /// `false` if `cargo doc` leaves the target out.
    pub(crate) doc: bool,
    /// `false` if plain `cargo test` does not run the tests of the target.
    #[cfg(test)]
    pub(crate) test: bool,
}

/// An entry in a package's dependency tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The kind of the dependency, `dev` or `build`. `None` for a normal dependency.
    pub(crate) kind: Option<String>,
    /// The features that the entry enables, besides the default features.
    pub(crate) features: Vec<String>,
    pub(crate) uses_default_features: bool,
    /// The platforms for which the entry is. `None` for all platforms.
    pub(crate) target: Option<String>,
    /// The folder of a package of this workspace. `None` for other packages.
    pub(crate) path: Option<PathBuf>,
    /// The required versions. `*` if the entry has no version.
    req: String,
}

/// Returns the packages of the workspace.
pub(crate) fn members() -> Result<Metadata, String> {
    load(&["--no-deps"])
}

/// Returns the packages of the workspace and all of their dependencies, on every platform and with every feature.
#[cfg(test)]
pub(crate) fn graph() -> Result<Metadata, String> {
    load(&["--all-features"])
}

fn load(args: &[&str]) -> Result<Metadata, String> {
    let mut command = process::cargo(["metadata", "--format-version", "1"]);
    command.args(args);
    let json = process::capture(command)?;
    serde_json::from_str(&json).map_err(|error| format!("cannot read `cargo metadata`: {error}"))
}

impl Metadata {
    /// Returns the packages `names`, and the packages of this workspace that they use, except in their tests.
    pub(crate) fn used_by(&self, names: &[&str]) -> BTreeSet<String> {
        let mut used: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut pending: Vec<String> = used.iter().cloned().collect();
        while let Some(name) = pending.pop() {
            let package = self.packages.iter().find(|package| package.name == name);
            for entry in package.into_iter().flat_map(|package| &package.dependencies) {
                let is_used = entry.path.is_some() && entry.kind.as_deref() != Some("dev");
                if is_used && used.insert(entry.name.clone()) {
                    pending.push(entry.name.clone());
                }
            }
        }
        used
    }
}

impl Dependency {
    /// Returns `true` if the entry is for tests and has a path without a version. Cargo removes such an entry from the
    /// package that it publishes.
    pub(crate) fn is_only_a_path(&self) -> bool {
        self.kind.as_deref() == Some("dev") && self.path.is_some() && self.req == "*"
    }
}

impl Package {
    /// Returns the folder that contains the package's manifest.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Returns the names under which the package's code knows the crates of other projects.
    pub(crate) fn foreign_dependencies(&self) -> BTreeSet<String> {
        let normal = self.dependencies.iter().filter(|entry| entry.kind.is_none());
        let foreign = normal.filter(|entry| entry.path.is_none());
        foreign.map(|entry| entry.name.replace('-', "_")).collect()
    }

    /// Returns the library target of the package, which may be a procedural macro crate. Returns `None` if the package
    /// has no library.
    pub(crate) fn library(&self) -> Option<&Target> {
        self.targets.iter().find(|target| target.is("lib") || target.is("proc-macro"))
    }

    /// Returns `true` if the package is in the folder `crates/`.
    pub(crate) fn is_in_crates(&self) -> bool {
        self.folder().parent() == Some(&process::root().join("crates"))
    }

    /// Returns `true` if the package must compile for wasm32, which its manifest declares with
    /// `[package.metadata.neuron] wasm = true`.
    pub(crate) fn wants_wasm(&self) -> bool {
        self.flag("/neuron/wasm").unwrap_or(false)
    }

    /// Returns `true` if the examples of the package can be run in tests. The manifest excludes examples that do not
    /// end by themselves with `[package.metadata.neuron] run-examples = false`.
    pub(crate) fn runs_examples(&self) -> bool {
        self.flag("/neuron/run-examples").unwrap_or(true)
    }

    /// Returns `true` if the package is built only after a change of it or of a package that it uses, which its manifest
    /// declares with `[package.metadata.neuron] on-request = true`.
    pub(crate) fn is_built_on_request(&self) -> bool {
        self.flag("/neuron/on-request").unwrap_or(false)
    }

    fn flag(&self, pointer: &str) -> Option<bool> {
        self.metadata.as_ref()?.pointer(pointer)?.as_bool()
    }
}

impl Target {
    /// Returns the name of the crate.
    pub(crate) fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Returns `true` if the target is of the kind `kind`, such as `example`.
    pub(crate) fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|own| own == kind)
    }
}
