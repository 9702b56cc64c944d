//! Tests of `ScriptedProvider`, for the order of replies, the streams and the scripted breaks.

use std::time::Duration;

use futures_util::FutureExt;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError, Role,
    StopReason, StreamEvent, StreamHandle, TokenUsage, ToolCall,
};
use serde_json::json;
use tokio::time::Instant;

fn ask(text: &str) -> CompletionRequest {
    CompletionRequest { messages: vec![Message::user(text)], ..Default::default() }
}

async fn stream(provider: &ScriptedProvider) -> StreamHandle {
    provider.complete_stream_ref(ask("hi").view()).await.unwrap()
}

/// Streams one reply, and returns each of its events as a text, such as `text Hello` for a text delta.
async fn script_of(reply: Reply) -> Vec<String> {
    let mut receiver = stream(&ScriptedProvider::new([reply])).await.receiver;
    let mut events = Vec::new();
    while let Some(event) = receiver.recv().await {
        events.push(match event {
            StreamEvent::TextDelta(delta) => format!("text {delta}"),
            StreamEvent::ThinkingDelta(delta) => format!("thinking {delta}"),
            StreamEvent::SignatureDelta(delta) => format!("signature {delta}"),
            StreamEvent::ToolUseStart { id, name } => format!("start {id} {name}"),
            StreamEvent::ToolUseInputDelta { id, delta } => format!("input {id} {delta}"),
            StreamEvent::ToolUseEnd { id } => format!("end {id}"),
            StreamEvent::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
            StreamEvent::Usage(_) => "usage".into(),
            StreamEvent::MessageComplete(_) => "message".into(),
            StreamEvent::ResponseComplete(_) => "response".into(),
            StreamEvent::Error(error) => format!("error {error}"),
            other => format!("{other:?}"),
        });
    }
    assert!(receiver.recv().await.is_none(), "the end stays the end");
    events
}

#[tokio::test]
async fn replies_are_returned_in_order_with_defaults() {
    let provider = ScriptedProvider::new(["one", "two"]);
    provider.push(Reply::tool_call("c1", "now", json!({})));
    let first = provider.complete(ask("hi")).await.unwrap();
    let second = provider.complete_ref(ask("hi").view()).await.unwrap();
    let third = stream(&provider).await.into_response().await.unwrap();
    assert_eq!([&first.id, &second.id, &third.id], ["msg_1", "msg_2", "msg_3"]);
    assert_eq!(first.message, Message::assistant("one"));
    assert_eq!(second.message.text(), "two");
    assert_eq!(first.model, "scripted-model");
    assert_eq!(first.stop_reason, StopReason::EndTurn);
    assert_eq!(third.stop_reason, StopReason::ToolUse);
    assert!(first.usage.input_tokens > 0 && first.usage.output_tokens > 0);
    assert_eq!(first.usage, second.usage);
    assert_eq!(provider.calls(), 3);
    assert_eq!(provider.remaining(), 0);
    assert_eq!(provider.requests(), vec![ask("hi"); 3]);
    assert_eq!(provider.info().name, "scripted");
    assert_eq!(provider.info().default_model, "scripted-model");
    provider.assert_complete();
}

#[tokio::test]
async fn set_values_override_the_defaults() {
    let usage = TokenUsage {
        input_tokens: 100,
        output_tokens: 7,
        cache_read_tokens: Some(90),
        ..Default::default()
    };
    let provider = ScriptedProvider::new([Reply::text("b")
        .thinking("a", "s")
        .with_text("c")
        .usage(usage.clone())
        .stop_reason(StopReason::MaxTokens)
        .model("m")
        .id("x")]);
    let response = provider.complete(ask("hi")).await.unwrap();
    let expected = CompletionResponse {
        id: "x".into(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![
                ContentBlock::Thinking { thinking: "a".into(), signature: "s".into() },
                ContentBlock::Text("b".into()),
                ContentBlock::Text("c".into()),
            ],
        },
        usage,
        stop_reason: StopReason::MaxTokens,
    };
    assert_eq!(response, expected);
    provider.push(response);
    assert_eq!(provider.complete(ask("hi")).await.unwrap(), expected);
}

