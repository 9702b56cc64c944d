//! The patterns of OpenAI's two APIs.

use super::Rule::{KeyLength, Least, Length, Name, ObjectSchema, OneOf, StartsWith};
use super::{Row, row};

/// <https://platform.openai.com/docs/guides/images-vision>
const IMAGES: &[&str] = &[
    "https://",
    "http://",
    "data:image/png;base64,",
    "data:image/jpeg;base64,",
    "data:image/gif;base64,",
    "data:image/webp;base64,",
];

/// The error "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
const NOT_AT_ROOT: &[&str] = &["oneOf", "anyOf", "allOf", "enum", "not"];

pub(super) const CHAT: &[Row] = &[
    // https://platform.openai.com/docs/api-reference/chat/create
    row(&["tools"], Length(1..=128)),
    row(
        &[
            "tools.*.function.name",
            "tools.*.custom.name",
            "messages.*.tool_calls.*.function.name",
            "messages.*.tool_calls.*.custom.name",
            "response_format.json_schema.name",
        ],
        Name("a-zA-Z0-9_-", 1..=64),
    ),
    row(&["tools.*.function.parameters"], ObjectSchema(NOT_AT_ROOT)),
    // https://github.com/openclaw/openclaw/pull/875
    row(&["messages.*.tool_calls.*.id", "messages.*.tool_call_id"], Length(1..=40)),
    // The error "[] is too short - 'messages.1.tool_calls'".
    row(&["messages.*.tool_calls"], Length(1..=usize::MAX)),
    row(&["messages.*.content.[image_url].image_url.url"], StartsWith(IMAGES)),
    // The error "Expected a base64-encoded data URL with an application/pdf MIME type".
    row(&["messages.*.content.[file].file.file_data"], StartsWith(&["data:"])),
    row(&["messages.*.role"], OneOf(&["developer", "system", "user", "assistant", "tool"])),
    // https://platform.openai.com/docs/api-reference/chat/create
    row(&["stop"], Length(1..=4)),
    row(&["metadata"], Length(0..=16)),
    row(&["metadata"], KeyLength(0..=64)),
    row(&["metadata.*"], Length(0..=512)),
    // https://platform.openai.com/docs/api-reference/chat/create, and for `user` and `prompt_cache_key` the error "string
    // too long. Expected a string with maximum length 64" (https://github.com/maximhq/bifrost/pull/1000).
    row(&["safety_identifier", "prompt_cache_key", "user"], Length(0..=64)),
];

pub(super) const RESPONSES: &[Row] = &[
    // https://platform.openai.com/docs/api-reference/responses/create
    row(&["tools"], Length(0..=128)),
    row(&["tools.[function].name", "text.format.name"], Name("a-zA-Z0-9_-", 1..=64)),
    row(&["tools.[function].parameters"], ObjectSchema(NOT_AT_ROOT)),
    row(&["input.[function_call].name"], Name("a-zA-Z0-9_-", 1..=128)),
    // The error "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64"
    // (https://github.com/HKUDS/nanobot/issues/1623).
    row(
        &[
            "input.[function_call].call_id",
            "input.[function_call_output].call_id",
            "input.[custom_tool_call].call_id",
            "input.[custom_tool_call_output].call_id",
        ],
        Length(1..=64),
    ),
    // The error "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'."
    row(&["input.[function_call].id"], StartsWith(&["fc"])),
    row(&["input.[reasoning].id"], StartsWith(&["rs"])),
    row(&["input.[message].id"], StartsWith(&["msg"])),
    row(
        &[
            "input.*.content.[input_image].image_url",
            "input.[function_call_output].output.[input_image].image_url",
        ],
        StartsWith(IMAGES),
    ),
    row(&["input.*.content.[input_file].file_data"], StartsWith(&["data:"])),
    row(&["input.*.role"], OneOf(&["developer", "system", "user", "assistant"])),
    // https://platform.openai.com/docs/api-reference/responses/create
    row(&["max_output_tokens"], Least(16)),
    row(&["metadata"], Length(0..=16)),
    row(&["metadata"], KeyLength(0..=64)),
    row(&["metadata.*"], Length(0..=512)),
    row(&["safety_identifier", "prompt_cache_key", "user"], Length(0..=64)),
];

#[cfg(test)]
pub(super) const CHAT_EXAMPLE: &str = r#"{
    "tools": [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "run"}}
    ],
    "response_format": {"type": "json_schema", "json_schema": {"name": "city", "schema": {}}},
    "stop": ["a"],
    "metadata": {"a": "b"},
    "safety_identifier": "a",
    "prompt_cache_key": "a",
    "user": "a",
    "messages": [
        {"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}}
        ]},
        {"role": "assistant", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}},
            {"id": "b", "type": "custom", "custom": {"name": "run", "input": ""}}
        ]},
        {"role": "tool", "tool_call_id": "a", "content": ""}
    ]
}"#;

#[cfg(test)]
pub(super) const RESPONSES_EXAMPLE: &str = r#"{
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": false}],
    "text": {"format": {"type": "json_schema", "name": "city", "schema": {}}},
    "max_output_tokens": 16,
    "metadata": {"a": "b"},
    "safety_identifier": "a",
    "prompt_cache_key": "a",
    "user": "a",
    "input": [
        {"role": "user", "content": [
            {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="}
        ]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "run", "input": ""},
        {"type": "function_call_output", "call_id": "a", "output": [
            {"type": "input_image", "image_url": "data:image/webp;base64,aGk=", "detail": "auto"}
        ]},
        {"type": "custom_tool_call_output", "call_id": "b", "output": ""}
    ]
}"#;
