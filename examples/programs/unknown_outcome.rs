//! Lets the model find out if a tool call took effect, after a crash left its outcome unknown.

use std::io::{self, Write};
use std::process::Command;
use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::durable_sqlite::SqliteDurableContext;
use neuron::prelude::*;

/// Charges the customer's card. A second call would charge the card twice.
#[neuron_tool(effect = AtMostOnce)]
async fn charge_card(
    /// The amount in euros
    euros: u32,
) -> Result<String, io::Error> {
    let mut file = std::fs::File::options().create(true).append(true).open("charges.txt")?;
    writeln!(file, "{euros} EUR")?;
    if std::env::args().any(|arg| arg == "crash") {
        std::process::abort();
    }
    Ok("charged".into())
}

/// Returns the charges on the customer's card.
#[neuron_tool(effect = Pure)]
async fn list_charges() -> Result<String, io::Error> {
    Ok(std::fs::read_to_string("charges.txt")?.trim().to_owned())
}

async fn work() -> Result<(), MainError> {
    let provider = Arc::new(Anthropic::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(ChargeCardTool);
    tools.register(ListChargesTool);
    let agent = Agent::builder(provider.clone()).tools(tools.clone()).build();

    let durable =
        SqliteDurableContext::open("runs.db", "order-42", provider, Arc::new(tools)).await?;
    let start = durable.start("Charge 30 EUR for order 42.").await?;
    let mut conversation = Conversation::new();
    agent.run(&mut conversation, start).durable(durable).await?;
    for message in conversation.messages() {
        for block in message.content.iter().filter(|block| !block.is_mark()) {
            println!("{:?}: {block}", message.role);
        }
    }
    Ok(())
}

/// Without an argument, starts two processes that do the same work. The first process crashes.
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    if std::env::args().len() > 1 {
        return work().await;
    }
    for mode in ["crash", "continue"] {
        Command::new(std::env::current_exe()?).arg(mode).status()?;
    }
    Ok(())
}
