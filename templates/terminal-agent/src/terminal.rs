//! The input and output of the terminal.

use std::io::{self, Write as _};

use tokio::sync::mpsc;

/// The lines that the user types, and Ctrl-C.
pub(crate) struct Terminal {
    lines: mpsc::Receiver<io::Result<String>>,
    interrupts: mpsc::Receiver<()>,
}

impl Terminal {
    /// Starts to read standard input.
    pub(crate) fn new() -> Self {
        let (send_line, lines) = mpsc::channel(1);
        // A thread of its own, because tokio waits for its reader of standard input when the program ends.
        std::thread::spawn(move || {
            for line in io::stdin().lines() {
                if send_line.blocking_send(line).is_err() {
                    break;
                }
            }
        });
        let (interrupt, interrupts) = mpsc::channel(1);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                if interrupt.try_send(()).is_err() {
                    // The first Ctrl-C has had no effect yet, so the user wants to leave.
                    std::process::exit(130);
                }
            }
        });
        Self { lines, interrupts }
    }

    /// Prints a prompt and reads a line. Returns `None` at the end of the input and after Ctrl-C.
    pub(crate) async fn read_line(&mut self, prompt: &str) -> io::Result<Option<String>> {
        print(prompt);
        tokio::select! {
            line = self.lines.recv() => line.transpose(),
            Some(()) = self.interrupts.recv() => Ok(None),
        }
    }

    /// Waits for Ctrl-C.
    pub(crate) async fn interrupted(&mut self) {
        if self.interrupts.recv().await.is_none() {
            // Without signals there is nothing to wait for.
            std::future::pending().await
        }
    }
}

/// Prints a text without a line end. Control characters could change what the user has read, so they become `�`.
pub(crate) fn print(text: &str) {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    let is_direction = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let text = text.replace(|c| is_control(c) || is_direction(c), "\u{fffd}");
    let mut output = io::stdout().lock();
    // A closed output is no error: the response is stored all the same.
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}
