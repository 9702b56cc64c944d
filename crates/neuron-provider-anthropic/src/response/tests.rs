//! Tests that parse responses that are not streamed, with every field, and invalid bodies. The metadata of a stream is
//! compared with that of a whole response.

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use neuron_testing::anthropic::{json_body, stop_reason_to_wire};
use serde_json::json;

use super::*;
use crate::wire;

fn read(body: &[u8]) -> Result<CompletionResponse, ProviderError> {
    super::read(body, &Secret::new("sk-secret"))
}

/// Parses a response and removes its metadata, which other tests check.
fn plain(body: &[u8]) -> CompletionResponse {
    let mut response = read(body).unwrap();
    response.message.content.retain(|block| !block.is_mark());
    response
}

#[track_caller]
fn check_block(json: Value, expected: ContentBlock) {
    assert_eq!(block(json), expected);
}

/// Checks that a block becomes a raw block with unchanged JSON. `portable` is the expected block for other providers,
/// which the raw block also contains.
#[track_caller]
fn check_raw(json: Value, portable: Option<ContentBlock>) {
    check_block(json.clone(), raw(json, portable));
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn call(input: Value) -> ContentBlock {
    ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input }
}

fn thinking(thinking: &str, signature: &str) -> ContentBlock {
    ContentBlock::Thinking { thinking: thinking.into(), signature: signature.into() }
}

#[test]
fn known_blocks_are_parsed() {
    check_block(json!({"type": "text", "text": "日本"}), text("日本"));
    check_block(json!({"type": "text", "text": "", "citations": null}), text(""));
    check_block(json!({"type": "text", "text": "a", "citations": []}), text("a"));
    check_block(
        json!({"type": "thinking", "thinking": "hm", "signature": "sig"}),
        thinking("hm", "sig"),
    );
    check_block(
        json!({"type": "thinking", "thinking": "", "signature": "sig"}),
        thinking("", "sig"),
    );
    check_block(json!({"type": "thinking", "thinking": "hm"}), thinking("hm", ""));
    check_block(
        json!({"type": "redacted_thinking", "data": "xyz"}),
        ContentBlock::RedactedThinking { data: "xyz".into() },
    );
    check_block(
        json!({"type": "compaction", "content": "so far", "encrypted_content": null}),
        ContentBlock::Compaction { content: "so far".into() },
    );
    let tool_use =
        |input: Value| json!({"type": "tool_use", "id": "c1", "name": "look", "input": input});
    for (input, expected) in [
        (json!({"b": 1, "a": 2}), json!({"b": 1, "a": 2})),
        (json!({}), json!({})),
        (json!([1]), json!([1])),
        // Compatible servers send the arguments as a text.
        (json!("{\"a\":1}"), json!({"a": 1})),
        (json!(""), json!({})),
        (json!(null), json!({})),
        (json!("{\"a"), ToolCall::invalid_json_input("{\"a")),
    ] {
        check_block(tool_use(input), call(expected));
    }
}

/// A tool call without `input` must become a call with empty arguments. Regression test. Such a call became a raw block
/// and had no result, so the conversation could not continue.
#[test]
fn call_without_arguments_is_parsed() {
    check_block(json!({"type": "tool_use", "id": "c1", "name": "look"}), call(json!({})));
}

#[test]
fn blocks_with_unknown_fields_are_kept_with_portable_block() {
    let citation = json!({"type": "char_location", "cited_text": "a"});
    check_raw(json!({"type": "text", "text": "a", "citations": [citation]}), Some(text("a")));
    check_raw(
        json!({"type": "tool_use", "id": "c1", "name": "look", "input": {}, "caller": {"type": "direct"}}),
        Some(call(json!({}))),
    );
    check_raw(
        json!({"type": "compaction", "content": "so far", "encrypted_content": "x"}),
        Some(ContentBlock::Compaction { content: "so far".into() }),
    );
    check_raw(
        json!({"type": "thinking", "thinking": "", "signature": "s", "new": 0}),
        Some(thinking("", "s")),
    );
    // An empty list in an unknown field also makes the block raw.
    check_raw(
        json!({"type": "compaction", "content": "so far", "tool_changes": []}),
        Some(ContentBlock::Compaction { content: "so far".into() }),
    );
}

