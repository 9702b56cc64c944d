//! Runs other programs, such as cargo, in the workspace's root.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use neuron_testkit::command::{cannot_start, display, quietly};
use serde_json::Value;

/// Returns the root folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// Returns a command that runs the program `name` in the root of the workspace.
///
/// The command does not inherit the variables that `cargo run` sets for xtask's own package, such as
/// `CARGO_MANIFEST_DIR`. With these variables, some build scripts would run again whenever a developer uses `cargo`
/// directly after `cargo xtask`.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root());
    hide_variables(&mut command, |key| {
        key.starts_with("CARGO_PKG_") || key.starts_with("CARGO_MANIFEST_")
    });
    command
}

/// Removes the environment variables for which `is_hidden` returns `true` from the environment that a command inherits.
pub(crate) fn hide_variables(command: &mut Command, is_hidden: impl Fn(&str) -> bool) {
    for (key, _) in std::env::vars_os() {
        if is_hidden(&key.to_string_lossy()) {
            command.env_remove(&key);
        }
    }
}

/// Returns a command that runs cargo with `args`. The cargo is the same one that started xtask.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    if BUILDS_ONCE.load(Ordering::Relaxed) {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// `true` if cargo must build without incremental data.
static BUILDS_ONCE: AtomicBool = AtomicBool::new(false);

/// Disables incremental data for all later builds, if the target folder contains none yet.
///
/// A fresh clone, as on CI, is built only once. The data would not be used, and would be large.
pub(crate) fn build_once_in(target: &Path) {
    let kept = fs::read_dir(target.join("checked/incremental")).into_iter().flatten().flatten();
    let is_library = |name: OsString| name.to_string_lossy().starts_with("neuron_types-");
    let builds_once = !kept.map(|folder| folder.file_name()).any(is_library);
    BUILDS_ONCE.store(builds_once, Ordering::Relaxed);
}

/// Returns a command that runs the compiler that cargo uses.
pub(crate) fn rustc() -> Command {
    program(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// Runs a command with our standard input and output. Returns an error if it fails.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{}` ended with {status}", display(&command))),
        Err(error) => Err(cannot_start(&command, &error)),
    }
}

/// Runs a command and returns its standard output. Its standard error is not captured. Returns an error if the command
/// fails.
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

/// A program that runs beside this one, without input. It is killed if this value is dropped before it ended.
pub(crate) struct Background {
    command: String,
    child: Child,
    output: PathBuf,
    messages: PathBuf,
}

impl Background {
    /// Starts a program. Its standard output and standard error are written to files in `folder`, which exist as long as
    /// this value.
    pub(crate) fn start(mut command: Command, folder: &Path) -> Result<Self, String> {
        let cannot = |error| format!("cannot write in {}: {error}", folder.display());
        let id = std::process::id();
        let [output, messages] =
            ["output", "messages"].map(|name| folder.join(format!("{name}-{id}.txt")));
        fs::create_dir_all(folder).map_err(cannot)?;
        command.stdin(Stdio::null()).stdout(File::create(&output).map_err(cannot)?);
        command.stderr(File::create(&messages).map_err(cannot)?);
        let child = command.spawn().map_err(|error| cannot_start(&command, &error))?;
        Ok(Self { command: display(&command), child, output, messages })
    }

    /// Waits for the end of the program, copies its standard error to ours, and returns its standard output. Returns an
    /// error if the program failed.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        let cannot = |error| format!("cannot wait for `{}`: {error}", self.command);
        let status = self.child.wait().map_err(cannot)?;
        eprint!("{}", String::from_utf8_lossy(&fs::read(&self.messages).map_err(cannot)?));
        let output = fs::read(&self.output).map_err(cannot)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        if status.success() {
            return Ok(output);
        }
        // Without cargo's messages in JSON.
        let is_message = |line: &&str| line.starts_with("{\"reason\":");
        output.lines().filter(|line| !is_message(line)).for_each(|line| eprintln!("{line}"));
        Err(format!("`{}` ended with {status}", self.command))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The errors are ignored, because the program may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
        for file in [&self.output, &self.messages] {
            fs::remove_file(file).ok();
        }
    }
}

/// Returns the programs that a build created, as pairs of source file and program. `output` is the output of cargo with
/// `--message-format=json-render-diagnostics`.
///
/// A source file with unit tests has two programs: `is_test` selects the program with its tests.
pub(crate) fn programs(output: &str, is_test: bool) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    output.lines().filter_map(move |line| {
        let message: Value = serde_json::from_str(line).ok()?;
        if message.pointer("/profile/test").and_then(Value::as_bool).unwrap_or(false) != is_test {
            return None;
        }
        let path = |pointer| message.pointer(pointer)?.as_str().map(PathBuf::from);
        Some((path("/target/src_path")?, path("/executable")?))
    })
}

/// The result of a program that [`run_within`] ran.
pub(crate) enum Ending {
    /// The program succeeded. The field is its output.
    Success(String),
    /// The program failed. The fields are its exit status and its output.
    Failure(ExitStatus, String),
    /// The program exceeded the time limit and was killed.
    TimedOut,
}

/// Runs a command without input, and kills it after `limit`.
///
/// Standard output and standard error are written to the file `output`.
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
                // The errors are ignored, because the program may have ended by itself in the meantime.
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

    /// Runs a script in the background, in a folder of its own that is removed after `end`.
    fn in_background<T>(script: &str, name: &str, end: impl FnOnce(Background) -> T) -> T {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let mut command = program("sh");
        command.args(["-c", script]);
        let ended = end(Background::start(command, &folder).unwrap());
        // Fails if a file is left.
        fs::remove_dir(&folder).unwrap();
        ended
    }

    #[test]
    fn a_program_in_the_background_returns_its_output_or_its_status() {
        let success = in_background("echo a; echo b >&2", "success", Background::finish);
        assert_eq!(success, Ok("a\n".to_owned()));
        let failure = in_background("echo a; exit 3", "failure", Background::finish);
        assert!(failure.unwrap_err().ends_with("ended with exit status: 3"));
    }

    #[test]
    fn a_program_in_the_background_is_killed_when_it_is_dropped() {
        let start = Instant::now();
        in_background("exec sleep 60", "dropped", drop);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn programs_are_found_among_the_messages_of_a_build() {
        let messages = "not json\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"src_path\":\"/a.rs\"},\"executable\":null}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"src_path\":\"/b.rs\"},\"executable\":\"/t/b\"}\n\
            {\"profile\":{\"test\":true},\"target\":{\"src_path\":\"/b.rs\"},\"executable\":\"/t/b-test\"}\n";
        let found: Vec<_> = programs(messages, false).collect();
        assert_eq!(found, [("/b.rs".into(), "/t/b".into())]);
        let found: Vec<_> = programs(messages, true).collect();
        assert_eq!(found, [("/b.rs".into(), "/t/b-test".into())]);
        assert_eq!(programs("", false).count(), 0);
    }
}