#[tokio::test]
async fn model_defaults_to_the_model_of_the_request() {
    let provider = ScriptedProvider::new(["one"]);
    let request = CompletionRequest { model: "big".into(), ..ask("hi") };
    assert_eq!(provider.complete(request).await.unwrap().model, "big");
}

#[tokio::test]
async fn call_after_the_last_reply_is_an_error() {
    let provider = ScriptedProvider::new(["one", "two"]);
    for _ in 0..2 {
        provider.complete(ask("hi")).await.unwrap();
    }
    let error = provider.complete(ask("and then?")).await.unwrap_err();
    assert!(matches!(error, ProviderError::InvalidRequest(_)));
    assert_eq!(
        error.to_string(),
        "invalid request: the script has 2 replies and this is call 3; \
         its last message is User: and then?"
    );
    let empty = ScriptedProvider::default();
    let error = empty.complete_stream(CompletionRequest::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid request: the script has 0 replies and this is call 1; it has no messages"
    );
    assert_eq!(empty.calls(), 1);
}

#[test]
#[should_panic(expected = "1 of the script's 1 replies were not used")]
fn replies_that_are_left_are_noticed() {
    ScriptedProvider::new(["one"]).assert_complete();
}

#[tokio::test]
async fn clones_share_script_and_requests() {
    let provider = ScriptedProvider::new(["one", "two"]);
    let clone = provider.clone();
    clone.complete(ask("a")).await.unwrap();
    assert_eq!(provider.complete(ask("b")).await.unwrap().message.text(), "two");
    assert_eq!(clone.requests(), [ask("a"), ask("b")]);
}

#[tokio::test]
async fn stream_has_the_events_of_a_provider() {
    let reply = Reply::tool_calls([("c1", "add", json!({"a": 1})), ("c2", "now", json!({}))])
        .with_text("Añade 🦀🦀")
        .thinking("hmm", "sig")
        .chunk_chars(7);
    let expected = [
        "thinking hmm",
        "signature sig",
        "text Añade 🦀",
        "text 🦀",
        "start c1 add",
        "input c1 {\"a\":1}",
        "end c1",
        "call c1 add {\"a\":1}",
        "start c2 now",
        "input c2 {}",
        "end c2",
        "call c2 now {}",
        "usage",
        "message",
        "response",
    ];
    assert_eq!(script_of(reply).await, expected);
}

#[tokio::test]
async fn invalid_arguments_are_streamed_raw_without_tool_use() {
    let input = ToolCall::invalid_json_input("{\"a\": ");
    let reply = Reply::tool_call("c1", "add", input).chunk_chars(4);
    let expected = [
        "start c1 add",
        "input c1 {\"a\"",
        "input c1 : ",
        "end c1",
        "usage",
        "message",
        "response",
    ];
    assert_eq!(script_of(reply).await, expected);
}

#[tokio::test]
async fn blocks_without_deltas_are_only_in_the_message() {
    let reply = Reply::message(vec![
        ContentBlock::Thinking { thinking: String::new(), signature: "sig".into() },
        ContentBlock::RedactedThinking { data: "x".into() },
        ContentBlock::Compaction { content: "so far".into() },
        ContentBlock::Raw {
            provider: "anthropic".into(),
            json: json!({"type": "text", "text": "cited", "citations": [1]}),
            portable: Some(Box::new(ContentBlock::Text("cited".into()))),
        },
    ]);
    let expected = ["signature sig", "text cited", "usage", "message", "response"];
    assert_eq!(script_of(reply).await, expected);
}

