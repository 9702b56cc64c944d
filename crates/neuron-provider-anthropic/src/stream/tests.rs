//! Tests that decode streams without HTTP, with every event, and split and truncated at every byte.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::{FutureExt, Stream, StreamExt, stream};
use neuron_http::AnswerStream;
use neuron_model::{
    CompletionResponse, Message, ResponseEnd, Role, StopReason, TokenUsage, UsageIteration,
};
use neuron_testing::Wire;
use neuron_testing::anthropic::sse_bytes;
use serde_json::json;

use super::*;

type Piece = Result<Bytes, ProviderError>;

fn event_stream(
    pieces: Vec<Piece>,
) -> AnswerStream<impl Stream<Item = Piece> + Unpin, MessageDecoder> {
    let secret = Secret::new("sk-secret");
    AnswerStream::from_bytes(stream::iter(pieces), MessageDecoder::default(), secret)
}

/// Decodes a stream to its end, and returns its events. All chunks are available immediately.
fn read(pieces: Vec<Piece>) -> Vec<StreamEvent> {
    let events = event_stream(pieces).collect::<Vec<_>>();
    events.now_or_never().expect("nothing to wait for")
}

fn read_bytes(bytes: &[u8]) -> Vec<StreamEvent> {
    read(vec![Ok(Bytes::copy_from_slice(bytes))])
}

/// Returns the `Debug` texts of events, because events cannot be compared directly.
fn shown(events: &[StreamEvent]) -> Vec<String> {
    let shown = events.iter().map(|event| format!("{event:?}"));
    shown.collect()
}

/// Serialises `events` as server-sent events.
fn sse(events: &[Value]) -> Vec<u8> {
    let lines = events.iter().map(|event| format!("data: {event}\n\n"));
    lines.collect::<String>().into_bytes()
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}})
}

fn start(index: usize, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: usize, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text_delta(index: usize, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn input_delta(index: usize, json: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": json}))
}

fn stop(index: usize) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(stop_reason: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ]
}

/// Returns the bytes of a stream that has the events `middle` between its first and its last events.
fn answer(middle: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let events: Vec<_> = [begin()].into_iter().chain(middle).chain(end("end_turn")).collect();
    sse(&events)
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: "anthropic".into(), json, portable: portable.map(Box::new) }
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

/// Checks the deltas and the blocks of a stream that has the events `middle` between its first and its last events.
#[track_caller]
fn check(middle: impl IntoIterator<Item = Value>, deltas: &[&str], content: &[ContentBlock]) {
    let events = read_bytes(&answer(middle));
    assert_eq!(response_of(&events).message.content, content);
    let shown: Vec<_> = events[..events.len() - 3].iter().map(short).collect();
    assert_eq!(shown, deltas);
}

fn short(event: &StreamEvent) -> String {
    match event {
        StreamEvent::TextDelta(text) => format!("text {text}"),
        StreamEvent::ThinkingDelta(text) => format!("thinking {text}"),
        StreamEvent::SignatureDelta(text) => format!("signature {text}"),
        StreamEvent::ToolUseStart { id, name } => format!("start {id} {name}"),
        StreamEvent::ToolUseInputDelta { id, delta } => format!("input {id} {delta}"),
        StreamEvent::ToolUseEnd { id } => format!("end {id}"),
        StreamEvent::ToolUse { id, name, input } => format!("call {id} {name} {input}"),
        other => format!("{other:?}"),
    }
}

/// Checks that a stream ends with an error of this kind and without a response. Returns the error's text.
#[track_caller]
fn check_error(events: &[StreamEvent], kind: &str) -> String {
    let Some((StreamEvent::Error(error), before)) = events.split_last() else {
        panic!("no error at the end: {events:?}");
    };
    for event in before {
        let ends = matches!(
            event,
            StreamEvent::Error(_)
                | StreamEvent::Usage(_)
                | StreamEvent::MessageComplete(_)
                | StreamEvent::ResponseComplete(_)
        );
        assert!(!ends, "{event:?} before the error");
    }
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// Returns a response that uses every feature of the API.
fn rich() -> CompletionResponse {
    let pass = |kind: &str, input_tokens, output_tokens, cache_read_tokens| UsageIteration {
        kind: kind.into(),
        input_tokens,
        output_tokens,
        cache_read_tokens,
        ..Default::default()
    };
    let search = json!({
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "title": "日本", "encrypted_content": "x=="}],
    });
    CompletionResponse {
        id: "msg_7".into(),
        model: "claude-test".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![
                ContentBlock::Compaction { content: "Earlier:\nmuch.".into() },
                ContentBlock::Thinking {
                    thinking: "Überlegung 🤔".into(),
                    signature: "c2ln".into(),
                },
                ContentBlock::RedactedThinking { data: "xyz".into() },
                raw(search, None),
                text("日本 \"🦀\"\n\\end"),
                call("c1", json!({"city": "Zürich", "n": [1, {"b": null}]})),
                call("c2", json!({})),
            ],
        },
        usage: TokenUsage {
            input_tokens: 281,
            output_tokens: 70,
            cache_read_tokens: Some(80),
            cache_creation_tokens: None,
            reasoning_tokens: Some(5),
            iterations: Some(vec![
                pass("compaction", 100, 50, None),
                pass("message", 181, 20, Some(80)),
            ]),
            cost: None,
        },
        stop_reason: StopReason::ToolUse,
    }
}

