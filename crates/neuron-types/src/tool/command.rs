//! The description of a program that a tool runs, and its output.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::ToolOutput;

/// A program that a tool wants to run, similar to [`std::process::Command`].
///
/// A [`Sandbox`](crate::Sandbox) runs the program without a shell, so arguments need no quoting. `Debug` omits the
/// values of environment variables and the standard input, because they may contain secrets.
///
/// # Example
///
/// ```
/// use neuron_types::ToolCommand;
///
/// let command = ToolCommand::new("grep").args(["--count", "--", "fn main"]).stdin("fn main() {}");
/// assert_eq!(command.args[2], "fn main");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCommand {
    /// Path of the program, or a name to look up in the `PATH` of the sandbox.
    pub program: PathBuf,
    /// Arguments, without the program's name.
    pub args: Vec<OsString>,
    /// Environment variables, in addition to the variables of the sandbox. If a name occurs twice, its last value is
    /// used.
    pub env: Vec<(OsString, OsString)>,
    /// Working directory. A relative path starts at the sandbox's directory. `None` means the sandbox's directory.
    pub current_dir: Option<PathBuf>,
    /// Bytes that the program reads from its standard input.
    pub stdin: Vec<u8>,
}

impl ToolCommand {
    /// Creates a command without arguments.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    /// Adds an argument at the end.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments at the end.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(path.into());
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.stdin = input.into();
        self
    }
}

impl fmt::Debug for ToolCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("current_dir", &self.current_dir)
            .field("stdin", &self.stdin.len())
            .finish()
    }
}

/// The exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandStatus {
    /// The program exited with this code. 0 means success.
    Exited(i32),
    /// The program was killed by this signal.
    Signaled(i32),
}

/// Returns exit code 0, which means success.
impl Default for CommandStatus {
    fn default() -> Self {
        Self::Exited(0)
    }
}

impl fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status {code}"),
            Self::Signaled(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

/// The output and exit status of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The exit status of the program.
    pub status: CommandStatus,
    /// The beginning of the standard output, up to the sandbox's limit.
    pub stdout: Vec<u8>,
    /// Number of bytes of the standard output that exceeded the limit and were dropped.
    pub stdout_dropped: u64,
    /// The beginning of the standard error, up to the sandbox's limit.
    pub stderr: Vec<u8>,
    /// Number of bytes of the standard error that exceeded the limit and were dropped.
    pub stderr_dropped: u64,
}

impl CommandOutput {
    /// Returns `true` if the program exited with code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.status == CommandStatus::Exited(0)
    }

    /// Formats the output as a tool result for the model.
    ///
    /// The text consists of the standard output, the standard error, and the exit status if it is not 0. If the program
    /// failed, [`is_error`](ToolOutput::is_error) is set. Invalid UTF-8 is replaced with U+FFFD.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_types::{CommandOutput, CommandStatus};
    ///
    /// let mut output = CommandOutput::default();
    /// output.stdout = b"2 files\n".to_vec();
    /// output.stderr = b"no such file: c\n".to_vec();
    /// output.status = CommandStatus::Exited(1);
    ///
    /// let result = output.to_tool_output();
    /// assert!(result.is_error);
    /// assert_eq!(result.content[0].to_string(), "2 files\n[stderr]\nno such file: c\n[exit status 1]");
    /// ```
    #[must_use]
    pub fn to_tool_output(&self) -> ToolOutput {
        let mut text = String::new();
        append(&mut text, &self.stdout, self.stdout_dropped);
        if !self.stderr.is_empty() || self.stderr_dropped > 0 {
            append_line(&mut text, "[stderr]");
            text.push('\n');
            append(&mut text, &self.stderr, self.stderr_dropped);
        }
        match self.is_success() {
            true => ToolOutput::text(text),
            false => {
                append_line(&mut text, &format!("[{}]", self.status));
                ToolOutput::error(text)
            }
        }
    }
}

/// Appends the bytes of a stream to the text, and the number of dropped bytes if there are any.
fn append(text: &mut String, bytes: &[u8], dropped: u64) {
    // Without a cut by the sandbox's limit, an incomplete character comes from the program and is replaced.
    if dropped == 0 {
        text.push_str(&String::from_utf8_lossy(bytes));
        return;
    }
    text.push_str(&String::from_utf8_lossy(whole_characters(bytes)));
    append_line(text, &format!("[{dropped} more bytes were dropped]"));
}

/// Appends `line`, after a line break if the text does not end with one.
fn append_line(text: &mut String, line: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
}

/// Returns the bytes without an incomplete UTF-8 character at their end. The sandbox's output limit may have cut this
/// character.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    let Some(last) = bytes.utf8_chunks().last() else {
        return bytes;
    };
    let rest = last.invalid();
    let is_cut = std::str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
    match is_cut {
        true => bytes.strip_suffix(rest).unwrap_or(bytes),
        false => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: CommandOutput, expected: &str) {
        let result = output.to_tool_output();
        assert_eq!(result.content[0].to_string(), expected);
        assert_eq!(result.is_error, !output.is_success());
    }

    #[test]
    fn tool_output_has_both_streams_and_a_failed_status() {
        let output = |stdout: &str, stderr: &str, status| CommandOutput {
            status,
            stdout: stdout.into(),
            stderr: stderr.into(),
            ..CommandOutput::default()
        };
        let well = CommandStatus::Exited(0);
        check(output("", "", well), "");
        check(output("a", "", well), "a");
        check(output("a\n", "", well), "a\n");
        check(output("a", "b", well), "a\n[stderr]\nb");
        check(output("", "b\n", CommandStatus::Exited(2)), "[stderr]\nb\n[exit status 2]");
        check(output("", "", CommandStatus::Exited(-1)), "[exit status -1]");
        check(output("a", "", CommandStatus::Signaled(9)), "a\n[ended by signal 9]");
    }

    #[test]
    fn truncated_output_reports_dropped_bytes_and_keeps_characters_whole() {
        let text = "aé€😀";
        for cut in 0..=text.len() {
            let output = CommandOutput {
                stdout: text.as_bytes()[..cut].to_vec(),
                stdout_dropped: 7,
                ..CommandOutput::default()
            };
            let whole = (0..=cut).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let kept = &text[..whole];
            let line = if kept.is_empty() { "" } else { "\n" };
            check(output, &format!("{kept}{line}[7 more bytes were dropped]"));
        }
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let output = CommandOutput { stdout: b"a\xffb\xc3".to_vec(), ..CommandOutput::default() };
        check(output, "a\u{fffd}b\u{fffd}");
        let wrong =
            CommandOutput { stderr: b"\xff".to_vec(), stderr_dropped: 1, ..Default::default() };
        check(wrong, "[stderr]\n\u{fffd}\n[1 more bytes were dropped]");
    }

    #[test]
    fn debug_omits_environment_values_and_input() {
        let command = ToolCommand::new("env").env("TOKEN", "hunter2").stdin("hunter3");
        let text = format!("{command:?}");
        assert!(text.contains("TOKEN") && !text.contains("hunter"), "{text}");
    }
}
