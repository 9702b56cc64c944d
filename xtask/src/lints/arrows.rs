//! Checks the dependencies between our crates, and between the folders of the crates whose folders have an order.
//! Dev-dependencies and tests are not restricted.

use std::collections::{BTreeMap, BTreeSet};

use super::sources::files;
use super::{assert_none, tree};
use crate::process;
use crate::workspace;

/// The allowed dependencies of each package on other packages of this workspace, one package per line.
const ARROWS: &str = "
    neuron-model:
    neuron-types: neuron-model
    neuron-tool-macros:
    neuron-tool: neuron-types neuron-tool-macros
    neuron-catalog: neuron-model
    neuron-context: neuron-types
    neuron-http: neuron-model
    neuron-provider-anthropic: neuron-model neuron-http
    neuron-provider-openai: neuron-model neuron-http
    neuron-provider-ollama: neuron-model neuron-http
    neuron-provider-gemini: neuron-model neuron-http
    neuron-provider-bedrock: neuron-model neuron-http
    neuron-otel: neuron-types
    neuron-router: neuron-model
    neuron-tower: neuron-model
    neuron-loop: neuron-types neuron-tool
    neuron-mcp: neuron-types neuron-tool
    neuron-sandbox: neuron-types
    neuron-durable: neuron-types neuron-tool
    neuron-runtime: neuron-types neuron-durable neuron-sandbox
    neuron-subagent: neuron-types neuron-tool neuron-loop
    neuron-sqlite: neuron-types
    neuron-session-sqlite: neuron-types neuron-sqlite
    neuron-session-postgres: neuron-types
    neuron-durable-sqlite: neuron-types neuron-tool neuron-durable neuron-sqlite
    neuron-durable-restate: neuron-types neuron-tool neuron-durable
    neuron-durable-temporal: neuron-types neuron-tool neuron-durable
    neuron-testing: neuron-types
    neuron-conformance: neuron-types neuron-testing
    neuron-conformance-durable: neuron-types neuron-testing neuron-conformance neuron-tool neuron-context neuron-loop neuron-subagent neuron-durable
    neuron-examples:
    neuron-testkit:
    xtask: neuron-testkit
";

/// Packages that may depend on every package. Only packages in this list may depend on them.
const OUTSIDE: [&str; 13] = [
    "neuron",
    "neuron-benches",
    "neuron-e2e",
    "neuron-example-programs",
    "neuron-fuzz-properties",
    "neuron-template-mcp-server",
    "neuron-template-terminal-agent",
    "neuron-template-web-service",
    "neuron-tests",
    "neuron-tool-macros-direct",
    "neuron-tool-macros-renamed",
    "neuron-tool-macros-umbrella",
    "neuron-wasm",
];

#[test]
fn dependency_arrows_point_up_only() {
    let members = workspace::members().unwrap().packages;
    let arrows: Vec<(&str, Vec<&str>)> = ARROWS
        .lines()
        .filter_map(|line| line.trim().split_once(':'))
        .map(|(name, allowed)| (name, allowed.split_whitespace().collect()))
        .collect();
    let mut problems = Vec::new();
    for package in members.iter().filter(|package| !OUTSIDE.contains(&package.name.as_str())) {
        let name = package.name.as_str();
        let Some((_, allowed)) = arrows.iter().find(|(known, _)| *known == name) else {
            let file = file!();
            problems.push(format!("{name} is unknown: add it to ARROWS in {file}"));
            continue;
        };
        let is_ours = |name: &str| members.iter().any(|member| member.name == name);
        for dependency in &package.dependencies {
            let target = dependency.name.as_str();
            let is_free = dependency.kind.as_deref() == Some("dev") || !is_ours(target);
            if !is_free && !allowed.contains(&target) {
                problems.push(format!("{name} must not depend on {target}"));
            }
        }
    }
    assert_none(&problems);
}

/// The order of the folders in `src` of a crate. A folder may import from the folders before it.
///
/// A file in `src`, such as `approval.rs`, counts as a folder, together with the folder of the same name.
const FOLDERS: [(&str, &str); 2] = [
    ("neuron-model", "base error content request response outcome provider"),
    (
        "neuron-types",
        "secret_formats error tool session permission approval budget context_strategy layer hook run durable sandbox",
    ),
];

/// Names that a folder imports from a later one, as crate, folder and name.
///
/// A tool may be an agent, and a durable engine that runs an agent calls its tools. No order of the folders can express
/// this circle of two traits, `ToolDyn` and `AgentTool`.
const AGAINST_THE_ORDER: [(&str, &str, &str); 1] = [("neuron-types", "tool", "AgentTool")];

