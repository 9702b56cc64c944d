//! Tests that parse responses that are not streamed, with every field, every quirk of compatible servers, and truncated
//! at every byte.

use neuron_model::{TokenUsage, ToolCall};
use serde_json::json;

use super::*;

fn read_json(json: &Value) -> Result<CompletionResponse, ProviderError> {
    read(json.to_string().as_bytes(), &Secret::new("sk-secret"), Vendor::default())
}

fn answer(message: Value, finish_reason: Value) -> Value {
    json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}]})
}

/// Checks the blocks that the JSON of a message is parsed into.
#[track_caller]
fn check(message: Value, content: &[ContentBlock]) {
    let mut response = read_json(&answer(message, json!("stop"))).unwrap();
    response.message.content.retain(|block| !block.is_mark());
    assert_eq!(response.message.content, content);
    assert_eq!(response.message.role, Role::Assistant);
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn thinking(thinking: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: thinking.into(), signature: String::new() }
}

fn called(id: &str, input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

fn raw(json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: "openai".into(), json, portable: portable.map(Box::new) }
}

fn function(id: Value, arguments: Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}})
}

#[test]
fn every_message_format_is_parsed() {
    check(
        json!({"role": "assistant", "content": "a", "refusal": null, "annotations": []}),
        &[text("a")],
    );
    check(json!({"role": "assistant", "content": null}), &[]);
    check(json!({"content": ""}), &[]);
    check(json!({}), &[]);
    check(json!({"content": [{"type": "text", "text": "a"}, {"text": "b"}, "c"]}), &[text("abc")]);
    check(json!({"content": {"type": "text", "text": "a"}}), &[text("a")]);
    check(
        json!({"content": ["a", {"type": "image_url", "image_url": {"url": "u"}}]}),
        &[
            text("a"),
            raw(
                json!({"type": "message", "content_parts": [{"type": "image_url", "image_url": {"url": "u"}}]}),
                None,
            ),
        ],
    );
}

#[test]
fn reasoning_is_parsed_from_every_field() {
    for message in [
        json!({"reasoning_content": "hm", "content": "a"}),
        json!({"reasoning": "hm", "content": "a"}),
        json!({"reasoning": "hm", "reasoning_content": "hm", "content": "a"}),
        json!({"reasoning": "hm", "reasoning_content": "", "content": "a"}),
        json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]}),
        json!({"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]}),
    ] {
        check(message, &[thinking("hm"), text("a")]);
    }
    let details = json!([{"type": "reasoning.encrypted", "data": "x"}]);
    check(
        json!({"reasoning": {"summary": "hm"}, "reasoning_details": details}),
        &[raw(
            json!({"type": "message", "reasoning": {"summary": "hm"}, "reasoning_details": details}),
            None,
        )],
    );
}

#[test]
fn unknown_fields_are_kept_with_portable_block() {
    let refused = json!({"type": "message", "refusal": "No."});
    check(json!({"content": null, "refusal": "No."}), &[raw(refused.clone(), Some(text("No.")))]);
    check(
        json!({"content": [{"type": "refusal", "refusal": "No."}]}),
        &[raw(refused, Some(text("No.")))],
    );
    let cited = json!([{"type": "url_citation", "url_citation": {"url": "u"}}]);
    check(
        json!({"content": "a", "annotations": cited}),
        &[text("a"), raw(json!({"type": "message", "annotations": cited}), None)],
    );
    let audio = json!({"id": "audio_1", "data": "AAAA", "transcript": "Hello", "expires_at": 7});
    check(
        json!({"content": null, "audio": audio}),
        &[raw(json!({"type": "message", "audio": audio}), Some(text("Hello")))],
    );
}

#[test]
fn every_call_format_is_parsed() {
    for (arguments, input) in [
        (json!("{\"z\":1,\"a\":2}"), json!({"z": 1, "a": 2})),
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!({"a": 1}), json!({"a": 1})),
        (json!("{\"a\":"), ToolCall::invalid_json_input("{\"a\":")),
    ] {
        check(json!({"tool_calls": [function(json!("x"), arguments)]}), &[called("x", input)]);
    }
    let (missing, empty) = (function(json!(null), json!("{}")), function(json!(""), json!("{}")));
    check(
        json!({"content": "a", "tool_calls": [missing, empty]}),
        &[text("a"), called("call_cmpl_1", json!({})), called("call_cmpl_1_2", json!({}))],
    );
    let custom =
        json!({"id": "c", "type": "custom", "custom": {"name": "look", "input": "select 1"}});
    check(
        json!({"tool_calls": [custom]}),
        &[raw(custom.clone(), Some(called("c", json!("select 1"))))],
    );
    let nulls = json!({"id": "x", "type": "function", "custom": null, "function": {"name": "look", "arguments": "{}"}});
    check(json!({"tool_calls": [nulls]}), &[called("x", json!({}))]);
    for none in [json!(null), json!([])] {
        check(json!({"tool_calls": none}), &[]);
    }
    check(
        json!({"function_call": {"name": "look", "arguments": "{\"a\":1}"}}),
        &[called("call_cmpl_1", json!({"a": 1}))],
    );
}

