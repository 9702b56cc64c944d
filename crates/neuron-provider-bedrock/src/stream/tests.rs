//! Tests of streams.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use neuron_model::{StopReason, StreamHandle};
use neuron_testing::bedrock::frame;
use serde_json::json;

use crate::block::ORIGIN;
use crate::model::Model;
use crate::wire;

use super::*;

fn event(name: &str, payload: Value) -> Vec<u8> {
    let headers = [(":event-type", name), (":message-type", "event")];
    frame(&headers, payload.to_string().as_bytes())
}

fn delta(index: usize, delta: Value) -> Vec<u8> {
    event("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta, "p": "abc"}))
}

fn call(index: usize, id: &str) -> Vec<u8> {
    let start = json!({"toolUse": {"toolUseId": id, "name": "look"}});
    event("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
}

/// Begins a call in the form that current models of Claude and Nova have.
fn typed_call(index: usize, id: &str) -> Vec<u8> {
    let start = json!({"toolUse": {"toolUseId": id, "name": "look", "type": "tool_use"}});
    event("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
}

fn stop(index: usize) -> Vec<u8> {
    event("contentBlockStop", json!({ "contentBlockIndex": index }))
}

fn message_stop(reason: &str) -> Vec<u8> {
    event("messageStop", json!({ "stopReason": reason }))
}

fn metadata() -> Vec<u8> {
    let usage =
        json!({"inputTokens": 4, "outputTokens": 3, "totalTokens": 12, "cacheReadInputTokens": 5});
    event("metadata", json!({"usage": usage, "metrics": {"latencyMs": 1}}))
}

fn arguments(index: usize, input: &str) -> Vec<u8> {
    delta(index, json!({"toolUse": { "input": input }}))
}

fn handle(pieces: &[&[u8]]) -> StreamHandle {
    let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    wire::read_stream(stream::iter(pieces))
}

fn read_stream(bytes: &[u8]) -> Result<CompletionResponse, ProviderError> {
    handle(&[bytes]).into_response().now_or_never().unwrap()
}

/// Returns the deltas of a stream in their debug form.
fn deltas(bytes: &[u8]) -> Vec<String> {
    let events = handle(&[bytes]).receiver.collect::<Vec<_>>().now_or_never().unwrap();
    events.iter().filter(|event| event.is_delta()).map(|event| format!("{event:?}")).collect()
}

fn answer() -> [Vec<u8>; 15] {
    [
        event("messageStart", json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "hm"}})),
        delta(0, json!({"reasoningContent": {"signature": "s1"}})),
        stop(0),
        delta(1, json!({"text": "añ"})),
        delta(1, json!({"text": "🦀"})),
        stop(1),
        call(2, "x"),
        arguments(2, "{\"a\""),
        arguments(2, ": 1}"),
        stop(2),
        typed_call(3, "x"),
        stop(3),
        message_stop("tool_use"),
        metadata(),
    ]
}

#[test]
fn stream_is_equal_for_every_split() {
    let bytes = answer().concat();
    let whole = read_stream(&bytes).unwrap();
    assert_eq!(whole.stop_reason, StopReason::ToolUse);
    assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens), (9, 3));
    let call = |id: &str, input: Value| ContentBlock::ToolUse {
        id: id.into(),
        name: "look".into(),
        input,
    };
    assert_eq!(
        whole.message.content,
        [
            ContentBlock::Thinking { thinking: "hm".into(), signature: "s1".into() },
            ContentBlock::Text("añ🦀".into()),
            call("x", json!({"a": 1})),
            call("x_2", json!({})),
        ]
    );
    for split in 0..=bytes.len() {
        let (first, second) = bytes.split_at(split);
        let response = handle(&[first, second]).into_response().now_or_never().unwrap();
        assert_eq!(response.unwrap(), whole, "split at {split}");
    }
}