/// Returns the response without its metadata, which other tests check.
fn plain(response: &CompletionResponse) -> CompletionResponse {
    let mut response = response.clone();
    response.message.content.retain(|block| !block.is_mark());
    response
}

#[test]
fn response_with_every_feature_gives_events_in_order() {
    let expected = rich();
    let events = read_bytes(&sse_bytes(&expected, 10, &Wire::default()));
    assert_eq!(plain(response_of(&events)), expected);
    let shown: Vec<_> = events[..events.len() - 3].iter().map(short).collect();
    assert_eq!(
        shown,
        [
            "thinking Überlegung",
            "thinking  🤔",
            "signature c2ln",
            "text 日本 \"🦀\"\n\\en",
            "text d",
            "start c1 look",
            "input c1 {\"city\":\"Z",
            "input c1 ürich\",\"n\"",
            "input c1 :[1,{\"b\":n",
            "input c1 ull}]}",
            "end c1",
            "call c1 look {\"city\":\"Zürich\",\"n\":[1,{\"b\":null}]}",
            "start c2 look",
            "end c2",
            "call c2 look {}",
        ]
    );
}

#[test]
fn every_serialisation_and_split_gives_equal_events() {
    let answer = rich();
    let wire = Wire::default;
    let expected = shown(&read_bytes(&sse_bytes(&answer, 10, &wire())));
    for wire in [
        wire(),
        wire().crlf(),
        wire().no_space(),
        wire().comments(),
        wire().padded(),
        wire().crlf().no_space().comments().padded(),
    ] {
        let bytes = Bytes::from(sse_bytes(&answer, 10, &wire));
        assert_eq!(shown(&read_bytes(&bytes)), expected);
        let single = (0..bytes.len()).map(|at| Ok(bytes.slice(at..=at)));
        assert_eq!(shown(&read(single.collect())), expected, "byte by byte");
        for at in 0..=bytes.len() {
            let pieces = [bytes.slice(..at), Bytes::new(), bytes.slice(at..)];
            let events = read(pieces.into_iter().map(Ok).collect());
            assert_eq!(shown(&events), expected, "split at {at}");
        }
    }
}

/// Returns the byte position after the event with the stop reason.
fn end_of_message_delta(bytes: &[u8]) -> usize {
    let text = std::str::from_utf8(bytes).unwrap();
    let stop_reason = text.rfind("\"stop_reason\":").unwrap();
    stop_reason + text[stop_reason..].find("\n\n").unwrap() + 2
}

#[test]
fn stream_truncated_before_stop_reason_is_one_error() {
    let bytes = Bytes::from(sse_bytes(&rich(), 10, &Wire::default()));
    let whole = shown(&read_bytes(&bytes));
    for at in 0..end_of_message_delta(&bytes) {
        let events = read_bytes(&bytes[..at]);
        let text = check_error(&events, "StreamError");
        assert_eq!(
            text, "stream error: the stream ended before the answer was complete",
            "cut at {at}"
        );
        assert!(whole.starts_with(&shown(&events[..events.len() - 1])), "cut at {at}");
    }
}

