//! Pins a durable run to the version of the agent that started it.

use std::error::Error;
use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::{
    ChangedAgent, DurableOptions, JournalError, SqliteDurableContext, SqliteRuns,
};
use neuron::prelude::*;

/// Opens the run with a version of the agent.
async fn open(
    runs: &SqliteRuns,
    version: &str,
    changed_agent: ChangedAgent,
) -> Result<SqliteDurableContext<Anthropic>, Box<dyn Error>> {
    let provider = Arc::new(Anthropic::from_env()?);
    // ANCHOR: version
    let run = runs
        .run("run-1")
        .options(DurableOptions::new().agent_version(version).changed_agent(changed_agent));
    // ANCHOR_END: version
    Ok(run.open(provider, Arc::new(ToolRegistry::new())).await?)
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let runs = SqliteRuns::open("runs.db").await?;

    // Version 1 stores the start of the run, and its process ends before the model has answered.
    let durable = open(&runs, "1", ChangedAgent::Refuse).await?;
    durable.start("What is 2 + 2?").await?;
    drop(durable);

    // Version 2 must not continue the run.
    match open(&runs, "2", ChangedAgent::Refuse).await {
        Err(error) if matches!(error.downcast_ref(), Some(JournalError::OtherVersion { .. })) => {
            println!("{error}");
        }
        other => drop(other?),
    }
    for run in runs.list().await? {
        println!("{}: {}, version {}", run.id, run.status, run.agent_version.unwrap_or_default());
    }

    // Version 2 may continue the run, which is then pinned to version 2.
    let durable = open(&runs, "2", ChangedAgent::GoOn).await?;
    let agent = Agent::builder(Anthropic::from_env()?).build();
    let result = durable.drive("What is 2 + 2?", &agent).await?;
    println!("{}", result.response);
    for run in runs.list().await? {
        println!("{}: {}, version {}", run.id, run.status, run.agent_version.unwrap_or_default());
    }
    Ok(())
}
