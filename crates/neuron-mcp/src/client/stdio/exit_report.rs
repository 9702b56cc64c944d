//! The report of a server's end for error messages.

use std::time::Duration;

use tokio::sync::watch;

use super::process::Life;
use super::stderr::StderrTail;

/// Maximum wait for the exit status, which is known later than the broken pipe.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end of a server and the last lines of its standard error. It outlives the transport.
#[derive(Debug, Clone)]
pub(crate) struct ExitReport {
    life: watch::Receiver<Life>,
    stderr: StderrTail,
}

impl ExitReport {
    pub(super) fn new(life: watch::Receiver<Life>, stderr: StderrTail) -> Self {
        Self { life, stderr }
    }

    /// Returns the last lines of the server's standard error, at most twenty. Each line is truncated to 4 KiB.
    #[cfg(test)]
    pub(super) fn stderr_tail(&self) -> String {
        self.stderr.text()
    }

    /// Returns a text such as `the server ended with exit status 3; its last words: …`, without the unknown parts.
    /// `None` if the server runs or was ended by this client, and its standard error is empty.
    ///
    /// Waits at most one second for the server's end. Cancel safe.
    pub(crate) async fn describe(&self) -> Option<String> {
        self.describe_within(PATIENCE).await
    }

    /// Returns the text of [`describe`](Self::describe) after at most `patience`.
    pub(super) async fn describe_within(&self, patience: Duration) -> Option<String> {
        let (mut life, mut stderr) = (self.life.clone(), self.stderr.clone());
        let both = async {
            let _ = life.wait_for(Life::has_ended).await;
            stderr.wait().await;
        };
        // After a timeout, the report has the known parts.
        let _ = tokio::time::timeout(patience, both).await;
        let how = self.life.borrow().by_itself().map(|how| format!("the server ended with {how}"));
        let words = self.stderr.text();
        match (how, words.is_empty()) {
            (Some(how), true) => Some(how),
            (Some(how), false) => Some(format!("{how}; its last words: {words}")),
            (None, false) => Some(format!("the server's last words: {words}")),
            (None, true) => None,
        }
    }
}
