//! Must not compile, because a struct that derives `Tool` does not implement `RunTool`.

#![allow(unused)]

use neuron_tool::Tool;

/// Does nothing
#[derive(Tool, schemars::JsonSchema)]
struct Idle {
    /// Duration
    seconds: u64,
}

fn main() {}
