//! The patterns of Bedrock's Converse API.

use super::Rule::{AtMost, KeyLength, Least, Length, Name, ObjectSchema, OneOf, StartsWith};
use super::{Row, row};

pub(super) const ROWS: &[Row] = &[
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolSpecification.html
    row(
        &[
            "toolConfig.tools.*.toolSpec.name",
            "toolConfig.toolChoice.tool.name",
            "messages.*.content.*.toolUse.name",
        ],
        Name("a-zA-Z0-9_-", 1..=64),
    ),
    row(&["toolConfig.tools.*.toolSpec.description"], Length(1..=usize::MAX)),
    row(&["toolConfig.tools"], Length(1..=usize::MAX)),
    // The error "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object."
    row(&["toolConfig.tools.*.toolSpec.inputSchema.json"], ObjectSchema(&[])),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html
    row(
        &["messages.*.content.*.toolUse.toolUseId", "messages.*.content.*.toolResult.toolUseId"],
        Name("a-zA-Z0-9_.:-", 1..=64),
    ),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_InferenceConfiguration.html
    row(&["inferenceConfig.stopSequences"], Length(0..=2500)),
    row(&["inferenceConfig.stopSequences.*"], Length(1..=usize::MAX)),
    row(&["inferenceConfig.maxTokens"], Least(1)),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html
    row(
        &["messages.*.content.*.image", "messages.*.content.*.toolResult.content.*.image"],
        AtMost(20),
    ),
    row(
        &["messages.*.content.*.document", "messages.*.content.*.toolResult.content.*.document"],
        AtMost(5),
    ),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ImageBlock.html
    row(
        &[
            "messages.*.content.*.image.format",
            "messages.*.content.*.toolResult.content.*.image.format",
        ],
        OneOf(&["png", "jpeg", "gif", "webp"]),
    ),
    // The error "Unable to deserialize the base64 encoded value."
    row(
        &[
            "messages.*.content.*.*.source.bytes",
            "messages.*.content.*.toolResult.content.*.*.source.bytes",
        ],
        Name("a-zA-Z0-9+/=", 1..=usize::MAX),
    ),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_S3Location.html
    row(&["messages.*.content.*.*.source.s3Location.uri"], StartsWith(&["s3://"])),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html
    row(
        &[
            "messages.*.content.*.document.name",
            "messages.*.content.*.toolResult.content.*.document.name",
        ],
        Name("a-zA-Z0-9 ()[]-", 1..=200),
    ),
    // https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    row(
        &[
            "toolConfig.tools.*.cachePoint",
            "system.*.cachePoint",
            "messages.*.content.*.cachePoint",
        ],
        AtMost(4),
    ),
    // The error "text content blocks must be non-empty".
    row(
        &[
            "system.*.text",
            "messages.*.content.*.text",
            "messages.*.content.*.toolResult.content.*.text",
        ],
        Length(1..=usize::MAX),
    ),
    row(&["messages.*.role"], OneOf(&["user", "assistant", "system"])),
    // https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
    row(&["requestMetadata"], Length(1..=16)),
    row(&["requestMetadata"], KeyLength(1..=256)),
    row(&["requestMetadata.*"], Length(0..=256)),
    row(&["additionalModelResponseFieldPaths"], Length(0..=10)),
    row(&["additionalModelResponseFieldPaths.*"], Length(1..=256)),
];

#[cfg(test)]
pub(super) const EXAMPLE: &str = r#"{
    "toolConfig": {
        "tools": [
            {"toolSpec": {"name": "look", "description": "a", "inputSchema": {"json": {"type": "object"}}}},
            {"cachePoint": {"type": "default"}}
        ],
        "toolChoice": {"tool": {"name": "look"}}
    },
    "inferenceConfig": {"stopSequences": ["a"], "maxTokens": 1},
    "system": [{"text": "a"}, {"cachePoint": {"type": "default"}}],
    "requestMetadata": {"a": "b"},
    "additionalModelResponseFieldPaths": ["/stop_sequence"],
    "messages": [
        {"role": "user", "content": [
            {"text": "a"},
            {"image": {"format": "png", "source": {"bytes": "aGk="}}},
            {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b.png"}}}},
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": "aGk="}}},
            {"cachePoint": {"type": "default"}}
        ]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "look", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [
            {"text": "a"},
            {"image": {"format": "png", "source": {"bytes": "aGk="}}},
            {"document": {"format": "pdf", "name": "b", "source": {"bytes": "aGk="}}}
        ]}}]}
    ]
}"#;
