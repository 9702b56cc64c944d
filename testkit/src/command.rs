//! Runs commands without showing their output, and formats commands for messages.

use std::io;
use std::path::Path;
use std::process::Command;

/// Runs a command to its end, and returns its standard output without surrounding white space. Nothing is printed.
///
/// # Errors
///
/// Returns an error with the last line of the command's output if the command fails or cannot be started.
pub fn quietly(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| cannot_start(&command, &error))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let output = text(&[output.stdout, output.stderr].concat());
    let last = output.lines().last().unwrap_or("it does not say why");
    Err(format!("`{}` failed: {last}", display(&command)))
}

/// Returns the error text for a command that cannot be started.
#[must_use]
pub fn cannot_start(command: &Command, error: &io::Error) -> String {
    format!("cannot start `{}`: {error}", display(command))
}

/// Formats a command as a user would type it into a shell, with the environment variables that it sets.
#[must_use]
pub fn display(command: &Command) -> String {
    let mut words = Vec::new();
    for (key, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", key.to_string_lossy(), quoted(&value.to_string_lossy())));
        }
    }
    let path = Path::new(command.get_program());
    let name = path.file_name().unwrap_or(path.as_os_str());
    words.push(name.to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

/// Returns a word in double quotes if it is empty or contains white space.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("\"{word}\"")
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_formats_a_command_as_typed_into_a_shell() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings").env_remove("HOME");
        assert_eq!(display(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps");
    }

    #[test]
    fn failed_command_returns_an_error_that_names_it() {
        let mut missing = Command::new("cargo");
        missing.arg("no-such-command");
        let error = quietly(missing).unwrap_err();
        assert!(error.starts_with("`cargo no-such-command` failed: "), "{error}");
        let error = quietly(Command::new("no-such-program")).unwrap_err();
        assert!(error.starts_with("cannot start `no-such-program`: "), "{error}");
    }
}
