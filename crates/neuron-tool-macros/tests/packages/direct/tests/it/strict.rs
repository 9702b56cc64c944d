//! Tests that the generated code compiles in a crate with forbidden lints and with clippy's pedantic lints. Clippy
//! checks this file when it runs for the workspace.

#![deny(warnings, clippy::pedantic, clippy::nursery)]
#![forbid(missing_docs, unsafe_code)]

use std::collections::HashMap;

use neuron_tool::{RunTool, Tool, ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use serde_json::{Value, json};

/// Counts names
#[neuron_tool(effect = Pure)]
pub async fn count(
    /// The names
    names: HashMap<String, Value>,
    _least: Option<usize>,
    #[schemars(description = "The most", range(max = 9))] most: usize,
) -> Result<usize, ToolError> {
    Ok(names.len().min(most))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Page {
    page: u32,
}

/// Turns a page
#[neuron_tool]
async fn turn(ctx: &ToolContext, #[serde(flatten)] to: Page) -> Result<String, ToolError> {
    Ok(format!("{} {}", ctx.session_id, to.page))
}

/// Repeats a word
#[derive(Debug, Tool, schemars::JsonSchema)]
pub struct Repeat {
    /// The word
    pub word: String,
}

impl RunTool for Repeat {
    type Output = String;
    type Error = ToolError;

    async fn run(self, _ctx: &ToolContext) -> Result<String, ToolError> {
        Ok(self.word)
    }
}

/// Checks that the schemas contain only the author's doc comments. For the lint `missing_docs`, the macros generate
/// further doc comments, and these must not appear in a schema.
#[test]
fn schema_contains_only_doc_comments_of_the_author() {
    let mut registry = ToolRegistry::new();
    registry.register(CountTool);
    registry.register(TurnTool);
    registry.register(RepeatTool);
    let schemas: Vec<_> = registry
        .definitions()
        .into_iter()
        .map(|tool| tool.input_schema["properties"].clone())
        .collect();
    assert_eq!(
        schemas,
        [
            json!({
                "names": {
                    "description": "The names",
                    "type": "object",
                    "additionalProperties": true
                },
                "_least": { "type": ["integer", "null"], "format": "uint", "minimum": 0 },
                "most": {
                    "description": "The most",
                    "type": "integer",
                    "format": "uint",
                    "minimum": 0,
                    "maximum": 9
                },
            }),
            json!({ "page": { "type": "integer", "format": "uint32", "minimum": 0 } }),
            json!({ "word": { "description": "The word", "type": "string" } }),
        ]
    );
}
