//! Tests that decode streams without HTTP. They cover every field and the known deviations of compatible servers. Each
//! stream is also split and truncated at every byte.

use neuron_model::{ContentBlock, Message, Role, StopReason, TokenUsage, ToolCall};
use neuron_testing::Wire;
use neuron_testing::openai::{Dialect, chat_body, chat_bytes};
use serde_json::json;

use super::*;
use crate::stream_checks::*;

mod calls;

fn read(bytes: &[u8]) -> Vec<StreamEvent> {
    read_bytes::<ChatDecoder>(bytes)
}

fn chunk(delta: Value, finish_reason: Option<&str>) -> Value {
    json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

/// Returns the bytes of a stream with these deltas, a finish reason, and `[DONE]`.
fn answer(deltas: impl IntoIterator<Item = Value>, finish_reason: &str) -> Vec<u8> {
    let deltas = deltas.into_iter().map(|delta| chunk(delta, None));
    let mut chunks: Vec<_> = deltas.collect();
    chunks.push(chunk(json!({}), Some(finish_reason)));
    [sse(&chunks), b"data: [DONE]\n\n".to_vec()].concat()
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn thinking(thinking: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: thinking.into(), signature: String::new() }
}

fn call(id: &str, name: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input }
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: "openai".into(), json, portable: portable.map(Box::new) }
}

/// Checks the content of a stream with these deltas. Tests each way in which a stream may end.
#[track_caller]
fn check(deltas: impl IntoIterator<Item = Value>, content: &[ContentBlock]) {
    let events = read(&answer(deltas, "stop"));
    assert_eq!(response_of(&events).message.content, content);
}

fn function(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Returns a response that uses every feature of the format.
fn everything() -> CompletionResponse {
    CompletionResponse {
        id: "cmpl_7".into(),
        model: "m".into(),
        message: Message {
            role: Role::Assistant,
            content: vec![
                thinking("hm é"),
                text("añ🦀"),
                call("c1", "look", json!({"é": ["\"\n"]})),
                call("c2", "look", json!({})),
            ],
        },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            cache_creation_tokens: Some(3),
            reasoning_tokens: Some(2),
            iterations: None,
            cost: None,
        },
        stop_reason: StopReason::ToolUse,
    }
}

fn dialects() -> Vec<Dialect> {
    let vendor = Dialect::default;
    vec![
        vendor(),
        vendor().later_ids_null(),
        vendor().later_ids_empty().reasoning_field(),
        vendor().without_call_index().usage_on_last_choice(),
        vendor().whole_arguments().stop_with_calls(),
        vendor().without_call_index().whole_arguments().without_done(),
    ]
}

/// Returns the response without its metadata, which other tests check.
fn plain(response: &CompletionResponse) -> CompletionResponse {
    let mut response = response.clone();
    response.message.content.retain(|block| !block.is_mark());
    response
}

#[test]
fn response_with_every_feature_decodes_in_every_dialect() {
    for dialect in dialects() {
        for chunk_chars in [1, 3, 1000] {
            let bytes = chat_bytes(&everything(), chunk_chars, &Wire::default(), &dialect);
            assert_eq!(plain(response_of(&read(&bytes))), everything(), "{dialect:?}");
        }
        let body = chat_body(&everything(), &dialect).to_string();
        let whole = response::read(body.as_bytes(), &Secret::default(), Vendor::default()).unwrap();
        assert_eq!(plain(&whole), everything(), "{dialect:?}");
    }
}

#[test]
fn stream_is_decoded_for_every_split_and_rejected_if_truncated() {
    let forms = dialects().into_iter().map(|dialect| (dialect, Wire::default()));
    let other = (Dialect::default(), Wire::default().crlf().no_space().comments());
    for (dialect, wire) in forms.chain([other]) {
        let bytes = chat_bytes(&everything(), 16, &wire, &dialect);
        // The response is complete after the chunk with the finish reason.
        let text = String::from_utf8(bytes.clone()).unwrap();
        let reason = ["\"finish_reason\":\"stop\"", "\"finish_reason\":\"tool_calls\""];
        let reason = reason.iter().filter_map(|reason| text.find(reason)).min().unwrap();
        let needed = reason + text[reason..].find(['\r', '\n']).unwrap() + 1;
        check_every_byte::<ChatDecoder>(&bytes, needed);
    }
}

