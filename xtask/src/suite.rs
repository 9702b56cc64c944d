//! The commands `cargo xtask quick`, `test` and `nightly`. Each command runs several steps.

use std::process::ExitCode;
use std::time::Instant;

use crate::faults::{self, Selection};
use crate::nextest::{self, Filter};
use crate::tools;
use crate::workspace::Package;
use crate::{book, changes, compiler, examples, fetch, packages, process, sdks, wasm, workspace};

/// The name of a step, and the function that runs it.
type Step = (&'static str, fn() -> Result<(), String>);

/// The steps of `cargo xtask test`, which every change must pass. Cheap steps come first. The tests come last, so that
/// their summary is at the end of the output.
const TEST: &[Step] = &[
    ("fmt", fmt),
    ("clippy", || fetch::during(clippy)),
    ("docs", docs),
    ("deny", deny),
    ("features", || features(&sample_of_libraries()?)),
    ("wasm", wasm::check),
    ("examples", examples::run),
    ("book", || book::build().map(drop)),
    ("sdks", sdks::check),
    ("faults", || faults::check(Selection::Sample)),
    ("doctests", doctests),
    ("benches", benches),
    ("tests", || nextest::run("default", &Filter::All, &[])),
];

/// The steps of `cargo xtask nightly`, which take long.
const NIGHTLY: &[Step] = &[
    ("fetch", fetch::for_tests),
    ("features", || features(&libraries()?)),
    ("packages", packages::check),
    ("semver", semver),
    ("faults", || faults::check(Selection::All)),
    ("model", model),
    ("pairs", pairs),
    ("fuzz", fuzz),
    ("others", others),
    ("pages", book::browser::check),
    ("crashes", crashes),
];

/// Runs all steps of `cargo xtask test`, or only the step `only`.
pub(crate) fn test(only: Option<&str>) -> ExitCode {
    if only.is_none()
        && let Ok(workspace) = workspace::members()
    {
        process::build_once_in(&workspace.target_directory);
    }
    run("test", TEST, only)
}

/// Runs all steps of `cargo xtask nightly`, or only the step `only`.
pub(crate) fn nightly(only: Option<&str>) -> ExitCode {
    run("nightly", NIGHTLY, only)
}

/// Checks the changes since the commit `base`. [`changes::since`] chooses a commit if `base` is `None`.
///
/// Checks the formatting, runs the lints, and runs the tests of the changed packages and of their dependents. The test
/// profile `quick` excludes tests that are slow or that need third-party programs.
pub(crate) fn quick(base: Option<&str>) -> Result<(), String> {
    let start = Instant::now();
    let changes = changes::since(base)?;
    let filter = changes::packages(&changes.files, &workspace::members()?);
    let what = match &filter {
        Filter::All => "all packages".to_owned(),
        Filter::DependentsOf(packages) if packages.is_empty() => "no package".to_owned(),
        Filter::DependentsOf(packages) => {
            let names: Vec<&str> = packages.iter().map(String::as_str).collect();
            format!("{} and dependents", names.join(", "))
        }
    };
    let what = format!("{what}, changed since {}", changes.base.get(..12).unwrap_or_default());
    println!("quick: {what}");
    fmt()?;
    clippy()?;
    nextest::run("quick", &filter, &[])?;
    println!("quick: passed in {} s: {what}", start.elapsed().as_secs());
    Ok(())
}

/// Runs steps in order until a step fails. `only` selects a single step. An unknown step is a usage error.
fn run(tier: &str, steps: &[Step], only: Option<&str>) -> ExitCode {
    let is_meant = |name: &str| only.is_none_or(|only| only == name);
    if !steps.iter().any(|(name, _)| is_meant(name)) {
        let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        eprintln!("error: no such step: `{tier}` has {}", names.join(", "));
        return ExitCode::from(2);
    }
    let total = Instant::now();
    for (name, step) in steps.iter().filter(|(name, _)| is_meant(name)) {
        println!("== {name}");
        let start = Instant::now();
        let result = step();
        println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
        if let Err(reason) = result {
            println!("error: {tier}: step {name} failed: {reason}");
            return ExitCode::FAILURE;
        }
    }
    println!("{tier}: passed in {:.0} s", total.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn fmt() -> Result<(), String> {
    process::run(process::cargo(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<(), String> {
    let mut command = compiler::cargo(["clippy", "--all-targets", "--all-features"])?;
    command.args(["--", "-D", "warnings"]);
    process::run(command)
}

fn docs() -> Result<(), String> {
    let mut command = compiler::cargo(["doc", "--no-deps", "--all-features"])?;
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::run(command)
}

/// Checks the dependencies against the rules in `deny.toml`.
fn deny() -> Result<(), String> {
    let args = ["deny", "--all-features", "check", "bans", "licenses", "sources"];
    tools::DENY.run(process::cargo(args), "the rules of deny.toml")
}

fn doctests() -> Result<(), String> {
    fetch::run(compiler::cargo(["test", "--doc", "--all-features", "--no-fail-fast"])?)
}

/// Runs each benchmark once as a test, without measuring.
fn benches() -> Result<(), String> {
    fetch::run(compiler::cargo(["test", "--all-features", "--bench", "*"])?)
}

/// Checks that each library compiles alone, once with each of its features.
///
/// This finds features of dependencies that a library needs and does not enable. In a build of the whole workspace,
/// another package may enable them.
fn features(libraries: &[String]) -> Result<(), String> {
    let mut command = process::cargo(["hack", "check", "--each-feature", "--lib"]);
    command.args(libraries.iter().flat_map(|name| ["--package", name]));
    tools::HACK.run(command, "each feature alone")
}

/// Returns the names of the libraries in `crates/` that this machine's compiler can build, sorted.
fn libraries() -> Result<Vec<String>, String> {
    let packages = workspace::members()?.packages.into_iter().filter(Package::is_in_crates);
    let mut libraries = Vec::new();
    for package in packages {
        if compiler::builds(&package)? {
            libraries.push(package.name);
        }
    }
    libraries.sort();
    Ok(libraries)
}

/// Returns the libraries that the changes since the default commit of [`changes::since`] affect, and every eighth of
/// the other libraries.
fn sample_of_libraries() -> Result<Vec<String>, String> {
    let changed = changes::packages(&changes::since(None)?.files, &workspace::members()?);
    let is_chosen = |(place, name): &(usize, String)| match &changed {
        Filter::All => true,
        Filter::DependentsOf(packages) => packages.contains(name) || place % 8 == 0,
    };
    Ok((1..).zip(libraries()?).filter(is_chosen).map(|(_, name)| name).collect())
}

/// Checks that the versions of the crates follow semantic versioning, compared with the last tag. A tag marks a release,
/// so without a tag there is nothing to check.
fn semver() -> Result<(), String> {
    let Some(tag) = changes::last_tag() else {
        println!("semver: no release is tagged, so every change is allowed");
        return Ok(());
    };
    let mut command = process::cargo(["semver-checks", "check-release", "--baseline-rev", &tag]);
    command.args(libraries()?.iter().flat_map(|name| ["--package", name]));
    tools::SEMVER_CHECKS.run(command, &format!("semantic versioning since {tag}"))
}

/// Runs the randomised test `model` of the agent loop with a million cases. Every day runs other cases.
fn model() -> Result<(), String> {
    let mut command = process::cargo(["test", "--release", "--package", "neuron-loop"]);
    command.args(["--test", "it", "model::"]);
    let first = days_since_1970() * 1_000_000;
    command.env("MODEL_FIRST", first.to_string()).env("MODEL_CASES", "1000000");
    process::run(command)
}

/// Moves 10,000 conversations between the vendors. Every day moves other conversations.
fn pairs() -> Result<(), String> {
    sdks::pairs(days_since_1970() * 10_000, 10_000)
}

/// Tests the properties of the parsers with random inputs. Every day tests other inputs.
fn fuzz() -> Result<(), String> {
    // The target of cargo-fuzz is a separate workspace. No other step compiles it.
    let mut target = process::cargo(["check", "--quiet", "--manifest-path", "fuzz/Cargo.toml"]);
    target.env("CARGO_TARGET_DIR", workspace::members()?.target_directory);
    process::run(target)?;
    let mut command = process::cargo(["test", "--release", "--package", "neuron-fuzz-properties"]);
    command.env("FUZZ_INPUTS", "100000").env("FUZZ_SEQUENCE", days_since_1970().to_string());
    process::run(command)
}

/// Runs the book's programs with other libraries. They are a separate workspace, because they have 400 dependencies that
/// nothing else needs.
fn others() -> Result<(), String> {
    let mut command = process::cargo(["test", "--manifest-path", "book/other/Cargo.toml"]);
    command.arg("--target-dir").arg(workspace::members()?.target_directory.join("others"));
    process::run(command)
}

/// Runs the tests that kill processes and servers, damage files or inject faults, with many rounds.
fn crashes() -> Result<(), String> {
    let rounds = [
        ("KILL_ROUNDS", "500"),
        ("KILL_SERVER_ROUNDS", "100"),
        ("DAMAGE_ROUNDS", "2000"),
        ("LOAD_SECONDS", "60"),
        ("ROUTER_RUNS", "10000"),
    ];
    nextest::run("nightly", &Filter::All, &rounds)
}

/// Returns the number of days since 1970-01-01, from which the daily steps derive their inputs.
fn days_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs() / 86_400)
}
