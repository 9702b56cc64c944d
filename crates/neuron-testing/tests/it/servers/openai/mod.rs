//! Tests of the OpenAI server, for its three endpoints and its dialects.

mod chat;
mod dialects;
mod embeddings;
mod refusals;
mod responses;

use neuron_testing::{OpenAiServer, ServerReply};
use neuron_types::{CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage};
use serde_json::{Value, json};

use crate::servers::http::{Answer, exchange};

pub(crate) const HEADERS: &[(&str, &str)] =
    &[("authorization", "Bearer test-key"), ("content-type", "application/json")];

pub(crate) const CHAT: &str = "POST /v1/chat/completions";
pub(crate) const RESPONSES: &str = "POST /v1/responses";
pub(crate) const EMBEDDINGS: &str = "POST /v1/embeddings";

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> OpenAiServer {
    OpenAiServer::start(replies).await.unwrap()
}

/// Returns a valid body for an endpoint, with `fields` set in addition.
pub(crate) fn ask(endpoint: &str, fields: Value) -> Value {
    let mut body = match endpoint {
        CHAT => json!({"model": "gpt-4.1", "messages": [{"role": "user", "content": "hi"}]}),
        RESPONSES => json!({"model": "gpt-5.4-mini", "input": "hi"}),
        _ => json!({"model": "text-embedding-3-small", "input": ["a", "b"]}),
    };
    for (key, value) in fields.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

pub(crate) async fn post(server: &OpenAiServer, endpoint: &str, fields: Value) -> Answer {
    exchange(&server.url(), endpoint, HEADERS, &ask(endpoint, fields)).await
}

pub(crate) fn response(content: Vec<ContentBlock>) -> CompletionResponse {
    CompletionResponse {
        id: "id_9".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            ..Default::default()
        },
        stop_reason: StopReason::EndTurn,
    }
}

pub(crate) fn thinking(text: &str, signature: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: text.into(), signature: signature.into() }
}

pub(crate) fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "f".into(), input }
}

pub(crate) fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: "openai".into(), json, portable: portable.map(Box::new) }
}
