//! The commands `cargo xtask quick`, `test` and `nightly`. Each command runs several steps.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Instant;

use crate::changes::Scope;
use crate::compiler::PROFILE;
use crate::faults::{self, Selection};
use crate::nextest::{self, Filter};
use crate::tools;
use crate::workspace::Package;
use crate::{
    book, budget, changes, compiler, examples, fetch, packages, process, sdks, wasm, workspace,
};

/// A step of a tier.
struct Step {
    name: &'static str,
    run: fn() -> Result<(), String>,
    /// The step is left out if nothing of this changed.
    scope: Scope,
    /// Starts a part of the step that runs beside other steps. Called after the step `build`.
    start: Option<fn() -> Result<(), String>>,
}

const fn step(name: &'static str, run: fn() -> Result<(), String>) -> Step {
    Step { name, run, scope: Scope::Everything, start: None }
}

impl Step {
    const fn checks(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    const fn starts(self, start: fn() -> Result<(), String>) -> Self {
        Self { start: Some(start), ..self }
    }
}

const DENY: Step =
    step("deny", deny).checks(Scope::Files(&["Cargo.lock", "Cargo.toml", "deny.toml"]));
const WASM: Step = step("wasm", wasm::check).checks(Scope::Wasm).starts(wasm::start);
/// The end of the step, because its tests run beside other steps.
const WASM_TESTS: Step = step("wasm", wasm::finish).checks(Scope::Wasm);
const SDKS: Step = step("sdks", sdks::check).checks(Scope::Packages(&["neuron-e2e"]));

/// The compiler's errors about wrong uses of the macros.
const MACROS: Step = step("macros", || nextest::run("macros", &Filter::All, &[]))
    .checks(Scope::Packages(&["neuron-tool", "neuron-tool-macros-direct"]));

/// The steps of `cargo xtask test`, which every change must pass. Cheap steps come first. The tests come last, so that
/// their summary is at the end of the output.
const TEST: &[Step] = &[
    step("fmt", fmt),
    step("build", || fetch::during(|| compiler::build().map(drop), fetch_for_steps)),
    step("docs", compiler::documentation),
    DENY,
    step("examples", examples::run),
    step("book", || book::build().map(drop)),
    SDKS,
    step("doctests", doctests),
    step("benches", benches),
    step("features", || features(&sample_of_libraries()?)),
    WASM,
    step("faults", || faults::check(Selection::Sample)),
    WASM_TESTS,
    MACROS,
    step("tests", || nextest::run("default", &Filter::All, &[])),
];

/// The steps of `cargo xtask nightly`: those that `test` leaves out if nothing changed, and those that take long.
const NIGHTLY: &[Step] = &[
    step("fetch", fetch::for_tests),
    DENY,
    WASM,
    WASM_TESTS,
    SDKS,
    MACROS,
    step("features", || features(&libraries()?)),
    step("examples", examples::run),
    step("packages", packages::check),
    step("semver", semver),
    step("faults", || faults::check(Selection::All)),
    step("model", model),
    step("pairs", pairs),
    step("fuzz", fuzz),
    step("others", others),
    step("pages", book::browser::check),
    step("crashes", crashes),
];

/// Number of libraries that the step `features` checks after a change of the whole workspace.
const SAMPLE: usize = 2;

/// Selects the steps of a tier.
#[derive(Clone, Copy)]
pub(crate) enum Steps<'a> {
    /// The steps whose inputs changed.
    Affected,
    All,
    Named(&'a str),
}

/// Runs steps of `cargo xtask test`.
pub(crate) fn test(steps: Steps<'_>) -> ExitCode {
    if !matches!(steps, Steps::Named(_))
        && let Ok(workspace) = workspace::members()
    {
        process::build_once_in(&workspace.target_directory);
    }
    run("test", TEST, steps)
}

/// Runs all steps of `cargo xtask nightly`, or only the step `only`.
pub(crate) fn nightly(only: Option<&str>) -> ExitCode {
    changes::count_all();
    run("nightly", NIGHTLY, only.map_or(Steps::All, Steps::Named))
}

/// Checks the changes since the commit `base`. If it is `None`, [`changes::current`] chooses a commit.
///
/// Checks the formatting, runs the lints, and runs the tests of the changed packages and of their dependents. The test
/// profile `quick` excludes tests that are slow or that need third-party programs.
pub(crate) fn quick(base: Option<&str>) -> Result<(), String> {
    let start = Instant::now();
    base.map_or(Ok(()), changes::compare_with)?;
    let changes = changes::current()?;
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
    compiler::build()?;
    nextest::run("quick", &filter, &[])?;
    println!("quick: passed in {} s: {what}", start.elapsed().as_secs());
    Ok(())
}

/// Runs steps in order until a step fails. An unknown step is a usage error.
fn run(tier: &str, all: &[Step], selected: Steps<'_>) -> ExitCode {
    // Also after a panic, for example because nobody reads the output.
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            wasm::stop();
        }
    }
    let _stop = Stop;
    if let (Steps::Affected, Ok(changes)) = (selected, changes::current()) {
        println!("{tier}: {} files changed since {}", changes.files.len(), changes.base);
    }
    run_in_order(tier, all, selected)
}

