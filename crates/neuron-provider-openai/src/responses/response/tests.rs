//! Tests that parse responses that are not streamed, with every type of item, every status, and truncated at every
//! byte.

use serde_json::json;

use super::*;

fn read_json(json: &Value) -> Result<CompletionResponse, ProviderError> {
    read(json.to_string().as_bytes(), &Secret::new("sk-secret"))
}

fn answer(output: Value, status: &str) -> Value {
    json!({"id": "resp_1", "model": "m", "status": status, "error": null, "incomplete_details": null, "output": output})
}

/// Checks that an item becomes a raw block with unchanged JSON. `portable` is the expected form of the block for other
/// providers.
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

/// Calls of search tools that xAI runs itself must not become tool calls. An agent would try to run these tools, which
/// it does not have.
#[test]
fn searches_run_by_xai_are_not_tool_calls() {
    let search = json!({
        "type": "custom_tool_call", "status": "completed", "call_id": "xs_call_1",
        "name": "x_keyword_search", "input": "{\"query\":\"a\"}",
    });
    let usage = json!({
        "input_tokens": 5, "output_tokens": 2, "cost_in_usd_ticks": 20_000_000_000_u64,
        "server_side_tool_usage_details": { "x_search_calls": 1, "web_search_calls": 0 },
    });
    let body = json!({
        "id": "r", "model": "grok", "status": "completed", "usage": usage,
        "output": [search, said(json!([{"type": "output_text", "text": "b"}]))],
    });
    let response = read(body.to_string().as_bytes(), &Secret::default()).unwrap();
    assert_eq!(response.message.tool_uses().count(), 0);
    assert_eq!(response.stop_reason, StopReason::EndTurn);
    assert_eq!((response.usage.input_tokens, response.usage.output_tokens), (5, 2));
    let metadata = response.message.metadata().unwrap();
    assert_eq!(metadata.cost, Some(2.0));
    let uses: Vec<_> = metadata.server_tool_usage.into_iter().collect();
    assert_eq!(uses, [("x_search_calls".to_owned(), 1)]);
}

#[test]
fn every_item_is_kept_with_portable_block() {
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
fn every_call_format_is_parsed() {
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
fn status_is_mapped_to_stop_reason() {
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

/// An item that the client must answer must set the stop reason to the type of the item. The test uses the types in
/// OpenAI's Python SDK 3.54.0 and in <https://platform.openai.com/docs/guides/tools-shell>.
#[test]
fn pending_client_items_set_stop_reason() {
    let item = |kind: &str, more: Value| {
        let mut item = json!({"type": kind, "id": "x_1", "call_id": "c1", "status": "completed"});
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        item
    };
    let reason = |output: Value| read_json(&answer(output, "completed")).unwrap().stop_reason;
    let message = said(json!([{"type": "output_text", "text": "a"}]));
    let waiting = [
        item("apply_patch_call", json!({"operation": {"type": "delete_file", "path": "a"}})),
        item("local_shell_call", json!({"action": {"type": "exec", "command": ["ls"]}})),
        item("shell_call", json!({"action": {"commands": ["ls"]}})),
        item("shell_call", json!({"action": {"commands": ["ls"]}, "environment": null})),
        item("shell_call", json!({"environment": {"type": "local"}})),
        item("tool_search_call", json!({"execution": "client", "arguments": {}})),
        item("computer_call", json!({"actions": [{"type": "screenshot"}]})),
        item("mcp_approval_request", json!({"server_label": "s", "name": "n", "arguments": "{}"})),
    ];
    for waits in &waiting {
        let kind = waits["type"].as_str().unwrap();
        let expected = StopReason::Other(kind.into());
        assert_eq!(reason(json!([message, waits])), expected, "{waits}");
        assert_eq!(reason(json!([waits, message])), expected, "{waits}");
        // A call of the request's tools can run in any case, so it takes precedence. A limit or a refusal also takes
        // precedence.
        assert_eq!(reason(json!([waits, called()])), StopReason::ToolUse);
        assert_eq!(reason(json!([waits, refused()])), StopReason::Refusal);
        let mut cut = answer(json!([waits]), "incomplete");
        cut["incomplete_details"] = json!({"reason": "max_output_tokens"});
        assert_eq!(read_json(&cut).unwrap().stop_reason, StopReason::MaxTokens);
        // The response contains the output of the tool, so the server ran it.
        let output = item(&format!("{kind}_output"), json!({}));
        assert_eq!(reason(json!([waits, output, message])), StopReason::EndTurn, "{waits}");
    }
    for ran in [
        item("web_search_call", json!({})),
        item("file_search_call", json!({})),
        item("code_interpreter_call", json!({"container_id": "c"})),
        item("image_generation_call", json!({})),
        item("mcp_call", json!({"server_label": "s", "name": "n", "arguments": "{}"})),
        item(
            "shell_call",
            json!({"environment": {"type": "container_reference", "container_id": "c"}}),
        ),
        item("tool_search_call", json!({"execution": "server"})),
    ] {
        assert_eq!(reason(json!([ran, message])), StopReason::EndTurn, "{ran}");
    }
    let custom = item("custom_tool_call", json!({"name": "look", "input": "x"}));
    assert_eq!(reason(json!([message, custom])), StopReason::ToolUse);
}

/// A message item without `content` must be kept as an item. Regression test. The item was mistaken for extra fields of
/// a Chat Completions message.
#[test]
fn message_without_content_is_an_item() {
    let message = |content: Option<Value>| {
        let mut json = json!({"type": "message", "id": "msg_1", "role": "assistant"});
        json.as_object_mut()
            .unwrap()
            .extend(content.map(|content| ("content".to_owned(), content)));
        json
    };
    let expected = ContentBlock::Raw {
        provider: "openai".into(),
        json: message(Some(json!([]))),
        portable: None,
    };
    for content in [None, Some(json!(null))] {
        let json = json!({"output": [message(content)], "status": "completed"});
        let response = read_json(&json).unwrap();
        assert_eq!(response.message.content, std::slice::from_ref(&expected));
        assert_eq!(response.usage, TokenUsage::default());
    }
}

#[test]
fn token_counts_are_parsed_from_every_format() {
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
            cost: None,
        }
    );
    for none in [json!(null), json!("?"), json!({"input_tokens_details": null})] {
        assert_eq!(usage(none), TokenUsage::default());
    }
}

#[test]
fn missing_names_do_not_fail_a_response() {
    let json = json!({"id": null, "model": 7, "status": "completed", "output": []});
    let response = read_json(&json).unwrap();
    assert_eq!((response.id.as_str(), response.model.as_str()), ("", ""));
}

#[test]
fn failed_response_is_an_error() {
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
fn body_that_is_not_a_response_is_shown() {
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
