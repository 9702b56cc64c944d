//! Must not compile, because a tool function cannot have these signatures.

#![allow(unused)]

use neuron_tool::neuron_tool;
use neuron_types::{ToolContext, ToolError};

/// Not async
#[neuron_tool]
fn blocking() -> Result<(), ToolError> {
    Ok(())
}

/// Generic
#[neuron_tool]
async fn generic<T: Send>(value: T) -> Result<(), ToolError>
where
    T: Sync,
{
    Ok(())
}

/// With a lifetime
#[neuron_tool]
async fn lifetime<'a>(ctx: &'a ToolContext) -> Result<&'a str, ToolError> {
    Ok(&ctx.session_id)
}

/// Borrowed
#[neuron_tool]
async fn borrowed(ctx: &ToolContext) -> Result<&str, ToolError> {
    Ok(&ctx.session_id)
}

/// Opaque
#[neuron_tool]
async fn opaque() -> Result<impl serde::Serialize, ToolError> {
    Ok(1)
}

/// Unsafe
#[neuron_tool]
async unsafe fn dangerous() -> Result<(), ToolError> {
    Ok(())
}

/// Without a result
#[neuron_tool]
async fn nothing() {}

struct Weather;

impl Weather {
    /// A method
    #[neuron_tool]
    async fn method(&self, city: String) -> Result<String, ToolError> {
        Ok(city)
    }
}

/// Not a function
#[neuron_tool]
struct Structure {
    city: String,
}

fn main() {
    // The function items exist, so there is no error about this call.
    let _ = blocking();
}
