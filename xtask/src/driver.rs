//! The compiler of the packages of this workspace, for the build that the steps of a tier share.
//!
//! Cargo starts this program in place of rustc, as `xtask /path/to/rustc ARGUMENTS`, for each package of the workspace
//! (`build.rustc-workspace-wrapper`, see [`cargo`](super::compiler::cargo)). It compiles the crate with clippy's driver,
//! which is rustc with more lints. So one build gives the lints, the programs of all tests, and what the documentation
//! needs, where `cargo clippy`, `cargo doc` and `cargo test` would type-check each crate three times.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{process, workspace};

/// Name of the folder with the calls of the compiler, in the folder of a profile.
const CALLS: &str = "documentation";

/// Extension of the file of a call.
const NEW: &str = "json";

/// Extension of the file of a call, after the crate was documented.
const DOCUMENTED: &str = "documented";

/// A successful call of the compiler. rustdoc needs the same arguments and variables.
#[derive(Serialize, Deserialize)]
struct Call {
    /// A call that an older version of this program recorded has the default compiler's name.
    #[serde(default = "default_compiler")]
    rustc: String,
    args: Vec<String>,
    /// The variables that cargo sets for the crate, such as `CARGO_PKG_VERSION` and `OUT_DIR`.
    variables: BTreeMap<String, String>,
}

fn default_compiler() -> String {
    "rustc".to_owned()
}

/// Returns the path of a copy of this program, which names the version of this file.
///
/// Cargo compares the path of the compiler, and not its content. Under one path, a build in an older folder would keep
/// what an earlier version of this file compiled.
pub(crate) fn program() -> Result<PathBuf, String> {
    let mut version = DefaultHasher::new();
    include_bytes!("driver.rs").hash(&mut version);
    let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let folder = workspace::members()?.target_directory.join("driver");
    let copy = folder.join(format!("{:016x}{}", version.finish(), std::env::consts::EXE_SUFFIX));
    if !copy.is_file() {
        // Renamed when it is complete, because another process may look for it.
        let part = folder.join(format!("{}.part", std::process::id()));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::copy(&this, &part))
            .and_then(|_| fs::rename(&part, &copy))
            .map_err(|error| format!("cannot write {}: {error}", copy.display()))?;
    }
    Ok(copy)
}

/// Returns `true` if cargo started this program as a compiler. `first` is the first argument.
pub(crate) fn is_meant(first: &str) -> bool {
    let name = Path::new(first).file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.starts_with("rustc"))
}

/// Name of a copy of this program that compiles the crates with the deliberate faults.
pub(crate) const WITH_FAULTS: &str = "with-faults";

