//! The function registered instead of its tool.

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
