//! Must not compile, because a tool function cannot have these parameters.

#![allow(unused)]

use std::borrow::Cow;

use neuron_tool::neuron_tool;
use neuron_types::{ToolContext, ToolError};

/// Patterns
#[neuron_tool]
async fn patterns((a, b): (u8, u8), _: u8, ref c: u8, d @ _: u8) -> Result<u8, ToolError> {
    Ok(a + b + c + d)
}

/// References
#[neuron_tool]
async fn references(
    word: &str,
    maybe: Option<&'static str>,
    cow: Cow<'_, str>,
    fine: Cow<'static, str>,
) -> Result<(), ToolError> {
    Ok(())
}

/// Opaque
#[neuron_tool]
async fn opaque(word: impl ToString) -> Result<String, ToolError> {
    Ok(word.to_string())
}

/// The context, wrongly
#[neuron_tool]
async fn by_value(ctx: ToolContext) -> Result<(), ToolError> {
    Ok(())
}

/// The context, wrongly
#[neuron_tool]
async fn mutable(ctx: &mut ToolContext) -> Result<(), ToolError> {
    Ok(())
}

/// The context, wrongly
#[neuron_tool]
async fn with_lifetime(ctx: &'static ToolContext) -> Result<(), ToolError> {
    Ok(())
}

/// The context, wrongly
#[neuron_tool]
async fn twice(ctx: &ToolContext, number: u8, again: &ToolContext) -> Result<(), ToolError> {
    Ok(())
}

/// Attributes
#[neuron_tool]
async fn attributes(
    #[arg(long)] long: bool,
    #[cfg(any())] gone: bool,
    #[serde(default)] ctx: &ToolContext,
) -> Result<(), ToolError> {
    Ok(())
}

fn main() {}