fn run_in_order(tier: &str, all: &[Step], selected: Steps<'_>) -> ExitCode {
    if let Steps::Named(only) = selected
        && !all.iter().any(|step| step.name == only)
    {
        let names: Vec<&str> = all.iter().map(|step| step.name).collect();
        eprintln!("error: no such step: `{tier}` has {}", names.join(", "));
        return ExitCode::from(2);
    }
    if let Steps::All = selected {
        changes::count_all();
    }
    let total = Instant::now();
    let mut times = Vec::new();
    for step in all {
        let name = step.name;
        let is_meant = match selected {
            Steps::Named(only) => Ok(only == name),
            Steps::Affected | Steps::All => step.scope.is_affected(),
        };
        let start = Instant::now();
        let result = match is_meant {
            Ok(true) => {
                println!("== {name}");
                (step.run)().and_then(|()| match (name, selected) {
                    ("build", Steps::Affected | Steps::All) => start_beside(all),
                    _ => Ok(()),
                })
            }
            Ok(false) => {
                if let Steps::Affected = selected {
                    println!("== {name}: left out, because nothing that it checks changed");
                }
                continue;
            }
            Err(reason) => Err(reason),
        };
        let time = format!("{name} {:.0} s", start.elapsed().as_secs_f64());
        println!("== {time}");
        times.push(time);
        if let Err(reason) = result {
            println!("error: {tier}: step {name} failed: {reason}");
            return ExitCode::FAILURE;
        }
    }
    println!("{tier}: passed in {:.0} s: {}", total.elapsed().as_secs_f64(), times.join(", "));
    ExitCode::SUCCESS
}

/// Starts the parts of the steps that run beside other steps.
fn start_beside(steps: &[Step]) -> Result<(), String> {
    for step in steps {
        if let Some(start) = step.start
            && step.scope.is_affected()?
        {
            start()?;
        }
    }
    Ok(())
}

/// Downloads what the steps `wasm` and `sdks` need, if they will run.
fn fetch_for_steps() -> Result<(), String> {
    for (step, fetch) in [(SDKS, sdks::fetch as fn() -> _), (WASM, wasm::fetch)] {
        if step.scope.is_affected()? {
            fetch()?;
        }
    }
    Ok(())
}

fn fmt() -> Result<(), String> {
    process::run(process::cargo(["fmt", "--all", "--check"]))
}

/// Checks the dependencies against the rules in `deny.toml`.
fn deny() -> Result<(), String> {
    let args = ["deny", "--all-features", "check", "bans", "licenses", "sources"];
    tools::DENY.run(process::cargo(args), "the rules of deny.toml")
}

fn doctests() -> Result<(), String> {
    fetch::run(compiler::cargo(["test", "--doc", "--no-fail-fast", "--profile", PROFILE])?)
}

/// Runs each benchmark once as a test, without measuring.
fn benches() -> Result<(), String> {
    let args = ["test", "--bench", "*", "--profile", PROFILE];
    let mut build = compiler::cargo(args)?;
    build.arg("--no-run");
    budget::BENCHES.run(build)?;
    fetch::run(compiler::cargo(args)?)
}

/// Checks that each library compiles alone, without features and once with each of its features.
///
/// This finds features of dependencies that a library needs and does not enable. In a build of the whole workspace,
/// another package may enable them.
fn features(libraries: &[String]) -> Result<(), String> {
    for package in workspace::members()?.packages {
        if !libraries.contains(&package.name) {
            continue;
        }
        println!("{}, alone and with each of {} features", package.name, package.features.len());
        for feature in std::iter::once("").chain(package.features.keys().map(String::as_str)) {
            let mut command =
                process::cargo(["check", "--quiet", "--lib", "--no-default-features"]);
            // Its macros and build scripts are built already.
            command.args(["--profile", PROFILE]);
            command.args(["--package", &package.name, "--features", feature]);
            budget::FEATURE.run(command)?;
        }
    }
    Ok(())
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

/// Returns the libraries that changed. If a file of the whole workspace changed, returns only [`SAMPLE`] libraries of those
/// that every build contains, and those that changed come first.
fn sample_of_libraries() -> Result<Vec<String>, String> {
    let members = workspace::members()?;
    let (changed, is_for_all) = match changes::current() {
        Ok(changes) => (
            changes::changed_packages(&changes.files, &members),
            changes::packages(&changes.files, &members) == Filter::All,
        ),
        Err(_) => (BTreeSet::new(), true),
    };
    let (mut selected, mut others): (Vec<_>, Vec<_>) =
        libraries()?.into_iter().partition(|name| changed.contains(name));
    if is_for_all {
        let on_request = members.packages.iter().filter(|it| it.is_built_on_request());
        let on_request: Vec<&String> = on_request.map(|package| &package.name).collect();
        others.retain(|name| !on_request.contains(&name));
        selected = changes::sample(selected, SAMPLE);
        selected.extend(changes::sample(others, SAMPLE.saturating_sub(selected.len())));
    }
    Ok(selected)
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
    command.arg("model::");
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
