//! Must not compile, because the function is registered instead of its generated tool.

#![allow(unused)]

use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::ToolError;

/// Searches
#[neuron_tool]
async fn search(query: String) -> Result<String, ToolError> {
    Ok(query)
}

fn main() {
    ToolRegistry::new().register(search);
}
