//! Tests that decode streams without HTTP, with every kind of line, and split and truncated at every byte.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use neuron_http::AnswerStream;
use neuron_model::{
    CompletionResponse, ContentBlock, Message, Progress, ResponseEnd, Role, StopReason, TokenUsage,
    ToolCall,
};
use serde_json::{Value, json};

use super::*;

type Piece = Result<Bytes, ProviderError>;

/// Decodes a stream to its end, and returns its events. All chunks are available immediately.
fn read(pieces: Vec<Piece>) -> Vec<StreamEvent> {
    let secret = Secret::new("sk-secret");
    let events = AnswerStream::from_bytes(stream::iter(pieces), ChatDecoder::default(), secret);
    events.collect::<Vec<_>>().now_or_never().expect("nothing to wait for")
}

fn read_bytes(bytes: &[u8]) -> Vec<StreamEvent> {
    read(vec![Ok(Bytes::copy_from_slice(bytes))])
}

/// Returns the `Debug` texts of events, because events cannot be compared directly.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    events.iter().map(|event| format!("{event:?}")).collect()
}

fn lines(lines: &[Value]) -> Vec<u8> {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into_bytes()
}

fn piece(message: Value) -> Value {
    json!({"model": "m", "created_at": "2026-11-21T10:00:00Z", "message": message, "done": false})
}

fn text_piece(text: &str) -> Value {
    piece(json!({"role": "assistant", "content": text}))
}

fn call_piece(id: &str, arguments: Value) -> Value {
    let function = json!({"index": 0, "name": "look", "arguments": arguments});
    piece(
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": id, "function": function}]}),
    )
}

