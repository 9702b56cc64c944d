//! Lists the example programs, or runs one of them.
//!
//! This package depends on no other crate, so that the list appears in seconds. Cargo builds the programs when the first
//! of them runs.

use std::process::{Command, ExitCode};

/// The folder of the package with the programs.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

macro_rules! programs {
    ($($name:ident)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}
include!("../../src/names.rs");

fn main() -> ExitCode {
    start().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Prints the list, or runs the program that the first argument names.
fn start() -> std::io::Result<ExitCode> {
    let Some(name) = std::env::args().nth(1) else {
        println!("{}", list()?);
        return Ok(ExitCode::SUCCESS);
    };
    if !NAMES.contains(&name.as_str()) {
        eprintln!("error: there is no example `{name}`: run without a name for the list");
        return Ok(ExitCode::from(2));
    }
    run(command().args(std::env::args_os().skip(1)))
}

/// Returns the names of the programs, each with what it shows.
fn list() -> std::io::Result<String> {
    let width = NAMES.iter().map(|name| name.len()).max().unwrap_or_default();
    let mut list = String::new();
    for name in NAMES {
        list += &format!("{name:width$}  {}\n", about(name)?);
    }
    Ok(list + "\nRun an example: cargo run -p neuron-examples -- NAME")
}

/// Returns the command that builds the programs, and runs the one whose name is the next argument.
fn command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // With the variables that cargo sets for this program, some build scripts would run again.
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&key);
        }
    }
    command.args(["run", "--manifest-path", &format!("{PACKAGE}/Cargo.toml"), "--"]);
    command
}

/// Returns the sentence that says what a program shows: the first paragraph of its documentation.
fn about(name: &str) -> std::io::Result<String> {
    let source = std::fs::read_to_string(format!("{PACKAGE}/programs/{name}.rs"))?;
    let lines = source.lines().map_while(|line| line.strip_prefix("//! "));
    Ok(lines.collect::<Vec<_>>().join(" "))
}

/// Replaces this process by the command. As a parent, it would end at Ctrl-C before the program does.
#[cfg(unix)]
fn run(command: &mut Command) -> std::io::Result<ExitCode> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

#[cfg(not(unix))]
fn run(command: &mut Command) -> std::io::Result<ExitCode> {
    let code = command.status()?.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_says_what_each_program_shows() {
        let list = list().unwrap();
        assert_eq!(list.lines().count(), NAMES.len() + 2);
        for line in list.lines().take(NAMES.len()) {
            let (name, about) = line.split_once(' ').unwrap();
            assert!(NAMES.contains(&name) && about.trim().ends_with('.'), "{line}");
        }
    }

    #[test]
    fn programs_are_those_of_the_package() {
        assert!(std::fs::read_to_string(format!("{PACKAGE}/Cargo.toml")).is_ok());
        let arguments: Vec<_> = command().get_args().map(ToOwned::to_owned).collect();
        assert_eq!(arguments.last().unwrap(), "--");
    }
}