#[test]
fn deltas_are_emitted_as_they_arrive() {
    let events = read(&answer(
        [
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!({"content": "a"}),
            json!({"content": ""}),
            json!({"content": null}),
            json!({}),
            json!({"content": "b"}),
            json!({"tool_calls": [function(json!(0), json!("c1"), json!("look"), json!(""))]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\""}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]}),
        ],
        "tool_calls",
    ));
    assert_eq!(
        short(&events),
        [
            "text a",
            "text b",
            "start c1 look",
            "input c1 {\"a\"",
            "input c1 : 1}",
            "end c1",
            "call c1 look {\"a\":1}"
        ]
    );
    let response = response_of(&events);
    assert_eq!((response.id.as_str(), response.model.as_str()), ("cmpl_1", "m"));
    assert_eq!(response.stop_reason, StopReason::ToolUse);
}

#[test]
fn finish_reason_is_mapped_to_stop_reason() {
    for (word, expected) in [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::ContentFilter),
        ("tool_calls", StopReason::ToolUse),
        ("function_call", StopReason::ToolUse),
        ("insufficient_system_resource", StopReason::Other("insufficient_system_resource".into())),
    ] {
        let events = read(&answer([json!({"content": "a"})], word));
        assert_eq!(response_of(&events).stop_reason, expected);
    }
    let whole = function(json!(0), json!("c"), json!("look"), json!("{}"));
    for (word, expected) in [
        ("stop", StopReason::ToolUse),
        ("eos", StopReason::ToolUse),
        ("length", StopReason::MaxTokens),
        ("content_filter", StopReason::ContentFilter),
    ] {
        let events = read(&answer([json!({"tool_calls": [whole]})], word));
        assert_eq!(response_of(&events).stop_reason, expected);
    }
}

/// A finish reason of `""` must be ignored. Regression test. A stream that broke after such a chunk was reported as
/// complete.
#[test]
fn empty_finish_reason_is_ignored() {
    let mut chunks = vec![chunk(json!({"content": "half an"}), Some(""))];
    let text = check_error(&read(&sse(&chunks)), "StreamError");
    assert_eq!(text, "stream error: the stream ended before the answer was complete");
    chunks.push(chunk(json!({"content": " answer"}), Some("stop")));
    chunks.push(chunk(json!({}), Some("")));
    assert_eq!(response_of(&read(&sse(&chunks))).stop_reason, StopReason::EndTurn);
}

#[test]
fn reasoning_is_decoded_from_every_field() {
    check(
        [json!({"reasoning_content": "h"}), json!({"reasoning_content": "m"})],
        &[thinking("hm")],
    );
    check([json!({"reasoning": "hm"}), json!({"content": "a"})], &[thinking("hm"), text("a")]);
    for both in [
        json!({"reasoning_content": "hm", "reasoning": "hm"}),
        json!({"reasoning_content": "hm", "reasoning": ""}),
        json!({"reasoning": "", "reasoning_content": "hm"}),
        json!({"reasoning": "hm", "reasoning_content": null}),
    ] {
        check([both], &[thinking("hm")]);
    }
    let list = json!([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]);
    check([json!({"content": list})], &[thinking("hm"), text("a")]);
    check(
        [json!({"reasoning": {"summary": "hm"}})],
        &[raw(json!({"type": "message", "reasoning": {"summary": "hm"}}), None)],
    );
}

#[test]
fn every_content_format_is_decoded() {
    let list = json!([{"type": "text", "text": "a"}, "b", {"type": "text", "text": ""}]);
    check([json!({"content": list}), json!({"content": "c"})], &[text("abc")]);
    check([json!({"content": {"type": "text", "text": "a"}})], &[text("a")]);
    check([json!({"content": []}), json!({"content": null})], &[]);
    let image = json!({"type": "image_url", "image_url": {"url": "u"}});
    check(
        [json!({"content": [image]}), json!({"content": [image, "a"]})],
        &[text("a"), raw(json!({"type": "message", "content_parts": [image, image]}), None)],
    );
    check(
        [json!({"content": [{"type": "refusal", "refusal": "No."}]})],
        &[raw(json!({"type": "message", "refusal": "No."}), Some(text("No.")))],
    );
}

