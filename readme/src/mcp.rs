//! The example "MCP": a client of the server for files, and a server with a tool.

use std::error::Error;

use neuron::prelude::*;

/// Adds two numbers.
#[neuron_tool]
async fn add(
    /// The first number
    a: i64,
    /// The second number
    b: i64,
) -> Result<i64, ToolError> {
    Ok(a + b)
}

/// Writes the names of the other server's tools beside `npx`, the first in the search path. Standard output belongs to
/// MCP.
pub(crate) fn discovered(tools: &ToolRegistry) -> Result<(), Box<dyn Error>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = std::env::split_paths(&path).next().unwrap_or_default();
    std::fs::write(folder.join("discovered"), tools.names().collect::<Vec<_>>().join(" "))?;
    Ok(())
}

#[tokio::main]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let mut own = ToolRegistry::new();
    own.register(AddTool);
    include!(concat!(env!("OUT_DIR"), "/mcp.rs"));
    Ok(())
}
