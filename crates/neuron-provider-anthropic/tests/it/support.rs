//! What the tests share: a provider for a server, an answer, and a server that can misbehave.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use neuron_provider_anthropic::Anthropic;
pub(crate) use neuron_testing::RawServer;
use neuron_testing::{AnthropicServer, ServerReply};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    StreamEvent, StreamHandle, TokenUsage,
};
use serde_json::json;

/// A limit for what must not take for ever.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(120);
    tokio::time::timeout(limit, work).await.expect("too slow")
}

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> AnthropicServer {
    AnthropicServer::start(replies).await.unwrap()
}

pub(crate) fn provider(url: impl Into<String>) -> Anthropic {
    Anthropic::new(AnthropicServer::API_KEY).base_url(url)
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

/// A small answer with a thought, a text and a call.
pub(crate) fn answer() -> CompletionResponse {
    let content = vec![
        ContentBlock::Thinking { thinking: "hm".into(), signature: "sig".into() },
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!({"a": 1}) },
    ];
    CompletionResponse {
        id: "msg_7".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            ..Default::default()
        },
        stop_reason: StopReason::ToolUse,
    }
}

/// Reads a stream to its end.
pub(crate) async fn events(handle: StreamHandle) -> Vec<StreamEvent> {
    soon(handle.receiver.collect()).await
}

/// Checks that a stream ends with one error and no answer, and returns it.
#[track_caller]
pub(crate) fn broken(events: Vec<StreamEvent>) -> ProviderError {
    let mut events = events.into_iter().rev();
    let Some(StreamEvent::Error(error)) = events.next() else {
        panic!("no error at the end");
    };
    for event in events {
        let ends = matches!(
            event,
            StreamEvent::Error(_)
                | StreamEvent::MessageComplete(_)
                | StreamEvent::ResponseComplete(_)
        );
        assert!(!ends, "{event:?} before the error");
    }
    error.into()
}
