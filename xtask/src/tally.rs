//! The step `tests`: runs all tests and adds up what the test programs report.

use std::fmt;
use std::io::{self, PipeReader, Read, Write};
use std::ops::AddAssign;
use std::path::PathBuf;
use std::process::Stdio;

use crate::{compiler, engines, mcp, postgres, process};

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Runs unit, integration and documentation tests, and benchmarks as tests.
pub(crate) fn run_tests(tally: &mut Tally) -> Result<(), String> {
    // Cargo runs documentation tests only in a call of their own. Both calls run in any case, so
    // that the sum is complete.
    let mut own = Tally::default();
    let mut variables = engines::variables()?;
    variables.extend(mcp::variables()?);
    variables.extend(postgres::variable()?);
    let targets = run_counted("--all-targets", &variables, &mut own);
    let documentation = run_counted("--doc", &variables, &mut own);
    *tally += own;
    targets.and(documentation)?;
    match own {
        Tally { failed: 0, passed: 1.., .. } => Ok(()),
        Tally { failed: 0, .. } => Err("no test passed".to_owned()),
        Tally { failed, .. } => Err(format!("{failed} tests failed")),
    }
}

fn run_counted(
    selection: &str,
    variables: &[(&str, PathBuf)],
    tally: &mut Tally,
) -> Result<(), String> {
    let mut command = process::cargo(["test", "--all-features", "--no-fail-fast"]);
    compiler::select_workspace(&mut command)?;
    command.arg(selection);
    command.envs(variables.iter().map(|(variable, path)| (variable, path)));
    // One pipe for both streams keeps cargo's headlines and the tests' lines in order.
    let in_pipe = |error| format!("cannot read the output of the tests: {error}");
    let (reader, writer) = io::pipe().map_err(in_pipe)?;
    command.stderr(writer.try_clone().map_err(in_pipe)?).stdout(writer).stdin(Stdio::null());
    let shown = process::display(&command);
    let mut child = command.spawn().map_err(|error| process::cannot_start(&command, &error))?;
    // The command owns the writing ends of the pipe: while it lives, the pipe has no end.
    drop(command);
    let copied = copy_and_count(reader, tally).map_err(in_pipe);
    let status = child.wait().map_err(in_pipe)?;
    copied?;
    if status.success() { Ok(()) } else { Err(format!("`{shown}` ended with {status}")) }
}

/// Passes the output on as it comes, even half a line, and counts whole lines.
fn copy_and_count(mut reader: PipeReader, tally: &mut Tally) -> io::Result<()> {
    let mut stdout = io::stdout();
    let mut line = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let length = reader.read(&mut buffer)?;
        let Some(chunk) = buffer.get(..length).filter(|chunk| !chunk.is_empty()) else {
            return Ok(());
        };
        stdout.write_all(chunk)?;
        stdout.flush()?;
        for &byte in chunk {
            if byte == b'\n' {
                tally.add_line(&String::from_utf8_lossy(&line));
                line.clear();
            } else {
                line.push(byte);
            }
        }
    }
}

impl Tally {
    /// Counts a line such as `test result: ok. 12 passed; 0 failed; 3 ignored; …`.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some((_, counts)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for count in counts.split("; ") {
            let Some((number, what)) = count.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "tests: {passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(lines: &str, expected: &str) {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.add_line(line));
        assert_eq!(tally.to_string(), expected);
    }

    #[test]
    fn result_lines_are_added_up() {
        check("", "tests: 0 passed, 0 failed, 0 skipped");
        check("running 12 tests\ntest result is late", "tests: 0 passed, 0 failed, 0 skipped");
        check(
            "test result: ok. 12 passed; 0 failed; 3 ignored; 1 measured; 4 filtered out; \
             finished in 0.00s\n\
             test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "tests: 13 passed, 2 failed, 3 skipped",
        );
        check(
            "  test result: ok. 12 passed; 0 failed; 3 ignored",
            "tests: 0 passed, 0 failed, 0 skipped",
        );
    }
}
