//! Runs an agent with the tools of an MCP server that the program starts as a child process.

use std::sync::Arc;

use neuron::anthropic::Anthropic;
use neuron::mcp::{McpClient, McpServer, McpToolBridge, StdioConfig};
use neuron::prelude::*;

/// Returns the status of an order.
#[neuron_tool]
async fn order_status(
    /// The number of the order
    order: u32,
) -> Result<String, ToolError> {
    match order {
        42 => Ok("shipped on Monday".into()),
        // The model receives this text and can correct its call.
        _ => Err(ToolError::ModelRetry(format!("there is no order {order}"))),
    }
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => serve().await,
        _ => ask().await,
    }
}

// ANCHOR: client
/// Asks an agent that has the tools of the server.
async fn ask() -> Result<(), MainError> {
    // This program is its own server. Another server is for example the command "npx" with its arguments.
    let program = std::env::current_exe()?;
    let client = McpClient::connect_stdio(StdioConfig {
        command: program.display().to_string(),
        args: vec!["serve".into()],
        env: vec![],
    })
    .await?;
    let client = Arc::new(client);
    println!("server: {}, MCP {}", client.server_info().name, client.version());

    let mut tools = ToolRegistry::new();
    for tool in McpToolBridge::discover(&client).await? {
        println!("tool: {}", tool.name());
        tools.try_register_dyn(tool)?;
    }
    let agent = Agent::builder(Anthropic::from_env()?).tools(tools).build();
    let result = agent.run(&mut Conversation::new(), "Where is order 42?").await?;
    println!("agent: {}", result.response);

    // Ends the child process.
    client.close().await;
    Ok(())
}
// ANCHOR_END: client

// ANCHOR: server
/// Serves the tool over standard input and output, until the client closes the connection.
async fn serve() -> Result<(), MainError> {
    let mut tools = ToolRegistry::new();
    tools.register(OrderStatusTool);
    McpServer::new(tools).with_name("orders").serve_stdio().await?;
    Ok(())
}
// ANCHOR_END: server
