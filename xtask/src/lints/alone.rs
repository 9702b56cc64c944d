//! Each crate compiles for whoever depends on it alone: it asks for the features of others that it
//! needs. In a build of the whole workspace a neighbour may have asked for them.

use super::assert_none;
use crate::workspace::{self, Package};
use crate::{compiler, process};

#[test]
fn each_crate_compiles_alone() {
    let mut problems = Vec::new();
    let members = workspace::members().unwrap().packages;
    let is_checked =
        |package: &&Package| package.is_in_crates() && compiler::builds(package).unwrap();
    for package in members.iter().filter(is_checked) {
        for features in [&[][..], &["--no-default-features"]] {
            let mut check = process::cargo(["check", "--quiet", "--lib", "--package"]);
            check.arg(&package.name).args(features);
            problems.extend(process::run(check).err());
        }
    }
    assert_none(&problems);
}