/// Regression test. An error in the chunk of `message_stop` turned the complete response into an error.
#[test]
fn error_after_message_stop_is_ignored() {
    let bytes = answer([start(0, json!({"type": "text", "text": "a"})), stop(0)]);
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "why"}});
    for rest in [format!("event: error\ndata: {error}\n\n"), format!("{error}\n")] {
        let joined = [bytes.as_slice(), rest.as_bytes()].concat();
        assert_eq!(shown(&read_bytes(&joined)), shown(&read_bytes(&bytes)), "{rest}");
    }
    assert!(matches!(read_bytes(&bytes).last(), Some(StreamEvent::ResponseComplete(_))));
}

/// A stream must be complete after the stop reason, even without the event `message_stop`. Some servers and proxies
/// omit the blank line that must end this event.
#[test]
fn stream_with_stop_reason_is_complete_without_message_stop() {
    let bytes = Bytes::from(sse_bytes(&rich(), 10, &Wire::default()));
    let whole = shown(&read_bytes(&bytes));
    assert!(bytes.ends_with(b"{\"type\":\"message_stop\"}\n\n"));
    for at in end_of_message_delta(&bytes)..bytes.len() {
        assert_eq!(shown(&read_bytes(&bytes[..at])), whole, "cut at {at}");
    }
    let events = read_bytes(&sse(&end("end_turn")[..1]));
    let text = check_error(&events, "StreamError");
    assert!(text.contains("`message_start`"), "{text}");
}

#[test]
fn broken_connection_is_one_error() {
    let bytes = Bytes::from(sse_bytes(&rich(), 10, &Wire::default()));
    let whole = shown(&read_bytes(&bytes));
    for at in 0..bytes.len() {
        let network = ProviderError::StreamError("reset".into());
        let pieces = vec![Ok(bytes.slice(..at)), Err(network), Ok(bytes.slice(at..))];
        let events = read(pieces);
        assert_eq!(check_error(&events, "StreamError"), "stream error: reset", "cut at {at}");
        assert!(whole.starts_with(&shown(&events[..events.len() - 1])), "cut at {at}");
    }
}

#[test]
fn stream_ends_after_the_last_event() {
    for bytes in [answer([]), b"data: {\n\n".to_vec()] {
        let mut events = event_stream(vec![Ok(bytes.into()), Ok(answer([]).into())]);
        let mut next = || poll_fn(|cx| Pin::new(&mut events).poll_next(cx)).now_or_never();
        while next().expect("nothing to wait for").is_some() {}
        for _ in 0..3 {
            assert!(matches!(next(), Some(None)));
        }
    }
}

#[test]
fn data_after_the_last_event_is_ignored() {
    let complete = answer([]);
    let expected = shown(&read_bytes(&complete));
    for more in [
        answer([start(0, json!({"type": "text", "text": "b"}))]),
        b"data: [DONE]\n\n".to_vec(),
        b"data: {\"type\":\"error\",\"error\":{\"type\":\"api_error\"}}\n\n".to_vec(),
        vec![b'x'; 65 * 1024 * 1024],
    ] {
        let events = read_bytes(&[complete.clone(), more.clone()].concat());
        assert_eq!(shown(&events), expected);
        let events = read(vec![Ok(complete.clone().into()), Ok(more.into())]);
        assert_eq!(shown(&events), expected);
    }
}

#[test]
fn error_event_keeps_class_and_request_id() {
    let event = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "why"}, "request_id": "req_9"});
    for (kind, class, prefix) in [
        ("overloaded_error", "ServiceUnavailable", "service unavailable: "),
        ("api_error", "StreamError", "stream error: "),
        ("invalid_request_error", "InvalidRequest", "invalid request: "),
        ("authentication_error", "Authentication", "authentication failed: "),
    ] {
        let block = start(0, json!({"type": "text", "text": ""}));
        let bytes = sse(&[begin(), block, text_delta(0, "a"), event(kind), text_delta(0, "b")]);
        let events = read_bytes(&bytes);
        assert_eq!(events.len(), 2, "the text and the error");
        assert_eq!(
            check_error(&events, class),
            format!("{prefix}in the stream {kind}: why (request id req_9)")
        );
    }
    let events = read_bytes(&sse(&[event("rate_limit_error")]));
    assert_eq!(check_error(&events, "RateLimit"), "rate limited");
    let events = read_bytes(b"data: {\"type\":\"error\"}\n\n");
    let text = check_error(&events, "StreamError");
    assert_eq!(text, "stream error: the server reports an error: {\"type\":\"error\"}");
    // The form of OpenAI, from a proxy.
    let events = read_bytes(b"data: {\"error\":{\"code\":\"context_length_exceeded\"}}\n\n");
    check_error(&events, "ContextWindowExceeded");
}

