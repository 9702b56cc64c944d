//! Report of a server's end, for error messages.

use std::time::Duration;

use tokio::sync::watch;

use super::process::Life;
use super::stderr::StderrTail;

/// Maximum wait for the exit status, which is available later than the error of the closed pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// The exit status of a server and the last lines of its standard error. Can still be read after the transport was
/// dropped.
#[derive(Debug, Clone)]
pub(crate) struct ExitReport {
    life: watch::Receiver<Life>,
    stderr: StderrTail,
}

impl ExitReport {
    pub(super) fn new(life: watch::Receiver<Life>, stderr: StderrTail) -> Self {
        Self { life, stderr }
    }

    /// Returns the last lines of the server's standard error, at most 20. Each line is truncated to 4 KiB.
    #[cfg(test)]
    pub(super) fn stderr_tail(&self) -> String {
        self.stderr.text()
    }

    /// Describes the end of the server, for example `the server ended with exit status 3; last lines of its stderr: …`.
    /// The text omits the status if the server is running or was stopped by this client, and omits an empty standard
    /// error. Returns `None` if both are omitted.
    ///
    /// Waits at most one second for the server's end. Cancel safe.
    pub(crate) async fn describe(&self) -> Option<String> {
        self.describe_within(PATIENCE).await
    }

    /// Returns a text about the server's end, like [`describe`](Self::describe), but waits at most `patience` for the
    /// end.
    pub(super) async fn describe_within(&self, patience: Duration) -> Option<String> {
        let (mut life, mut stderr) = (self.life.clone(), self.stderr.clone());
        let both = async {
            let _ = life.wait_for(Life::has_ended).await;
            stderr.wait().await;
        };
        // After a timeout, the text has only the parts that are known.
        let _ = tokio::time::timeout(patience, both).await;
        let how = self.life.borrow().by_itself().map(|how| format!("the server ended with {how}"));
        let words = self.stderr.text();
        match (how, words.is_empty()) {
            (Some(how), true) => Some(how),
            (Some(how), false) => Some(format!("{how}; last lines of its stderr: {words}")),
            (None, false) => Some(format!("the last lines of the server's stderr: {words}")),
            (None, true) => None,
        }
    }
}
