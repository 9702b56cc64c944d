//! Tests of `StreamReceiver`, and of the response at the end of a stream.

use std::task::{Context, Poll, Waker};

use futures_util::{StreamExt, stream};
use neuron_model::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason, StreamError,
    StreamEvent, StreamHandle, StreamReceiver, TokenUsage, ToolCall, WasmBoxedStream,
    message_events,
};
use serde_json::json;

fn delta(text: &str) -> StreamEvent {
    StreamEvent::TextDelta(text.into())
}

fn texts(events: Vec<StreamEvent>) -> Vec<String> {
    let text = |event| match event {
        StreamEvent::TextDelta(text) => text,
        other => panic!("{other:?}"),
    };
    events.into_iter().map(text).collect()
}

fn handle(events: impl IntoIterator<Item = StreamEvent>) -> StreamHandle {
    let events: Vec<_> = events.into_iter().collect();
    StreamReceiver::new(stream::iter(events)).into()
}

fn usage(input_tokens: usize) -> TokenUsage {
    TokenUsage { input_tokens, ..Default::default() }
}

#[tokio::test]
async fn receiver_converts_from_channel_and_streams() {
    let (sender, channel) = tokio::sync::mpsc::channel(2);
    for text in ["a", "b"] {
        sender.try_send(delta(text)).unwrap();
    }
    drop(sender);
    let boxed: WasmBoxedStream<'static, _> = Box::pin(stream::iter([delta("a"), delta("b")]));
    for mut receiver in [
        StreamReceiver::from(channel),
        StreamReceiver::from(boxed),
        StreamReceiver::new(stream::iter([delta("a"), delta("b")])),
    ] {
        let mut events = vec![receiver.recv().await.unwrap()];
        // Read the remaining events through `Stream`. `recv` and `Stream` share the position.
        events.extend((&mut receiver).collect::<Vec<_>>().await);
        assert_eq!(texts(events), ["a", "b"]);
        assert!(receiver.recv().await.is_none(), "the end is no hang");
    }
}

#[tokio::test]
async fn dropped_recv_loses_no_event() {
    let (sender, channel) = tokio::sync::mpsc::channel(1);
    let mut receiver = StreamReceiver::from(channel);
    {
        let mut waiting = Box::pin(receiver.recv());
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut cx).is_pending());
        sender.try_send(delta("late")).unwrap();
    }
    assert!(matches!(receiver.recv().await, Some(StreamEvent::TextDelta(text)) if text == "late"));
}

#[tokio::test]
async fn dropped_receiver_drops_its_stream() {
    let (sender, channel) = tokio::sync::mpsc::channel::<StreamEvent>(1);
    let handle = StreamHandle::from(channel);
    drop(handle);
    assert!(sender.is_closed());
    let (sender, channel) = tokio::sync::mpsc::channel::<StreamEvent>(1);
    let mut response = Box::pin(StreamHandle::from(channel).into_response());
    let polled = response.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    drop(response);
    assert!(sender.is_closed());
}

#[test]
fn receiver_is_send_sync_and_unpin() {
    fn check<T: Send + Sync + Unpin>() {}
    check::<StreamReceiver>();
    check::<StreamHandle>();
    // A stream with a `Cell` is not `Sync`. The receiver must be `Sync` nevertheless.
    let cell = std::cell::Cell::new(0);
    let counting = stream::poll_fn(move |_| {
        cell.set(cell.get() + 1);
        Poll::Ready(None)
    });
    let receiver = StreamReceiver::new(counting);
    assert_eq!(format!("{receiver:?}"), "StreamReceiver { .. }");
    assert_eq!(
        format!("{:?}", StreamHandle { receiver }),
        "StreamHandle { receiver: StreamReceiver { .. } }"
    );
}

