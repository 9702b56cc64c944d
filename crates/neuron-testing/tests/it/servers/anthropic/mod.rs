//! Tests of the Anthropic server over real connections.

mod answers;
mod breaks;
mod client;
mod connections;
mod refusals;

use neuron_testing::{AnthropicServer, Reply, ServerReply};
use neuron_types::{CompletionResponse, ContentBlock, Message, Role, StopReason, TokenUsage};
use serde_json::Value;

use client::{ask, post};

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> AnthropicServer {
    AnthropicServer::start(replies).await.unwrap()
}

pub(crate) fn response(content: Vec<ContentBlock>) -> CompletionResponse {
    CompletionResponse {
        id: "msg_9".into(),
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

/// Starts a server with one reply, requests a stream, and returns the data of every event.
pub(crate) async fn streamed(reply: Reply) -> Vec<Value> {
    let server = start([reply]).await;
    let answer = post(&server, &ask(true)).await;
    assert!(answer.complete);
    answer.typed_events()
}
