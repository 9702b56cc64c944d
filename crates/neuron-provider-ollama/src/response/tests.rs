//! Tests that parse responses that are not streamed, with every field, and invalid bodies.

use std::collections::HashSet;

use serde_json::json;

use super::*;

fn read(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    super::read(body, &Secret::new("sk-secret"))
}

fn read_message(message: Value) -> CompletionResponse {
    let body = json!({"model": "m", "message": message, "done": true, "done_reason": "stop"});
    read(body.to_string().as_bytes()).unwrap()
}

/// Checks the blocks that the JSON of a message is parsed into.
#[track_caller]
fn check(message: Value, expected: &[ContentBlock]) {
    assert_eq!(read_message(message).message.content, expected);
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn thinking(thinking: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: thinking.into(), signature: String::new() }
}

fn call(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

fn wire_call(id: &str, arguments: Value) -> Value {
    json!({"id": id, "function": {"index": 0, "name": "look", "arguments": arguments}})
}

#[test]
fn message_is_parsed_to_thinking_text_and_calls() {
    check(json!({"role": "assistant", "content": "日本 🦀"}), &[text("日本 🦀")]);
    check(json!({"role": "assistant", "content": ""}), &[]);
    check(json!({"content": null, "thinking": null, "tool_calls": null, "images": null}), &[]);
    check(json!({}), &[]);
    check(
        json!({
            "role": "assistant",
            "tool_calls": [wire_call("c1", json!({"b": 1, "a": 2})), wire_call("c2", json!({}))],
            "content": "a",
            "thinking": "hm",
        }),
        &[thinking("hm"), text("a"), call("c1", json!({"b": 1, "a": 2})), call("c2", json!({}))],
    );
}

#[test]
fn arguments_are_parsed_from_every_format() {
    for (arguments, expected) in [
        (json!({"a": {"b": [1]}}), json!({"a": {"b": [1]}})),
        (json!([1]), json!([1])),
        (json!(null), json!({})),
        (json!("{\"a\":1}"), json!({"a": 1})),
        (json!(""), json!({})),
        (json!("{\"a"), ToolCall::invalid_json_input("{\"a")),
    ] {
        check(json!({"tool_calls": [wire_call("c1", arguments)]}), &[call("c1", expected)]);
    }
    let bare = json!({"tool_calls": [{"id": "c1", "function": {"name": "look"}}]});
    check(bare, &[call("c1", json!({}))]);
}

#[test]
fn missing_call_ids_are_generated() {
    let nameless = json!({"function": {"name": "look", "arguments": {}}});
    for calls in [
        json!([nameless, nameless]),
        json!([wire_call("", json!({})), {"id": null, "function": nameless["function"]}]),
    ] {
        let response = read_message(json!({"tool_calls": calls}));
        let ids: HashSet<_> = response.message.tool_uses().map(|call| call.id.to_owned()).collect();
        assert_eq!(ids.len(), 2);
        for id in ids {
            let hex = id.strip_prefix("call_").unwrap();
            assert!(hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
    }
}

#[test]
fn repeated_call_id_is_replaced() {
    let calls: Vec<_> = ["a", "a", "a_2", "a"].iter().map(|id| wire_call(id, json!({}))).collect();
    let expected = ["a", "a_2", "a_2_2", "a_3"].map(|id| call(id, json!({})));
    check(json!({"tool_calls": calls}), &expected);
}

#[test]
fn call_with_unknown_fields_is_kept_and_still_a_call() {
    let mut more = wire_call("c1", json!({"a": 1}));
    more["function"]["signature"] = json!("s");
    check(json!({"tool_calls": [more]}), &[raw(more.clone(), Some(call("c1", json!({"a": 1}))))]);
    // The tool result refers to the generated id, so the raw block must contain it.
    let more = json!({"function": {"name": "look", "arguments": {}}, "extra": {"x": 1}});
    let response = read_message(json!({"tool_calls": [more]}));
    let id = response.message.tool_uses().next().unwrap().id.to_owned();
    let ContentBlock::Raw { json, .. } = &response.message.content[0] else {
        panic!("{response:?}");
    };
    assert_eq!(json["id"], id);
    let usual = json!({"id": "c1", "type": "function", "new": null, "function": {"name": "look", "arguments": {}}});
    check(json!({"tool_calls": [usual]}), &[call("c1", json!({}))]);
}

#[test]
fn invalid_call_is_kept() {
    for json in [
        json!({"id": "c1", "function": {"arguments": {}}}),
        json!({"id": "c1"}),
        json!({"id": "c1", "function": {"name": 7}}),
        json!({"id": "c1", "function": {"name": "", "arguments": {}}}),
        json!("text"),
    ] {
        check(json!({"tool_calls": [json]}), &[raw(json.clone(), None)]);
    }
}

#[test]
fn null_in_tool_calls_is_dropped() {
    check(
        json!({"tool_calls": [null, wire_call("c1", json!({})), null]}),
        &[call("c1", json!({}))],
    );
    check(json!({"tool_calls": [null]}), &[]);
}

/// A field `index` next to the `id` of a call must not count as an unknown field. OpenAI's streams have this format,
/// and some proxies send it too.
#[test]
fn index_beside_id_is_a_known_field() {
    let mut json = wire_call("c1", json!({}));
    json["index"] = json!(0);
    check(json!({"tool_calls": [json]}), &[call("c1", json!({}))]);
}

#[test]
fn arguments_of_raw_call_become_an_object() {
    for (arguments, object) in [
        (json!("{\"a\":1}"), json!({"a": 1})),
        (json!("{\"a"), json!({"invalid_json": "{\"a"})),
        (json!([1]), json!({"input": [1]})),
        (json!(null), json!({})),
    ] {
        let mut json = wire_call("c1", arguments);
        json["new"] = json!("x");
        let response = read_message(json!({"tool_calls": [json]}));
        let ContentBlock::Raw { json, portable: Some(_), .. } = &response.message.content[0] else {
            panic!("{response:?}");
        };
        assert_eq!(json["function"]["arguments"], object);
    }
}

#[test]
fn unknown_fields_are_kept_as_one_block() {
    check(
        json!({"role": "assistant", "new": {"a": 1}, "content": "a", "images": ["x"], "none": null, "empty": "", "list": []}),
        &[text("a"), raw(json!({"type": "message", "new": {"a": 1}, "images": ["x"]}), None)],
    );
    check(
        json!({"type": "reply", "content": "a", "new": 1}),
        &[text("a"), raw(json!({"type": "message", "new": 1}), None)],
    );
}

#[test]
fn every_stop_reason_is_mapped() {
    let reason = |reason: Value, message: Value| {
        let body = json!({"message": message, "done": true, "done_reason": reason});
        read(body.to_string().as_bytes()).unwrap().stop_reason
    };
    let plain = || json!({"content": "a"});
    let calls = || json!({"tool_calls": [wire_call("c1", json!({}))]});
    for word in [json!("stop"), json!(""), json!(null)] {
        assert_eq!(reason(word.clone(), plain()), StopReason::EndTurn);
        assert_eq!(reason(word, calls()), StopReason::ToolUse);
    }
    assert_eq!(reason(json!("tool_calls"), plain()), StopReason::ToolUse);
    for word in ["tool_calls", "new"] {
        assert_eq!(reason(json!(word), calls()), StopReason::ToolUse);
    }
    assert_eq!(reason(json!("length"), plain()), StopReason::MaxTokens);
    assert_eq!(reason(json!("length"), calls()), StopReason::MaxTokens);
    for other in ["load", "unload", "new"] {
        assert_eq!(reason(json!(other), plain()), StopReason::Other(other.into()));
    }
}

#[test]
fn whole_response_is_parsed() {
    let body = r#" {"model":"qwen3","created_at":"2026-11-21T10:00:00Z","message":{"role":"assistant","content":"hi","thinking":"hm"},"logprobs":[{"token":"hi"}],"done":true,"done_reason":"stop","total_duration":9,"prompt_eval_count":26,"eval_count":7}
"#;
    let mut response = read(body.as_bytes()).unwrap();
    response.message.content.retain(|block| !block.is_mark());
    assert_eq!(
        response,
        CompletionResponse {
            id: String::new(),
            model: "qwen3".into(),
            message: Message { role: Role::Assistant, content: vec![thinking("hm"), text("hi")] },
            usage: TokenUsage { input_tokens: 26, output_tokens: 7, ..Default::default() },
            stop_reason: StopReason::EndTurn,
        }
    );
    let least = read(br#"{"message":{}}"#).unwrap();
    assert_eq!((least.model.as_str(), least.usage), ("", TokenUsage::default()));
}

/// The number of input tokens must include the cached tokens, which `prompt_eval_count` already includes. Older servers
/// do not report cached tokens. Source: `Metrics` in Ollama's `api/types.go`.
#[test]
fn input_tokens_include_cached_tokens() {
    let usage = |counts: &str| {
        let body = format!(r#"{{"message":{{"content":"a"}},"done":true{counts}}}"#);
        read(body.as_bytes()).unwrap().usage
    };
    let expected = |input_tokens, cache_read_tokens| TokenUsage {
        input_tokens,
        output_tokens: 3,
        cache_read_tokens,
        ..Default::default()
    };
    assert_eq!(
        usage(r#","prompt_eval_count":26,"prompt_eval_cached_count":20,"eval_count":3"#),
        expected(26, Some(20))
    );
    assert_eq!(
        usage(r#","prompt_eval_count":26,"prompt_eval_cached_count":0,"eval_count":3"#),
        expected(26, Some(0))
    );
    assert_eq!(usage(r#","prompt_eval_count":26,"eval_count":3"#), expected(26, None));
    assert_eq!(usage(r#","eval_count":3"#), expected(0, None));
}

#[track_caller]
fn check_malformed(body: &str, expected: &str) {
    let error = read(body.as_bytes()).unwrap_err();
    assert!(matches!(error, ProviderError::Other(_)));
    assert_eq!(error.to_string(), expected);
}

#[test]
fn invalid_body_is_shown_without_the_key() {
    check_malformed(
        "",
        "the body is not a chat response (EOF while parsing a value at line 1 column 0); it begins with: ",
    );
    check_malformed(
        "<html>sk-secret</html>",
        "the body is not a chat response (expected value at line 1 column 1); it begins with: <html>[redacted]</html>",
    );
    check_malformed(
        r#"{"models":[]}"#,
        r#"the body is not a chat response (missing field `message`); it begins with: {"models":[]}"#,
    );
    let error = read(br#"{"error":"server busy"}"#).unwrap_err();
    assert_eq!(error.to_string(), "service unavailable: in the answer: server busy");
    check_malformed(
        r#"{"message":{"content":"a"},"done":false}"#,
        r#"the body is not a chat response (`done` is false); it begins with: {"message":{"content":"a"},"done":false}"#,
    );
    let error = read(br#"{"message":{"content":7}}"#).unwrap_err().to_string();
    assert!(error.contains("invalid type: integer `7`"), "{error}");
    assert!(read(&[0xff, 0xfe]).is_err());
}

/// A model that says nothing may leave out its message.
#[test]
fn response_without_a_message_is_empty() {
    let body = json!({"model": "m", "done": true, "done_reason": "stop", "eval_count": 1});
    let response = read(body.to_string().as_bytes()).unwrap();
    assert_eq!((response.message.content.len(), response.usage.output_tokens), (0, 1));
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    let other = json!({"model": "m", "response": "a", "done": true}).to_string();
    assert!(read(other.as_bytes()).is_err(), "the API `/api/generate`");
}

#[test]
fn truncated_response_is_an_error() {
    let message =
        json!({"content": "日本 \"🦀\"", "tool_calls": [wire_call("c", json!({"a": [1]}))]});
    let body = json!({"message": message, "done": true}).to_string();
    for end in 0..body.len() {
        let error = read(&body.as_bytes()[..end]).unwrap_err();
        assert!(matches!(error, ProviderError::Other(_)), "cut at {end}");
    }
}

/// Log probabilities must become metadata of the response. Ollama documents their format in
/// <https://github.com/ollama/ollama/blob/main/docs/api.md>.
#[test]
fn log_probabilities_become_metadata() {
    use bytes::Bytes;
    use futures_util::{FutureExt, stream};

    let logprob = |token: &str| json!({ "token": token, "logprob": -0.5 });
    let end = json!({
        "done": true, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 2,
    });
    let with = |fields: Value, more: &Value| {
        let (mut fields, more) = (fields.as_object().unwrap().clone(), more.as_object().unwrap());
        fields.extend(more.clone());
        Value::Object(fields)
    };
    let message = |text: &str| json!({ "role": "assistant", "content": text });
    let whole = with(
        json!({ "model": "m", "message": message("Hello"), "logprobs": [logprob("Hel"), logprob("lo")] }),
        &end,
    );
    let whole = crate::wire::read_response(whole.to_string().as_bytes()).unwrap();
    let metadata = whole.message.metadata().unwrap();
    assert_eq!(metadata.logprobs, Some(json!([logprob("Hel"), logprob("lo")])));
    let lines = [
        json!({ "model": "m", "message": message("Hel"), "done": false, "logprobs": [logprob("Hel")] }),
        json!({ "model": "m", "message": message("lo"), "done": false, "logprobs": [logprob("lo")] }),
        with(json!({ "model": "m", "message": message("") }), &end),
    ];
    let bytes: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for split in 0..=bytes.len() {
        let (first, second) = bytes.as_bytes().split_at(split);
        let pieces = [first, second].map(|piece| Ok(Bytes::copy_from_slice(piece)));
        let streamed = crate::wire::read_stream(stream::iter(pieces)).into_response();
        assert_eq!(streamed.now_or_never().unwrap().unwrap(), whole, "split at {split}");
    }
}

/// Regression test. The integer was rounded.
#[test]
fn integer_beyond_64_bits_is_kept_as_text() {
    let message = json!({"tool_calls": [wire_call("c1", json!({"n": 0}))]});
    let body = json!({"model": "m", "message": message, "done": true}).to_string();
    let body = body.replace("{\"n\":0}", "{\"n\":-123456789012345678901}");
    let response = read(body.as_bytes()).unwrap();
    assert_eq!(response.message.content, [call("c1", json!({"n": "-123456789012345678901"}))]);
}
