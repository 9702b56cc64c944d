//! Checks that the manifests of our packages meet the requirements for publishing to a package registry.

use std::fs;

use super::assert_none;
use crate::compiler::numbers;
use crate::process;
use crate::workspace::{self, Package};

/// The version that our packages must exceed. In the public registry, an unrelated project has published packages with
/// some of our names up to this version.
const FOREIGN: &str = "0.4.0";

/// Checks that all packages in `crates/` can be published, and no other packages.
#[test]
fn packages_for_users_can_be_published_and_no_others() {
    let mut problems = Vec::new();
    for package in &workspace::members().unwrap().packages {
        let is_published = package.publish.is_none();
        if is_published != package.is_in_crates() {
            problems.push(format!("{}: `publish` is wrong", package.name));
        }
        if is_published {
            problems.extend(missing(package));
        }
    }
    assert_none(&problems);
}

/// Returns the reasons why a package cannot be published to a registry, such as a missing license.
fn missing(package: &Package) -> Vec<String> {
    let name = &package.name;
    let mut missing = Vec::new();
    let mut require = |is_there: bool, part: &str| {
        if !is_there {
            missing.push(format!("{name}: {part}"));
        }
    };
    require(package.description.is_some(), "no description");
    require(package.license.is_some(), "no license");
    require(package.readme.is_some(), "no README");
    require((1..=5).contains(&package.keywords.len()), "no keywords");
    require(!package.categories.is_empty(), "no categories");
    require(numbers(&package.version) > numbers(FOREIGN), "the version is another project's");
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        let ours = fs::read(process::root().join(license)).unwrap();
        let theirs = fs::read(package.folder().join(license)).unwrap_or_default();
        require(ours == theirs, "no license file, or another than in the root");
    }
    missing
}

/// Returns the dependencies in a manifest with one line for each, as table, name and features.
fn dependencies(manifest: &str) -> Vec<(&str, &str, &str)> {
    let mut table = "";
    let mut dependencies = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            table = line;
        } else if table.ends_with("dependencies]")
            && let Some((name, value)) = line.split_once(" = ")
        {
            let features =
                value.split_once("features = [").and_then(|(_, rest)| rest.split_once(']'));
            dependencies.push((table, name, features.map_or("", |(features, _)| features)));
        }
    }
    dependencies
}

/// Checks that the manifest for new projects has the dependencies with which the template is built and tested.
#[test]
fn templates_have_the_same_dependencies_in_new_projects() {
    let mut found = 0;
    for package in &workspace::members().unwrap().packages {
        if package.folder().parent() == Some(&process::root().join("templates")) {
            let read = |name: &str| fs::read_to_string(package.folder().join(name)).unwrap();
            let (tested, new) = (read("Cargo.toml"), read("Cargo.toml.liquid"));
            // The features of the workspace would be missing in a new project.
            let new = new.replace(", default-features = false", "");
            assert_eq!(dependencies(&tested), dependencies(&new), "{}", package.name);
            found += 1;
        }
    }
    assert_eq!(found, 3);
}
