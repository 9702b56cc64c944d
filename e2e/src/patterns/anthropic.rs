//! The patterns of Anthropic's Messages API.

use super::Rule::{AtMost, Least, Length, Name, NotBlank, ObjectSchema, OneOf};
use super::{Row, row};

/// <https://platform.claude.com/docs/en/build-with-claude/vision>
const IMAGES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

pub(super) const ROWS: &[Row] = &[
    // https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use
    row(&["tools.*.name", "tool_choice.name"], Name("a-zA-Z0-9_-", 1..=128)),
    row(&["tools.*.input_schema"], ObjectSchema(&["oneOf", "allOf", "anyOf"])),
    // https://platform.claude.com/docs/en/api/messages: the pattern of `id`, and the length of `name` of a call.
    row(
        &[
            "messages.*.content.[tool_use].id",
            "messages.*.content.[tool_result].tool_use_id",
            "messages.*.content.[server_tool_use].id",
        ],
        Name("a-zA-Z0-9_-", 1..=usize::MAX),
    ),
    row(&["messages.*.content.[tool_use].name"], Name("a-zA-Z0-9_-", 1..=200)),
    row(
        &[
            "messages.*.content.[image].source.media_type",
            "messages.*.content.[tool_result].content.[image].source.media_type",
        ],
        OneOf(IMAGES),
    ),
    // https://platform.claude.com/docs/en/build-with-claude/prompt-caching
    row(
        &["tools.*.cache_control", "system.*.cache_control", "messages.*.content.*.cache_control"],
        AtMost(4),
    ),
    // The errors "text content blocks must be non-empty" and "must contain non-whitespace text".
    row(
        &[
            "system.[text].text",
            "messages.*.content.[text].text",
            "messages.*.content.[tool_result].content.[text].text",
        ],
        NotBlank,
    ),
    // The error "all messages must have non-empty content".
    row(&["messages.*.content"], Length(1..=usize::MAX)),
    row(&["messages.*.role"], OneOf(&["user", "assistant", "system"])),
    // The error "each stop sequence must contain non-whitespace".
    row(&["stop_sequences.*"], NotBlank),
    // https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    row(&["thinking.budget_tokens"], Least(1024)),
    // https://platform.claude.com/docs/en/api/messages
    row(&["metadata.user_id"], Length(0..=256)),
];

#[cfg(test)]
pub(super) const EXAMPLE: &str = r#"{
    "tools": [{"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}],
    "tool_choice": {"type": "tool", "name": "look"},
    "system": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
    "stop_sequences": ["a"],
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "metadata": {"user_id": "a"},
    "messages": [
        {"role": "user", "content": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        ]},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {}},
            {"type": "tool_use", "id": "t_1", "name": "look", "input": {}}
        ]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t_1", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
        ]}]}
    ]
}"#;
