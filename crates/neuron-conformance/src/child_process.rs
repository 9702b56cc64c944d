//! Runs a test in a child process that the test can kill or give other environment variables.
//!
//! [`ChildProcess::start`] runs the binary of the calling test again, with the name of this test as the filter. In the
//! child process, [`task`] returns the argument of [`ChildProcess::start`]. The child process sends lines with
//! [`report`]. The parent receives the lines with [`ChildProcess::next_report`] and kills the child process with
//! [`ChildProcess::kill`].
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

/// Environment variable with the task of a child process.
const VARIABLE: &str = "NEURON_CHILD_TASK";

/// Prefix of a line with a report. The test runner prints other lines to stdout too.
const MARK: &str = "@child ";

/// Returns the task that [`ChildProcess::start`] passed to this child process. Returns `None` in any other process.
///
/// After this call, the child process exits when its parent exits.
#[must_use]
pub fn task() -> Option<String> {
    let task = std::env::var(VARIABLE).ok()?;
    std::thread::spawn(|| {
        // Only the parent has the write end of this pipe, so end of file means that the parent has exited.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    Some(task)
}

/// Runs a test again in a child process that has additional environment variables.
///
/// Returns `true` in the child process. Returns `false` in the calling process, after the test has passed in the child
/// process. `test` is the path of the calling test, including the crate's name. Use `concat!(module_path!(),
/// "::name")`.
///
/// # Panics
///
/// Panics if the test fails in the child process. The message contains the output of the child process.
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
    // A filter that matches no test also succeeds, so the output is checked too.
    let has_passed = output.status.success() && shown.contains("1 passed");
    if !has_passed {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("`{name}` failed with other environment variables:\n{shown}\n{errors}");
    }
    false
}

/// Sends one line from the child process to its parent.
///
/// # Panics
///
/// Panics if the parent has exited.
#[expect(clippy::expect_used, reason = "for tests")]
pub fn report(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let written = write!(stdout, "\n{MARK}{text}\n").and_then(|()| stdout.flush());
    written.expect("the parent reads reports");
}

/// A child process that runs one test of this binary. Dropping the value kills the process.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    reports: Receiver<String>,
    /// All reports that [`next_report`](Self::next_report) has returned.
    received: Vec<String>,
}

impl ChildProcess {
    /// Starts a child process that runs the test `test` of this binary. There, [`task`] returns the argument `task`.
    ///
    /// `test` is the full name of the test, as the test runner prints it.
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

    /// Waits for the next report. Returns `None` after `longest`, or if the process has exited and no report is left.
    pub fn next_report(&mut self, longest: Duration) -> Option<String> {
        let report = self.reports.recv_timeout(longest).ok()?;
        self.received.push(report.clone());
        Some(report)
    }

    /// Returns `true` if the process has exited. [`next_report`](Self::next_report) still returns its last reports.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Kills the child process with `SIGKILL`. Returns all reports that the child process sent.
    ///
    /// # Panics
    ///
    /// Panics if the process exited before it was killed.
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
        // The kernel keeps all output that the process wrote before the kill in the pipe.
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
