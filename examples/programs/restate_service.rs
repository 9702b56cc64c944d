//! Hosts an agent as a service of a Restate server, so that its runs survive the end of a process.

use std::sync::Arc;

use neuron::durable_restate::{AgentService, DurableOptions};
use neuron::ollama::Ollama;
use neuron::prelude::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// Returns the number of items in stock.
#[neuron_tool(effect = Pure)]
async fn get_stock(
    /// The name of the item
    item: String,
) -> Result<String, ToolError> {
    Ok(format!("{item}: 7 in stock"))
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Arc::new(Ollama::from_env()?);
    let mut tools = ToolRegistry::new();
    tools.register(GetStockTool);
    let agent = Agent::builder(provider.clone()).model("llama3.2").tools(tools.clone()).build();

    // ANCHOR: serve
    // The argument is an address such as `127.0.0.1:9080`. By default the system selects a free port.
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(address).await?;
    let options = DurableOptions::new().agent_version("2026-11");
    let service = AgentService::new("shop", provider, Arc::new(tools), agent).options(options);
    println!("The service `shop` runs until the end of the input.");
    let mut input = Vec::new();
    service.serve(listener, tokio::io::stdin().read_to_end(&mut input)).await?;
    // ANCHOR_END: serve
    println!("The service has stopped.");
    Ok(())
}
