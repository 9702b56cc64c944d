//! An MCP server for the tools of a registry, over standard input and output or over HTTP.
//!
//! ```sh
//! cargo run -p neuron-mcp --example mcp_server                     # stdio, normally started by a client
//! cargo run -p neuron-mcp --example mcp_server -- 127.0.0.1:8080   # http://127.0.0.1:8080/mcp
//! ```
//!
//! Over stdio the server ends when its client closes the connection. Ctrl-C shuts the server down in both modes, and
//! cancels running calls.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use neuron_mcp::{HttpServerConfig, LogLevel, McpPeer, McpResource, McpResourceSet, McpServer};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use tokio_util::sync::CancellationToken;

/// Adds two numbers
#[neuron_tool(effect = Pure)]
async fn add(a: f64, b: f64) -> Result<f64, ToolError> {
    Ok(a + b)
}

/// Counts to a number, in steps of a tenth of a second
#[neuron_tool]
async fn count(
    /// The last number, at most 100
    to: u32,
    ctx: &ToolContext,
) -> Result<String, ToolError> {
    if to > 100 {
        // The client's model receives this text and can repeat the call with another argument.
        return Err(ToolError::ModelRetry("count to 100 at most".into()));
    }
    if let Some(client) = ctx.extensions.get::<McpPeer>() {
        client.log(LogLevel::Info, Some("count"), format!("counting to {to}"));
    }
    for number in 1..=to {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(progress) = &ctx.progress_reporter {
            progress.report(f64::from(number), Some(f64::from(to)), None);
        }
    }
    Ok(format!("counted to {to}"))
}

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Over stdio, standard output carries the messages of the protocol. Write errors to standard error.
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut tools = ToolRegistry::new();
    tools.register(AddTool);
    tools.register(CountTool);

    let shutdown = CancellationToken::new();
    let about = McpResource::new("info://about", "about");
    let server = McpServer::new(tools)
        .with_name("example")
        .with_instructions("Arithmetic and counting.")
        .with_resources(McpResourceSet::new().with_text(about, "A server made of a registry."))
        .with_shutdown(shutdown.clone());

    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            shutdown.cancel();
        }
    });

    match std::env::args().nth(1) {
        None => server.serve_stdio().await?,
        Some(addr) => {
            let listening = server.bind_http(HttpServerConfig::new(addr.parse()?)).await?;
            eprintln!("listening: {}", listening.url());
            listening.serve().await?;
        }
    }
    Ok(())
}