/// Errors that stand where events were due, and error events whose body is unknown. None is skipped.
#[test]
fn errors_outside_of_known_events_are_reported() {
    let long = r#"{"error": {"message": "prompt is too long", "code": "x"}}"#;
    for (rest, kind, text) in [
        (long.to_owned(), "ContextWindowExceeded", "in the stream x: prompt is too long"),
        (format!("{long}\n"), "ContextWindowExceeded", "in the stream x: prompt is too long"),
        ("[{\"error\": {\"code\": \"too_many_requests\"}}]".into(), "RateLimit", "rate limited"),
        (
            "<html>sk-secret</html>".into(),
            "StreamError",
            "[redacted]</html>; the base URL is probably wrong",
        ),
        ("event: error\ndata: {\"oops\": 1}\n\n".into(), "StreamError", "{\"oops\": 1}"),
        ("event: error\n\n".into(), "StreamError", "the server reports an error"),
        ("event: error\ndata: oops".into(), "StreamError", "oops"),
        (format!("{long}\n\ndata: [DONE]\n\n"), "ContextWindowExceeded", "prompt is too long"),
        (format!("<html>{}sk-secret", " ".repeat(220)), "StreamError", "<html>"),
    ] {
        for begun in [Vec::new(), sse(&[begin()])] {
            let bytes = [begun, rest.clone().into_bytes()].concat();
            let found = check_error(&read_bytes(&bytes), kind);
            assert!(found.contains(text) && !found.contains("sk-s"), "{found}");
        }
    }
}

/// No error in a stream may show the API key. Regression test. Some classes of errors showed the key.
#[test]
fn errors_do_not_show_the_key() {
    for kind in [
        "api_error",
        "overloaded_error",
        "authentication_error",
        "billing_error",
        "invalid_request_error",
        "permission_error",
        "new_error",
    ] {
        let error = json!({"type": kind, "message": "your key is sk-secret"});
        let event = json!({"type": "error", "error": error, "request_id": "sk-secret"});
        let events = read_bytes(&sse(&[event]));
        assert!(!format!("{events:?}").contains("secret"), "{events:?}");
        assert!(format!("{events:?}").contains("[redacted]"), "{events:?}");
    }
    // The text of an error is cut at a maximum length. A key that is cut before the redaction would not be found.
    for padding in 0..250 {
        let data = format!("data: {{{}sk-secret\n\n", "x".repeat(padding));
        let events = read_bytes(data.as_bytes());
        assert!(!format!("{events:?}").contains("sk-"), "{events:?}");
    }
}

#[test]
fn unknown_events_and_deltas_are_ignored() {
    let block = || start(0, json!({"type": "text", "text": ""}));
    check(
        [
            json!({"type": "ping"}),
            json!({"type": "ping", "delta": 7}),
            json!({"type": "new_event", "index": 0, "delta": {"text": "x"}}),
            json!({"type": "new_event", "message": "a text", "index": -1, "error": "none"}),
            block(),
            text_delta(0, "a"),
            delta(0, json!({"type": "new_delta", "text": "x", "signature": "x"})),
            delta(0, json!({"type": "new_delta", "text": {"is": "an object"}})),
            delta(3, json!({"type": "new_delta"})),
            text_delta(0, "b"),
            stop(0),
            stop(8),
        ],
        &["text a", "text b"],
        &[text("ab")],
    );
    let mut bytes = b": hello\n\nretry: 5\n\nid: 7\nevent: odd\n\ndata:\n\ndata: \n\n".to_vec();
    bytes.extend(answer([]));
    response_of(&read_bytes(&bytes));
}

