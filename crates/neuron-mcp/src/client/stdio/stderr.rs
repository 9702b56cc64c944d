//! The standard error of a server, which is its log. It is read all the time, because a full pipe would block the
//! server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::ChildStderr;
use tokio::sync::watch;

use super::process::Life;
use crate::lines::{LineReader, Piece};

/// Maximum number of kept and logged bytes of a line.
const LINE_BYTES: usize = 4096;
/// Number of lines that are kept for error messages.
const KEPT_LINES: usize = 20;
/// Time for which standard error is read after the end of the server, if a process outside of its group holds it open.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// The last lines of standard error.
#[derive(Debug, Clone)]
pub(super) struct StderrTail {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// True once reading has ended.
    is_over: watch::Receiver<bool>,
}

impl StderrTail {
    /// Returns the last lines, joined by line feeds.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Waits until reading has ended.
    pub(super) async fn wait(&mut self) {
        // An error means that the reader is gone, so nothing more will be read.
        let _ = self.is_over.wait_for(|is_over| *is_over).await;
    }
}

/// Starts the task that reads standard error. `program` is the name of the server in the log.
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

async fn long_gone(mut life: watch::Receiver<Life>) {
    let _ = life.wait_for(Life::is_gone).await;
    tokio::time::sleep(AFTER_THE_END).await;
}
