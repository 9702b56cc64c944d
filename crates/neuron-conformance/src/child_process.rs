//! Child processes for tests of crash safety, and of environment variables.
//!
//! A test starts its own binary again with its own name as the filter. In the child, [`task`] returns the argument of
//! [`ChildProcess::start`]. The child sends lines with [`report`]. The parent receives them with
//! [`ChildProcess::next_report`] and kills the child with [`ChildProcess::kill`].
//!
//! ```no_run
//! use std::time::Duration;
//! use neuron_conformance::child_process::{self, ChildProcess};
//!
//! # /*
//! #[test]
//! # */
//! fn survives() {
//!     if let Some(path) = child_process::task() {
//!         for number in 0.. {
//!             std::fs::write(&path, number.to_string()).unwrap();
//!             child_process::report(&number.to_string());
//!         }
//!     }
//!     let mut child = ChildProcess::start("survives", "/tmp/number");
//!     child.next_report(Duration::from_secs(60)).expect("a report");
//!     let last = child.kill().pop().expect("a report");
//!     // Compare the file with `last`.
//! }
//! ```

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Environment variable with the task of a child.
const VARIABLE: &str = "NEURON_CHILD_TASK";

/// Prefix of a report. The test runner prints other lines to the same stream.
const MARK: &str = "@child ";

/// Returns the task of this process, or `None` if it is not a child.
///
/// From then on, the child exits when its parent exits.
#[must_use]
pub fn task() -> Option<String> {
    let task = std::env::var(VARIABLE).ok()?;
    std::thread::spawn(|| {
        // The parent holds the other end, so end of file means that the parent has ended.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    Some(task)
}

/// Runs one test again in a child process with these additional environment variables, and returns `true` there.
///
/// Returns `false` in the first process, after the test has passed in the child process. `test` is the path of the test
/// function. It must begin with the crate: `concat!(module_path!(), "::name")`.
///
/// # Panics
///
/// Panics if the test fails in the child process. The message is the output of that process.
///
/// # Example
///
/// ```no_run
/// use neuron_conformance::child_process::run_with_environment;
///
/// # /*
/// #[test]
/// # */
/// fn reads_its_variable() {
///     if run_with_environment(concat!(module_path!(), "::reads_its_variable"), [("COLOUR", "red")]) {
///         assert_eq!(std::env::var("COLOUR").as_deref(), Ok("red"));
///     }
/// }
/// ```
#[must_use]
#[expect(clippy::panic, clippy::expect_used, reason = "for tests")]
pub fn run_with_environment(
    test: &str,
    variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
) -> bool {
    const CHILD: &str = "NEURON_CHILD_ENVIRONMENT";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let (_crate, name) = test.split_once("::").expect("a path that begins with the crate");
    let binary = std::env::current_exe().expect("the path of this binary");
    let mut command = Command::new(binary);
    command.args([name, "--exact", "--nocapture"]).env(CHILD, "1").envs(variables);
    let output = command.output().expect("a process");
    let shown = String::from_utf8_lossy(&output.stdout);
    let has_passed = output.status.success() && shown.contains("1 passed");
    if !has_passed {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("`{name}` failed with other environment variables:\n{shown}\n{errors}");
    }
    false
}

/// Sends one line to the parent.
///
/// # Panics
///
/// Panics if the parent has ended.
#[expect(clippy::expect_used, reason = "for tests")]
pub fn report(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = write!(stdout, "\n{MARK}{text}\n").and_then(|()| stdout.flush());
    written.expect("the parent reads reports");
}

/// A process that runs one test of this binary. It is killed on drop.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    reports: Receiver<String>,
    /// All reports received so far.
    received: Vec<String>,
}

impl ChildProcess {
    /// Starts this binary again with the full name of one test, and a task for it.
    ///
    /// # Panics
    ///
    /// Panics if the process does not start.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn start(test: &str, task: &str) -> Self {
        let binary = std::env::current_exe().expect("the path of this binary");
        let mut child = Command::new(binary)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let stdout = child.stdout.take().expect("its output");
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Some(text) = line.strip_prefix(MARK) else { continue };
                if sender.send(text.to_owned()).is_err() {
                    break;
                }
            }
        });
        Self { child, reports, received: Vec::new() }
    }

    /// Waits for the next report. Returns `None` after `longest`, and if the process has ended.
    pub fn next_report(&mut self, longest: Duration) -> Option<String> {
        let report = self.reports.recv_timeout(longest).ok()?;
        self.received.push(report.clone());
        Some(report)
    }

    /// Returns `true` if the process has ended by itself. Its last reports can still be received.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Kills the process with `SIGKILL` and returns all of its reports.
    ///
    /// # Panics
    ///
    /// Panics if the process has ended by itself.
    #[must_use]
    #[expect(clippy::panic, clippy::expect_used, reason = "for tests")]
    pub fn kill(mut self) -> Vec<String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!(
                "the process ended by itself, {status}; its last report: {:?}",
                self.received.last()
            );
        }
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
        let mut received = std::mem::take(&mut self.received);
        // The pipe still holds all output from before the kill.
        received.extend(self.reports.iter());
        received
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
