//! An MCP server. Its tools are functions.
//!
//! Without an argument it serves over standard input and output, and an MCP client starts it. With an address such as
//! `127.0.0.1:8080` it serves over HTTP.

use std::error::Error;
use std::process::ExitCode;

use neuron::mcp::McpServer;
use neuron::prelude::*;

/// Counts the words of a text.
#[neuron_tool(effect = Pure)]
async fn count_words(
    /// The text
    text: String,
) -> Result<usize, ToolError> {
    Ok(text.split_whitespace().count())
}

/// Sorts the lines of a text.
#[neuron_tool(effect = Pure)]
async fn sort_lines(
    /// The text, with two or more lines
    text: String,
    /// Set for the order from Z to A
    descending: bool,
) -> Result<String, ToolError> {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.len() < 2 {
        // The client's model receives this text, and can correct its arguments.
        return Err(ToolError::ModelRetry("the text has fewer than two lines".into()));
    }
    lines.sort_unstable();
    if descending {
        lines.reverse();
    }
    Ok(lines.join("\n"))
}

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
    let mut tools = ToolRegistry::new();
    tools.register(CountWordsTool);
    tools.register(SortLinesTool);
    let server = McpServer::new(tools).with_name("texts").with_instructions("Tools for texts.");
    match std::env::args().nth(1) {
        Some(address) => server.serve_http(address.parse()?).await?,
        // Standard output carries the messages of the protocol. Write logs to standard error.
        None => server.serve_stdio().await?,
    }
    Ok(())
}
