//! A client that lists the tools, resources and prompts of an MCP server, and an agent that uses a server's tools.
//!
//! ```sh
//! cargo run -p neuron-mcp --example mcp_client                                   # run an agent with a server's tools
//! cargo run -p neuron-mcp --example mcp_client -- http://127.0.0.1:8080/mcp      # list the features over HTTP
//! cargo run -p neuron-mcp --example mcp_client -- npx -y @modelcontextprotocol/server-everything   # or over stdio
//! ```
//!
//! Without an argument the example starts a server with one tool in the same process. A scripted model calls the tool,
//! so no API key is required.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::AgentLoop;
use neuron_mcp::{HttpConfig, McpClient, McpServer, McpToolBridge, StdioConfig};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use serde_json::json;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let Some(first) = args.next() else {
        return use_server().await;
    };
    let client = match first.starts_with("http://") || first.starts_with("https://") {
        true => McpClient::connect_http(HttpConfig { url: first, ..Default::default() }).await?,
        false => {
            let config = StdioConfig { command: first, args: args.collect(), env: vec![] };
            McpClient::connect_stdio(config).await?
        }
    };
    show_server(&client).await?;
    client.close().await;
    Ok(())
}

/// Prints the name, tools, resources and prompts of a server.
async fn show_server(client: &McpClient) -> Result<(), Box<dyn Error>> {
    let info = client.server_info();
    println!("{} {}, MCP {}", info.name, info.version, client.version());
    if let Some(instructions) = client.instructions() {
        println!("{}", first_line(&instructions));
    }
    println!("\ntools");
    for tool in client.list_all_tools().await? {
        println!("  {}: {}", tool.name, first_line(&tool.description));
        // Annotations are claims of the server and may be wrong. Do not grant permissions because of them.
        if tool.annotations.is_some_and(|claims| claims.read_only_hint == Some(true)) {
            println!("    says that it only reads");
        }
    }
    // Resources and prompts are optional, so an error counts as an empty list.
    println!("\nresources");
    for resource in client.list_all_resources().await.unwrap_or_default() {
        println!("  {}: {}", resource.uri, resource.name);
    }
    println!("\nprompts");
    for prompt in client.list_all_prompts().await.unwrap_or_default() {
        println!("  {}: {}", prompt.name, first_line(&prompt.description.unwrap_or_default()));
    }
    Ok(())
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns the current weather in a city
#[neuron_tool]
async fn weather(city: String) -> Result<String, ToolError> {
    println!("  the server is asked for the weather in {city}");
    Ok(format!("{city}: 22 °C, sunny"))
}

/// Starts a server, and runs an agent that calls the server's tool.
async fn use_server() -> Result<(), Box<dyn Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(WeatherTool);
    let server = McpServer::new(tools).with_name("weather station");
    let listening = server.bind_http(Default::default()).await?;
    let url = listening.url();
    println!("a server in this process: {url}");
    let shutdown = listening.shutdown_token();
    let serving = tokio::spawn(listening.serve());

    let client = McpClient::connect_http(HttpConfig { url, ..Default::default() }).await?;
    let client = Arc::new(client);
    let mut registry = ToolRegistry::new();
    for tool in McpToolBridge::discover(&client).await? {
        registry.try_register_dyn(tool)?;
    }

    let model = ScriptedProvider::new([
        Reply::tool_call("call-1", "weather", json!({ "city": "Tokyo" })),
        Reply::text("It is sunny in Tokyo, at 22 °C."),
    ]);
    let mut agent =
        AgentLoop::builder(model, SlidingWindowStrategy::new(20, 100_000)).tools(registry).build();
    let result = agent.run_text("How is the weather in Tokyo?", &ToolContext::default()).await?;
    println!("agent: {} ({} turns)", result.response, result.turns);

    client.close().await;
    shutdown.cancel();
    serving.await??;
    Ok(())
}