#[test]
fn invalid_event_is_quoted_in_error() {
    let check = |data: &str, expected: &str| {
        let bytes = [sse(&[begin()]), format!("data: {data}\n\n").into_bytes(), answer([])];
        let events = read_bytes(&bytes.concat());
        let text = check_error(&events, "StreamError");
        assert!(text.starts_with("stream error: an event is not as expected ("), "{text}");
        assert!(text.ends_with(expected), "{text}");
    };
    check("{\"type\":\"ping\"", "): {\"type\":\"ping\"");
    check("[DONE]", "): [DONE]");
    check("{}", "(missing field `type` at line 1 column 2): {}");
    check(
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":7}}"#,
        r#"): {"type":"content_block_delta","delta":{"type":"text_delta","text":7}}"#,
    );
    check(&format!("[{}]", "é".repeat(1000)), &format!("): [{}", "é".repeat(299)));
    let events = read_bytes(b"data: \xff\xfe\n\n");
    check_error(&events, "StreamError");
}

#[test]
fn later_signature_replaces_earlier_one() {
    let signature = |text: &str| delta(0, json!({"type": "signature_delta", "signature": text}));
    check(
        [
            start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            signature("a"),
            signature("b"),
            stop(0),
        ],
        &["signature a", "signature b"],
        &[ContentBlock::Thinking { thinking: String::new(), signature: "b".into() }],
    );
}

#[test]
fn streamed_citations_are_kept_with_the_text() {
    let citation = |text: &str| json!({"type": "char_location", "cited_text": text});
    let cite = |text| delta(0, json!({"type": "citations_delta", "citation": citation(text)}));
    for start_block in [
        json!({"type": "text", "text": ""}),
        json!({"type": "text", "text": "", "citations": null}),
        json!({"type": "text", "text": "", "citations": []}),
    ] {
        let events = read_bytes(&answer([
            start(0, start_block),
            cite("x"),
            text_delta(0, "a"),
            cite("y"),
            text_delta(0, "b"),
            stop(0),
        ]));
        let json =
            json!({"type": "text", "text": "ab", "citations": [citation("x"), citation("y")]});
        assert_eq!(response_of(&events).message.content, [raw(json, Some(text("ab")))]);
    }
    check(
        [start(0, json!({"type": "text", "text": "", "citations": [citation("x")]})), cite("y")],
        &[],
        &[raw(
            json!({"type": "text", "text": "", "citations": [citation("x"), citation("y")]}),
            Some(text("")),
        )],
    );
}

#[test]
fn arguments_are_parsed_from_every_format() {
    let check = |pieces: &[&str], deltas: &[&str], input: Value| {
        let block = json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}});
        let pieces = pieces.iter().map(|piece| input_delta(0, piece));
        let middle = [start(0, block)].into_iter().chain(pieces).chain([stop(0)]);
        let deltas: Vec<_> = ["start c1 look"].iter().chain(deltas).copied().collect();
        check(middle, &deltas, &[call("c1", input)]);
    };
    check(&[], &["end c1", "call c1 look {}"], json!({}));
    check(&["", ""], &["end c1", "call c1 look {}"], json!({}));
    check(&["", " "], &["input c1  ", "end c1", "call c1 look {}"], json!({}));
    check(
        &["{\"z\":1,", "\"a\":2}"],
        &["input c1 {\"z\":1,", "input c1 \"a\":2}", "end c1", "call c1 look {\"z\":1,\"a\":2}"],
        json!({"z": 1, "a": 2}),
    );
    check(
        &["{\"a", "\":"],
        &["input c1 {\"a", "input c1 \":", "end c1"],
        ToolCall::invalid_json_input("{\"a\":"),
    );
}

