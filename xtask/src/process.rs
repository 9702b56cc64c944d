//! Starts other programs in the workspace's root.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use neuron_testkit::command::{cannot_start, display, quietly};
use serde_json::Value;

/// Returns the folder with the workspace's manifest.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns a command for a program that runs in the workspace's root.
///
/// `cargo run` sets variables about xtask's own package (`CARGO_PKG_NAME`, `CARGO_MANIFEST_DIR`, …). The program does
/// not get them. Otherwise build scripts that watch these variables would run again each time a developer changes
/// between `cargo xtask test` and plain cargo.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    hide_variables(&mut command, |key| {
        key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_")
    });
    command
}

/// Removes variables of our environment from a command.
pub(crate) fn hide_variables(command: &mut Command, is_hidden: impl Fn(&str) -> bool) {
    for (key, _) in std::env::vars_os() {
        if is_hidden(&key.to_string_lossy()) {
            command.env_remove(&key);
        }
    }
}

/// Returns a command of the cargo that started xtask.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    if BUILDS_ONCE.load(Ordering::Relaxed) {
        command.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "false");
    }
    command
}

/// Whether cargo keeps nothing for incremental builds and debuggers.
static BUILDS_ONCE: AtomicBool = AtomicBool::new(false);

/// Lets cargo keep nothing for incremental builds and debuggers if it has kept nothing of the libraries so far, as in a
/// fresh clone. What it keeps would be half of the target folder.
pub(crate) fn build_once_in(target: &Path) {
    let kept = fs::read_dir(target.join("debug/incremental")).into_iter().flatten().flatten();
    let is_library = |name: OsString| name.to_string_lossy().starts_with("neuron_types-");
    let builds_once = !kept.map(|folder| folder.file_name()).any(is_library);
    BUILDS_ONCE.store(builds_once, Ordering::Relaxed);
}

/// Returns a command of the compiler that cargo calls.
pub(crate) fn rustc() -> Command {
    program(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Runs a command with our standard input and output.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", display(&command))),
        Err(error) => Err(cannot_start(&command, &error)),
    }
}

/// Runs a command and returns its standard output. Its standard error is ours.
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

/// Returns each program that a build made, with its source file in front. `output` is the output of a build with
/// `--message-format=json-render-diagnostics`.
pub(crate) fn programs(output: &str) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    output.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = |pointer| message.pointer(pointer)?.as_str().map(PathBuf::from);
        Some((path("/target/src_path")?, path("/executable")?))
    })
}

/// The end of a program that [`run_within`] ran.
pub(crate) enum Ending {
    /// The output.
    Success(String),
    /// The exit status, and the output.
    Failure(ExitStatus, String),
    /// The program exceeded the limit and was killed.
    TimedOut,
}

/// Runs a command without input. Its output goes to a file, so nothing has to read it while the command runs.
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
            Some(status) => {
                let text = fs::read(output).map_err(in_output)?;
                let text = String::from_utf8_lossy(&text).into_owned();
                return Ok(match status.success() {
                    true => Ending::Success(text),
                    false => Ending::Failure(status, text),
                });
            }
            None if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            None => {
                // If it has ended by itself by now, there is nothing to kill.
                child.kill().ok();
                child.wait().ok();
                return Ok(Ending::TimedOut);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_the_messages_of_a_build() {
        let messages = "not json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"src_path\":\"/a.rs\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"src_path\":\"/b.rs\"},\"executable\":\"/t/b\"}\n";
        let found: Vec<_> = programs(messages).collect();
        assert_eq!(found, [("/b.rs".into(), "/t/b".into())]);
        assert_eq!(programs("").count(), 0);
    }
}
