//! The compiler of the packages of this workspace, for the build that the steps of a tier share.
//!
//! Cargo starts this program in place of rustc, as `xtask /path/to/rustc ARGUMENTS`, for each package of the workspace
//! (`build.rustc-workspace-wrapper`, see [`cargo`](super::compiler::cargo)). It compiles the crate with clippy's driver, which
//! is rustc with more lints. So one build gives the lints, the programs of all tests, and what the documentation needs,
//! where `cargo clippy`, `cargo doc` and `cargo test` would type-check each crate three times.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{process, workspace};

/// Name of the folder with the calls of the compiler, in the folder of a profile.
const CALLS: &str = "documentation";

/// A successful call of the compiler. rustdoc needs the same arguments and variables.
#[derive(Serialize, Deserialize)]
struct Call {
    args: Vec<String>,
    /// The variables that cargo sets for the crate, such as `CARGO_PKG_VERSION` and `OUT_DIR`.
    variables: BTreeMap<String, String>,
}

/// Returns `true` if cargo started this program as a compiler. `first` is the first argument.
pub(crate) fn is_meant(first: &str) -> bool {
    Path::new(first).file_stem() == Some(OsStr::new("rustc"))
}

/// Compiles a crate with clippy's driver. Warnings are errors. `args` are the path of rustc and its arguments.
pub(crate) fn compile(args: &[&str]) -> ExitCode {
    match try_compile(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn try_compile(args: &[&str]) -> Result<(), String> {
    let (rustc, args) = args.split_first().ok_or("the compiler is missing")?;
    let mut command = Command::new(sibling(rustc, "clippy-driver"));
    // The driver takes the path of rustc for its first argument, as in `cargo clippy`.
    command.arg(rustc).args(args).args(["-D", "warnings"]);
    let status = command.status().map_err(|error| {
        let program = command.get_program().display();
        format!("cannot start {program}: {error}. Install it with `rustup component add clippy`")
    })?;
    if !status.success() {
        // The driver has reported the reason.
        std::process::exit(status.code().unwrap_or(1));
    }
    match file_of(args) {
        Some(file) => write(&file, args),
        None => Ok(()),
    }
}

/// Returns the path of another program in the folder of rustc. Without a folder, the program is looked up in `PATH`.
fn sibling(rustc: &str, program: &str) -> PathBuf {
    Path::new(rustc).with_file_name(program)
}

/// Returns the file for a call of the compiler, or `None` if the call compiles nothing that has documentation.
fn file_of(args: &[&str]) -> Option<PathBuf> {
    let value = |name| args.iter().skip_while(|arg| **arg != name).nth(1).copied();
    let (name, kind, folder) =
        (value("--crate-name")?, value("--crate-type")?, value("--out-dir")?);
    let is_documented = ["lib", "proc-macro", "bin"].contains(&kind)
        && !args.contains(&"--test")
        && name != "build_script_build";
    // Libraries are built in `deps`, and examples, which have no documentation, in `examples`.
    let folder = Path::new(folder);
    let profile = folder.parent().filter(|_| is_documented && folder.ends_with("deps"))?;
    Some(profile.join(CALLS).join(format!("{name}-{kind}.json")))
}

fn write(file: &Path, args: &[&str]) -> Result<(), String> {
    let cannot = |error| format!("cannot write {}: {error}", file.display());
    let is_of_crate =
        |key: &str| key == "OUT_DIR" || key.starts_with("CARGO_") && key != "CARGO_MAKEFLAGS";
    let call = Call {
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        variables: std::env::vars().filter(|(key, _)| is_of_crate(key)).collect(),
    };
    let json = serde_json::to_string(&call).map_err(|error| error.to_string())?;
    fs::create_dir_all(file.parent().unwrap_or(file)).map_err(cannot)?;
    fs::write(file, json).map_err(cannot)
}

/// Writes the documentation of the crates that were compiled since this function last succeeded for them. Warnings are
/// errors, such as a link to an item that does not exist.
///
/// `profile` is the folder of the profile, such as `target/checked`.
pub(crate) fn document(profile: &Path) -> Result<(), String> {
    let output = workspace::members()?.target_directory.join("doc");
    let calls = fs::read_dir(profile.join(CALLS)).into_iter().flatten().flatten();
    let mut calls: Vec<PathBuf> = calls.map(|entry| entry.path()).collect();
    calls.sort();
    let count = calls.len();
    let (calls, failed) = (Mutex::new(calls), Mutex::new(Vec::new()));
    let next = || calls.lock().unwrap_or_else(PoisonError::into_inner).pop();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(call) = next() {
                    if let Err(reason) = document_one(&call, &output) {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
                    }
                }
            });
        }
    });
    println!("documented {count} crates in {}", output.display());
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner).as_slice() {
        [] => Ok(()),
        failed => Err(failed.join("\n")),
    }
}

