//! Must not compile, because types lack a required trait. The compiler's errors must point at the user's types.

#![allow(unused)]

use neuron_tool::neuron_tool;
use neuron_types::{ToolContext, ToolError};

struct Opaque;

/// An argument that cannot be read
#[neuron_tool]
async fn argument(value: Opaque) -> Result<(), ToolError> {
    let Opaque = value;
    Ok(())
}

/// A result that cannot be written
#[neuron_tool]
async fn output() -> Result<Opaque, ToolError> {
    Ok(Opaque)
}

/// An error that is none
#[neuron_tool]
async fn error() -> Result<(), String> {
    Ok(())
}

/// No result
#[neuron_tool]
async fn not_a_result() -> String {
    String::new()
}

fn main() {}
