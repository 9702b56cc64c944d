//! Continues stored runs after the agent's code has changed. One change is allowed, another change is detected.

use std::error::Error;
use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::{ChangedAgent, DurableOptions, SqliteRuns};
use neuron::prelude::*;

/// Returns the number of items in stock.
#[neuron_tool(effect = Pure)]
async fn get_stock(
    /// The name of the item
    item: String,
) -> Result<String, ToolError> {
    Ok(format!("{item}: 7 in stock"))
}

/// Orders an item. The new code has this tool, the old code does not.
#[neuron_tool(effect = AtMostOnce)]
async fn order_item(
    /// The name of the item
    item: String,
) -> Result<String, ToolError> {
    Ok(format!("ordered: {item}"))
}

/// The part of the code that changes between releases.
struct Release {
    max_turns: usize,
    has_orders: bool,
    changed_agent: ChangedAgent,
}

/// Starts or continues a run. The old code leaves the run after its first turn, as if its process had been killed.
async fn work(
    runs: &SqliteRuns,
    id: &str,
    release: &Release,
    is_old: bool,
) -> Result<(), Box<dyn Error>> {
    let provider = Arc::new(Anthropic::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(GetStockTool);
    if release.has_orders {
        tools.register(OrderItemTool);
    }
    let agent =
        Agent::builder(provider.clone()).tools(tools.clone()).max_turns(release.max_turns).build();

    // ANCHOR: open
    let run = runs.run(id).options(DurableOptions::new().changed_agent(release.changed_agent));
    let durable = run.open(provider, Arc::new(tools)).await?;
    // ANCHOR_END: open
    let start = durable.start("How many umbrellas are in stock?").await?;
    let mut conversation = Conversation::new();
    let mut steps = agent.run(&mut conversation, start).durable(durable).steps();
    while let Some(step) = steps.next().await {
        match step? {
            Step::Tools { calls, .. } => println!("  {} tool call has a result", calls.len()),
            Step::Ended(result) => println!("  {}", result.response),
            _ => {}
        }
        if is_old {
            break;
        }
    }
    Ok(())
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let runs = SqliteRuns::open("runs.db").await?;
    let mut release =
        Release { max_turns: 10, has_orders: false, changed_agent: ChangedAgent::Refuse };
    for id in ["run-1", "run-2"] {
        println!("old code, {id}:");
        work(&runs, id, &release, true).await?;
    }

    println!("new code with another limit, run-1:");
    release.max_turns = 20;
    work(&runs, "run-1", &release, false).await?;

    println!("new code with another tool, run-2:");
    release.has_orders = true;
    if let Err(error) = work(&runs, "run-2", &release, false).await {
        println!("  {error}");
    }
    let stalled = runs.inspect("run-2").await?;
    println!("  the run is {}", stalled.summary.status);

    // ANCHOR: ended
    println!("new code with another tool, run-1, which has ended:");
    println!("  refused: {}", work(&runs, "run-1", &release, false).await.is_err());
    let ended = runs.inspect("run-1").await?;
    if let Some(outcome) = ended.outcome {
        println!("  the run is {}: {}", ended.summary.status, outcome.into_result()?.response);
    }
    // ANCHOR_END: ended

    println!("the same code with `ChangedAgent::GoOn`, run-2:");
    release.changed_agent = ChangedAgent::GoOn;
    work(&runs, "run-2", &release, false).await?;
    Ok(())
}