/// A streamed call must be parsed if its arguments are missing, or are all in its first event. Regression test. Such a
/// call became a raw block and never ran.
#[test]
fn missing_and_unsplit_arguments_are_accepted() {
    let block = json!({"type": "tool_use", "id": "c1", "name": "look"});
    check(
        [start(0, block), stop(0)],
        &["start c1 look", "end c1", "call c1 look {}"],
        &[call("c1", json!({}))],
    );
    let block = json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}});
    check(
        [start(0, block.clone()), stop(0)],
        &["start c1 look", "input c1 {\"a\":1}", "end c1", "call c1 look {\"a\":1}"],
        &[call("c1", json!({"a": 1}))],
    );
    // Arguments in deltas take precedence over arguments in the first event, unless the deltas are empty.
    check(
        [start(0, block.clone()), input_delta(0, "{\"a\":2}"), stop(0)],
        &["start c1 look", "input c1 {\"a\":2}", "end c1", "call c1 look {\"a\":2}"],
        &[call("c1", json!({"a": 2}))],
    );
    check(
        [start(0, block), input_delta(0, ""), stop(0)],
        &["start c1 look", "input c1 {\"a\":1}", "end c1", "call c1 look {\"a\":1}"],
        &[call("c1", json!({"a": 1}))],
    );
    let block = json!({"type": "tool_use", "id": "c1", "name": "look", "input": "{\"a"});
    check(
        [start(0, block), stop(0)],
        &["start c1 look", "input c1 {\"a", "end c1"],
        &[call("c1", ToolCall::invalid_json_input("{\"a"))],
    );
}

#[test]
fn server_tools_are_not_tool_calls() {
    let block = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
    check(
        [start(0, block), input_delta(0, "{\"query\""), input_delta(0, ":\"rust\"}"), stop(0)],
        &[],
        &[raw(
            json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "rust"}}),
            None,
        )],
    );
}

#[test]
fn call_with_unknown_fields_is_a_tool_call() {
    let caller = json!({"type": "direct"});
    let block =
        json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}, "caller": caller});
    check(
        [start(0, block), input_delta(0, "{\"a\":1}"), stop(0)],
        &["start c1 look", "input c1 {\"a\":1}", "end c1", "call c1 look {\"a\":1}"],
        &[raw(
            json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"a": 1}, "caller": caller}),
            Some(call("c1", json!({"a": 1}))),
        )],
    );
}

#[test]
fn summary_deltas_replace_each_other() {
    let summary = |content: &str, encrypted: Value| {
        delta(
            0,
            json!({"type": "compaction_delta", "content": content, "encrypted_content": encrypted}),
        )
    };
    let block = || start(0, json!({"type": "compaction", "content": null}));
    let compaction = |content: &str| ContentBlock::Compaction { content: content.into() };
    check(
        [block(), summary("a", json!(null)), summary("b", json!(null)), stop(0)],
        &[],
        &[compaction("b")],
    );
    check(
        [block(), summary("a", json!("x")), summary("b", json!("y")), stop(0)],
        &[],
        &[raw(
            json!({"type": "compaction", "content": "b", "encrypted_content": "y"}),
            Some(compaction("b")),
        )],
    );
    check([block(), stop(0)], &[], &[raw(json!({"type": "compaction", "content": null}), None)]);
}

#[test]
fn block_without_end_event_is_kept() {
    check(
        [
            start(0, json!({"type": "text", "text": "begun "})),
            text_delta(0, "a"),
            start(1, json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}})),
            input_delta(1, "{}"),
        ],
        &["text begun ", "text a", "start c1 look", "input c1 {}", "end c1", "call c1 look {}"],
        &[text("begun a"), call("c1", json!({}))],
    );
}

#[test]
fn interleaved_blocks_are_matched_by_index() {
    check(
        [
            start(1, json!({"type": "text", "text": ""})),
            start(0, json!({"type": "text", "text": ""})),
            text_delta(1, "b"),
            text_delta(0, "a"),
            text_delta(1, "B"),
            stop(1),
            text_delta(0, "A"),
            stop(0),
        ],
        &["text b", "text a", "text B", "text A"],
        &[text("aA"), text("bB")],
    );
}

/// If two blocks of a stream have the same index, both must be kept. Regression test. The later block replaced the
/// earlier block.
#[test]
fn reused_index_keeps_both_blocks() {
    let block = |index| start(index, json!({"type": "text", "text": ""}));
    check(
        [
            block(0),
            text_delta(0, "a"),
            stop(0),
            block(0),
            text_delta(0, "b"),
            block(0),
            text_delta(0, "c"),
            stop(0),
            block(1),
            text_delta(1, "d"),
        ],
        &["text a", "text b", "text c", "text d"],
        &[text("a"), text("b"), text("c"), text("d")],
    );
}

