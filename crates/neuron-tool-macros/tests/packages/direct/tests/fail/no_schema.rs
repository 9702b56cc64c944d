//! Must not compile, because a struct that derives `Tool` does not implement `JsonSchema`.

#![allow(unused)]

use neuron_tool::{RunTool, Tool};
use neuron_types::{ToolContext, ToolError};

/// Says nothing of its fields
#[derive(Tool)]
struct Silent {
    word: String,
}

impl RunTool for Silent {
    type Output = String;
    type Error = ToolError;

    async fn run(self, _: &ToolContext) -> Result<String, ToolError> {
        Ok(self.word)
    }
}

fn main() {}
