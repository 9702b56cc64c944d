//! Starting other programs from the workspace's root.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

pub(crate) use neuron_testkit::command::{cannot_start, display, quietly};

/// The folder with the workspace's manifest.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// A program that runs in the workspace's root.
///
/// `cargo run` tells xtask about xtask's own package (`CARGO_PKG_NAME`, `CARGO_MANIFEST_DIR`, …).
/// Those variables stop here: build scripts that watch them would run again each time a developer
/// changes between `cargo xtask test` and plain cargo.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&key);
        }
    }
    command
}

/// The cargo that started xtask.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Runs a command on our terminal.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", display(&command))),
        Err(error) => Err(cannot_start(&command, &error)),
    }
}

/// Runs a command and returns its standard output; its errors go to our terminal.
pub(crate) fn capture(mut command: Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| cannot_start(&command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` ended with {}", display(&command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("`{}` printed something other than UTF-8", display(&command)))
}

/// How a program ended that [`run_within`] ran.
pub(crate) enum Ending {
    Success,
    /// The exit status, and the output.
    Failure(ExitStatus, String),
    /// The program exceeded the limit and was killed.
    TimedOut,
}

/// Runs a command without input. Its output goes to a file, which nobody has to read while the command runs.
pub(crate) fn run_within(
    mut command: Command,
    output: &Path,
    limit: Duration,
) -> Result<Ending, String> {
    let in_output = |error| format!("cannot write {}: {error}", output.display());
    let file = File::create(output).map_err(in_output)?;
    command.stdin(Stdio::null()).stderr(file.try_clone().map_err(in_output)?).stdout(file);
    let mut child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
    let start = Instant::now();
    loop {
        let status = child.try_wait().map_err(|error| format!("cannot wait: {error}"))?;
        match status {
            Some(status) if status.success() => return Ok(Ending::Success),
            Some(status) => {
                let text = fs::read(output).map_err(in_output)?;
                return Ok(Ending::Failure(status, String::from_utf8_lossy(&text).into_owned()));
            }
            None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            None => {
                // If it ends by itself in between, there is nothing to kill.
                child.kill().ok();
                child.wait().ok();
                return Ok(Ending::TimedOut);
            }
        }
    }
}