fn end() -> Value {
    let message = json!({"role": "assistant", "content": ""});
    json!({"model": "m", "message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 3})
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

/// Returns the complete response of a stream. Checks that the response is the last event.
#[track_caller]
fn response_of(events: &[StreamEvent]) -> &CompletionResponse {
    let [
        ..,
        StreamEvent::Usage(usage),
        StreamEvent::MessageComplete(message),
        StreamEvent::ResponseComplete(response),
    ] = events
    else {
        panic!("no complete answer: {events:?}");
    };
    assert_eq!((usage, message), (&response.usage, &response.message), "the same thrice");
    response
}

fn short(event: &StreamEvent) -> String {
    match event {
        StreamEvent::TextDelta(text) => format!("text {text}"),
        StreamEvent::ThinkingDelta(text) => format!("thinking {text}"),
        StreamEvent::ToolUseStart { id, name } => format!("start {id} {name}"),
        StreamEvent::ToolUseInputDelta { id, delta } => format!("input {id} {delta}"),
        StreamEvent::ToolUseEnd { id } => format!("end {id}"),
        StreamEvent::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        other => format!("{other:?}"),
    }
}

/// Checks the deltas and the blocks of a stream with the lines `pieces` and a last line.
#[track_caller]
fn check(pieces: &[Value], deltas: &[&str], content: &[ContentBlock]) {
    let events = read_bytes(&lines(pieces));
    assert_eq!(response_of(&events).message.content, content);
    let shown: Vec<_> = events[..events.len() - 3].iter().map(short).collect();
    assert_eq!(shown, deltas);
}

/// Checks that a stream ends with an error of this kind and without a response. Returns the error's text.
#[track_caller]
fn check_error(events: &[StreamEvent], kind: &str) -> String {
    let Some((StreamEvent::Error(error), before)) = events.split_last() else {
        panic!("no error at the end: {events:?}");
    };
    assert!(before.iter().all(StreamEvent::is_delta), "{before:?} before the error");
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// Returns the lines of a response that uses every feature of the API.
fn rich() -> Vec<Value> {
    vec![
        piece(json!({"role": "assistant", "content": "", "thinking": "Über"})),
        piece(json!({"role": "assistant", "content": "", "thinking": "legung 🤔"})),
        text_piece("日本"),
        text_piece(" \"🦀\"\n"),
        call_piece("c1", json!({"city": "Zürich", "n": [1, {"b": null}]})),
        piece(json!({"role": "assistant", "new": "fi"})),
        piece(json!({"role": "assistant", "new": "eld"})),
        call_piece("c2", json!({})),
        end(),
    ]
}

fn rich_response() -> CompletionResponse {
    let thinking = "Überlegung 🤔".to_owned();
    CompletionResponse {
        id: String::new(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![
                ContentBlock::Thinking { thinking, signature: String::new() },
                text("日本 \"🦀\"\n"),
                call("c1", json!({"city": "Zürich", "n": [1, {"b": null}]})),
                call("c2", json!({})),
                ContentBlock::Raw {
                    provider: "ollama".into(),
                    json: json!({"type": "message", "new": "field"}),
                    portable: None,
                },
            ],
        },
        usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
        stop_reason: StopReason::ToolUse,
    }
}

#[test]
fn response_with_every_feature_gives_events_in_order() {
    let events = read_bytes(&lines(&rich()));
    assert_eq!(response_of(&events), &rich_response());
    let shown: Vec<_> = events[..events.len() - 3].iter().map(short).collect();
    assert_eq!(
        shown,
        [
            "thinking Über",
            "thinking legung 🤔",
            "text 日本",
            "text  \"🦀\"\n",
            "start c1 look",
            "input c1 {\"city\":\"Zürich\",\"n\":[1,{\"b\":null}]}",
            "end c1",
            "call c1 look {\"city\":\"Zürich\",\"n\":[1,{\"b\":null}]}",
            "start c2 look",
            "input c2 {}",
            "end c2",
            "call c2 look {}",
        ]
    );
}

#[test]
fn every_serialisation_and_split_gives_equal_events() {
    let plain = lines(&rich());
    let expected = shown(&read_bytes(&plain));
    let text = String::from_utf8(plain.clone()).unwrap();
    for bytes in [
        plain,
        text.replace('\n', "\r\n").into_bytes(),
        text.replace('\n', "\n\n \n").into_bytes(),
        text.trim_end().as_bytes().to_vec(),
    ] {
        let bytes = Bytes::from(bytes);
        let single = (0..bytes.len()).map(|at| Ok(bytes.slice(at..=at)));
        assert_eq!(shown(&read(single.collect())), expected, "byte by byte");
        for at in 0..=bytes.len() {
            let pieces = [bytes.slice(..at), Bytes::new(), bytes.slice(at..)];
            let events = read(pieces.into_iter().map(Ok).collect());
            assert_eq!(shown(&events), expected, "split at {at}");
        }
    }
}

#[test]
fn truncated_stream_is_one_error() {
    let bytes = Bytes::from(lines(&rich()));
    let whole = shown(&read_bytes(&bytes));
    // The line feed at the end of the last line may be missing.
    for at in 0..bytes.len() - 1 {
        let events = read_bytes(&bytes[..at]);
        let text = check_error(&events, "StreamError");
        let is_known = text == "stream error: the stream ended before the answer was complete"
            || text.starts_with("stream error: a line is not as expected (");
        assert!(is_known, "cut at {at}: {text}");
        let before = shown(&events[..events.len() - 1]);
        assert!(whole.starts_with(&before), "cut at {at}");

        let network = ProviderError::StreamError("reset".into());
        let events = read(vec![Ok(bytes.slice(..at)), Err(network), Ok(bytes.slice(at..))]);
        assert_eq!(check_error(&events, "StreamError"), "stream error: reset");
    }
}

#[test]
fn data_after_the_last_line_is_ignored() {
    let complete = lines(&[text_piece("a"), end()]);
    let expected = shown(&read_bytes(&complete));
    for more in
        [lines(&[text_piece("b"), end()]), b"nonsense".to_vec(), lines(&[json!({"error": "e"})])]
    {
        let events = read_bytes(&[complete.clone(), more.clone()].concat());
        assert_eq!(shown(&events), expected);
        let events = read(vec![Ok(complete.clone().into()), Ok(more.into())]);
        assert_eq!(shown(&events), expected);
    }
}

#[test]
fn calls_are_accepted_in_any_line() {
    let mut last = call_piece("c3", json!({"c": 3}));
    last["done"] = json!(true);
    let mut two = call_piece("c1", json!({"a": 1}));
    two["message"]["content"] = json!("look:");
    let second = call_piece("c1", json!({"b": 2}))["message"]["tool_calls"][0].clone();
    two["message"]["tool_calls"].as_array_mut().unwrap().push(second);
    check(
        &[two, text_piece("and"), last],
        &[
            "text look:",
            "start c1 look",
            "input c1 {\"a\":1}",
            "end c1",
            "call c1 look {\"a\":1}",
            "start c1_2 look",
            "input c1_2 {\"b\":2}",
            "end c1_2",
            "call c1_2 look {\"b\":2}",
            "text and",
            "start c3 look",
            "input c3 {\"c\":3}",
            "end c3",
            "call c3 look {\"c\":3}",
        ],
        &[
            text("look:and"),
            call("c1", json!({"a": 1})),
            call("c1_2", json!({"b": 2})),
            call("c3", json!({"c": 3})),
        ],
    );
}

#[test]
fn arguments_that_are_not_json_are_not_executed() {
    check(
        &[call_piece("c1", json!("{\"a")), end()],
        &["start c1 look", "input c1 {\"a", "end c1"],
        &[call("c1", ToolCall::invalid_json_input("{\"a"))],
    );
}

#[test]
fn call_id_is_equal_in_events_and_response() {
    let events = read_bytes(&lines(&[call_piece("", json!({})), end()]));
    let StreamEvent::ToolUse { id, .. } = &events[3] else {
        panic!("{events:?}");
    };
    let response = response_of(&events);
    assert_eq!(response.message.tool_uses().next().unwrap().id, id);
    assert!(id.starts_with("call_"));
}

#[test]
fn lines_without_message_are_ignored() {
    check(
        &[
            json!({"status": "loading"}),
            json!({}),
            json!({"message": null, "done": null}),
            piece(json!({})),
            text_piece("a"),
            json!({"done": true}),
        ],
        &["text a"],
        &[text("a")],
    );
}

/// A model that says nothing may leave out its message.
#[test]
fn stream_of_an_empty_response_has_no_message() {
    let end = json!({"model": "m", "done": true, "done_reason": "stop"});
    check(&[end], &[], &[]);
}

/// A stream without the field `message`, such as a stream of the API `/api/generate`, must be an error. Regression
/// test. Such a stream was decoded as an empty response.
#[test]
fn stream_without_any_message_is_an_error() {
    let other = json!({"model": "m", "response": "a", "done": false});
    for pieces in [
        vec![json!({"done": true})],
        vec![other, json!({"response": "", "done": true, "done_reason": "stop"})],
        vec![json!({"message": null, "done": true})],
        vec![json!({"model": "m", "response": "", "done": true, "done_reason": "stop"})],
    ] {
        let text = check_error(&read_bytes(&lines(&pieces)), "StreamError");
        assert_eq!(text, "stream error: the stream ended without a message");
    }
}

#[test]
fn invalid_calls_emit_no_events() {
    let line =
        |calls: Value| piece(json!({"role": "assistant", "content": "", "tool_calls": calls}));
    let nameless = json!({"id": "c1", "function": {"name": "", "arguments": {}}});
    let kept =
        ContentBlock::Raw { provider: "ollama".into(), json: nameless.clone(), portable: None };
    check(
        &[line(json!([null, nameless])), text_piece("a"), end()],
        &["text a"],
        &[text("a"), kept],
    );
}

#[test]
fn load_response_has_stop_reason_load() {
    let mut line = end();
    line["done_reason"] = json!("load");
    let events = read_bytes(&lines(&[line]));
    assert_eq!(response_of(&events).stop_reason, StopReason::Other("load".into()));
}

#[test]
fn stream_error_follows_earlier_events_and_keeps_class() {
    for (error, kind) in [
        ("an error was encountered while running the model", "StreamError"),
        ("server busy, please try again", "ServiceUnavailable"),
        ("model 'm' not found", "ModelNotFound"),
    ] {
        let events = read_bytes(&lines(&[text_piece("a"), json!({"error": error}), end()]));
        assert_eq!(events.len(), 2, "the text and the error");
        assert!(check_error(&events, kind).contains(error));
    }
}

#[test]
fn invalid_line_is_quoted_in_error() {
    let check = |line: &str, expected: &str| {
        let bytes = [lines(&[text_piece("a")]), format!("{line}\n").into_bytes(), lines(&[end()])];
        let text = check_error(&read_bytes(&bytes.concat()), "StreamError");
        assert!(text.starts_with("stream error: a line is not as expected ("), "{text}");
        assert!(text.ends_with(expected), "{text}");
    };
    check("{\"done\":", "): {\"done\":");
    check("data: {}", "): data: {}");
    check(r#"{"message":{"content":7}}"#, r#"): {"message":{"content":7}}"#);
    check_error(&read_bytes(b"\xff\xfe\n"), "StreamError");
}

#[test]
fn errors_do_not_show_the_key() {
    for line in [
        json!({"error": "your key is sk-secret"}).to_string(),
        json!({"error": "server busy: sk-secret"}).to_string(),
        "sk-secret".to_owned(),
        format!("{}sk-secret", "x".repeat(295)),
    ] {
        let events = read_bytes(format!("{line}\n").as_bytes());
        assert!(!format!("{events:?}").contains("sk-"), "{events:?}");
    }
}

#[test]
fn long_stream_is_decoded() {
    let mut pieces: Vec<_> = (0..10_000).map(|number| text_piece(&format!("{number} "))).collect();
    pieces.push(end());
    let bytes = lines(&pieces);
    let events = read_bytes(&bytes);
    assert_eq!(events.len(), 10_003);
    let expected: String = (0..10_000).map(|number| format!("{number} ")).collect();
    assert_eq!(response_of(&events).message.text(), expected);
    let pieces = bytes.chunks(1400).map(|piece| Ok(Bytes::copy_from_slice(piece)));
    assert_eq!(shown(&read(pieces.collect())), shown(&events));
}

#[test]
fn response_end_collects_the_response() {
    let mut reader = ResponseEnd::default();
    let mut done = None;
    for event in read_bytes(&lines(&rich())) {
        if let Progress::Done(response) = reader.take(event).unwrap() {
            done = Some(*response);
        }
    }
    assert_eq!(done, Some(rich_response()));
}