#[test]
fn refusal_is_emitted_as_text_and_kept_as_refusal() {
    let deltas = [json!({"refusal": "I "}), json!({"refusal": "cannot."}), json!({"refusal": ""})];
    let events = read(&answer(deltas, "stop"));
    assert_eq!(short(&events), ["text I ", "text cannot."]);
    let response = response_of(&events);
    assert_eq!(response.stop_reason, StopReason::Refusal);
    let kept = json!({"type": "message", "refusal": "I cannot."});
    assert_eq!(response.message.content, [raw(kept, Some(text("I cannot.")))]);
}

#[test]
fn unknown_fields_are_accumulated() {
    check(
        [
            json!({"content": "a", "new": "x", "list": [1], "name": "n", "object": {"a": "1", "type": "t"}}),
            json!({"new": "y", "list": [2], "name": "n", "object": {"a": "2", "b": 1, "type": "t"}, "number": 1}),
            json!({"new": null, "number": 2, "nothing": null, "empty": ""}),
        ],
        &[
            text("a"),
            raw(
                json!({"type": "message", "new": "xy", "list": [1, 2], "name": "n",
                    "object": {"a": "12", "type": "t", "b": 1}, "number": 2}),
                None,
            ),
        ],
    );
}

#[test]
fn speech_is_accumulated_and_transcript_is_text() {
    let events = read(&answer(
        [
            json!({"content": null, "audio": {"id": "audio_1", "transcript": "He"}}),
            json!({"audio": {"id": "audio_1", "data": "AAAA"}}),
            json!({"audio": {"transcript": "llo", "data": "BBBB"}}),
            json!({"audio": {"expires_at": 7}}),
        ],
        "stop",
    ));
    let audio =
        json!({"id": "audio_1", "transcript": "Hello", "data": "AAAABBBB", "expires_at": 7});
    let kept = raw(json!({"type": "message", "audio": audio}), Some(text("Hello")));
    assert_eq!(response_of(&events).message.content, [kept]);
}

#[test]
fn only_first_choice_is_decoded() {
    let choice = |index: usize, text: &str| json!({"index": index, "delta": {"content": text}, "finish_reason": null});
    let chunks = [
        json!({"choices": [choice(1, "no"), choice(0, "y")]}),
        json!({"choices": [choice(1, "no")]}),
        json!({"choices": [{"index": 1, "delta": {}, "finish_reason": "length"}]}),
        json!({"choices": [{"delta": {"content": "es"}, "finish_reason": "stop"}]}),
    ];
    let events = read(&sse(&chunks));
    let response = response_of(&events);
    assert_eq!(response.message.content, [text("yes")]);
    assert_eq!(response.stop_reason, StopReason::EndTurn);
}