/// Compiles a crate with clippy's driver. Warnings are errors. `args` are the path of rustc and its arguments.
///
/// A program with the name [`WITH_FAULTS`] compiles the sources in its own folder instead, if the folder has the crate.
/// It does not lint.
pub(crate) fn compile(args: &[&str]) -> ExitCode {
    let this = std::env::current_exe().unwrap_or_default();
    let with_faults = this.parent().filter(|_| this.file_stem() == Some(OsStr::new(WITH_FAULTS)));
    let result = match with_faults {
        Some(folder) => compile_in(folder, args),
        None => try_compile(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles a crate whose source may be in `folder`.
fn compile_in(folder: &Path, args: &[&str]) -> Result<(), String> {
    let (rustc, args) = args.split_first().ok_or("the compiler is missing")?;
    let mut command = Command::new(rustc);
    // The test program keeps its optimisation: it runs for many faults.
    for arg in args {
        let source = folder.join(arg);
        match arg.ends_with(".rs") && source.is_file() {
            true => command.arg(source),
            false => command.arg(arg),
        };
    }
    run(command, "with rustup")
}

/// Runs a compiler, which reports its own errors. `source` is where to get it.
fn run(mut command: Command, source: &str) -> Result<(), String> {
    let status = command.status().map_err(|error| {
        let program = command.get_program().display();
        format!("cannot start {program}: {error}. Install it {source}")
    })?;
    if !status.success() {
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}

fn try_compile(args: &[&str]) -> Result<(), String> {
    let (rustc, args) = args.split_first().ok_or("the compiler is missing")?;
    let mut command = Command::new(sibling(rustc, "clippy-driver"));
    // The driver takes the path of rustc for its first argument, as in `cargo clippy`.
    command.arg(rustc).args(without_optimization(args)).args(["-D", "warnings"]);
    run(command, "with `rustup component add clippy`")?;
    match file_of(args) {
        Some(file) => write(&file, rustc, args),
        None => Ok(()),
    }
}

/// Returns the arguments of a call that compiles a program of tests without its optimisation level. Other arguments are
/// returned as they are.
///
/// A profile can select levels only for packages. The libraries under test need theirs, because the tests spend their
/// time there. For the tests themselves, the optimisation takes longer than it saves: for the program of the loop, 90
/// CPU seconds instead of 40.
fn without_optimization<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let is_test = args.contains(&"--test");
    let mut kept = Vec::with_capacity(args.len());
    let mut args = args.iter().copied().peekable();
    while let Some(arg) = args.next() {
        match arg {
            "-C" if is_test && args.peek().is_some_and(|next| next.starts_with("opt-level=")) => {
                args.next();
            }
            _ => kept.push(arg),
        }
    }
    kept
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
    Some(profile.join(CALLS).join(format!("{name}-{kind}.{NEW}")))
}

/// Returns `true` if cargo sets the variable for the compiler. Other variables can be secrets.
fn is_of_crate(key: &str) -> bool {
    let parts = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"];
    let names = ["OUT_DIR", "CARGO", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];
    names.contains(&key) || parts.iter().any(|part| key.starts_with(part))
}

fn write(file: &Path, rustc: &str, args: &[&str]) -> Result<(), String> {
    let cannot = |error| format!("cannot write {}: {error}", file.display());
    let variables = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)));
    let call = Call {
        rustc: rustc.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        variables: variables.filter(|(key, _)| is_of_crate(key)).collect(),
    };
    let json = serde_json::to_string(&call).map_err(|error| error.to_string())?;
    fs::create_dir_all(file.parent().unwrap_or(file)).map_err(cannot)?;
    fs::write(file, json).map_err(cannot)
}

/// Writes the documentation of the crates that were compiled since this function last succeeded for them. Warnings are
/// errors, such as a link to an item that does not exist.
///
/// `crates` are the crates that must be documented. Returns an error if the build did not compile one of them.
pub(crate) fn document(
    target_directory: &Path,
    profile: &str,
    crates: &BTreeSet<String>,
) -> Result<(), String> {
    let output = target_directory.join("doc");
    let folder = target_directory.join(profile).join(CALLS);
    let recorded: Vec<PathBuf> = files(&folder).collect();
    let is_recorded = |name: &String| recorded.iter().any(|file| name_of(file) == Some(name));
    let missing: Vec<&str> =
        crates.iter().filter(|name| !is_recorded(name)).map(String::as_str).collect();
    if !missing.is_empty() {
        return Err(format!(
            "the build recorded no call of the compiler in {} for {}. Set `doc = false` for a crate without documentation",
            folder.display(),
            missing.join(", ")
        ));
    }
    let calls: Vec<PathBuf> = recorded
        .into_iter()
        .filter(|file| file.extension() == Some(OsStr::new(NEW)))
        .filter(|file| name_of(file).is_some_and(|name| crates.contains(name)))
        .collect();
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

/// Returns the files in a folder, in the order of their names.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect::<BTreeSet<_>>().into_iter()
}

/// Returns the name of the crate whose call is in the file. The folder can also have calls for crates that were renamed
/// since, and for crates without documentation.
fn name_of(file: &Path) -> Option<&str> {
    let (name, _) = file.file_stem()?.to_str()?.split_once('-')?;
    Some(name)
}

/// Runs rustdoc with the arguments of a call of the compiler, and then marks the call as documented.
fn document_one(file: &Path, output: &Path) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let json = fs::read(file).map_err(|error| cannot(&error))?;
    let call: Call = serde_json::from_slice(&json).map_err(|error| cannot(&error))?;
    let mut command = process::program(sibling(&call.rustc, "rustdoc"));
    command.args(for_rustdoc(&call.args)).arg("--out-dir").arg(output);
    command.args(["-D", "warnings"]).envs(call.variables);
    process::run(command)?;
    fs::rename(file, file.with_extension(DOCUMENTED)).map_err(|error| cannot(&error))
}

