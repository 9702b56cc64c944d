//! The test server, its provider, a request and a response.

pub(crate) use neuron_conformance::case::soon;
use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage,
};
use neuron_provider_ollama::Ollama;
use neuron_testing::{OllamaServer, ServerReply};
use serde_json::json;

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> OllamaServer {
    OllamaServer::start(replies).await.unwrap()
}

pub(crate) fn provider(url: impl Into<String>) -> Ollama {
    Ollama::new().base_url(url)
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

/// Returns a small response with thinking, a text and a tool call.
pub(crate) fn answer() -> CompletionResponse {
    let content = vec![
        ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() },
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!({"a": 1}) },
    ];
    CompletionResponse {
        id: String::new(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage { input_tokens: 50, output_tokens: 9, ..Default::default() },
        stop_reason: StopReason::ToolUse,
    }
}
