//! The command `cargo xtask fetch`, which downloads the third-party programs that tests need. `cargo xtask test` does the
//! same during its step `build`. The list of programs is in `neuron_testkit::fetch`.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use neuron_testkit::fetch::PROGRAMS;

use crate::{prerequisites, process};

/// Prints the path of every program, or only of the program `id`. Downloads a program first if it is missing or does
/// not work.
pub(crate) fn print(id: Option<&str>) -> Result<(), String> {
    let ids = PROGRAMS.map(|program| program.id);
    if let Some(id) = id
        && !ids.contains(&id)
    {
        return Err(format!("there is no `{id}`: {} are known", ids.join(", ")));
    }
    for program in PROGRAMS.iter().filter(|program| id.is_none_or(|id| id == program.id)) {
        println!("{}", program.provide()?.display());
    }
    Ok(())
}

/// Names of the environment variables of the programs that could not be downloaded.
static MISSING: Mutex<Vec<&str>> = Mutex::new(Vec::new());

/// Downloads all programs, so that no test waits for a download. Reports each program that is not available.
pub(crate) fn for_tests() -> Result<(), String> {
    for program in PROGRAMS {
        if let Err(reason) = program.provide() {
            prerequisites::not_checked(&format!("whatever needs {}", program.name), &reason)?;
            MISSING.lock().unwrap_or_else(PoisonError::into_inner).extend(program.variable);
        }
    }
    Ok(())
}

/// Runs a step that needs none of the programs, and downloads them at the same time. `later` downloads what later steps
/// need, which report a failure themselves.
pub(crate) fn during(
    step: fn() -> Result<(), String>,
    later: fn() -> Result<(), String>,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| for_tests().map(|()| drop(later())));
        let result = step();
        let fetched = fetching.join().unwrap_or_else(|_| Err("a panic".to_owned()));
        result.and(fetched.map_err(|reason| format!("downloads: {reason}")))
    })
}

/// Runs a command that runs tests, with our standard input and output.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    hide_missing(&mut command);
    process::run(command)
}

/// Sets environment variables of a test command, so that its tests do not try again to download the programs that could
/// not be downloaded. Tests that need these programs are skipped.
pub(crate) fn hide_missing(command: &mut Command) {
    let missing = MISSING.lock().unwrap_or_else(PoisonError::into_inner);
    command.envs(missing.iter().map(|variable| (variable, "none")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_program_is_an_error_with_the_known_programs() {
        assert_eq!(
            print(Some("perpetual-motion")).unwrap_err(),
            "there is no `perpetual-motion`: postgres, restate, temporal, mcp-node, mcp-python, nginx are known"
        );
    }
}
