//! Must not compile, because macro options are unknown, invalid or given twice.

#![allow(unused)]

use neuron_tool::{RunTool, Tool, neuron_tool};
use neuron_types::{ToolContext, ToolError};

#[neuron_tool(name = "a", descripton = "A")]
async fn unknown() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(name = "get weather", description = "A")]
async fn bad_name() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(name = weather, description = "A")]
async fn name_is_no_literal() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(description = "A", description = "B")]
async fn twice() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(description = " ")]
async fn empty() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(description = 7)]
async fn no_text() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(description = "A", effect = "pure")]
async fn effect_in_quotes() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool(description = "A", effect = Harmless)]
async fn effect_that_is_none() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool("a", "A")]
async fn no_keys() -> Result<(), ToolError> {
    Ok(())
}

#[neuron_tool]
async fn no_description() -> Result<(), ToolError> {
    Ok(())
}

/// A name of other letters
#[neuron_tool]
async fn größe() -> Result<(), ToolError> {
    Ok(())
}

#[derive(Tool, schemars::JsonSchema)]
#[tool(name = "a", readonly)]
struct Unknown {}

fn main() {}
