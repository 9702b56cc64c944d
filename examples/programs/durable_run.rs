//! Continues a run after its process was killed in the middle of a tool call, with a journal in a SQLite file.

use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::SqliteDurableContext;
use neuron::prelude::*;

// ANCHOR: tools
/// Charges the customer's card. A second call would charge the card twice.
#[neuron_tool(effect = AtMostOnce)]
async fn charge_card(
    /// The amount in euros
    euros: u32,
) -> Result<String, io::Error> {
    println!("  charge_card runs");
    append("charges.txt", &format!("{euros} EUR"))?;
    Ok(format!("{euros} EUR charged"))
}

/// Sends the receipt. The mail service sends only one receipt for each key.
#[neuron_tool(effect = Idempotent)]
async fn send_receipt(ctx: &ToolContext) -> Result<String, io::Error> {
    println!("  send_receipt runs");
    let receipt = mail_service(&ctx.idempotency_key)?;
    if std::env::args().any(|arg| arg == "crash") {
        std::process::abort();
    }
    Ok(receipt)
}

/// Stands for the service that receives the key. For a known key it returns the earlier result, and sends nothing.
fn mail_service(key: &str) -> Result<String, io::Error> {
    // A real service stores the key and the effect in one transaction of its database.
    let sent = std::fs::read_to_string("receipts.txt").unwrap_or_default();
    let known = sent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    if let Some(receipt) = known {
        return Ok(receipt.to_owned());
    }
    let receipt = format!("receipt {}", sent.lines().count() + 1);
    append("receipts.txt", &format!("{key}: {receipt}"))?;
    Ok(receipt)
}
// ANCHOR_END: tools

/// Appends a line to a file. It stands for a request to a service, which outlives this process.
fn append(file: &str, line: &str) -> Result<(), io::Error> {
    let mut file = std::fs::File::options().create(true).append(true).open(file)?;
    writeln!(file, "{line}")
}

// ANCHOR: work
/// Starts the run, or continues it after a crash.
async fn work() -> Result<(), MainError> {
    let provider = Arc::new(Anthropic::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(ChargeCardTool);
    tools.register(SendReceiptTool);
    let agent = Agent::builder(provider.clone()).tools(tools.clone()).build();

    let durable =
        SqliteDurableContext::open("runs.db", "order-42", provider, Arc::new(tools)).await?;
    // The first process stores the message, and later processes get the stored message.
    let start = durable.start("Charge 30 EUR for order 42, then send the receipt.").await?;
    let result = agent.run(&mut Conversation::new(), start).durable(durable).await?;
    println!("  {}", result.response);
    Ok(())
}
// ANCHOR_END: work

/// Without an argument, starts two processes that do the same work. The first process crashes.
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    if std::env::args().len() > 1 {
        return work().await;
    }
    for mode in ["crash", "continue"] {
        println!("process `{mode}`:");
        let status = Command::new(std::env::current_exe()?).arg(mode).status()?;
        println!("  ended, success: {}", status.success());
    }
    println!("charges: {}", std::fs::read_to_string("charges.txt")?.trim());
    println!("receipts: {}", std::fs::read_to_string("receipts.txt")?.lines().count());
    Ok(())
}
