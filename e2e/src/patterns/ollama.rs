//! The patterns of Ollama's API. It documents few.

use super::Rule::{Length, Name, ObjectSchema, OneOf};
use super::{Row, row};

/// <https://docs.ollama.com/api/chat>
pub(super) const ROWS: &[Row] = &[
    row(&["tools.*.type"], OneOf(&["function"])),
    row(&["tools.*.function.name"], Length(1..=usize::MAX)),
    row(&["tools.*.function.parameters"], ObjectSchema(&[])),
    row(&["messages.*.role"], OneOf(&["system", "user", "assistant", "tool"])),
    // Base64 without a `data:` URL.
    row(&["messages.*.images.*"], Name("a-zA-Z0-9+/=", 1..=usize::MAX)),
    // The runner stops at an empty sequence at once, because each text contains it
    // (https://github.com/ollama/ollama/blob/main/runner/common/stop.go).
    row(&["options.stop.*"], Length(1..=usize::MAX)),
];

#[cfg(test)]
pub(super) const EXAMPLE: &str = r#"{
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "options": {"stop": ["a"]},
    "messages": [{"role": "user", "content": "a", "images": ["aGk="]}]
}"#;