#[test]
fn folders_import_only_folders_before_them() {
    let mut problems = Vec::new();
    let mut against: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
    for (package, order) in FOLDERS {
        let source = format!("crates/{package}/src/");
        let order: Vec<&str> = order.split_whitespace().collect();
        let place = |folder: &str| order.iter().position(|known| *known == folder);
        let files: Vec<(String, String)> = files()
            .filter_map(|(path, text)| Some((path.strip_prefix(&source)?.to_owned(), text)))
            .collect();
        let root = files.iter().find(|(path, _)| path == "lib.rs").unwrap();
        let exported = exports(&root.1);
        let mut found = BTreeSet::new();
        for (path, text) in files.iter().filter(|(path, _)| path != "lib.rs") {
            let folder = path.split('/').next().unwrap().trim_end_matches(".rs");
            found.insert(folder);
            let Some(own) = place(folder) else {
                problems
                    .push(format!("{source}{path}: add `{folder}` to the order of the folders"));
                continue;
            };
            for name in imports(text) {
                // A name that the root does not list is of a crate that it re-exports as a whole.
                let is_foreign = exported.contains_key("*")
                    && !exported.contains_key(name)
                    && place(name).is_none();
                let from = exported.get(name).copied().unwrap_or(name);
                if is_foreign || place(from).is_some_and(|place| place <= own) {
                    continue;
                }
                let known =
                    AGAINST_THE_ORDER.iter().find(|known| **known == (package, folder, name));
                match known {
                    Some(known) => drop(against.insert(*known)),
                    None => problems.push(format!("{source}{path}: imports `{name}` of `{from}`")),
                }
            }
        }
        let missing = order.iter().filter(|folder| !found.contains(**folder));
        problems.extend(missing.map(|folder| format!("{source}{folder} does not exist")));
    }
    let unused = AGAINST_THE_ORDER.iter().filter(|known| !against.contains(*known));
    problems.extend(unused.map(|known| format!("{known:?} is in order")));
    assert_none(&problems);
}

/// Returns the names that a crate's root exports from its folders, and the folder of each.
fn exports(root: &str) -> BTreeMap<&str, &str> {
    let statements = root.split("\npub use ").skip(1).filter_map(|rest| rest.split_once(';'));
    let mut exports = BTreeMap::new();
    for (statement, _) in statements {
        let (folder, names) = statement.split_once("::").unwrap_or((statement, statement));
        let names = names.trim_start_matches('{').trim_end_matches('}').split(',');
        exports.extend(names.map(|name| (last_segment(name.trim()), folder)));
    }
    exports
}

fn last_segment(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

/// Returns the first segment of each path after `crate::` in the code of a file. Comments and the tests at its end are
/// left out, and so are paths in the form `super::`, which do not leave a folder.
fn imports(text: &str) -> BTreeSet<&str> {
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut imports = BTreeSet::new();
    for (at, separator) in text.match_indices("crate::") {
        let (before, after) = (&text[..at], &text[at + separator.len()..]);
        let line = before.rsplit('\n').next().unwrap_or(before);
        let is_path = !before.ends_with(|char: char| char.is_alphanumeric() || char == '_');
        if !is_path || line.trim_start().starts_with("//") {
            continue;
        }
        let names = match after.strip_prefix('{').and_then(|group| group.split_once('}')) {
            Some((group, _)) => group,
            None => after
                .split(|char: char| !char.is_alphanumeric() && char != '_')
                .next()
                .unwrap_or(after),
        };
        imports.extend(names.split(',').filter_map(|path| path.trim().split("::").next()));
    }
    imports.remove("");
    imports
}

#[test]
fn exports_and_imports_are_found() {
    let root = "mod a;\n\npub use a::{One, deep::Two};\npub use b::three;\n#[doc(inline)]\npub use other::*;\n";
    let expected = [("*", "other"), ("One", "a"), ("Two", "a"), ("three", "b")];
    assert_eq!(exports(root), BTreeMap::from(expected));
    let file = "//! [`X`](crate::X), [`Y`](crate::Y)\nuse crate::{\n    One, three::Deep,\n};\nuse crate::a::Two;\n\
                fn f(_: crate::Four) {}\nmy_crate::Six;\n#[cfg(test)]\nmod tests { use crate::Seven; }";
    assert_eq!(imports(file), BTreeSet::from(["One", "three", "a", "Four"]));
}

/// Packages that must not depend on the crate `neuron-loop`, so that their tests are not rebuilt when it changes.
const WITHOUT_LOOP: [&str; 10] = [
    "neuron-testing",
    "neuron-conformance",
    "neuron-provider-anthropic",
    "neuron-provider-bedrock",
    "neuron-provider-gemini",
    "neuron-provider-ollama",
    "neuron-provider-openai",
    "neuron-session-postgres",
    "neuron-session-sqlite",
    "neuron-testkit",
];

#[test]
fn tests_of_providers_and_storages_do_not_need_the_loop() {
    // `cargo tree` includes the dev-dependencies of these packages, but not those of their dependencies.
    let built = tree(&WITHOUT_LOOP, &["--edges", "all", "--all-features", "--target", "all"]);
    assert!(
        !built.iter().any(|line| line.starts_with("neuron-loop ")),
        "some of these tests are rebuilt when neuron-loop changes: {WITHOUT_LOOP:?}"
    );
}

#[test]
fn crates_with_our_name_are_ours() {
    // In the registry, the name `neuron` belongs to another project.
    let graph = workspace::graph().unwrap();
    let foreign = graph.packages.iter().filter(|package| {
        let is_here = package.source.is_none() && package.folder().starts_with(process::root());
        package.name.starts_with("neuron") && !is_here
    });
    let problems: Vec<String> = foreign
        .map(|package| format!("{} {} is not from this workspace", package.name, package.version))
        .collect();
    assert_none(&problems);
}