#[test]
fn unknown_blocks_are_kept() {
    for json in [
        json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []}),
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        json!({"type": "compaction", "content": null}),
        json!({"type": "text"}),
        json!({"type": "text", "text": 7}),
        json!({"type": "tool_use", "name": "no id", "input": {}}),
        json!({"type": 7}),
        json!({}),
        json!("a string"),
        json!(null),
    ] {
        check_raw(json, None);
    }
}

#[track_caller]
fn check_usage(json: Value, expected: TokenUsage) {
    let usage: WireUsage = serde_json::from_value(json).unwrap();
    assert_eq!(TokenUsage::from(usage), expected);
}

#[test]
fn usage_includes_all_billed_tokens() {
    check_usage(json!({}), TokenUsage::default());
    check_usage(
        json!({"input_tokens": null, "output_tokens": null, "iterations": null, "new": {"a": 1}}),
        TokenUsage::default(),
    );
    check_usage(
        json!({
            "input_tokens": 10,
            "cache_creation_input_tokens": 30,
            "cache_read_input_tokens": 60,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 5},
            "iterations": [],
        }),
        TokenUsage {
            input_tokens: 100,
            output_tokens: 20,
            cache_read_tokens: Some(60),
            cache_creation_tokens: Some(30),
            reasoning_tokens: Some(5),
            iterations: None,
            cost: None,
        },
    );
    check_usage(
        json!({"cache_read_input_tokens": u64::MAX, "input_tokens": 1}),
        TokenUsage {
            input_tokens: usize::MAX,
            cache_read_tokens: Some(usize::MAX),
            ..Default::default()
        },
    );
}

#[test]
fn usage_of_several_iterations_is_their_sum() {
    let pass = |kind: &str, input_tokens, output_tokens| UsageIteration {
        kind: kind.into(),
        input_tokens,
        output_tokens,
        ..Default::default()
    };
    check_usage(
        json!({
            "input_tokens": 181,
            "output_tokens": 20,
            "output_tokens_details": {"thinking_tokens": 5},
            "iterations": [
                {"type": "compaction", "input_tokens": 100, "output_tokens": 50},
                {"type": "advisor_message", "model": "m", "input_tokens": 7, "output_tokens": 1},
                {"type": "message", "input_tokens": 101, "cache_read_input_tokens": 80, "output_tokens": 20},
            ],
        }),
        TokenUsage {
            input_tokens: 288,
            output_tokens: 71,
            cache_read_tokens: Some(80),
            cache_creation_tokens: None,
            reasoning_tokens: Some(5),
            cost: None,
            iterations: Some(vec![
                pass("compaction", 100, 50),
                UsageIteration { model: Some("m".into()), ..pass("advisor_message", 7, 1) },
                UsageIteration { cache_read_tokens: Some(80), ..pass("message", 181, 20) },
            ]),
        },
    );
}

#[test]
fn every_stop_reason_is_mapped() {
    let plain = Message::assistant("a");
    for reason in [
        StopReason::EndTurn,
        StopReason::ToolUse,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::PauseTurn,
        StopReason::Refusal,
        StopReason::Compaction,
        StopReason::ContextWindowExceeded,
        StopReason::Other("new".into()),
    ] {
        let word = stop_reason_to_wire(&reason);
        assert_eq!(stop_reason(Some(word), &plain), reason);
    }
    assert_eq!(stop_reason(None, &plain), StopReason::EndTurn);
    let calls = |content| Message { role: Role::Assistant, content: vec![content] };
    assert_eq!(stop_reason(None, &calls(call(json!({})))), StopReason::ToolUse);
    let with_more = raw(json!({}), Some(call(json!({}))));
    assert_eq!(stop_reason(None, &calls(with_more)), StopReason::ToolUse);
}

