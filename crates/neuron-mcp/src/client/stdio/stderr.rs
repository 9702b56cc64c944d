//! Reading of a server's standard error, which contains the server's log. It is read continuously, because a full pipe
//! would block the server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::ChildStderr;
use tokio::sync::watch;

use super::process::Life;
use crate::lines::{LineReader, Piece};

/// Maximum number of bytes of a line that are kept and logged.
const LINE_BYTES: usize = 4096;
/// Maximum number of lines of a server's standard error that are kept for error messages. Older lines are dropped.
const KEPT_LINES: usize = 20;
/// Maximum time for which standard error is read after the end of the server. Without a limit, a remaining process of
/// the server could keep standard error open forever.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// The last lines of a server's standard error.
#[derive(Debug, Clone)]
pub(super) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// `true` once the background task has stopped reading the server's standard error.
    is_over: watch::Receiver<bool>,
}

impl StderrTail {
    /// Returns the lines that were read so far, joined by line feeds.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Waits until the background task no longer reads the server's standard error, so that no further lines follow.
    pub(super) async fn wait(&mut self) {
        // An error means that the task was dropped, so no further line will be read.
        let _ = self.is_over.wait_for(|is_over| *is_over).await;
    }
}

/// Starts a task that reads and logs a server's standard error. The log names the server `program`. The task stops at
/// the latest [`AFTER_THE_END`] after `life` reports the end of the process.
pub(super) fn follow(
    stderr: ChildStderr,
    program: String,
    life: watch::Receiver<Life>,
) -> StderrTail {
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    let (over, is_over) = watch::channel(false);
    let tail = StderrTail { lines: Arc::clone(&lines), is_over };
    tokio::spawn(async move {
        tokio::select! {
            () = read(stderr, &program, &lines) => {}
            () = long_gone(life) => {}
        }
        over.send_replace(true);
    });
    tail
}

/// Logs each line of the server's standard error until the stream is closed. Keeps the last [`KEPT_LINES`] lines in
/// `kept`.
async fn read(stderr: ChildStderr, program: &str, kept: &Mutex<VecDeque<String>>) {
    let mut reader = LineReader::new(stderr, LINE_BYTES);
    loop {
        let line = match reader.next().await {
            Ok(Some(Piece::Line(line))) => String::from_utf8_lossy(&line).into_owned(),
            Ok(Some(Piece::TooLong { head })) => format!("{}…", String::from_utf8_lossy(&head)),
            Ok(Some(Piece::TooLongEnds { .. })) => continue,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(program, %error, "the server's standard error cannot be read");
                return;
            }
        };
        tracing::debug!(program, line, "the server's standard error");
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

/// Waits until the process is gone, and then for [`AFTER_THE_END`].
async fn long_gone(mut life: watch::Receiver<Life>) {
    let _ = life.wait_for(Life::is_gone).await;
    tokio::time::sleep(AFTER_THE_END).await;
}