/// A delta for a block that is not open must be an error. Regression test. The text of the delta was dropped, and the
/// response was reported as complete.
#[test]
fn delta_for_unopened_block_is_an_error() {
    let block = || start(0, json!({"type": "text", "text": ""}));
    for middle in [
        vec![text_delta(0, "a")],
        vec![block(), text_delta(1, "a")],
        vec![block(), stop(0), text_delta(0, "a")],
    ] {
        let text = check_error(&read_bytes(&answer(middle)), "StreamError");
        assert!(text.contains("which is not open"), "{text}");
    }
}

#[test]
fn delta_without_type_is_decoded_by_its_fields() {
    check(
        [start(0, json!({"type": "text", "text": ""})), delta(0, json!({"text": "a"}))],
        &["text a"],
        &[text("a")],
    );
}

/// A gateway may sort the fields of an event, and add a field with a value of another type.
#[test]
fn delta_with_its_type_at_the_end_is_decoded() {
    let long = "a".repeat(100);
    let late = json!({
        "delta": {"text": long, "type": "text_delta"},
        "index": 0,
        "request_id": 42,
        "type": "content_block_delta",
    });
    check(
        [start(0, json!({"type": "text", "text": ""})), late, text_delta(0, "b")],
        &[&format!("text {long}"), "text b"],
        &[text(&format!("{long}b"))],
    );
}

#[test]
fn long_stream_is_decoded() {
    let deltas = (0..10_000).map(|number| text_delta(0, &format!("{number} ")));
    let block = start(0, json!({"type": "text", "text": ""}));
    let bytes = answer([block].into_iter().chain(deltas));
    let events = read_bytes(&bytes);
    assert_eq!(events.len(), 10_003);
    let expected: String = (0..10_000).map(|number| format!("{number} ")).collect();
    assert_eq!(response_of(&events).message.text(), expected);
    let pieces = bytes.chunks(1400).map(|piece| Ok(Bytes::copy_from_slice(piece)));
    assert_eq!(shown(&read(pieces.collect())), shown(&events));
}

#[test]
fn later_count_replaces_earlier_one_except_null() {
    let bytes = sse(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": [], "usage": {
            "input_tokens": 100, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5, "output_tokens": 1,
        }}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2, "output_tokens_details": {"thinking_tokens": 4}}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {
            "input_tokens": 181, "cache_read_input_tokens": null, "output_tokens": 20, "output_tokens_details": null,
        }}),
        json!({"type": "message_delta", "delta": {"stop_reason": null}}),
        json!({"type": "message_stop"}),
    ]);
    let events = read_bytes(&bytes);
    let response = response_of(&events);
    assert_eq!(
        response.usage,
        TokenUsage {
            input_tokens: 193,
            output_tokens: 20,
            cache_read_tokens: Some(7),
            cache_creation_tokens: Some(5),
            reasoning_tokens: Some(4),
            iterations: None,
            cost: None,
        }
    );
    assert_eq!(response.stop_reason, StopReason::MaxTokens);
    assert_eq!((response.id.as_str(), response.model.as_str()), ("msg_1", "m"));
}

#[test]
fn missing_stop_reason_is_derived_from_calls() {
    let block = start(0, json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}}));
    let events = read_bytes(&sse(&[begin(), block.clone(), json!({"type": "message_stop"})]));
    assert_eq!(response_of(&events).stop_reason, StopReason::ToolUse);
    let [before, last] = end("pause_turn");
    let events = read_bytes(&sse(&[begin(), block, before, last]));
    assert_eq!(response_of(&events).stop_reason, StopReason::PauseTurn);
}

#[test]
fn response_end_collects_the_response() {
    let expected = rich();
    let mut reader = ResponseEnd::default();
    let events = read_bytes(&sse_bytes(&expected, 3, &Wire::default()));
    let mut done = None;
    for event in events {
        if let neuron_model::Progress::Done(response) = reader.take(event).unwrap() {
            done = Some(plain(&response));
        }
    }
    assert_eq!(done, Some(expected));
}

#[test]
fn message_stop_without_message_start_is_an_error() {
    let events = read_bytes(&sse(&[json!({"type": "message_stop"})]));
    let [StreamEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        error.to_string(),
        "stream error: the stream ended a message without a `message_start` event"
    );
}