/// The token counts of a streamed response must equal the counts of the same response as a whole. The tested usage has
/// every count in the API's reference. A stream sends some of these counts at its beginning.
#[test]
fn streamed_usage_equals_whole_usage() {
    let pass = json!({
        "type": "message", "model": "m", "input_tokens": 8, "output_tokens": 20,
        "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30,
        "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    });
    let compaction = json!({"type": "compaction", "input_tokens": 500, "output_tokens": 40});
    for iterations in [json!(null), json!([]), json!([pass]), json!([compaction, pass])] {
        let at_end = json!({
            "input_tokens": 8, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 60,
            "output_tokens": 20, "output_tokens_details": {"thinking_tokens": 5},
            "server_tool_use": {"web_search_requests": 2, "web_fetch_requests": 1},
            "iterations": iterations,
        });
        let mut whole = at_end.clone();
        let at_start = json!({
            "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
            "service_tier": "standard", "inference_geo": "us", "speed": "fast",
        });
        whole.as_object_mut().unwrap().extend(at_start.as_object().unwrap().clone());
        let mut streamed = whole.clone();
        streamed["output_tokens"] = json!(1);
        streamed["output_tokens_details"] = json!(null);
        streamed["iterations"] = json!(null);
        let [whole, mut streamed, at_end]: [WireUsage; 3] =
            [whole, streamed, at_end].map(|json| serde_json::from_value(json).unwrap());
        streamed.update(at_end);
        let (whole, streamed) = (TokenUsage::from(whole), TokenUsage::from(streamed));
        assert_eq!(streamed, whole);
    }
}

/// Some proxies send zeros at the end of a stream for what its start has reported.
#[test]
fn zeros_at_the_end_of_a_stream_erase_nothing() {
    let usage = |input, cached, output| -> WireUsage {
        serde_json::from_value(json!({
            "input_tokens": input, "cache_read_input_tokens": cached, "output_tokens": output,
        }))
        .unwrap()
    };
    let mut streamed = usage(20, 5, 1);
    streamed.update(usage(0, 0, 7));
    streamed.update(usage(0, 0, 0));
    let streamed = TokenUsage::from(streamed);
    assert_eq!((streamed.input_tokens, streamed.output_tokens), (25, 7));
    assert_eq!(streamed.cache_read_tokens, Some(5));
}

fn response(content: Vec<ContentBlock>) -> CompletionResponse {
    CompletionResponse {
        id: "msg_1".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage { input_tokens: 9, output_tokens: 3, ..Default::default() },
        stop_reason: StopReason::EndTurn,
    }
}

#[test]
fn whole_response_is_parsed() {
    let answer = response(vec![
        thinking("", "sig"),
        text("日本 🦀"),
        call(json!({"a": 1})),
        raw(json!({"type": "server_tool_use", "id": "s"}), None),
    ]);
    let body = json_body(&answer).to_string();
    assert_eq!(plain(body.as_bytes()), answer);
    assert_eq!(plain(&[b"\n ", body.as_bytes(), b" \r\n"].concat()), answer);
}

#[test]
fn fields_omitted_by_compatible_servers_have_defaults() {
    for body in [r#"{"content":[]}"#, r#"{"content":[],"usage":null,"stop_reason":null}"#] {
        let answer = read(body.as_bytes()).unwrap();
        let expected = CompletionResponse {
            id: String::new(),
            model: String::new(),
            usage: TokenUsage::default(),
            ..response(vec![])
        };
        assert_eq!(answer, expected);
    }
}

#[test]
fn missing_and_repeated_call_ids_are_replaced() {
    let body = json!({"id": "msg_1", "content": [
        {"type": "tool_use", "name": "look", "input": {"a": 1}},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
        {"type": "tool_use", "id": "", "name": "look", "input": {}},
        {"type": "tool_use", "id": null, "name": "look", "input": {}},
    ]});
    let answer = read(body.to_string().as_bytes()).unwrap();
    let ids: Vec<_> = answer.message.tool_uses().map(|call| call.id).collect();
    assert_eq!(ids, ["toolu_msg_1", "c1", "c1_2", "toolu_msg_1_2", "toolu_msg_1_3"]);
    let body =
        json!({"id": null, "model": null, "content": [{"type": "tool_use", "name": "look"}]});
    let answer = read(body.to_string().as_bytes()).unwrap();
    assert_eq!(answer.message.tool_uses().next().unwrap().id, "toolu");
}

/// Blocks of a declining model that the API does not accept back must be omitted. Anthropic documents these blocks in
/// <https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback#continuing-the-conversation>.
#[test]
fn open_blocks_of_declining_model_are_omitted() {
    let fallback =
        |to: &str| json!({"type": "fallback", "from": {"model": "a"}, "to": {"model": to}});
    let thought =
        |signature: &str| json!({"type": "thinking", "thinking": "", "signature": signature});
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}, "caller": {"type": "direct"}});
    let search =
        |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let said = |text: &str| json!({"type": "text", "text": text});
    let redacted = json!({"type": "redacted_thinking", "data": "x"});
    let connector = json!({"type": "connector_text", "text": "x"});
    let before = [
        thought("s"),
        redacted,
        said("a"),
        search("s1"),
        found.clone(),
        search("s2"),
        tool("c1"),
        connector,
        fallback("b"),
        tool("c2"),
        said("b"),
    ];
    let after = [fallback("c"), thought("t"), search("s3"), tool("c3"), said("c")];
    let content: Vec<_> = before.iter().chain(&after).cloned().collect();
    let kept = [said("a"), search("s1"), found, fallback("b"), said("b")];
    let expected: Vec<_> = kept.iter().chain(&after).cloned().map(block).collect();
    let body = json!({"model": "c", "content": content}).to_string();
    let answer = read(body.as_bytes()).unwrap();
    assert_eq!(answer.message.content, expected);
    assert_eq!((answer.model.as_str(), answer.stop_reason), ("c", StopReason::ToolUse));
}

