//! A struct that says not what it does.

#![allow(unused)]

use neuron_tool::Tool;

/// Does nothing
#[derive(Tool, schemars::JsonSchema)]
struct Idle {
    /// How long
    seconds: u64,
}

fn main() {}
