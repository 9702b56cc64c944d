//! Kills a Temporal worker during the run of an agent, and continues the run with a restarted worker.
//!
//! The program starts a real Temporal server, and a child process with the worker. It starts a run, kills the worker
//! with SIGKILL while tools run, and starts the worker again. An output line that begins with a process id reports an
//! effect of that process. The program ends after some seconds.
//!
//! ```text
//! cargo run -p neuron-durable-temporal --example temporal_agent
//! ```

// The Restate example has the same agent.
#[path = "../../neuron-durable-restate/examples/travel/mod.rs"]
mod travel;

use std::error::Error;
use std::time::Duration;

use neuron_durable_temporal::{AgentWorker, DurableOptions, TemporalRuns, connect};
use neuron_testkit::engines::TemporalServer;
use neuron_types::MainError;
use tokio::sync::mpsc;
use travel::{Begun, Hosted, Model, agent, end_with_the_watcher, tools};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Environment variable with the address of the server. If set, this program runs as the worker.
const WORKER: &str = "TEMPORAL_AGENT_SERVER";

#[tokio::main]
async fn main() -> Result<(), MainError> {
    match std::env::var(WORKER) {
        Ok(address) => serve(&address).await?,
        Err(_) => watch().await?,
    }
    Ok(())
}

// ------------------------------------------------------------------ the worker, as in a real program

async fn serve(address: &str) -> Result<()> {
    end_with_the_watcher();
    let client = connect(address, "default").await?;
    // A short timeout makes the recovery faster.
    let options = DurableOptions::new().lease(Duration::from_secs(1));
    let mut worker = AgentWorker::builder(client, "travel", Model, tools(), agent)
        .options(options)
        .sticky_timeout(Duration::from_secs(1))
        .build()?;
    let shutdown = worker.shutdown_handle();
    tokio::spawn(async move {
        let _ = tokio::signal::ctrl_c().await;
        shutdown.shutdown();
    });
    worker.run().await?;
    Ok(())
}

// ------------------------------------------------------------------ the parent process

async fn watch() -> Result<()> {
    let Some(server) = TemporalServer::or_skip() else { return Ok(()) };
    let address = format!("http://{}", server.address());
    println!("Temporal runs, and keeps the history of each run.");
    let (lines, mut seen) = mpsc::unbounded_channel();
    let mut worker = Hosted::start((WORKER, &address), lines.clone())?;

    let client = connect(&address, "default").await?;
    let runs = TemporalRuns::new(client, "travel").task_timeout(Duration::from_secs(2));
    let run = runs.start("journey-1", "Book me a train to Lyon.").await?;
    println!("The run has begun: {}\n", run.id());

    let mut begun = Begun::default();
    let mut is_killed = false;
    let mut answer = std::pin::pin!(run.outcome());
    let outcome = loop {
        let line = tokio::select! {
            answer = &mut answer => break answer?,
            line = seen.recv() => line.unwrap_or_default(),
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        println!("  {line}");
        let what = begun.count(&line);
        // `pay` has ended, and `reserve_seat` is still running.
        if !is_killed && what == "pay ends" {
            is_killed = true;
            // Gives the server time to receive the result of the payment.
            tokio::time::sleep(Duration::from_millis(500)).await;
            println!("\n*** kill -9: the worker is gone. Another one is started.\n");
            worker.kill()?;
            worker = Hosted::start((WORKER, &address), lines.clone())?;
        }
    };
    let result = outcome.into_result()?;
    println!("\nThe answer: {}", result.response);
    begun.print();
    println!("Tokens: {} in, {} out", result.usage.input_tokens, result.usage.output_tokens);
    Ok(())
}
