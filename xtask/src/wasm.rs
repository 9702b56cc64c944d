//! The step `wasm`, which builds the packages that must work on wasm32, and runs the tests of the package `neuron-wasm`
//! under Node.js. If the target is not installed, the module `debian` provides a compiler with the sources of the
//! standard library.

mod debian;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::process::Background;
use crate::{budget, compiler, prerequisites, process, workspace};

const TARGET: &str = "wasm32-unknown-unknown";

/// Minimum version of Node.js. Older versions have no `fetch`.
const NODE: &str = "18";

/// The build of the packages or the tests under Node.js, while they run beside other steps.
static STARTED: Mutex<Option<Background>> = Mutex::new(None);

fn started() -> Option<Background> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn start_beside(command: Command) -> Result<(), String> {
    let process = Background::start(command, &directory()?)?;
    *STARTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
    Ok(())
}

/// Starts to build the packages beside other steps. [`check`] waits for the end of the build. Does nothing if a
/// prerequisite is missing.
pub(crate) fn start() -> Result<(), String> {
    command().map_or(Ok(()), |mut command| {
        command.arg(budget::MESSAGES_AS_JSON);
        start_beside(command)
    })
}

/// Ends what was started and is not needed any more.
pub(crate) fn stop() {
    drop(started());
}

/// Builds all packages whose manifest has `[package.metadata.neuron] wasm = true`, with their default features. Then
/// starts the tests of `neuron-wasm`, which has all features that work on wasm32. [`finish`] waits for them, because they
/// use one core.
///
/// If a prerequisite is missing, prints a message and returns `Ok`. With the environment variable `CI=true`, a missing
/// prerequisite is an error.
pub(crate) fn check() -> Result<(), String> {
    match started() {
        Some(build) => budget::WASM.check(&build.finish()?)?,
        None => match command() {
            Ok(command) => drop(budget::WASM.run(command)?),
            Err(reason) => return prerequisites::not_checked("wasm32", &reason),
        },
    }
    match node() {
        Ok(()) => test(&directory()?.join(TARGET).join("debug/neuron_wasm.wasm")),
        Err(reason) => prerequisites::not_checked("wasm32 under Node.js", &reason),
    }
}

/// Returns the folder of the build. It is a separate folder, because the other compiler version would invalidate the
/// usual build.
fn directory() -> Result<PathBuf, String> {
    Ok(workspace::members()?.target_directory.join("wasm"))
}

/// Starts the tests of `neuron-wasm` with the built module.
fn test(module: &Path) -> Result<(), String> {
    let args = ["test", "--test", "node", "--profile", compiler::PROFILE];
    let mut build = compiler::cargo(args)?;
    build.arg("--no-run");
    budget::NODE.run(build)?;
    let mut tests = compiler::cargo(args)?;
    tests.env("NEURON_WASM", module);
    start_beside(tests)
}

/// Waits for the tests under Node.js, if [`check`] started them.
pub(crate) fn finish() -> Result<(), String> {
    if let Some(tests) = started() {
        print!("{}", tests.finish()?);
    }
    Ok(())
}

/// Returns an error if this machine has no Node.js, or one that is too old.
fn node() -> Result<(), String> {
    let mut command = process::program("node");
    command.arg("--version");
    let version = process::quietly(command)?;
    let version = version.trim().trim_start_matches('v');
    match compiler::numbers(version) >= compiler::numbers(NODE) {
        true => Ok(()),
        false => Err(format!("Node.js {NODE} is needed, and this is {version}")),
    }
}

/// Downloads a compiler for wasm32, if this machine has none.
pub(crate) fn fetch() -> Result<(), String> {
    match has_installed_target() {
        true => Ok(()),
        false => debian::rustc(&workspace::members()?.target_directory).map(drop),
    }
}

/// Returns the command that builds the packages. Returns an error if there is none, or if this machine has no suitable
/// compiler or linker.
fn command() -> Result<Command, String> {
    let metadata = workspace::members()?;
    let packages: Vec<&str> = metadata
        .packages
        .iter()
        .filter(|package| package.wants_wasm())
        .map(|package| package.name.as_str())
        .collect();
    if packages.is_empty() {
        return Err("no package sets `wasm = true` in [package.metadata.neuron]".to_owned());
    }
    let mut command = process::cargo(["build", "--target", TARGET]);
    command.args(packages.iter().flat_map(|package| ["-p", package]));
    // Node.js shows no lines of Rust, so the module needs no debug information.
    command.env("CARGO_TARGET_DIR", directory()?).env("CARGO_PROFILE_DEV_DEBUG", "false");
    // As in the profile of the other tests.
    for check in ["debug-assertions", "overflow-checks"] {
        command.args(["--config", &format!("profile.dev.package.\"*\".{check}=false")]);
    }
    // Clippy does not see the code for wasm32.
    command.env("RUSTFLAGS", "-D warnings");
    if !has_installed_target() {
        let rustc = debian::rustc(&metadata.target_directory)?;
        // `build-std` is unstable. `RUSTC_BOOTSTRAP` enables unstable features in a stable compiler.
        command.args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features="]);
        command.env("RUSTC_BOOTSTRAP", "1").env("RUSTC", rustc);
        // Debian's compiler has no linker for wasm32.
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker()?);
    }
    Ok(command)
}

/// Returns the path of `rust-lld` in the default compiler's folder.
fn linker() -> Result<PathBuf, String> {
    let mut command = process::rustc();
    command.args(["--print", "target-libdir"]);
    let libraries = process::quietly(command)?;
    let linker = Path::new(libraries.trim()).with_file_name("bin").join("rust-lld");
    match linker.is_file() {
        true => Ok(linker),
        false => Err(format!("there is no linker {}", linker.display())),
    }
}

/// Returns `true` if the default compiler has the `core` library for wasm32.
fn has_installed_target() -> bool {
    let mut command = process::rustc();
    command.args(["--print", "target-libdir", "--target", TARGET]);
    let folder = process::quietly(command);
    let files = folder.ok().and_then(|folder| Path::new(&folder).read_dir().ok());
    files.into_iter().flatten().flatten().any(|file| {
        let name = file.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libcore") && name.ends_with(".rlib")
    })
}
