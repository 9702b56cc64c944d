//! The example "MCP". The program uses an MCP server for files, and is an MCP server itself.

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

/// Writes the names of the discovered tools to a file, because standard output belongs to the MCP protocol. Called by
/// an addition of `build.rs`.
///
/// The file is in the first folder of the search path. The test puts its own `npx` there, and reads the file.
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
