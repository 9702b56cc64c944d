//! Measures the time until the first piece of a streamed response, with an agent compared with a plain HTTP client.

use neuron_benches::comparison::{Comparison, Options};
use neuron_benches::first_token::{AgentSide, BareSide, Server};

const ROUNDS: usize = 2_001;

pub(crate) fn run() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let options = Options::from_args(ROUNDS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    let (agent, bare) = (AgentSide::new(&server), BareSide::new(&server)?);
    // The first requests open the connections.
    runtime.block_on(agent.first_token(&server))?;
    runtime.block_on(bare.first_token(&server))?;
    let compared = Comparison::of_times(
        options.rounds(),
        || runtime.block_on(agent.first_token(&server)).expect("the agent gets a response"),
        || runtime.block_on(bare.first_token(&server)).expect("the client gets a response"),
    );
    println!("| | bare client | agent | agent / bare |");
    println!("|---|---:|---:|---:|");
    println!(
        "| first token | {:.0} µs | {:.0} µs | {:.2} |",
        compared.floor.as_secs_f64() * 1e6,
        compared.library.as_secs_f64() * 1e6,
        compared.ratio
    );
    Ok(())
}
