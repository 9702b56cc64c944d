//! `cargo xtask test`: the steps in their order, the table of durations and the closing line. What
//! the longer steps do is in `wasm`, `examples`, `sdks`, `tally` and `faults`.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::tally::Tally;
use crate::{compiler, examples, faults, process, sdks, tally, wasm};

/// Runs the steps up to the first that fails. The last line on standard output is always the sum
/// of the tests, which scripts may read.
pub(crate) fn run() -> ExitCode {
    let mut tally = Tally::default();
    let mut durations = Vec::new();
    let mut failure = None;
    for step in STEPS {
        println!("== {}", step.name);
        let start = Instant::now();
        let result = (step.run)(&mut tally);
        durations.push(start.elapsed());
        if let Err(reason) = result {
            failure = Some(format!("step {} failed: {reason}", step.name));
            break;
        }
    }

    println!("== summary");
    print_table(&durations, failure.is_some());
    if let Some(failure) = &failure {
        println!("error: {failure}");
    }
    println!("{tally}");
    if failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

struct Step {
    name: &'static str,
    run: fn(&mut Tally) -> Result<(), String>,
}

/// Cheap checks first, so that a slip shows within seconds.
const STEPS: &[Step] = &[
    Step { name: "fmt", run: |_| process::run(process::cargo(["fmt", "--all", "--check"])) },
    Step { name: "clippy", run: |_| clippy() },
    Step { name: "docs", run: |_| docs() },
    Step { name: "wasm", run: |_| wasm::check() },
    Step { name: "examples", run: |_| examples::run() },
    Step { name: "sdks", run: sdks::check },
    Step { name: "tests", run: tally::run_tests },
    Step { name: "faults", run: |_| faults::check(None) },
];

fn clippy() -> Result<(), String> {
    let mut command = process::cargo(["clippy", "--all-targets", "--all-features"]);
    compiler::select_workspace(&mut command)?;
    command.args(["--", "-D", "warnings"]);
    process::run(command)
}

fn docs() -> Result<(), String> {
    let mut command = process::cargo(["doc", "--no-deps", "--all-features"]);
    compiler::select_workspace(&mut command)?;
    command.env("RUSTDOCFLAGS", "-D warnings");
    process::run(command)
}

fn print_table(durations: &[Duration], failed: bool) {
    for (index, step) in STEPS.iter().enumerate() {
        let last = index + 1 == durations.len();
        match durations.get(index) {
            Some(duration) => {
                let mark = if failed && last { "  failed" } else { "" };
                println!("{:<10}{:>8.1} s{mark}", step.name, duration.as_secs_f64());
            }
            None => println!("{:<10}  not run", step.name),
        }
    }
}
