//! Checks that the tables of `book/pages/guides/wasm.md` agree with the packages that the step `wasm` builds and tests.

use std::collections::BTreeSet;
use std::fs;

use crate::process;
use crate::workspace::{self, Package};

/// Returns the rows of a table of the page. Each row is a name, and `true` if the row says that it works on wasm32.
/// `heading` is the first cell of the table.
fn table(page: &str, heading: &str) -> BTreeSet<(String, bool)> {
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {heading} |")));
    let rows = lines.skip(2).map_while(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(name, answer)| (name.to_owned(), answer.starts_with("yes"))).collect()
}

fn page() -> String {
    fs::read_to_string(process::root().join("book/pages/guides/wasm.md")).unwrap()
}

#[test]
fn table_of_crates_names_the_crates_that_are_built_for_wasm32() {
    let packages = workspace::members().unwrap().packages;
    let crates = packages.iter().filter(|package| package.is_in_crates());
    // A procedural macro runs in the compiler, and works for all targets.
    let works = |package: &Package| {
        package.wants_wasm() || package.library().is_some_and(|library| library.is("proc-macro"))
    };
    let expected = crates.map(|package| (package.name.clone(), works(package))).collect();
    assert_eq!(table(&page(), "crate"), expected);
}

#[test]
fn table_of_features_names_the_features_that_are_tested_on_wasm32() {
    let packages = workspace::members().unwrap().packages;
    let package = |name: &str| packages.iter().find(|package| package.name == name).unwrap();
    let (umbrella, tests) = (package("neuron"), package("neuron-wasm"));
    let mut dependencies = tests.dependencies.iter();
    let tested = &dependencies.find(|dependency| dependency.name == "neuron").unwrap().features;
    let defaults = &umbrella.features["default"];
    let works = |feature: &String| tested.contains(feature) || defaults.contains(feature);
    let features = umbrella.features.keys().filter(|name| !["default", "full"].contains(&&***name));
    let expected = features.map(|feature| (feature.clone(), works(feature))).collect();
    assert_eq!(table(&page(), "feature of `neuron`"), expected);
}

#[test]
fn page_names_the_version_of_wasm_bindgen_in_the_lock_file() {
    let packages = workspace::graph().unwrap().packages;
    let library = packages.iter().find(|package| package.name == "wasm-bindgen").unwrap();
    let page = fs::read_to_string(process::root().join("wasm/README.md")).unwrap();
    let command = format!("cargo install wasm-bindgen-cli --version {}\n", library.version);
    assert!(page.contains(&command), "wasm/README.md does not contain: {command}");
}
