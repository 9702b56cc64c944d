//! Answers that every vendor can give.

use neuron_testing::ServerReply;
use neuron_types::{
    CompletionResponse, ContentBlock, EmbeddingResponse, EmbeddingUsage, Message, Role, StopReason,
    TokenUsage,
};
use serde_json::json;

use crate::serve::Case;
use crate::vendor::MODEL;

/// Each answer with a name.
pub(crate) fn answers() -> Vec<(&'static str, CompletionResponse)> {
    let call = |id: &str, name: &str, input| ContentBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input,
    };
    let text = |text: &str| ContentBlock::Text(text.into());
    let plain = |words: &str| answer(vec![text(words)], StopReason::EndTurn);
    vec![
        ("text", plain("Hello, how are you today?")),
        (
            "text in many scripts",
            plain("añ🦀 \u{1F468}\u{200D}\u{1F469} \"quoted\" \\ \u{2028}\n\tend"),
        ),
        ("one character", plain("x")),
        ("a long text", plain(&"All work and no play makes Jack a dull boy. ".repeat(200))),
        ("cut off", answer(vec![text("And then")], StopReason::MaxTokens)),
        (
            "a tool call",
            answer(
                vec![call("call_1", "get_weather", json!({"city": "Paris", "days": 3}))],
                StopReason::ToolUse,
            ),
        ),
        (
            "a tool call without arguments",
            answer(vec![call("call_1", "now", json!({}))], StopReason::ToolUse),
        ),
        (
            "a tool call with arguments of every kind",
            answer(
                vec![call(
                    "call_1",
                    "store",
                    json!({
                        "text": "ünï🦀 \" \\ \n",
                        "number": -1.5,
                        "big": 9_007_199_254_740_991_i64,
                        "flag": true,
                        "nothing": null,
                        "list": [1, "two", {"three": []}],
                        "nested": {"a": {"b": {}}},
                    }),
                )],
                StopReason::ToolUse,
            ),
        ),
        (
            "parallel tool calls after a text",
            answer(
                vec![
                    text("Let me look both up."),
                    call("call_1", "get_weather", json!({"city": "Paris"})),
                    call("call_2", "get_weather", json!({"city": "Oslo"})),
                    call("call_3", "now", json!({})),
                ],
                StopReason::ToolUse,
            ),
        ),
        ("cached tokens", {
            let mut cached = plain("From the cache.");
            cached.usage = TokenUsage {
                input_tokens: 1200,
                output_tokens: 7,
                cache_read_tokens: Some(1000),
                cache_creation_tokens: Some(150),
                ..Default::default()
            };
            cached
        }),
    ]
}

/// An answer with this content.
pub(crate) fn answer(content: Vec<ContentBlock>, stop_reason: StopReason) -> CompletionResponse {
    CompletionResponse {
        id: "answer_1".into(),
        model: MODEL.into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage { input_tokens: 25, output_tokens: 11, ..Default::default() },
        stop_reason,
    }
}

/// Vectors, each of which is asked for so many times.
pub(crate) fn embeddings(times: usize) -> Case {
    let response = embedding();
    Case {
        name: "two vectors".into(),
        replies: (0..times).map(|_| ServerReply::from(response.clone())).collect(),
        means: json!({
            "input": ["one", "two"],
            "embeddings": response.embeddings,
            "prompt_tokens": response.usage.prompt_tokens,
        }),
    }
}

/// Two vectors of numbers that are the same with four bytes as with eight.
pub(crate) fn embedding() -> EmbeddingResponse {
    EmbeddingResponse {
        embeddings: vec![vec![1.0, -0.5, 0.0], vec![0.25, 3.0, -2048.0]],
        model: MODEL.into(),
        usage: EmbeddingUsage { prompt_tokens: 6, total_tokens: 6 },
    }
}