#[test]
fn finish_reason_is_mapped_to_stop_reason() {
    let calls = json!({"tool_calls": [function(json!("x"), json!("{}"))]});
    let refused = json!({"refusal": "No."});
    let said = json!({"content": "a", "refusal": ""});
    for (message, reason, expected) in [
        (&said, json!("stop"), StopReason::EndTurn),
        (&said, json!(null), StopReason::EndTurn),
        (&said, json!(""), StopReason::EndTurn),
        (&said, json!(7), StopReason::EndTurn),
        (&said, json!("length"), StopReason::MaxTokens),
        (&said, json!("content_filter"), StopReason::ContentFilter),
        (&said, json!("tool_calls"), StopReason::ToolUse),
        (&said, json!("function_call"), StopReason::ToolUse),
        (&said, json!("new"), StopReason::Other("new".into())),
        (&calls, json!("stop"), StopReason::ToolUse),
        (&calls, json!("new"), StopReason::ToolUse),
        (&calls, json!(null), StopReason::ToolUse),
        (&calls, json!("length"), StopReason::MaxTokens),
        (&calls, json!("content_filter"), StopReason::ContentFilter),
        (&refused, json!("stop"), StopReason::Refusal),
        (&refused, json!("content_filter"), StopReason::Refusal),
    ] {
        let response = read_json(&answer(message.clone(), reason.clone())).unwrap();
        assert_eq!(response.stop_reason, expected, "{message} {reason}");
    }
}

#[test]
fn token_counts_are_parsed_from_every_format() {
    let usage = |usage: Value| {
        let mut json = answer(json!({"content": "a"}), json!("stop"));
        json["usage"] = usage;
        read_json(&json).unwrap().usage
    };
    let plain = TokenUsage { input_tokens: 5, output_tokens: 2, ..TokenUsage::default() };
    assert_eq!(
        usage(json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})),
        plain
    );
    assert_eq!(
        usage(json!({"prompt_tokens": 5.0, "completion_tokens": 2, "prompt_tokens_details": null})),
        plain
    );
    assert_eq!(
        usage(json!({
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 1, "accepted_prediction_tokens": null},
        })),
        TokenUsage {
            cache_read_tokens: Some(3),
            cache_creation_tokens: Some(1),
            reasoning_tokens: Some(1),
            ..plain
        }
    );
    for none in [json!(null), json!([]), json!("?"), json!({"prompt_tokens": -1})] {
        assert_eq!(usage(none), TokenUsage::default());
    }
}

#[test]
fn missing_names_do_not_fail_a_response() {
    for (id, model) in [(json!(null), json!(null)), (json!(7), json!({}))] {
        let mut json = answer(json!({"content": "a"}), json!("stop"));
        (json["id"], json["model"]) = (id, model);
        let response = read_json(&json).unwrap();
        assert_eq!((response.id.as_str(), response.message.text().as_str()), ("", "a"));
    }
}

#[test]
fn error_in_place_of_response_is_reported() {
    let error = json!({"message": "why", "type": "server_error", "code": 503});
    let choice = json!([{"index": 0, "message": {"content": "half"}, "finish_reason": "error", "error": error}]);
    for (json, text) in [
        (json!({"error": error}), "service unavailable: in the answer server_error: why"),
        (
            json!({"error": error, "choices": null}),
            "service unavailable: in the answer server_error: why",
        ),
        (
            json!({"error": error, "choices": [], "id": null}),
            "service unavailable: in the answer server_error: why",
        ),
        (json!({"choices": choice}), "service unavailable: in the answer server_error: why"),
        (
            json!({"object": "error", "message": "why", "type": "BadRequestError", "code": 400}),
            "invalid request: in the answer BadRequestError: why",
        ),
        (json!({"error": "why"}), "in the answer: why"),
        (
            json!({"error": {"message": "why", "type": "server_error"}}),
            "service unavailable: in the answer server_error: why",
        ),
    ] {
        assert_eq!(read_json(&json).unwrap_err().to_string(), text);
    }
}

#[test]
fn body_that_is_not_a_completion_is_shown() {
    for (body, why) in [
        ("{}", "(there are no choices)"),
        ("{\"choices\":[]}", "(there are no choices)"),
        ("{\"choices\":[{\"text\":\"a\"}]}", "(missing field `message`)"),
        ("{\"choices\":[{\"message\":null}]}", "(missing field `message`)"),
        ("null", "(invalid type: null"),
        ("<html>sk-secret</html>", "begins with: <html>[redacted]</html>"),
        ("", "(EOF while parsing"),
    ] {
        let error =
            read(body.as_bytes(), &Secret::new("sk-secret"), Vendor::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(why), "{text}");
        assert_eq!(error.kind(), "Other");
    }
}

#[test]
fn truncated_response_is_an_error() {
    let body = answer(
        json!({"content": "añ🦀", "tool_calls": [function(json!("x"), json!("{}"))]}),
        json!("stop"),
    );
    let body = body.to_string();
    for end in 0..body.len() {
        read(&body.as_bytes()[..end], &Secret::default(), Vendor::default()).unwrap_err();
    }
    read(body.as_bytes(), &Secret::default(), Vendor::default()).unwrap();
}

/// Some servers send the arguments as an object. Regression test. The integer was rounded.
#[test]
fn integer_beyond_64_bits_in_an_object_is_kept_as_text() {
    let call = json!({"id": "c1", "function": {"name": "look", "arguments": {"n": 0}}});
    let body = answer(json!({"tool_calls": [call]}), json!("tool_calls")).to_string();
    let body = body.replace("{\"n\":0}", "{\"n\":123456789012345678901}");
    let response = read(body.as_bytes(), &Secret::default(), Vendor::default()).unwrap();
    let call = response.message.tool_uses().next().unwrap();
    assert_eq!(call.input, &json!({"n": "123456789012345678901"}));
}
