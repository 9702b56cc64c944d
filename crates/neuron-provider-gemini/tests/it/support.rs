//! The test server, its provider, requests and replies.

use neuron_conformance::any_api::AnyServer;
pub(crate) use neuron_conformance::case::soon;
use neuron_model::{CompletionRequest, Message};
use neuron_provider_gemini::Gemini;
use neuron_testing::ServerReply;
use serde_json::{Value, json};

pub(crate) type Server = AnyServer;

pub(crate) async fn start(replies: impl IntoIterator<Item = ServerReply>) -> Server {
    Server::start(replies).await.unwrap()
}

pub(crate) fn provider(url: impl Into<String>) -> Gemini {
    Gemini::new("test-key").base_url(url)
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

/// Returns a response, or a chunk of a stream.
pub(crate) fn chunk(parts: &Value, reason: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}});
    if let Some(reason) = reason {
        candidate["finishReason"] = json!(reason);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12},
        "modelVersion": "m", "responseId": "r",
    })
}

/// Returns a reply with a JSON body.
pub(crate) fn json_reply(status: u16, body: &Value) -> ServerReply {
    let kind = [("content-type", "application/json; charset=UTF-8")];
    ServerReply::raw(status, kind, body.to_string())
}

/// Returns a whole response with these parts.
pub(crate) fn whole(parts: &Value) -> ServerReply {
    json_reply(200, &chunk(parts, Some("STOP")))
}

/// Returns a stream of these chunks.
pub(crate) fn events(chunks: &[Value]) -> ServerReply {
    let bytes: String = chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect();
    ServerReply::raw(200, [("content-type", "text/event-stream")], bytes)
}

/// Returns a stream with one part per chunk.
pub(crate) fn streamed(parts: &[Value]) -> ServerReply {
    let mut chunks: Vec<_> = parts.iter().map(|part| chunk(&json!([part]), None)).collect();
    chunks.push(chunk(&json!([]), Some("STOP")));
    events(&chunks)
}
