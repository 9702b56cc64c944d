//! Tests of the serialisation of requests.

use neuron_types::ToolDefinition;
use serde_json::json;

pub(crate) fn tool(name: &str) -> ToolDefinition {
    serde_json::from_value(json!({
        "name": name, "description": "d", "input_schema": {"type": "object"},
    }))
    .unwrap()
}