/// The event `message_start` must be accepted without its optional fields. LiteLLM and vLLM omit fields whose values
/// they do not know.
#[test]
fn message_start_without_optional_fields_is_accepted() {
    for message in [
        json!({}),
        json!({"id": null, "model": null, "content": null, "usage": null}),
        json!({"type": "message", "role": "assistant"}),
    ] {
        let begin = json!({"type": "message_start", "message": message});
        let [before, last] = end("end_turn");
        let block = start(0, json!({"type": "text", "text": "a"}));
        let events = read_bytes(&sse(&[begin, block, stop(0), before, last]));
        let response = response_of(&events);
        assert_eq!(response.message.content, [text("a")]);
        assert_eq!((response.id.as_str(), response.model.as_str()), ("", ""));
        assert_eq!(response.usage, TokenUsage { output_tokens: 3, ..Default::default() });
    }
}

#[test]
fn missing_and_repeated_call_ids_are_replaced() {
    let block = |id: Value| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    let bare = json!({"type": "tool_use", "name": "look"});
    check(
        [
            start(0, block(json!(""))),
            input_delta(0, "{\"a\":1}"),
            stop(0),
            start(1, block(json!("c1"))),
            start(2, block(json!("c1"))),
            input_delta(1, "{\"a\":2}"),
            input_delta(2, "{\"a\":3}"),
            start(3, bare),
        ],
        &[
            "start toolu_msg_1 look",
            "input toolu_msg_1 {\"a\":1}",
            "end toolu_msg_1",
            "call toolu_msg_1 look {\"a\":1}",
            "start c1 look",
            "start c1_2 look",
            "input c1 {\"a\":2}",
            "input c1_2 {\"a\":3}",
            "start toolu_msg_1_2 look",
            "end c1",
            "call c1 look {\"a\":2}",
            "end c1_2",
            "call c1_2 look {\"a\":3}",
            "end toolu_msg_1_2",
            "call toolu_msg_1_2 look {}",
        ],
        &[
            call("toolu_msg_1", json!({"a": 1})),
            call("c1", json!({"a": 2})),
            call("c1_2", json!({"a": 3})),
            call("toolu_msg_1_2", json!({})),
        ],
    );
}

/// Returns a `fallback` block. The block and the entries of `usage.iterations` have the format of Anthropic's Python
/// SDK 2.12.0, documented in <https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback>.
fn fallback() -> Value {
    json!({
        "type": "fallback",
        "from": {"model": "m"},
        "to": {"model": "claude-opus-4-8"},
        "trigger": {"type": "refusal", "category": "cyber"},
    })
}

/// A response that a second model continued must name the second model. If the first model declined during the stream,
/// `message_start` still names the first model.
#[test]
fn response_after_fallback_names_the_second_model() {
    let served = json!([
        {"type": "message", "model": "m", "input_tokens": 9, "output_tokens": 2},
        {"type": "fallback_message", "model": "claude-opus-4-8", "input_tokens": 10, "output_tokens": 5},
    ]);
    for (block, iterations) in
        [(true, json!(null)), (true, served.clone()), (false, served.clone())]
    {
        let block = block.then(|| [start(0, fallback()), stop(0)]);
        let said = [start(1, json!({"type": "text", "text": "a"})), stop(1)];
        let delta = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5, "iterations": iterations}});
        let events: Vec<_> = [begin()]
            .into_iter()
            .chain(block.into_iter().flatten())
            .chain(said)
            .chain([delta, json!({"type": "message_stop"})])
            .collect();
        assert_eq!(response_of(&read_bytes(&sse(&events))).model, "claude-opus-4-8");
    }
}

/// The tool calls of a first model that declined must be omitted if another model continues the response. They must not
/// run, and the API rejects them in the next request.
#[test]
fn calls_abandoned_by_fallback_are_omitted() {
    let thought = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    let blocks = [thought, tool("c1"), fallback(), tool("c2")];
    let middle = blocks.into_iter().enumerate().map(|(index, block)| start(index, block));
    let events = read_bytes(&answer(middle));
    let content = &response_of(&events).message.content;
    assert_eq!(content, &[raw(fallback(), None), call("c2", json!({}))]);
}