#[track_caller]
fn check_malformed(body: &str, expected: &str) {
    let error = read(body.as_bytes()).unwrap_err();
    assert!(matches!(error, ProviderError::Other(_)));
    assert_eq!(error.to_string(), expected);
}

#[test]
fn body_that_is_not_a_message_is_shown() {
    check_malformed(
        "",
        "the response is not a message (EOF while parsing a value at line 1 column 0); it begins with: ",
    );
    check_malformed(
        "<html>Bad gateway</html>",
        "the response is not a message (expected value at line 1 column 1); it begins with: <html>Bad gateway</html>",
    );
    check_malformed(
        "null",
        "the response is not a message (invalid type: null, expected struct WireMessage at line 1 column 4); it begins with: null",
    );
    check_malformed(
        r#"{"content":"hi"}"#,
        r#"the response is not a message (invalid type: string "hi", expected a sequence at line 1 column 15); it begins with: {"content":"hi"}"#,
    );
    let long = "é".repeat(10_000);
    let error = read(long.as_bytes()).unwrap_err().to_string();
    assert!(error.ends_with(&format!(": {}", "é".repeat(300))));
    assert!(read(&[0xff, 0xfe, 0x00]).is_err());
}

/// An error in place of a response must keep its class. Some proxies forward errors with a successful status.
/// Regression test. Such an error was reported as an invalid response, which is not retried and does not show the
/// reason.
#[test]
fn error_in_place_of_message_keeps_its_class() {
    for (json, kind, text) in [
        (
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}, "request_id": "req_1"}),
            "ServiceUnavailable",
            "service unavailable: in the answer overloaded_error: busy (request id req_1)",
        ),
        (
            json!({"error": {"type": "not_found_error", "message": "model: m"}}),
            "ModelNotFound",
            "model not found: in the answer not_found_error: model: m",
        ),
        (json!({"error": {"message": "no"}}), "StreamError", "stream error: in the answer: no"),
    ] {
        let error = read(json.to_string().as_bytes()).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }
}

/// The error for an invalid body must not show an API key that the server echoed. Regression test. The error quoted the
/// beginning of the body with the key.
#[test]
fn invalid_body_error_does_not_show_the_key() {
    for body in [
        "your key is sk-secret".to_owned(),
        r#"{"content":"sk-secret"}"#.to_owned(),
        format!("{}sk-secret", "x".repeat(295)),
    ] {
        let error = read(body.as_bytes()).unwrap_err();
        let error = Secret::new("sk-secret").redact_error(error);
        assert!(!format!("{error} {error:?}").contains("sk-"), "{error}");
    }
}

#[test]
fn truncated_response_is_an_error() {
    let answer = response(vec![text("日本 \"🦀\""), call(json!({"a": [1, {"b": null}]}))]);
    let body = json_body(&answer).to_string();
    for end in 0..body.len() {
        let error = read(&body.as_bytes()[..end]).unwrap_err();
        assert!(matches!(error, ProviderError::Other(_)), "cut at {end}");
    }
}

#[test]
fn large_response_is_parsed() {
    let blocks = (0..1000).map(|_| text(&"日本🦀\n".repeat(500)));
    let answer = response(blocks.collect());
    let body = json_body(&answer).to_string();
    assert_eq!(plain(body.as_bytes()), answer);
}