#[test]
fn stream_is_complete_with_the_end_of_the_message() {
    let frames = answer();
    let bytes = frames.concat();
    let without_metadata = bytes.len() - frames[14].len();
    let complete = read_stream(&bytes[..without_metadata]).unwrap();
    assert_eq!(complete.message, read_stream(&bytes).unwrap().message);
    assert_eq!(complete.usage.input_tokens, 0);
    for end in (0..bytes.len()).filter(|end| *end != without_metadata) {
        let error = read_stream(&bytes[..end]).unwrap_err();
        assert_eq!(error.kind(), "StreamError", "cut at {end}");
    }
}

#[test]
fn collected_stream_is_equal_to_the_response_of_the_stream() {
    let origin = || Origin::new(Model::new(crate::DEFAULT_MODEL, ""));
    let bytes = answer().concat();
    let collected = read(&bytes, &Secret::default(), origin()).unwrap();
    assert_eq!(collected, read_stream(&bytes).unwrap());
    let without_end = &bytes[..bytes.len() - 1];
    assert!(read(without_end, &Secret::default(), origin()).is_err());
    let busy = br#"{"__type": "ServiceUnavailableException", "message": "busy"}"#;
    for (bytes, text) in [
        (&b""[..], "stream error: the stream ended before the answer was complete"),
        (busy, "service unavailable: in the answer ServiceUnavailableException: busy"),
    ] {
        let error = read(bytes, &Secret::default(), origin()).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn events_follow_the_deltas() {
    let deltas = deltas(&answer().concat());
    assert_eq!(
        deltas[..4],
        [
            "ThinkingDelta(\"hm\")",
            "SignatureDelta(\"s1\")",
            "TextDelta(\"añ\")",
            "TextDelta(\"🦀\")"
        ]
    );
    let rest: Vec<_> = deltas[4..].iter().map(|event| event.split(' ').next().unwrap()).collect();
    let (start, input) = ("ToolUseStart", "ToolUseInputDelta");
    let end = ["ToolUseEnd", "ToolUse"];
    assert_eq!(rest, [&[start, input, input][..], &end, &[start], &end].concat());
}

#[test]
fn order_of_the_last_events_is_free() {
    let text = delta(0, json!({"text": "a"}));
    let bytes = [text, metadata(), message_stop("end_turn")].concat();
    let response = read_stream(&bytes).unwrap();
    assert_eq!((response.message.text().as_str(), response.usage.input_tokens), ("a", 9));
}

#[test]
fn calls_decide_between_tool_use_and_the_end_of_the_turn() {
    let text = delta(0, json!({"text": "a"}));
    for reason in ["end_turn", "tool_use"] {
        let end = [message_stop(reason), metadata()].concat();
        let called = [text.clone(), call(1, "x"), stop(1), end.clone()].concat();
        assert_eq!(read_stream(&called).unwrap().stop_reason, StopReason::ToolUse, "{reason}");
        let said = [text.clone(), end].concat();
        assert_eq!(read_stream(&said).unwrap().stop_reason, StopReason::EndTurn, "{reason}");
    }
}

#[test]
fn blocks_may_alternate_and_unknown_events_are_ignored() {
    let bytes = [
        event("newEvent", json!(7)),
        delta(1, json!({"text": "b"})),
        delta(0, json!({"text": "a"})),
        delta(1, json!({"newKind": {}})),
        delta(1, json!({"text": "c"})),
        stop(7),
        // A delta of another kind begins another block.
        delta(0, json!({"reasoningContent": {"text": "hm"}})),
        message_stop("end_turn"),
        metadata(),
    ];
    let response = read_stream(&bytes.concat()).unwrap();
    assert_eq!(
        response.message.content,
        [
            ContentBlock::Text("a".into()),
            ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() },
            ContentBlock::Text("bc".into()),
        ]
    );
}

#[test]
fn blocks_of_the_server_are_collected() {
    let server = json!({"toolUse": {"toolUseId": "s", "name": "nova", "type": "server_tool_use"}});
    let result = json!({"toolResult": {"toolUseId": "s", "status": "success"}});
    let start = |index: usize, start: &Value| {
        event("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
    };
    let bytes = [
        start(0, &server),
        arguments(0, "{\"q\":1}"),
        stop(0),
        start(1, &result),
        delta(1, json!({"toolResult": [{"text": "a"}]})),
        delta(1, json!({"toolResult": [{"json": {}}]})),
        stop(1),
        start(2, &json!({"image": {"format": "png"}})),
        delta(2, json!({"image": {"source": {"bytes": "aGk="}}})),
        stop(2),
        delta(3, json!({"text": "cited"})),
        delta(3, json!({"citation": {"title": "t"}})),
        stop(3),
        delta(4, json!({"reasoningContent": {"redactedContent": "RW0="}})),
        delta(4, json!({"reasoningContent": {"redactedContent": "d0s="}})),
        stop(4),
        message_stop("end_turn"),
        metadata(),
    ]
    .concat();
    let raw = |mut json: Value, portable: Option<ContentBlock>| {
        json[ORIGIN] = "claude".into();
        let provider = "aws.bedrock".into();
        ContentBlock::Raw { provider, json, portable: portable.map(Box::new) }
    };
    let called = json!({"toolUse": {
        "toolUseId": "s", "name": "nova", "type": "server_tool_use", "input": {"q": 1},
    }});
    let content = json!([{"text": "a"}, {"json": {}}]);
    let returned =
        json!({"toolResult": {"toolUseId": "s", "status": "success", "content": content}});
    let image = json!({"image": {"format": "png", "source": {"bytes": "aGk="}}});
    let cited = json!({"citationsContent": {
        "content": [{"text": "cited"}], "citations": [{"title": "t"}],
    }});
    assert_eq!(
        read_stream(&bytes).unwrap().message.content,
        [
            raw(called, None),
            raw(returned, None),
            raw(image, None),
            raw(cited, Some(ContentBlock::Text("cited".into()))),
            ContentBlock::RedactedThinking { data: "EmwK".into() },
        ]
    );
    assert_eq!(deltas(&bytes), ["TextDelta(\"cited\")"]);
}

#[test]
fn invalid_arguments_are_not_a_complete_call() {
    let bytes = [call(0, "x"), arguments(0, "{\"a\""), stop(0), message_stop("max_tokens")];
    let response = read_stream(&bytes.concat()).unwrap();
    let input = json!({"invalid_json": "{\"a\""});
    assert_eq!(response.message.tool_uses().next().unwrap().input, &input);
    assert_eq!(deltas(&bytes.concat()).len(), 3);
}

#[test]
fn error_in_the_stream_keeps_its_class() {
    let exception = |name: &str, message: &str| {
        let headers = [(":exception-type", name), (":message-type", "exception")];
        frame(&headers, json!({ "message": message }).to_string().as_bytes())
    };
    let error = |code: &str| {
        let headers =
            [(":message-type", "error"), (":error-code", code), (":error-message", "why")];
        frame(&headers, b"")
    };
    for (broken, kind) in [
        (exception("throttlingException", "slow"), "RateLimit"),
        (exception("validationException", "Input is too long."), "ContextWindowExceeded"),
        (exception("validationException", "no"), "InvalidRequest"),
        (exception("modelStreamErrorException", "no"), "ServiceUnavailable"),
        (exception("newException", "no"), "StreamError"),
        (error("InternalFailure"), "ServiceUnavailable"),
        (error("new"), "StreamError"),
        (arguments(3, "{}"), "StreamError"),
        (event("contentBlockDelta", json!(7)), "StreamError"),
        (event("messageStop", json!({"stopReason": 7})), "StreamError"),
    ] {
        for start in [Vec::new(), delta(0, json!({"text": "a"}))] {
            let bytes = [start, broken.clone()].concat();
            assert_eq!(read_stream(&bytes).unwrap_err().kind(), kind);
        }
    }
}
