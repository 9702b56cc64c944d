//! Tests of the Bedrock server, for its responses, its keys, its errors and its broken streams.

mod frames;
mod refusals;
mod responses;

use neuron_testing::{BedrockServer, ServerReply};
use neuron_types::{CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage};
use serde_json::{Value, json};

use self::frames::{Frame, frames_of};
use crate::servers::http::{Answer, exchange};

pub(crate) const HEADERS: &[(&str, &str)] =
    &[("authorization", "Bearer test-key"), ("content-type", "application/json")];

pub(crate) const CONVERSE: &str =
    "POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse";
pub(crate) const STREAM: &str =
    "POST /model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> BedrockServer {
    BedrockServer::start(replies).await.unwrap()
}

/// Returns a valid body.
pub(crate) fn ask() -> Value {
    json!({"messages": [{"role": "user", "content": [{"text": "hi"}]}]})
}

pub(crate) async fn post(server: &BedrockServer, endpoint: &str) -> Answer {
    exchange(&server.url(), endpoint, HEADERS, &ask()).await
}

/// Returns the frames of a streamed response.
pub(crate) fn events(answer: &Answer) -> Vec<Frame> {
    frames_of(&answer.bytes())
}

/// Returns the content blocks of a response that is not streamed.
pub(crate) fn blocks(body: &Value) -> &Value {
    &body["output"]["message"]["content"]
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
