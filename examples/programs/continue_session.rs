//! Continues a run after its process was killed, without an engine, from a session that is stored after each turn.

use std::io::{self, Write};
use std::process::Command;

use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::prelude::*;

/// Charges the customer's card. A second call would charge the card twice.
#[neuron_tool(effect = AtMostOnce)]
async fn charge_card(
    /// The amount in euros
    euros: u32,
) -> Result<String, io::Error> {
    println!("  charge_card runs");
    append(&format!("charge {euros} EUR"))?;
    Ok(format!("{euros} EUR charged"))
}

/// Sends the receipt. The mail service ignores a second request with the same key.
#[neuron_tool(effect = Idempotent)]
async fn send_receipt(ctx: &ToolContext) -> Result<String, io::Error> {
    println!("  send_receipt runs");
    append(&format!("receipt {}", ctx.idempotency_key))?;
    if std::env::args().any(|arg| arg == "crash") {
        std::process::abort();
    }
    Ok("sent".into())
}

/// Appends a line to a file. It stands for a request to a service, which outlives this process.
fn append(line: &str) -> Result<(), io::Error> {
    let mut file = std::fs::File::options().create(true).append(true).open("requests.txt")?;
    writeln!(file, "{line}")
}

// ANCHOR: work
async fn work() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(ChargeCardTool);
    tools.register(SendReceiptTool);
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();

    let session = SessionHandle::new(FileSessionStorage::new("sessions".into()), "order-42");
    let mut conversation = session.load().await?;
    let start = match conversation.messages() {
        [] => Start::from("Charge 30 EUR for order 42, then send the receipt."),
        _ => Start::Continue,
    };
    let result = agent.run(&mut conversation, start).store(&session).await?;
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
        Command::new(std::env::current_exe()?).arg(mode).status()?;
    }
    let requests = std::fs::read_to_string("requests.txt")?;
    let mut receipts: Vec<&str> =
        requests.lines().filter(|line| line.starts_with("receipt")).collect();
    let all = receipts.len();
    receipts.dedup();
    println!("requests for a receipt: {all}, different keys: {}", receipts.len());
    Ok(())
}
