//! Must not compile, because the future of a tool function is not `Send`.

#![allow(unused)]

use std::rc::Rc;

use neuron_tool::neuron_tool;
use neuron_types::{ToolContext, ToolError};

/// Keeps an `Rc` across an await
#[neuron_tool]
async fn waits(ctx: &ToolContext) -> Result<u8, ToolError> {
    let number = Rc::new(1);
    ctx.cancellation_token.cancelled().await;
    Ok(*number)
}

fn main() {}
