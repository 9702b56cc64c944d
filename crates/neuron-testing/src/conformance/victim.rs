//! A process that is killed: for tests of what must survive that.
//!
//! The test starts its own binary again, with its own name, and so comes to itself in another process,
//! where [`errand`] says what to do. That process tells how far it is with [`tell`]; the test reads it
//! with [`Victim::report`], and kills the process with [`Victim::kill`].
//!
//! ```no_run
//! use std::time::Duration;
//! use neuron_testing::conformance::victim::{self, Victim};
//!
//! # /*
//! #[test]
//! # */
//! fn survives() {
//!     if let Some(path) = victim::errand() {
//!         for number in 0.. {
//!             std::fs::write(&path, number.to_string()).unwrap();
//!             victim::tell(&number.to_string());
//!         }
//!     }
//!     let mut victim = Victim::start("survives", "/tmp/number");
//!     victim.report(Duration::from_secs(60)).expect("it begins");
//!     let last = victim.kill().pop().expect("what it told");
//!     // … and now look at the file.
//! }
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The variable that holds the errand.
const VARIABLE: &str = "NEURON_VICTIM_ERRAND";

/// What lines begin with that were told: the test runner prints others.
const MARK: &str = "@victim ";

/// Returns what this process is to do until it is killed; none in the process of the test itself.
///
/// A process that was started so ends as soon as the one that started it does.
#[must_use]
pub fn errand() -> Option<String> {
    let errand = std::env::var(VARIABLE).ok()?;
    std::thread::spawn(|| {
        // The other end is open for as long as the test lives.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(1);
    });
    Some(errand)
}

/// Tells something, one line, to the test that started this process.
///
/// # Panics
///
/// When that test is gone.
#[expect(clippy::expect_used, reason = "for tests")]
pub fn tell(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let told = write!(stdout, "\n{MARK}{text}\n").and_then(|()| stdout.flush());
    told.expect("the test listens");
}

/// A process that runs one test of this binary. Dropping it kills it.
#[derive(Debug)]
pub struct Victim {
    child: Child,
    reports: Receiver<String>,
    /// All that was told so far.
    told: Vec<String>,
}

impl Victim {
    /// Starts this binary again, with the test of this full name alone, and an errand for it.
    ///
    /// # Panics
    ///
    /// When there is no such process to be had.
    #[must_use]
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn start(test: &str, errand: &str) -> Self {
        let binary = std::env::current_exe().expect("the path of this binary");
        let mut child = Command::new(binary)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, errand)
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
        Self { child, reports, told: Vec::new() }
    }

    /// Waits for what it tells next; none when it has ended, or tells nothing for so long.
    pub fn report(&mut self, longest: Duration) -> Option<String> {
        let report = self.reports.recv_timeout(longest).ok()?;
        self.told.push(report.clone());
        Some(report)
    }

    /// Whether it has ended by itself. What it told before may still be [reported](Self::report).
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Kills the process, as nobody can prevent it, and returns all that it told.
    ///
    /// # Panics
    ///
    /// When it has ended by itself.
    #[must_use]
    #[expect(clippy::panic, clippy::expect_used, reason = "for tests")]
    pub fn kill(mut self) -> Vec<String> {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the process ended by itself, {status}; it told {:?}", self.told.last());
        }
        // `SIGKILL`, or what is like it.
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
        let mut told = std::mem::take(&mut self.told);
        // What was written before the end is still in the pipe.
        told.extend(self.reports.iter());
        told
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
