//! Tools in a crate that renames `neuron-tool` and has no serde or schemars.

// The name in the code that the macro generates.
extern crate tools as neuron_tool;

use std::io::Error;

use tools::{ToolRegistry, neuron_tool};

/// Adds two numbers
#[neuron_tool]
pub async fn add(a: i64, #[serde(default)] b: i64) -> Result<i64, Error> {
    Ok(a + b)
}

/// Registers the tool.
pub fn register(registry: &mut ToolRegistry) {
    registry.register(AddTool);
}
