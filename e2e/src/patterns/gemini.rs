//! The patterns of the Gemini API.

use super::Rule::{Length, Name, NameFrom, ObjectSchema, OneOf, Without};
use super::{Row, row};

/// <https://ai.google.dev/gemini-api/docs/image-understanding>, and types of other files that our providers send.
const FILES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "application/pdf",
    "text/plain",
];

/// Files in the response of a function.
///
/// <https://ai.google.dev/gemini-api/docs/function-calling>
const RESPONSE_FILES: &[&str] =
    &["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];

pub(super) const ROWS: &[Row] = &[
    // https://ai.google.dev/api/caching#FunctionDeclaration. Some models accept 128 characters. A call of Gemini's own is
    // sent back unchanged, also with a name that the model invented, because it may have a signature.
    row(
        &[
            "tools.*.functionDeclarations.*.name",
            "toolConfig.functionCallingConfig.allowedFunctionNames.*",
        ],
        NameFrom("a-zA-Z_", "a-zA-Z0-9_.:-", 1..=64),
    ),
    // https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling. An empty list is an error too
    // (https://github.com/inngest/agent-kit/issues/125).
    row(&["tools.*.functionDeclarations"], Length(1..=512)),
    row(&["tools.*.functionDeclarations.*.parametersJsonSchema"], ObjectSchema(&[])),
    // https://ai.google.dev/api/generate-content#generationconfig
    row(&["generationConfig.stopSequences"], Length(1..=5)),
    row(&["generationConfig.stopSequences.*"], Length(1..=usize::MAX)),
    row(
        &["generationConfig.responseMimeType"],
        OneOf(&["text/plain", "application/json", "text/x.enum"]),
    ),
    // https://ai.google.dev/api/caching#Content
    row(&["contents.*.role"], OneOf(&["user", "model"])),
    row(&["contents.0.role"], OneOf(&["user"])),
    row(&["contents", "contents.*.parts"], Length(1..=usize::MAX)),
    row(&["contents.*.parts.*.inlineData.mimeType"], OneOf(FILES)),
    row(
        &["contents.*.parts.*.functionResponse.parts.*.inlineData.mimeType"],
        OneOf(RESPONSE_FILES),
    ),
    // Base64 of protocol buffers (https://protobuf.dev/programming-guides/json/).
    row(
        &[
            "contents.*.parts.*.thoughtSignature",
            "contents.*.parts.*.inlineData.data",
            "contents.*.parts.*.functionResponse.parts.*.inlineData.data",
        ],
        Name("a-zA-Z0-9+/=_-", 1..=usize::MAX),
    ),
    // Gemini takes a `$ref` for a reference to one of the files of the response.
    // https://ai.google.dev/gemini-api/docs/function-calling
    row(&["contents.*.parts.*.functionResponse.response"], Without(&["$ref"])),
];

#[cfg(test)]
pub(super) const EXAMPLE: &str = r#"{
    "tools": [{"functionDeclarations": [
        {"name": "look", "parametersJsonSchema": {"type": "object"}}
    ]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look"]}},
    "generationConfig": {"stopSequences": ["a"], "responseMimeType": "application/json"},
    "contents": [
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "aGk="}
        ]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}, "parts": [
            {"inlineData": {"mimeType": "application/pdf", "data": "aGk="}}
        ]}}]}
    ]
}"#;
