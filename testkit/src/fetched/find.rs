//! Where a program is: where a variable says, or under `target/`.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use super::program::{NONE, Program};

/// The program. Where it is neither named nor there, `cargo xtask` fetches it.
pub(crate) fn program(program: &Program) -> io::Result<PathBuf> {
    if let Some(value) = std::env::var_os(program.variable).filter(|value| !value.is_empty()) {
        return named(program, &value);
    }
    match below_target(program) {
        Some(path) => Ok(path),
        None => provide_once(program),
    }
}

/// Without a network an attempt takes long, and each test would make one.
fn provide_once(program: &Program) -> io::Result<PathBuf> {
    static TRIED: Mutex<BTreeMap<[&'static str; 2], Result<PathBuf, String>>> =
        Mutex::new(BTreeMap::new());
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let provided = tried
        .entry(program.command)
        .or_insert_with(|| provide(program).map_err(|error| error.to_string()));
    provided.clone().map_err(missing)
}

fn named(program: &Program, value: &std::ffi::OsStr) -> io::Result<PathBuf> {
    let variable = program.variable;
    if value == NONE {
        return Err(missing(format!("{variable} says that there is none")));
    }
    // A server runs in a folder of its own.
    match std::path::absolute(value) {
        Ok(path) if path.is_file() => Ok(path),
        _ => {
            Err(missing(format!("{variable} is {}, which is no file", Path::new(value).display())))
        }
    }
}

/// The program that an earlier call of `cargo xtask` has put there.
fn below_target(program: &Program) -> Option<PathBuf> {
    // Cargo puts the programs of tests and examples below the target folder.
    let own = std::env::current_exe().ok()?;
    let path = Path::new(program.folder).join(program.file);
    own.ancestors().map(|folder| folder.join(&path)).find(|path| path.is_file())
}

fn provide(program: &Program) -> io::Result<PathBuf> {
    let Program { name, command, variable, .. } = program;
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !workspace.join("xtask/Cargo.toml").is_file() {
        return Err(missing(format!("{variable} does not name {name}")));
    }
    let mut xtask = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    xtask.arg("xtask").args(command).current_dir(workspace);
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        // Cargo tells a test about the test's own package.
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            xtask.env_remove(&key);
        }
    }
    let mut xtask = xtask.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // It says what it fetches, which takes a while: whoever waits sees it at once.
    let mut last = String::new();
    for line in xtask.stderr.take().into_iter().flat_map(|said| BufReader::new(said).lines()) {
        last = line?;
        if !last.starts_with("error: ") {
            let _ = writeln!(io::stderr(), "{last}");
        }
    }
    let output = xtask.wait_with_output()?;
    if output.status.success() {
        return Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    }
    Err(missing(format!("`cargo xtask {}`: {last}", command.join(" "))))
}

fn missing(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, reason)
}
