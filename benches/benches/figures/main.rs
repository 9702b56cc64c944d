//! The benchmarks. Each module is a benchmark, and README.md explains its figures.
//!
//! The first argument selects benchmarks and cases by parts of their names, as `BENCHMARK` or `BENCHMARK/CASE`.

mod durable_runs;
mod first_token;
mod journal_record;
mod loop_turn;
mod many_agents;
mod mcp_bridge;
mod parallel_tools;
mod request_body;
mod session_append;
mod stream_events;
mod telemetry;
mod tool_middleware;

use std::error::Error;
use std::process::{Command, ExitCode};

use neuron_benches::comparison::selection;

type Failure = Box<dyn Error>;

type Benchmark = fn() -> Result<(), Failure>;

/// The name of each benchmark, and the function that runs it.
const BENCHMARKS: [(&str, Benchmark); 12] = [
    ("loop_turn", loop_turn::run),
    ("telemetry", telemetry::run),
    ("parallel_tools", parallel_tools::run),
    ("many_agents", many_agents::run),
    ("tool_middleware", tool_middleware::run),
    ("stream_events", stream_events::run),
    ("request_body", request_body::run),
    ("session_append", session_append::run),
    ("journal_record", journal_record::run),
    ("durable_runs", durable_runs::run),
    ("first_token", || first_token::run().map_err(|error| error as Failure)),
    ("mcp_bridge", || mcp_bridge::run().map_err(|error| error as Failure)),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let (benchmark, case) = selection();
    let is_selected = |name: &str| name.contains(&benchmark);
    let selected = BENCHMARKS.iter().filter(|(name, _)| is_selected(name));
    match *selected.collect::<Vec<_>>() {
        [] => {
            let names = BENCHMARKS.map(|(name, _)| name).join(", ");
            Err(format!("there is no benchmark `{benchmark}`: {names} are known").into())
        }
        [(_, run)] => run(),
        // A benchmark may leave state in its process: threads, a heap with holes, and tracing's memory of a subscriber.
        ref several => several.iter().try_for_each(|(name, _)| run_alone(name, &case)),
    }
}

/// Runs a benchmark in a process of its own, with the same options as this process.
fn run_alone(name: &str, case: &str) -> Result<(), Failure> {
    println!("\n{name}\n");
    let options = std::env::args().skip(1).skip_while(|arg| !arg.starts_with('-'));
    let mut command = Command::new(std::env::current_exe()?);
    let status = command.arg(format!("{name}/{case}")).args(options).status()?;
    if status.success() { Ok(()) } else { Err(format!("{name} has failed: {status}").into()) }
}