#[tokio::test]
async fn response_is_the_last_event() {
    let response = CompletionResponse {
        id: "msg_1".into(),
        model: "m".into(),
        message: Message::assistant("whole"),
        usage: usage(7),
        stop_reason: StopReason::MaxTokens,
    };
    let events = [
        delta("wh"),
        StreamEvent::Usage(usage(1)),
        StreamEvent::MessageComplete(Message::assistant("other")),
        StreamEvent::ResponseComplete(Box::new(response.clone())),
        // Events after `ResponseComplete` are never read.
        StreamEvent::Error(StreamError::non_retryable("late")),
    ];
    assert_eq!(handle(events).into_response().await.unwrap(), response);
}

#[tokio::test]
async fn missing_response_is_assembled_from_message_and_last_usage() {
    let call = Message {
        role: Role::Assistant,
        content: vec![ContentBlock::ToolUse {
            id: "c1".into(),
            name: "t".into(),
            input: json!({}),
        }],
    };
    for (message, stop_reason) in
        [(Message::assistant("hi"), StopReason::EndTurn), (call, StopReason::ToolUse)]
    {
        let events = [
            StreamEvent::Usage(usage(1)),
            StreamEvent::MessageComplete(message.clone()),
            StreamEvent::Usage(usage(2)),
        ];
        let expected = CompletionResponse {
            id: String::new(),
            model: String::new(),
            message,
            usage: usage(2),
            stop_reason,
        };
        assert_eq!(handle(events).into_response().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn stream_that_ends_early_is_an_error() {
    for events in [vec![], vec![delta("The answer is")], vec![StreamEvent::Usage(usage(1))]] {
        let error = handle(events).into_response().await.unwrap_err();
        assert!(matches!(error, ProviderError::StreamError(_)));
        assert_eq!(
            error.to_string(),
            "stream error: the stream ended before the answer was complete"
        );
    }
}

#[tokio::test]
async fn stream_error_keeps_its_class() {
    let retry_after = Some(std::time::Duration::from_secs(3));
    for (error, kind) in [
        (StreamError::from(ProviderError::RateLimit { retry_after }), "RateLimit"),
        (ProviderError::Authentication("key".into()).into(), "Authentication"),
        (StreamError::retryable("the line broke"), "ServiceUnavailable"),
        (StreamError::non_retryable("bad frame"), "Other"),
    ] {
        let (retryable, wait) = (error.is_retryable(), error.retry_after());
        let events = [
            StreamEvent::MessageComplete(Message::assistant("not counted")),
            StreamEvent::Error(error),
        ];
        let error = handle(events).into_response().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.is_retryable(), error.retry_after()),
            (kind, retryable, wait)
        );
    }
}

#[test]
fn complete_message_streams_one_delta_per_block() {
    let message = Message {
        role: Role::Assistant,
        content: vec![
            ContentBlock::Thinking { thinking: "Hm.".into(), signature: "s".into() },
            ContentBlock::Thinking { thinking: String::new(), signature: "s".into() },
            ContentBlock::Text("Hi".into()),
            ContentBlock::Raw {
                provider: "p".into(),
                json: json!({}),
                portable: Some(Box::new(ContentBlock::Text("cited".into()))),
            },
            ContentBlock::Compaction { content: "c".into() },
            ContentBlock::ToolUse { id: "c1".into(), name: "t".into(), input: json!(1) },
            ContentBlock::ToolUse {
                id: "c2".into(),
                name: "t".into(),
                input: ToolCall::invalid_json_input("{\"a"),
            },
        ],
    };
    let events: Vec<_> = message_events(&message).map(|event| format!("{event:?}")).collect();
    assert_eq!(
        events,
        [
            r#"ThinkingDelta("Hm.")"#,
            r#"TextDelta("Hi")"#,
            r#"TextDelta("cited")"#,
            r#"ToolUseStart { id: "c1", name: "t" }"#,
            r#"ToolUseInputDelta { id: "c1", delta: "1" }"#,
            r#"ToolUseEnd { id: "c1" }"#,
            r#"ToolUse { id: "c1", name: "t", input: Number(1) }"#,
            // The arguments are not valid JSON, so there is no complete call.
            r#"ToolUseStart { id: "c2", name: "t" }"#,
            r#"ToolUseInputDelta { id: "c2", delta: "{\"a" }"#,
            r#"ToolUseEnd { id: "c2" }"#,
        ]
    );
}
