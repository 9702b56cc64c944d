//! The test server, its provider, requests and replies.

use neuron_conformance::any_api::AnyServer;
pub(crate) use neuron_conformance::case::soon;
use neuron_model::{CompletionRequest, Message};
use neuron_provider_bedrock::Bedrock;
use neuron_testing::ServerReply;
use neuron_testing::bedrock::frame;
use serde_json::{Value, json};

pub(crate) type Server = AnyServer;

pub(crate) const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

pub(crate) async fn start(replies: impl IntoIterator<Item = ServerReply>) -> Server {
    Server::start(replies).await.unwrap()
}

pub(crate) fn provider(url: impl Into<String>) -> Bedrock {
    Bedrock::new("us-east-1", "test-key").base_url(url)
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

/// Returns the body of a response.
pub(crate) fn body(content: &Value) -> Value {
    json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12},
    })
}

/// Returns a reply with a JSON body.
pub(crate) fn json_reply(status: u16, body: &Value) -> ServerReply {
    let headers = [("content-type", "application/json"), ("x-amzn-requestid", "r-1")];
    ServerReply::raw(status, headers, body.to_string())
}

/// Returns a whole response with this content.
pub(crate) fn whole(content: &Value) -> ServerReply {
    json_reply(200, &body(content))
}

pub(crate) fn event(name: &str, payload: &Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

pub(crate) fn delta(index: usize, delta: &Value) -> Vec<u8> {
    event("contentBlockDelta", &json!({"contentBlockIndex": index, "delta": delta}))
}

/// Returns the last events of a stream.
pub(crate) fn end() -> Vec<u8> {
    let usage = json!({"inputTokens": 9, "outputTokens": 3, "totalTokens": 12});
    let stop = event("messageStop", &json!({"stopReason": "end_turn"}));
    [stop, event("metadata", &json!({ "usage": usage }))].concat()
}

/// Returns a reply with these frames.
pub(crate) fn frames(bytes: Vec<u8>) -> ServerReply {
    let headers = [("content-type", EVENT_STREAM), ("x-amzn-requestid", "r-1")];
    ServerReply::raw(200, headers, bytes)
}

/// Returns a streamed text.
pub(crate) fn streamed(text: &str) -> ServerReply {
    frames([delta(0, &json!({ "text": text })), end()].concat())
}
