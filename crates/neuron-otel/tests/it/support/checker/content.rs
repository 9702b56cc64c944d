//! Checks captured content against the JSON schemas of OpenTelemetry's GenAI conventions.
//!
//! <https://github.com/open-telemetry/semantic-conventions/tree/v1.41.0/docs/gen-ai>

use serde_json::Value;

use crate::support::attributes::Attributes;

/// The types of message parts, with the names of their required fields.
const PARTS: [(&str, &[&str]); 7] = [
    ("text", &["content"]),
    ("reasoning", &["content"]),
    ("tool_call", &["name"]),
    ("tool_call_response", &["response"]),
    ("blob", &["modality", "content"]),
    ("uri", &["modality", "uri"]),
    ("file", &["modality", "file_id"]),
];

/// A function that checks the format of a value.
type Holds = fn(&Value) -> bool;

const ROLES: [&str; 4] = ["system", "user", "assistant", "tool"];

/// Returns a problem for each content attribute of a span that does not match its schema.
pub(super) fn content(attributes: &Attributes) -> Vec<String> {
    let forms: [(&str, Holds); 4] = [
        ("gen_ai.system_instructions", |value| all(value, is_part)),
        ("gen_ai.input.messages", |value| all(value, is_message)),
        ("gen_ai.output.messages", |value| all(value, is_message)),
        ("gen_ai.tool.definitions", |value| all(value, is_tool)),
    ];
    let mut problems = Vec::new();
    for (name, holds) in forms {
        if let Some(value) = attributes.json(name).filter(|value| !holds(value)) {
            problems.push(format!("`{name}` has not the form of its schema: {value}"));
        }
    }
    problems
}

fn all(value: &Value, holds: Holds) -> bool {
    value.as_array().is_some_and(|list| list.iter().all(holds))
}

fn is_message(message: &Value) -> bool {
    let role = message["role"].as_str();
    role.is_some_and(|role| ROLES.contains(&role)) && all(&message["parts"], is_part)
}

fn is_part(part: &Value) -> bool {
    let Some(kind) = part["type"].as_str() else { return false };
    // A part of another type may have any fields.
    let known = PARTS.iter().find(|(name, _)| *name == kind);
    known.is_none_or(|(_, fields)| fields.iter().all(|field| part.get(field).is_some()))
}

fn is_tool(tool: &Value) -> bool {
    tool["type"].is_string() && tool["name"].is_string()
}
