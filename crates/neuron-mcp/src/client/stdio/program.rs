//! The command that starts a server. The command is validated before it is executed, so that an error names the cause.

use std::io;
use std::process::Command;

use neuron_types::McpError;

use super::StdioOptions;
use super::environment::environment;
use crate::StdioConfig;

/// Returns the command that starts the server. Returns an error if the command, its working directory or its
/// environment is invalid.
pub(super) fn command(config: &StdioConfig, options: &StdioOptions) -> Result<Command, McpError> {
    if config.command.trim().is_empty() {
        return Err(McpError::Connection("the server's command is empty".to_owned()));
    }
    if config.command.contains('\0') || config.args.iter().any(|arg| arg.contains('\0')) {
        return Err(McpError::Connection(format!(
            "the command {:?} or one of its arguments contains NUL",
            config.command
        )));
    }
    let environment = environment(std::env::vars_os(), &options.inherit, &config.env)?;
    let mut command = Command::new(program(&config.command, &environment));
    command.args(&config.args).env_clear().envs(environment);
    if let Some(cwd) = &options.cwd {
        if !cwd.is_dir() {
            let cwd = cwd.display();
            return Err(McpError::Connection(format!(
                "the server's working directory {cwd} does not exist"
            )));
        }
        command.current_dir(cwd);
    }
    Ok(command)
}

/// Returns the error for a program that the operating system did not start.
pub(super) fn not_started(command: &str, error: &io::Error) -> McpError {
    McpError::Connection(match error.kind() {
        // The operating system also reports `NotFound` if the interpreter of a script is missing.
        io::ErrorKind::NotFound if command.contains(std::path::is_separator) => {
            format!("the server {command:?} does not exist, or its interpreter does not")
        }
        io::ErrorKind::NotFound => format!("the server {command:?} is not found in PATH"),
        io::ErrorKind::PermissionDenied => format!("the server {command:?} may not be executed"),
        _ => format!("the server {command:?} does not start: {error}"),
    })
}

#[cfg(not(windows))]
fn program(
    command: &str,
    _environment: &[(std::ffi::OsString, std::ffi::OsString)],
) -> std::ffi::OsString {
    command.into()
}

/// Resolves the path of a program. Windows searches only for `npx.exe`, but npm installs `npx.cmd`.
#[cfg(windows)]
fn program(
    command: &str,
    environment: &[(std::ffi::OsString, std::ffi::OsString)],
) -> std::ffi::OsString {
    let variable = |name: &str| {
        environment
            .iter()
            .rev()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
    };
    let path = variable("PATH").unwrap_or_default();
    let extensions = variable("PATHEXT").unwrap_or_else(|| ".COM;.EXE;.BAT;.CMD".into());
    with_extension(command, &path, &extensions.to_string_lossy(), std::path::Path::is_file)
        .map_or_else(|| command.into(), Into::into)
}

/// Finds the file of a command that is given without an extension. Tries each of the `extensions`, a list separated by
/// `;`, in each folder of `path`, the variable PATH. Returns `None` if there is no such file, or if the command is a
/// path or has an extension.
#[cfg(any(windows, test))]
fn with_extension(
    command: &str,
    path: &std::ffi::OsStr,
    extensions: &str,
    exists: impl Fn(&std::path::Path) -> bool,
) -> Option<std::path::PathBuf> {
    if command.contains(std::path::is_separator)
        || std::path::Path::new(command).extension().is_some()
    {
        return None;
    }
    let names: Vec<String> =
        extensions.split(';').map(|extension| format!("{command}{extension}")).collect();
    let mut files = std::env::split_paths(path)
        .flat_map(|folder| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>());
    files.find(|file| exists(file))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn command_without_extension_is_searched_with_each_extension() {
        let path = std::env::join_paths(["/a", "/b"]).unwrap();
        let there =
            |file: &Path| file == Path::new("/b/npx.CMD") || file == Path::new("/b/npx.PS1");
        let found = |command| with_extension(command, &path, ".EXE;.CMD;.PS1", there);
        assert_eq!(found("npx"), Some(PathBuf::from("/b/npx.CMD")));
        assert_eq!(found("npm"), None);
        assert_eq!(found("npx.CMD"), None);
        assert_eq!(found("/b/npx"), None);
    }

    #[test]
    fn invalid_command_error_names_the_cause() {
        let options = StdioOptions { inherit: vec![], cwd: None, max_message_bytes: 1 };
        let error = |config: &StdioConfig, options: &StdioOptions| {
            command(config, options).unwrap_err().to_string()
        };
        let config = |command: &str, arg: &str| StdioConfig {
            command: command.to_owned(),
            args: vec![arg.to_owned()],
            env: vec![],
        };
        assert!(error(&config(" ", ""), &options).contains("empty"));
        assert!(error(&config("sh", "a\0b"), &options).contains("NUL"));
        let nowhere = StdioOptions { cwd: Some("/does/not/exist".into()), ..options };
        assert!(error(&config("sh", ""), &nowhere).contains("working directory /does/not/exist"));
    }
}
