//! Why a server ended, for error messages.

use std::time::Duration;

use tokio::sync::watch;

use super::process::Life;
use super::stderr::StderrTail;

/// Maximum wait for the exit status, because a broken pipe is noticed before it.
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

    /// The last lines of the server's standard error, at most twenty, each cut after 4 KiB.
    #[cfg(test)]
    pub(super) fn stderr_tail(&self) -> String {
        self.stderr.text()
    }

    /// `the server ended with exit status 3; its last words: …`, or what of that is known. `None` if the server
    /// runs, or was ended by us, and has said nothing.
    ///
    /// Waits a second at most for the server's end. Cancel safe.
    pub(crate) async fn describe(&self) -> Option<String> {
        self.describe_within(PATIENCE).await
    }

    /// As [`describe`](Self::describe), with another time to wait.
    pub(super) async fn describe_within(&self, patience: Duration) -> Option<String> {
        let (mut life, mut stderr) = (self.life.clone(), self.stderr.clone());
        let both = async {
            let _ = life.wait_for(Life::has_ended).await;
            stderr.wait().await;
        };
        // What is known is told in any case.
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
