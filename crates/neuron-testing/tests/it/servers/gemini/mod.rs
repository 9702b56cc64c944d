//! Tests of the Gemini server, for its responses, its signatures, its errors and its broken streams.

mod refusals;
mod responses;
mod signatures;

use neuron_testing::{GeminiServer, ServerReply};
use neuron_types::{CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage};
use serde_json::{Value, json};

use crate::servers::http::{Answer, exchange};

pub(crate) const HEADERS: &[(&str, &str)] =
    &[("x-goog-api-key", "test-key"), ("content-type", "application/json")];

pub(crate) const GENERATE: &str = "POST /v1beta/models/gemini-3.8-flash:generateContent";
pub(crate) const STREAM: &str =
    "POST /v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse";
pub(crate) const EMBED: &str = "POST /v1beta/models/gemini-embedding-2:batchEmbedContents";
pub(crate) const EMBED_AT_VERTEX: &str =
    "POST /v1/publishers/google/models/gemini-embedding-2:batchEmbedContents";
pub(crate) const EMBED_ONE: &str =
    "POST /v1/publishers/google/models/gemini-embedding-2:embedContent";
pub(crate) const PREDICT: &str = "POST /v1/publishers/google/models/text-embedding-005:predict";

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> GeminiServer {
    GeminiServer::start(replies).await.unwrap()
}

/// Returns a valid body for an endpoint.
pub(crate) fn ask(endpoint: &str) -> Value {
    match endpoint {
        EMBED => json!({"requests": [{
            "model": "models/gemini-embedding-2",
            "content": {"parts": [{"text": "a"}]},
        }]}),
        EMBED_AT_VERTEX => json!({"requests": [{"content": {"parts": [{"text": "a"}]}}]}),
        EMBED_ONE => json!({"content": {"parts": [{"text": "a"}]}}),
        PREDICT => json!({"instances": [{"content": "a"}]}),
        _ => json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
    }
}

pub(crate) async fn post(server: &GeminiServer, endpoint: &str) -> Answer {
    exchange(&server.url(), endpoint, HEADERS, &ask(endpoint)).await
}

/// Returns the chunks of a streamed response.
pub(crate) fn chunks(answer: &Answer) -> Vec<Value> {
    let events = answer.events().into_iter();
    events.map(|(_, data)| serde_json::from_str(&data).unwrap()).collect()
}

/// Returns the parts of a response that is not streamed.
pub(crate) fn parts(body: &Value) -> &Value {
    &body["candidates"][0]["content"]["parts"]
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
            reasoning_tokens: Some(3),
            ..Default::default()
        },
        stop_reason: StopReason::EndTurn,
    }
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}