#[tokio::test]
async fn stream_ends_with_the_response_of_complete() {
    let reply = Reply::tool_call("c1", "add", json!({"a": 1})).with_text("adding");
    let provider = ScriptedProvider::new([reply.clone().id("x"), reply.id("x")]);
    let whole = provider.complete(ask("hi")).await.unwrap();
    let streamed = stream(&provider).await.into_response().await.unwrap();
    assert_eq!(whole, streamed);
}

#[tokio::test]
async fn stream_breaks_after_the_scripted_event() {
    let reply = Reply::text("abcdef").chunk_chars(2);
    assert_eq!(script_of(reply.clone().end_early_after(2)).await, ["text ab", "text cd"]);
    assert_eq!(script_of(reply.clone().end_early_after(0)).await, [""; 0] as [&str; 0]);
    let overloaded = || ProviderError::ServiceUnavailable("529".into());
    assert_eq!(
        script_of(reply.clone().fail_after(1, overloaded())).await,
        ["text ab", "error service unavailable: 529"]
    );

    let mut hanging = stream(&ScriptedProvider::new([reply.hang_after(1)])).await;
    assert!(hanging.receiver.recv().await.is_some());
    assert!(hanging.receiver.recv().now_or_never().is_none());
}

#[tokio::test]
async fn complete_breaks_if_its_stream_would() {
    let reply = Reply::text("ab");
    let fail = |events| {
        let error = ProviderError::RateLimit { retry_after: Some(Duration::from_secs(2)) };
        Reply::text("ab").fail_after(events, error)
    };
    let provider = ScriptedProvider::new([
        reply.clone().end_early_after(3),
        fail(3),
        fail(4),
        reply.hang_after(3),
    ]);
    let ended = provider.complete(ask("hi")).await.unwrap_err();
    assert!(matches!(ended, ProviderError::StreamError(_)));
    let failed = provider.complete(ask("hi")).await.unwrap_err();
    assert_eq!(failed.retry_after(), Some(Duration::from_secs(2)));
    assert_eq!(provider.complete(ask("hi")).await.unwrap().message.text(), "ab");
    assert!(provider.complete(ask("hi")).now_or_never().is_none());
}

#[tokio::test]
async fn errors_keep_their_kind() {
    let provider = ScriptedProvider::new([
        Reply::error(ProviderError::ModelNotFound("m".into())),
        ProviderError::Other("odd".into()).into(),
    ]);
    let error = provider.complete(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::ModelNotFound(model) if model == "m"));
    let error = provider.complete_stream(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ProviderError::Other(_)));
    assert_eq!(error.to_string(), "odd");
}

#[tokio::test]
async fn dropping_a_call_decrements_open_streams() {
    let provider = ScriptedProvider::new([
        Reply::hang(),
        Reply::text("ab").hang_after(1),
        Reply::text("done"),
    ]);

    let mut call = Box::pin(provider.complete(ask("hi")));
    assert_eq!(provider.open_streams(), 0, "nothing begins before a poll");
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(provider.open_streams(), 1);
    drop(call);
    assert_eq!(provider.open_streams(), 0);

    let mut broken = stream(&provider).await;
    assert!(broken.receiver.recv().await.is_some());
    assert_eq!(provider.open_streams(), 1);
    drop(broken);
    assert_eq!(provider.open_streams(), 0);

    stream(&provider).await.into_response().await.unwrap();
    assert_eq!(provider.open_streams(), 0);
}

#[tokio::test(start_paused = true)]
async fn delays_follow_the_tokio_clock() {
    let second = Duration::from_secs(1);
    let reply = Reply::text("abcd").chunk_chars(1).delay(60 * second).event_delay(second);
    let provider = ScriptedProvider::new([reply.clone(), reply]);

    let start = Instant::now();
    provider.complete(ask("hi")).await.unwrap();
    assert_eq!(start.elapsed(), 60 * second);

    let start = Instant::now();
    let handle = stream(&provider).await;
    assert_eq!(start.elapsed(), 60 * second);
    // The stream has seven events, so the event delay passes six times.
    handle.into_response().await.unwrap();
    assert_eq!(start.elapsed(), 66 * second);
}