/// Returns a text block with a citation. Its format is documented in
/// <https://platform.claude.com/docs/en/build-with-claude/citations>.
fn cited() -> Value {
    json!({ "type": "text", "text": "Yes.", "citations": [source()] })
}

fn source() -> Value {
    json!({ "type": "web_search_result_location", "url": "https://example.com", "title": "T" })
}

/// Returns a container. Its format is documented in
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool#container-reuse>.
fn container() -> Value {
    json!({ "id": "container_1", "expires_at": "2999-01-01T00:00:00Z" })
}

fn whole() -> CompletionResponse {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [cited()],
        "stop_reason": "stop_sequence", "stop_sequence": "END",
        "stop_details": { "type": "sequence" }, "container": container(),
        "usage": {
            "input_tokens": 1, "output_tokens": 1, "service_tier": "priority",
            "server_tool_use": { "web_search_requests": 2, "web_fetch_requests": 0 },
        },
    });
    read(body.to_string().as_bytes()).unwrap()
}

#[test]
fn metadata_of_whole_response_is_parsed() {
    let message = whole().message;
    let metadata = message.metadata().unwrap();
    assert_eq!(message.text(), "Yes.");
    assert_eq!(metadata.stop_sequence.as_deref(), Some("END"));
    assert_eq!(metadata.stop_details, Some(json!({ "type": "sequence" })));
    assert_eq!(metadata.container, Some(container()));
    assert_eq!(metadata.service_tier.as_deref(), Some("priority"));
    assert_eq!(metadata.server_tool_usage, [("web_search_requests".to_owned(), 2)].into());
    let plain = br#"{"id":"msg_1","content":[{"type":"text","text":"a"}],"stop_sequence":null}"#;
    let plain = read(plain).unwrap();
    assert_eq!(plain.message, Message::assistant("a"));
}

#[test]
fn invalid_metadata_does_not_fail_a_response() {
    let body = br#"{"content":[{"type":"text","text":"a"}],"stop_sequence":false,
        "usage":{"input_tokens":3,"server_tool_use":[],"service_tier":{}}}"#;
    let response = read(body).unwrap();
    assert_eq!((response.message, response.usage.input_tokens), (Message::assistant("a"), 3));
}

#[test]
fn metadata_of_stream_is_equal_for_every_split() {
    let events = [
        json!({ "type": "message_start", "message": {
            "id": "msg_1", "model": "m", "content": 0, "stop_reason": 0, "stop_sequence": null,
            "container": null,
            "usage": { "input_tokens": 1, "output_tokens": 1, "service_tier": "priority" },
        } }),
        json!({ "type": "content_block_start", "index": 0,
                "content_block": { "type": "text", "text": "", "citations": [] } }),
        json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "text_delta", "text": "Yes." } }),
        json!({ "type": "content_block_delta", "index": 0,
                "delta": { "type": "citations_delta", "citation": source() } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta",
            "delta": {
                "stop_reason": "stop_sequence", "stop_sequence": "END",
                "stop_details": { "type": "sequence" }, "container": container(),
            },
            "usage": { "output_tokens": 1,
                       "server_tool_use": { "web_search_requests": 2, "web_fetch_requests": 0 } },
        }),
        json!({ "type": "message_stop" }),
    ];
    let bytes: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    for split in 0..=bytes.len() {
        let (first, second) = bytes.as_bytes().split_at(split);
        let pieces = [first, second].map(|piece| Ok(Bytes::copy_from_slice(piece)));
        let response = wire::read_stream(stream::iter(pieces)).into_response();
        let response = response.now_or_never().unwrap().unwrap();
        assert_eq!(response, whole(), "split at {split}");
    }
}

/// Regression test. The integer was rounded.
#[test]
fn integer_beyond_64_bits_is_kept_as_text() {
    let call = json!({"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 0}});
    let long = |text: String| text.replace("{\"n\":0}", "{\"n\":123456789012345678901}");
    let body = json!({"type": "message", "id": "m", "role": "assistant", "model": "m", "content": [call], "stop_reason": "tool_use", "usage": {}});
    let response = read(long(body.to_string()).as_bytes()).unwrap();
    let expected = json!({"n": "123456789012345678901"});
    assert_eq!(response.message.tool_uses().next().unwrap().input, &expected);
}