/// Runs rustdoc with the arguments of a call of the compiler, and then forgets the call.
fn document_one(file: &Path, output: &Path) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let json = fs::read(file).map_err(|error| cannot(&error))?;
    let call: Call = serde_json::from_slice(&json).map_err(|error| cannot(&error))?;
    let mut command = process::program(std::env::var_os("RUSTDOC").unwrap_or("rustdoc".into()));
    command.args(for_rustdoc(&call.args)).arg("--out-dir").arg(output);
    command.args(["-D", "warnings"]).envs(call.variables);
    process::run(command)?;
    fs::remove_file(file).map_err(|error| cannot(&error))
}

/// Returns the arguments of rustc that rustdoc has too.
fn for_rustdoc(args: &[String]) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut args = args.iter().map(String::as_str).peekable();
    while let Some(arg) = args.next() {
        match arg {
            // The result, and how it is written. The messages are for people here.
            "-C" | "--emit" | "--out-dir" => {
                args.next();
            }
            _ if ["-C", "--emit=", "--error-format=", "--json=", "--diagnostic-width="]
                .iter()
                .any(|start| arg.starts_with(start)) => {}
            "--crate-type" => {
                // The items of a program are private.
                match args.next() {
                    Some("bin") => kept.extend(["--crate-type", "bin", "--document-private-items"]),
                    kind => kept.extend([arg].into_iter().chain(kind)),
                }
            }
            arg => kept.push(arg),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "--crate-name neuron_types --edition=2024 crates/neuron-types/src/lib.rs --error-format=json \
        --json=artifacts --crate-type lib --emit=dep-info,metadata,link -C embed-bitcode=no -Cdebuginfo=0 \
        --cfg feature=\"a\" --out-dir /t/checked/deps -L dependency=/t/checked/deps --extern serde=/t/libserde.rmeta";

    fn args(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn rustc_is_told_from_commands() {
        for (first, expected) in
            [("/toolchain/bin/rustc", true), ("rustc", true), ("test", false), ("faults", false)]
        {
            assert_eq!(is_meant(first), expected, "{first}");
        }
    }

    #[test]
    fn libraries_and_programs_are_documented_but_no_tests_and_no_examples() {
        let file = |text: &str| file_of(&args(text));
        let expected = Some(PathBuf::from("/t/checked/documentation/neuron_types-lib.json"));
        assert_eq!(file(CALL), expected);
        assert!(file(&CALL.replace("--crate-type lib", "--crate-type bin")).is_some());
        for other in [
            CALL.replace("--crate-type lib", "--crate-type bin --test"),
            CALL.replace("--crate-type lib", "--test"),
            CALL.replace("/t/checked/deps --extern", "/t/checked/deps")
                .replace("--out-dir /t/checked/deps", "--out-dir /t/checked/examples"),
            CALL.replace("neuron_types", "build_script_build"),
            "-vV".to_owned(),
        ] {
            assert_eq!(file(&other), None, "{other}");
        }
    }

    #[test]
    fn rustdoc_gets_the_crate_and_its_dependencies_but_not_its_output() {
        let call: Vec<String> = args(CALL).into_iter().map(str::to_owned).collect();
        let expected = "--crate-name neuron_types --edition=2024 crates/neuron-types/src/lib.rs --crate-type lib \
            --cfg feature=\"a\" -L dependency=/t/checked/deps --extern serde=/t/libserde.rmeta";
        assert_eq!(for_rustdoc(&call), args(expected));
    }
}