#[test]
fn unfinished_first_choice_is_an_error() {
    let end = json!({"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]});
    check_error(&read(&sse(&[chunk(json!({"content": "a"}), None), end])), "StreamError");
}

/// A chunk that contains the whole `message` instead of a `delta` must be decoded. Regression test. The response was
/// empty.
#[test]
fn whole_message_in_stream_is_decoded() {
    let message = json!({"role": "assistant", "content": "Hi", "tool_calls": [function(json!(0), json!("x"), json!("look"), json!("{}"))]});
    let whole = json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    let content = [text("Hi"), call("x", "look", json!({}))];
    let events = read(&sse(std::slice::from_ref(&whole)));
    assert_eq!(response_of(&events).message.content, content);
    // A message that repeats the earlier deltas is ignored.
    let events = read(&sse(&[chunk(json!({"content": "Hi"}), None), whole]));
    assert_eq!(response_of(&events).message.content, content[..1]);
}

#[test]
fn empty_and_unknown_chunks_are_ignored() {
    let mut chunks = vec![
        json!({"id": "", "object": "chat.completion.chunk", "choices": [], "prompt_filter_results": []}),
        chunk(json!({"content": "a"}), None),
        json!({"id": "cmpl_1", "choices": null, "obfuscation": "abc"}),
        json!({"object": "ping"}),
        chunk(json!(null), None),
        json!({"choices": [{"index": 0, "finish_reason": "stop", "logprobs": null, "content_filter_results": {}}]}),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        json!({"choices": [], "usage": null}),
        json!({"choices": [], "moderation": {"flagged": false}}),
    ];
    for chunk in &mut chunks {
        chunk["service_tier"] = json!("default");
    }
    let comments = b": OPENROUTER PROCESSING\n\ndata:\n\ndata:  \n\n".to_vec();
    let bytes = [comments, sse(&chunks)].concat();
    let events = read(&bytes);
    let response = response_of(&events);
    assert_eq!(response.id, "cmpl_1");
    assert_eq!(plain(response).message.content, [text("a")]);
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (5, 2));
    // Data after `[DONE]` is ignored.
    let more = [bytes, b"data: [DONE]\n\ndata: nonsense\n\n".to_vec()].concat();
    assert_eq!(plain(response_of(&read(&more))).message.content, [text("a")]);
}

#[test]
fn invalid_token_counts_do_not_fail_a_response() {
    for (usage, expected) in [
        (json!({"prompt_tokens": 5.0, "completion_tokens": null}), 5),
        (json!({"prompt_tokens": 5, "prompt_tokens_details": "none"}), 5),
        (json!({"prompt_tokens": "5"}), 0),
        (json!([]), 0),
        (json!("none"), 0),
    ] {
        let mut last = chunk(json!({"content": "a"}), Some("stop"));
        last["usage"] = usage;
        let events = read(&sse(&[last]));
        assert_eq!(response_of(&events).usage.input_tokens, expected);
    }
}

#[test]
fn error_event_ends_the_stream() {
    let error = |error: Value| {
        let bytes =
            [sse(&[chunk(json!({"content": "a"}), None), error]), b"data: [DONE]\n\n".to_vec()];
        read(&bytes.concat())
    };
    for (json, kind, text) in [
        (
            json!({"error": {"message": "why", "type": "server_error", "param": null, "code": null}}),
            "StreamError",
            "stream error: in the stream server_error: why",
        ),
        (
            json!({"error": {"message": "why", "code": 429}, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}),
            "RateLimit",
            "rate limited",
        ),
        (
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"message": "why", "code": 502}}]}),
            "ServiceUnavailable",
            "service unavailable: in the stream: why",
        ),
        (json!({"error": "why"}), "StreamError", "stream error: in the stream: why"),
        (
            json!({"error": {"message": {"detail": "why"}, "type": 7}}),
            "StreamError",
            "stream error: in the stream 7: {\"detail\":\"why\"}",
        ),
        (
            json!({"error": {"message": "sk-secret", "type": "invalid_api_key"}}),
            "Authentication",
            "authentication failed: in the stream invalid_api_key: [redacted]",
        ),
    ] {
        assert_eq!(check_error(&error(json), kind), text);
    }
}

/// An error chunk without the field `error` must be reported, even if `[DONE]` follows. Regression test. The partial
/// response was reported as complete.
#[test]
fn error_without_error_field_is_reported() {
    let flat = json!({"object": "error", "message": "out of memory", "type": "InternalServerError", "param": null, "code": 500});
    let bytes = [sse(&[chunk(json!({"content": "a"}), None), flat]), b"data: [DONE]\n\n".to_vec()];
    let text = check_error(&read(&bytes.concat()), "ServiceUnavailable");
    assert_eq!(text, "service unavailable: in the stream InternalServerError: out of memory");
}

#[test]
fn empty_error_field_is_ignored() {
    for none in [json!(null), json!(""), json!(false)] {
        let mut last = chunk(json!({"content": "a"}), Some("stop"));
        last["error"] = none;
        assert_eq!(response_of(&read(&sse(&[last]))).message.content, [text("a")]);
    }
}

#[test]
fn invalid_chunk_is_an_error() {
    for data in ["nonsense", "{\"choices\": {}}", "{\"choices\": [{\"delta\": 7}]}", "sk-secret"] {
        let text = check_error(&read(format!("data: {data}\n\n").as_bytes()), "StreamError");
        assert!(text.contains("a chunk is not as expected"), "{text}");
    }
    let text = check_error(&read(b"data: [DONE]\n\n"), "StreamError");
    assert_eq!(text, "stream error: the stream ended before the answer began");
    check_error(&read(b"data: {}\n\ndata: [DONE]\n\n"), "StreamError");
    check_error(&read(b""), "StreamError");
}
