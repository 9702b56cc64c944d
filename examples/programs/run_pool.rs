//! Drives all runs of a SQLite file with a pool, and approves a call of a run that waits.

use std::collections::HashSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use neuron::agent::ApprovalSignal;
use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::{SqliteRuns, WaitEvent};
use neuron::prelude::*;

/// Pays an amount back to a customer.
#[neuron_tool(effect = AtMostOnce)]
async fn refund(
    /// The amount in euros
    euros: u32,
) -> Result<String, ToolError> {
    Ok(format!("{euros} EUR refunded"))
}

// ANCHOR: operator
/// Approves every pending call, until no run is left. A program for operators shows the calls to a person.
async fn approve_all(runs: &SqliteRuns) -> Result<(), Box<dyn Error>> {
    let mut decided = HashSet::new();
    while !runs.unfinished().await?.is_empty() {
        for run in runs.list().await? {
            let Some(wait) = run.waits_for else { continue };
            let WaitEvent::Approval { signal: Some(signal), pending: Some(pending) } = wait.event
            else {
                continue;
            };
            // The pool may not have taken an earlier decision yet.
            if !decided.insert((run.id.clone(), wait.since)) {
                continue;
            }
            for pending_call in &pending.calls {
                let call = &pending_call.call;
                println!("{}: {} {} waits, approved", run.id, call.name, call.input);
            }
            runs.signal(&run.id, &signal, ApprovalDecisions::approve_all(&pending)).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
// ANCHOR_END: operator

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Arc::new(Anthropic::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(RefundTool);
    let agent = Agent::builder(provider.clone())
        .tools(tools.clone())
        // Every call that no rule allows needs an approval.
        .permission_policy(PermissionRules::new([PermissionRule::allow("get_*")])?)
        .config(|config| {
            let timeout = Duration::from_secs(3 * 24 * 60 * 60);
            config.approval_signal = Some(ApprovalSignal { name: "approval".into(), timeout });
        })
        .build();

    let runs = SqliteRuns::open("runs.db").await?;
    // ANCHOR: pool
    // Any process may submit runs. They are stored, and need no process while they wait.
    runs.run("ticket-1").submit("How long is the warranty?").await?;
    runs.run("ticket-2").submit("My parcel never came. I want my 30 EUR back.").await?;

    // Drives one run at a time.
    let pool = runs.pool(provider, Arc::new(tools), agent).at_once(1);
    tokio::select! {
        ended = pool.run() => ended?,
        done = approve_all(&runs) => done?,
    }
    // ANCHOR_END: pool
    for run in runs.list().await? {
        println!("{}: {}", run.id, run.status);
    }
    Ok(())
}
