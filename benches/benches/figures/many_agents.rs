//! Measures 10,000 agents in one process against a server in another process, compared with the same number of clients
//! without agents.

use std::path::Path;
use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_benches::agents::{Case, Client, Measured, Run, check_open_files};
use neuron_benches::comparison::{Options, median};

use crate::Failure;

const ROUNDS: usize = 5;

pub(crate) fn run() -> Result<(), Failure> {
    let options = Options::from_args(ROUNDS);
    let agents = if options.is_test() { 20 } else { 10_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // On Ctrl-C the measurement's future is dropped, which kills its processes.
        match select(pin!(measure(&options, agents)), pin!(tokio::signal::ctrl_c())).await {
            Either::Left((measured, _)) => measured,
            Either::Right(_) => Err("interrupted".into()),
        }
    })
}

async fn measure(options: &Options, agents: usize) -> Result<(), Failure> {
    check_open_files(agents)?;
    let cases: Vec<Case> =
        Case::ALL.into_iter().filter(|case| options.includes(case.name())).collect();
    // Each round runs every case once, so that other load on the machine affects all cases.
    let mut rounds = Vec::new();
    for _ in 0..options.rounds() {
        let mut round = Vec::new();
        for &case in &cases {
            let program = Path::new(env!("CARGO_BIN_EXE_many_agents_part"));
            round.push(Run::start(program, case, agents)?.finish().await?);
        }
        rounds.push(round);
    }
    println!("{agents} at the same time, each number for one run of two requests");
    println!("| | runs/s | CPU | / bare | peak memory | / bare | heap, waiting | allocations |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for (index, case) in cases.iter().enumerate() {
        let of = |number: fn(&Measured) -> f64| {
            median(rounds.iter().map(|round| number(&round[index])), f64::total_cmp)
        };
        // Returns the median of the ratios of all rounds.
        let ratio = |number: fn(&Measured) -> f64| {
            let is_bare =
                |bare: &Case| bare.client == Client::Bare && bare.streamed == case.streamed;
            match cases.iter().position(is_bare) {
                Some(bare) if bare != index => {
                    let ratios =
                        rounds.iter().map(|round| number(&round[index]) / number(&round[bare]));
                    format!("{:.2}", median(ratios, f64::total_cmp))
                }
                _ => String::new(),
            }
        };
        println!(
            "| {} | {:.0} | {:.3} ms | {} | {:.1} KB | {} | {:.1} KB | {:.0} |",
            case.name(),
            of(|measured| measured.runs_a_second),
            of(|measured| measured.cpu_ms),
            ratio(|measured| measured.cpu_ms),
            of(|measured| measured.peak_bytes) / 1e3,
            ratio(|measured| measured.peak_bytes),
            of(|measured| measured.heap_bytes) / 1e3,
            of(|measured| measured.allocations),
        );
    }
    Ok(())
}