/// Returns the arguments of rustc that rustdoc has too and needs. `RUSTFLAGS` may have added any other.
fn for_rustdoc(args: &[String]) -> Vec<&str> {
    let with_value = ["--crate-name", "--crate-type", "--cfg", "--check-cfg", "--extern", "-L"];
    let in_one =
        ["--edition", "--target", "--cap-lints", "--warn", "--allow", "--deny", "--forbid"];
    let mut kept = Vec::new();
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        if with_value.contains(&arg) {
            let value = args.next();
            kept.extend([arg].into_iter().chain(value));
            if (arg, value) == ("--crate-type", Some("bin")) {
                // The items of a program are private.
                kept.push("--document-private-items");
            }
        } else if arg.ends_with(".rs") || in_one.iter().any(|name| is_set(name, arg)) {
            kept.push(arg);
        }
    }
    kept
}

/// Returns `true` if an argument is the option `name` with a value, such as `--edition=2024`.
fn is_set(name: &str, arg: &str) -> bool {
    arg.strip_prefix(name).is_some_and(|value| value.starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "--crate-name neuron_types --edition=2024 crates/neuron-types/src/lib.rs --error-format=json \
        --json=artifacts --crate-type lib --emit=dep-info,metadata,link -C embed-bitcode=no -Cdebuginfo=0 \
        --warn=missing_docs --cfg feature=\"a\" --out-dir /t/checked/deps -L dependency=/t/checked/deps \
        --extern serde=/t/libserde.rmeta -g --remap-path-prefix=/a=/b -l z";

    fn args(text: &str) -> Vec<&str> {
        text.split_whitespace().collect()
    }

    #[test]
    fn rustc_is_told_from_commands() {
        for (first, expected) in [
            ("/toolchain/bin/rustc", true),
            ("rustc-1.90", true),
            ("test", false),
            ("faults", false),
        ] {
            assert_eq!(is_meant(first), expected, "{first}");
        }
    }

    #[test]
    fn only_tests_lose_their_optimization() {
        let library = ["--crate-name", "a", "-C", "opt-level=1", "-C", "strip=debuginfo"];
        assert_eq!(without_optimization(&library), library);
        let test = [&["--test"], library.as_slice()].concat();
        let expected = ["--test", "--crate-name", "a", "-C", "strip=debuginfo"];
        assert_eq!(without_optimization(&test), expected);
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
    fn variables_that_can_be_secrets_are_not_recorded() {
        for (key, expected) in [
            ("CARGO_PKG_VERSION", true),
            ("CARGO_MANIFEST_DIR", true),
            ("OUT_DIR", true),
            ("CARGO_REGISTRY_TOKEN", false),
            ("CARGO_REGISTRIES_X_TOKEN", false),
            ("OPENAI_API_KEY", false),
        ] {
            assert_eq!(is_of_crate(key), expected, "{key}");
        }
    }

    #[test]
    fn a_file_names_its_crate() {
        for (name, expected) in [
            ("neuron_types-lib.json", Some("neuron_types")),
            ("a-proc-macro.documented", Some("a")),
            ("a.json", None),
        ] {
            assert_eq!(name_of(Path::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn calls_of_an_older_version_are_read() {
        let call: Call = serde_json::from_str(r#"{"args":["a.rs"],"variables":{}}"#).unwrap();
        assert_eq!(sibling(&call.rustc, "rustdoc"), Path::new("rustdoc"));
    }

    #[test]
    fn a_build_without_calls_is_an_error() {
        let crates = BTreeSet::from(["a".to_owned()]);
        let error = document(Path::new("/no/such/folder"), "checked", &crates).unwrap_err();
        assert!(error.starts_with("the build recorded no call of the compiler"), "{error}");
    }

    #[test]
    fn rustdoc_gets_the_crate_and_its_dependencies_but_not_its_output() {
        let call: Vec<String> = args(CALL).into_iter().map(str::to_owned).collect();
        let expected = "--crate-name neuron_types --edition=2024 crates/neuron-types/src/lib.rs --crate-type lib \
            --warn=missing_docs --cfg feature=\"a\" -L dependency=/t/checked/deps --extern serde=/t/libserde.rmeta";
        assert_eq!(for_rustdoc(&call), args(expected));
    }
}
