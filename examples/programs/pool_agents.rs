//! Builds the agent of each run in a pool from an input that is stored with the run.

use std::sync::Arc;
use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::SqliteRuns;
use neuron::prelude::*;
use neuron::types::{Durability, DurableContext as _, WasmBoxedFuture};

// ANCHOR: agent
/// Returns the agent of the pool, a closure that the pool calls for each run. Its type names the lifetime, which the
/// compiler cannot infer.
fn support(
    runs: SqliteRuns,
    provider: Arc<Anthropic>,
) -> impl for<'d> Fn(Start, Durability<'d>) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
    move |start, durability| {
        let (runs, provider) = (runs.clone(), provider.clone());
        Box::pin(async move {
            let id = durability.run_id().unwrap_or_default();
            let customer: Option<String> = runs.input(id).await?;
            let prompt = format!("You help {}.", customer.unwrap_or_default());
            let agent = Agent::builder(provider).system_prompt(prompt).build();
            let mut conversation = Conversation::new();
            let result = agent.run(&mut conversation, start).durable(durability).await?;
            Ok(result.with_messages(&conversation))
        })
    }
}
// ANCHOR_END: agent

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Arc::new(Anthropic::from_env()?);
    let runs = SqliteRuns::open("runs.db").await?;
    // ANCHOR: pool
    runs.run("ticket-1").input(&"Ada").submit("Who am I?").await?;
    runs.run("ticket-2").input(&"Grace").submit("Who am I?").await?;

    let agent = support(runs.clone(), provider.clone());
    let pool = runs.pool(provider, Arc::default(), agent).at_once(1);
    // ANCHOR_END: pool
    let done = async {
        while !runs.unfinished().await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok::<_, MainError>(())
    };
    tokio::select! {
        ended = pool.run() => ended?,
        done = done => done?,
    }
    for id in ["ticket-1", "ticket-2"] {
        let result = runs.inspect(id).await?.outcome.and_then(|outcome| outcome.result);
        println!("{id}: {}", result.map(|result| result.response).unwrap_or_default());
    }
    Ok(())
}
