//! Whole answers: every kind of item, every status, every cut.

use serde_json::json;

use super::*;

fn read_json(json: &Value) -> Result<CompletionResponse, ProviderError> {
    read(json.to_string().as_bytes(), &Secret::new("sk-secret"))
}

fn answer(output: Value, status: &str) -> Value {
    json!({"id": "resp_1", "model": "m", "status": status, "error": null, "incomplete_details": null, "output": output})
}

/// Checks the meaning of an item, which is kept as it came.
#[track_caller]
fn check(item: Value, portable: Option<ContentBlock>) {
    let response = read_json(&answer(json!([item]), "completed")).unwrap();
    let portable = portable.map(Box::new);
    let expected = ContentBlock::Raw { provider: "openai".into(), json: item, portable };
    assert_eq!(response.message.content, [expected]);
}

fn text(text: &str) -> Option<ContentBlock> {
    Some(ContentBlock::Text(text.into()))
}

fn thinking(thinking: &str) -> Option<ContentBlock> {
    Some(ContentBlock::Thinking { thinking: thinking.into(), signature: String::new() })
}

fn call(id: &str, input: Value) -> Option<ContentBlock> {
    Some(ContentBlock::ToolUse { id: id.into(), name: "look".into(), input })
}

fn said(parts: Value) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": parts})
}

fn called() -> Value {
    json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"})
}

fn refused() -> Value {
    said(json!([{"type": "refusal", "refusal": "No."}]))
}

#[test]
fn every_item_is_kept_and_has_its_meaning() {
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": [1]});
    check(said(json!([part("a"), part("b")])), text("ab"));
    check(refused(), text("No."));
    check(said(json!([])), None);
    check(said(json!([part("")])), None);
    let summary = |text: &str| json!({"type": "summary_text", "text": text});
    let thought = json!([{"type": "reasoning_text", "text": "raw"}]);
    check(
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}),
        None,
    );
    check(
        json!({"type": "reasoning", "summary": [summary("a"), summary(""), summary("b")]}),
        thinking("a\n\nb"),
    );
    check(json!({"type": "reasoning", "summary": [], "content": thought}), thinking("raw"));
    check(
        json!({"type": "reasoning", "summary": [summary("a")], "content": thought}),
        thinking("a"),
    );
    check(json!({"type": "web_search_call", "id": "ws_1"}), None);
    check(json!({"type": "compaction", "encrypted_content": "x"}), None);
    check(json!({"no": "type"}), None);
}

#[test]
fn calls_in_every_form() {
    let with = |arguments: Value| json!({"type": "function_call", "call_id": "c1", "name": "look", "arguments": arguments});
    check(with(json!("{\"z\":1,\"a\":2}")), call("c1", json!({"z": 1, "a": 2})));
    check(with(json!("")), call("c1", json!({})));
    check(with(json!(null)), call("c1", json!({})));
    check(with(json!({"a": 1})), call("c1", json!({"a": 1})));
    check(with(json!("{\"a\":")), call("c1", ToolCall::invalid_json_input("{\"a\":")));
    check(
        json!({"type": "function_call", "id": "fc_1", "name": "look", "arguments": "{}"}),
        call("fc_1", json!({})),
    );
    check(
        json!({"type": "custom_tool_call", "call_id": "c1", "name": "look", "input": "select 1"}),
        call("c1", json!("select 1")),
    );
}

#[test]
fn why_the_model_stopped() {
    let message = said(json!([{"type": "output_text", "text": "a"}]));
    let incomplete = |item: &Value, reason: Value| {
        let mut json = answer(json!([item]), "incomplete");
        json["incomplete_details"] = reason;
        json
    };
    let reason = |reason: &str| json!({"reason": reason});
    for (json, expected) in [
        (answer(json!([message]), "completed"), StopReason::EndTurn),
        (answer(json!([]), "completed"), StopReason::EndTurn),
        (answer(json!([message, called()]), "completed"), StopReason::ToolUse),
        (answer(json!([refused()]), "completed"), StopReason::Refusal),
        (incomplete(&message, reason("max_output_tokens")), StopReason::MaxTokens),
        (incomplete(&called(), reason("max_output_tokens")), StopReason::MaxTokens),
        (incomplete(&message, reason("content_filter")), StopReason::ContentFilter),
        (incomplete(&message, reason("steered")), StopReason::Other("steered".into())),
        (incomplete(&message, json!(null)), StopReason::Other("incomplete".into())),
        (incomplete(&message, json!("odd")), StopReason::Other("incomplete".into())),
        (answer(json!([]), "queued"), StopReason::Other("queued".into())),
        (json!({"output": [called()]}), StopReason::ToolUse),
        (json!({"output": [message], "status": null}), StopReason::EndTurn),
    ] {
        assert_eq!(read_json(&json).unwrap().stop_reason, expected, "{json}");
    }
}

#[test]
fn tokens_in_every_form() {
    let usage = |usage: Value| {
        let mut json = answer(json!([]), "completed");
        json["usage"] = usage;
        read_json(&json).unwrap().usage
    };
    assert_eq!(
        usage(json!({
            "input_tokens": 9, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
            "output_tokens": 5.0, "output_tokens_details": {"reasoning_tokens": 2},
        })),
        TokenUsage {
            input_tokens: 9,
            output_tokens: 5,
            cache_read_tokens: Some(3),
            cache_creation_tokens: Some(1),
            reasoning_tokens: Some(2),
            iterations: None,
        }
    );
    for none in [json!(null), json!("?"), json!({"input_tokens_details": null})] {
        assert_eq!(usage(none), TokenUsage::default());
    }
}

#[test]
fn names_that_are_missing_cost_no_answer() {
    let json = json!({"id": null, "model": 7, "status": "completed", "output": []});
    let response = read_json(&json).unwrap();
    assert_eq!((response.id.as_str(), response.model.as_str()), ("", ""));
}

#[test]
fn an_answer_that_failed_is_an_error() {
    for (error, text) in [
        (
            json!({"code": "server_error", "message": "why"}),
            "service unavailable: in the answer server_error: why",
        ),
        (json!({"code": "rate_limit_exceeded", "message": "why"}), "rate limited"),
        (
            json!({"code": "invalid_prompt", "message": "why"}),
            "invalid request: in the answer invalid_prompt: why",
        ),
        (json!(null), "in the answer: the server gives no reason"),
    ] {
        let mut json = answer(json!([]), "failed");
        json["error"] = error;
        assert_eq!(read_json(&json).unwrap_err().to_string(), text);
    }
    for json in [
        json!({"error": {"message": "why", "type": "insufficient_quota"}}),
        json!({"message": "why", "type": "insufficient_quota"}),
    ] {
        assert_eq!(read_json(&json).unwrap_err().kind(), "InsufficientResources");
    }
}

#[test]
fn what_is_no_response_is_shown() {
    for (body, why) in [
        ("{}", "the response has no output; it begins with: {}"),
        ("{\"output\":null}", "the response has no output"),
        ("<html>sk-secret</html>", "begins with: <html>[redacted]</html>"),
        ("", "EOF while parsing"),
    ] {
        let error = read(body.as_bytes(), &Secret::new("sk-secret")).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(error.kind(), "Other");
    }
    let body = answer(json!([said(json!([{"type": "output_text", "text": "añ🦀"}]))]), "completed");
    let body = body.to_string();
    for end in 0..body.len() {
        read(&body.as_bytes()[..end], &Secret::default()).unwrap_err();
    }
}
