//! Tests that parse responses of compatible servers, whole and streamed, and check the next requests to them.
//!
//! Each test names the source of its response bodies. The source is the vendor's documentation or a recording.

use neuron_http::Secret;
use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    StreamEvent, ToolCall,
};
use serde_json::{Value, json};

use crate::dialect::Vendor;
use crate::request::{self, Settings};
use crate::response;
use crate::stream::ChatDecoder;
use crate::stream_checks::*;

mod answers;
mod ends;
mod round_trip;
mod usage;

pub(super) fn whole(message: Value) -> Value {
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    json!({"id": "cmpl_1", "model": "m", "choices": [choice]})
}

pub(super) fn read_whole(body: &Value) -> Result<CompletionResponse, ProviderError> {
    response::read(body.to_string().as_bytes(), &Secret::new(SECRET), Vendor::default())
}

pub(super) fn chunk(delta: Value) -> Value {
    json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

pub(super) fn last_chunk(reason: &str) -> Value {
    json!({"id": "cmpl_1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Returns the bytes of a stream with these deltas, a finish reason, and `[DONE]`.
pub(super) fn streamed(deltas: impl IntoIterator<Item = Value>) -> Vec<u8> {
    let mut chunks: Vec<_> = deltas.into_iter().map(chunk).collect();
    chunks.push(last_chunk("stop"));
    [sse(&chunks), b"data: [DONE]\n\n".to_vec()].concat()
}

/// Returns the byte position after the line that contains the finish reason.
fn end_of_reason(bytes: &[u8]) -> usize {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let reason = text.find("\"finish_reason\":\"stop\"").unwrap();
    reason + text[reason..].find('\n').unwrap() + 1
}

/// Checks that a response is parsed into the blocks `content`, both whole and streamed. `message` is the message of the
/// whole response. `deltas` are the deltas of the stream, which is split at every byte.
#[track_caller]
fn check(message: Value, deltas: &[Value], content: &[ContentBlock]) {
    let response = read_whole(&whole(message)).unwrap();
    assert_eq!(response.message.content, content, "whole");
    check_streamed(deltas, content);
}

#[track_caller]
fn check_streamed(deltas: &[Value], content: &[ContentBlock]) {
    let bytes = streamed(deltas.iter().cloned());
    let events = read_bytes::<ChatDecoder>(&bytes);
    assert_eq!(response_of(&events).message.content, content, "streamed");
    check_every_byte::<ChatDecoder>(&bytes, end_of_reason(&bytes));
}

/// Returns the assistant message that the next request contains after a response with this content.
pub(super) fn sent_with(content: Vec<ContentBlock>, settings: Settings<'_>) -> Value {
    let request = CompletionRequest {
        messages: vec![Message { role: Role::Assistant, content }],
        ..CompletionRequest::default()
    };
    let body = request::write(request.view(), "m", settings, false).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["messages"].get_mut(0).map(Value::take).unwrap_or_default()
}

fn sent(content: Vec<ContentBlock>) -> Value {
    sent_with(content, Settings::default())
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

fn function(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

/// Returns `call` with the field `key` set to `value`.
fn with(mut call: Value, key: &str, value: Value) -> Value {
    call[key] = value;
    call
}

/// Stubs, which are fields with empty values, must be ignored. Recorded responses of Snowflake Cortex contain stubs in
/// every message and every call. Regression test. A plain response became a call without a name, and a call lost its
/// name and its arguments.
#[test]
fn stub_is_ignored_and_does_not_hide_a_call() {
    let stubs = |mut message: Value| {
        message["function_call"] = json!({"name": ""});
        message["audio"] = json!({"id": "", "data": "", "transcript": ""});
        message["moderation"] = json!({});
        message
    };
    let custom = json!({"name": ""});
    let said = json!({"role": "assistant", "content": "hi"});
    check(stubs(said.clone()), &[stubs(said)], &[text("hi")]);
    let whole = with(function("x", "look", "{\"a\":1}"), "custom", custom.clone());
    let begin = with(with(function("x", "look", ""), "custom", custom.clone()), "index", json!(0));
    let more = json!({"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": "{\"a\":1}"}, "custom": custom});
    check(
        stubs(json!({"tool_calls": [whole]})),
        &[stubs(json!({"tool_calls": [begin]})), stubs(json!({"tool_calls": [more]}))],
        &[call("x", "look", json!({"a": 1}))],
    );
    let stub = json!({"id": "", "type": "function", "function": {"name": "", "arguments": ""}, "custom": custom});
    let message = stubs(json!({"content": "hi", "tool_calls": [stub]}));
    check(message.clone(), &[message], &[text("hi")]);
    // A call of a custom tool may have an empty stub of a function.
    let own = json!({"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}});
    let stubbed = with(own.clone(), "function", json!({"name": "", "arguments": ""}));
    let message = json!({"tool_calls": [stubbed]});
    let expected = raw(own, Some(call("c", "sql", json!("select 1"))));
    check(message.clone(), &[message], &[expected]);
}

#[test]
fn call_without_name_is_kept_but_does_not_run() {
    let message = json!({"content": "hi", "tool_calls": [null]});
    check(message.clone(), &[message], &[text("hi")]);
    let message = json!({"content": "hi", "tool_calls": [null, function("x", "look", "{}")]});
    check(message.clone(), &[message], &[text("hi"), call("x", "look", json!({}))]);
    // A call without a name cannot run, but the message keeps it.
    let nameless = function("x", "", "{\"a\":1}");
    let message = json!({"content": "hi", "tool_calls": [nameless]});
    let kept = raw(json!({"type": "message", "tool_calls": [nameless]}), None);
    check(message.clone(), &[message], &[text("hi"), kept.clone()]);
    assert_eq!(sent(vec![text("hi"), kept]), json!({"role": "assistant", "content": "hi"}));
}

/// The unknown fields of a tool call must be sent back. Gemini 3 rejects a request with status 400 if an earlier tool
/// call lacks its thought signature. Google documents this in "OpenAI compatibility" and "Thought signatures".
#[test]
fn unknown_fields_of_a_call_are_sent_back() {
    let extra = json!({"google": {"thought_signature": "CsoB+/="}});
    let signed = with(function("x", "look", "{ \"a\": 1.0 }"), "extra_content", extra.clone());
    let plain = function("y", "look", "{}");
    let input = json!({"a": 1.0});
    let expected =
        [raw(signed.clone(), Some(call("x", "look", input))), call("y", "look", json!({}))];
    let message = json!({"role": "assistant", "tool_calls": [signed, plain]});
    let pieces = |signature_first: bool| {
        let mut begin = with(function("x", "look", "{ \"a\":"), "index", json!(0));
        let mut more = json!({"index": 0, "function": {"arguments": " 1.0 }"}});
        let signed = if signature_first { &mut begin } else { &mut more };
        signed["extra_content"] = extra.clone();
        let other = with(plain.clone(), "index", json!(1));
        [begin, other, more].map(|call| json!({"tool_calls": [call]}))
    };
    check(message.clone(), &pieces(true), &expected);
    check(message.clone(), &pieces(false), &expected);
    assert_eq!(sent(expected.to_vec()), message);
    // All calls in one chunk, complete and without an index, as Gemini sends them.
    check_streamed(&[json!({"tool_calls": [signed, plain]})], &expected);
}

#[test]
fn unknown_fields_of_fragments_are_merged() {
    let first = json!({"index": 0, "id": "x", "type": "function", "stage": "a", "tags": [1], "of": {"n": 1, "s": "p"},
        "function": {"name": "look", "arguments": "{", "strict": true}});
    let second = json!({"index": 0, "stage": "b", "tags": [2], "of": {"n": 2, "s": "", "more": null, "t": "q"},
        "function": {"arguments": "}", "strict": null}});
    let third = json!({"index": 0, "stage": "", "tags": null, "of": {}});
    let json = json!({"id": "x", "type": "function", "stage": "b", "tags": [1, 2], "of": {"n": 2, "s": "p", "t": "q"},
        "function": {"name": "look", "arguments": "{}", "strict": true}});
    let expected = raw(json.clone(), Some(call("x", "look", json!({}))));
    let deltas = [first, second, third].map(|call| json!({"tool_calls": [call]}));
    check(json!({"tool_calls": [json]}), &deltas, std::slice::from_ref(&expected));
    assert_eq!(sent(vec![expected]), json!({"role": "assistant", "tool_calls": [json]}));
}

#[test]
fn custom_call_keeps_unknown_fields_and_generated_id() {
    let custom =
        json!({"id": "", "type": "custom", "custom": {"name": "sql", "input": "x"}, "new": 1});
    let own = with(custom.clone(), "id", json!("call_cmpl_1"));
    let expected = raw(own.clone(), Some(call("call_cmpl_1", "sql", json!("x"))));
    let message = json!({"tool_calls": [custom]});
    check(message.clone(), &[message], std::slice::from_ref(&expected));
    assert_eq!(sent(vec![expected]), json!({"role": "assistant", "tool_calls": [own]}));
}

/// A call with unknown fields must be sent back with a valid name and with a JSON object as arguments, like any other
/// call.
#[test]
fn call_with_unknown_fields_is_sanitized_like_other_calls() {
    let own = with(function("x", "functions.look", "{\"a\":"), "new", json!(1));
    let input = ToolCall::invalid_json_input("{\"a\":");
    let block = raw(own, Some(call("x", "functions.look", input)));
    let expected =
        with(function("x", "functions_look", r#"{"invalid_json":"{\"a\":"}"#), "new", json!(1));
    assert_eq!(sent(vec![block])["tool_calls"], json!([expected]));
    let own = with(function("x", "look", " "), "new", json!(1));
    let block = raw(own, Some(call("x", "look", json!({}))));
    assert_eq!(sent(vec![block])["tool_calls"][0]["function"]["arguments"], "{}");
}

/// An unknown field of a message must be sent back only if requests may contain the field. The tested fields come from
/// vendors' documentation and from recorded responses.
///
/// - `reasoning_details`: OpenRouter's "Reasoning tokens". Snowflake and MiniMax send the field too.
/// - `extra_content`: a recorded response of Gemini.
/// - `thinking_blocks`: LiteLLM's "Reasoning content".
/// - `reasoning_opaque` and `reasoning_text`: Copilot's clients.
/// - `refusal`: OpenAI's reference.
#[test]
fn unknown_message_fields_are_sent_back_if_requests_have_them() {
    let goes = json!({
        "reasoning_details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}],
        "extra_content": {"google": {"thought_signature": "CsoB"}},
        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}],
        "reasoning_opaque": "o",
        "reasoning_text": "hm",
        "refusal": "No.",
    });
    let mut message = goes.clone();
    for (key, value) in [
        // These fields exist only in responses of Groq, Copilot, OpenAI, Perplexity and other servers.
        ("executed_tools", json!([{"index": 0, "type": "search"}])),
        ("channel", json!("analysis")),
        ("padding", json!("abc")),
        ("annotations", json!([{"type": "url_citation"}])),
        ("citations", json!(["https://h/a"])),
        ("reasoning", json!({"summary": "hm"})),
        ("token_id", json!(7)),
        ("new", json!("x")),
    ] {
        message[key] = value;
    }
    let mut response = read_whole(&whole(message.clone())).unwrap();
    response.message.content.retain(|block| !block.is_mark());
    message["type"] = json!("message");
    assert_eq!(response.message.content, [raw(message, Some(text("No.")))], "all of it is kept");
    assert_eq!(sent(response.message.content), with(goes, "role", json!("assistant")));
    // Speech is sent back by its id. Without an id, its transcript is sent back.
    let audio = |audio: Value| raw(json!({"type": "message", "audio": audio}), Some(text("Hi")));
    let named = audio(json!({"id": "a", "data": "AA", "transcript": "Hi"}));
    assert_eq!(sent(vec![named]), json!({"role": "assistant", "audio": {"id": "a"}}));
    for id in [json!(""), json!(null)] {
        let nameless = audio(json!({"id": id, "transcript": "Hi", "expires_at": 0}));
        assert_eq!(sent(vec![nameless]), json!({"role": "assistant", "content": "Hi"}));
    }
}

/// A message that has a field `type` itself must be parsed. The raw block for the unknown fields of a message also has
/// a field `type`, and the two must not conflict.
#[test]
fn message_with_its_own_type_is_parsed() {
    let message = json!({"type": "text", "content": "a", "extra_content": {"a": 1}});
    let kept = raw(json!({"type": "message", "extra_content": {"a": 1}}), None);
    check(message.clone(), &[message], &[text("a"), kept.clone()]);
    let expected = json!({"role": "assistant", "content": "a", "extra_content": {"a": 1}});
    assert_eq!(sent(vec![text("a"), kept]), expected);
}

/// A Chat Completions call with unknown fields must become a plain call in the Responses API. Regression test. The call
/// was sent in the format of Chat Completions.
#[test]
fn responses_api_receives_call_with_unknown_fields_as_plain_call() {
    let own = with(function("x", "look", "{}"), "extra_content", json!({"a": 1}));
    let content = vec![raw(own, Some(call("x", "look", json!({}))))];
    let request = CompletionRequest {
        messages: vec![Message { role: Role::Assistant, content }],
        ..CompletionRequest::default()
    };
    let body = crate::wire::responses::write_request(request.view(), false).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let expected =
        json!([{"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"}]);
    assert_eq!(body["input"], expected);
}

#[test]
fn repeated_message_signature_is_kept_once() {
    let extra = json!({"extra_content": {"google": {"thought_signature": "CsoB"}}});
    let kept = raw(with(extra.clone(), "type", json!("message")), None);
    check_streamed(&[extra.clone(), json!({"content": "a"}), extra], &[text("a"), kept]);
}

/// Streamed fragments of `reasoning_details` with the same `index` must be merged into one block. The complete list
/// must be sent back unchanged, as OpenRouter documents in "Reasoning tokens".
#[test]
fn streamed_reasoning_details_are_merged_by_index() {
    let details = |details: Value| json!({"reasoning_details": details});
    let piece = |index: Value, more: Value| {
        let mut json =
            json!({"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index});
        json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json
    };
    let zero = json!(0);
    let deltas = [
        details(json!([piece(zero.clone(), json!({"text": "h", "signature": null, "id": null}))])),
        details(json!([piece(zero.clone(), json!({"text": "m"})), {"type": "other"}])),
        details(json!([piece(zero.clone(), json!({"text": "", "signature": "c2ln", "id": "r1"}))])),
        details(json!([{"type": "reasoning.summary", "summary": "a", "index": 1}])),
        details(
            json!([{"type": "reasoning.summary", "summary": "b", "index": 1}, {"type": "other"}]),
        ),
        // Gemini sends each signature as a separate block with the same index (recorded responses).
        details(json!([{"type": "reasoning.encrypted", "data": "AA", "id": "t1", "index": 0}])),
        details(json!([{"type": "reasoning.encrypted", "data": "CC", "id": "t2", "index": 0}])),
        details(json!([{"type": "reasoning.encrypted", "data": "DD", "id": "t2", "index": 0}])),
        details(json!([
            piece(json!(null), json!({"text": "x"})),
            piece(json!(null), json!({"text": "y"}))
        ])),
    ];
    let merged = json!([
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "text": "hm", "signature": "c2ln", "id": "r1"},
        {"type": "other"},
        {"type": "reasoning.summary", "summary": "ab", "index": 1},
        {"type": "other"},
        {"type": "reasoning.encrypted", "data": "AA", "id": "t1", "index": 0},
        {"type": "reasoning.encrypted", "data": "CCDD", "id": "t2", "index": 0},
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": null, "text": "x"},
        {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": null, "text": "y"},
    ]);
    let kept = raw(json!({"type": "message", "reasoning_details": merged}), None);
    check(details(merged.clone()), &deltas, std::slice::from_ref(&kept));
    let mut expected = details(merged);
    (expected["role"], expected["content"]) = (json!("assistant"), json!(""));
    assert_eq!(sent(vec![kept]), expected);
}

/// Streamed fragments of `thinking_blocks` must be joined to whole blocks, each of which ends with its signature. Older
/// versions of LiteLLM stream each fragment and each signature as a separate block, which could not be sent back
/// (litellm#29428). Newer versions stream whole blocks.
#[test]
fn streamed_thinking_blocks_end_with_their_signature() {
    let blocks = |blocks: Value| json!({"thinking_blocks": blocks});
    let piece = |text: &str, signature: &str| json!({"type": "thinking", "thinking": text, "signature": signature});
    let redacted = json!({"type": "redacted_thinking", "data": "AA"});
    let whole = blocks(json!([piece("hm", "s1"), redacted, piece("so", "s2"), piece("ah", "s3")]));
    let kept = raw(with(whole.clone(), "type", json!("message")), None);
    let deltas = [
        blocks(json!([piece("h", "")])),
        blocks(json!([piece("m", "")])),
        blocks(json!([piece("", "s1")])),
        blocks(json!([redacted])),
        blocks(json!([piece("so", "s2")])),
        blocks(json!([piece("ah", "s3")])),
    ];
    check(whole, &deltas, std::slice::from_ref(&kept));
    // A value that is not a list is kept.
    let odd = blocks(piece("hm", "s1"));
    let kept = raw(with(odd.clone(), "type", json!("message")), None);
    check(odd.clone(), &[odd], std::slice::from_ref(&kept));
}

/// Invalid arguments of a tool call must be sent back as a JSON object. llama.cpp responds with status 500 to arguments
/// that are not JSON, and its chat templates require an object.
#[test]
fn arguments_are_sent_back_as_json_object() {
    for (input, expected) in [
        (json!({"z": 1, "a": 2}), r#"{"z":1,"a":2}"#),
        (ToolCall::parse_input(""), "{}"),
        (ToolCall::parse_input("null"), "{}"),
        (ToolCall::parse_input("{\"a\": \"To"), r#"{"invalid_json":"{\"a\": \"To"}"#),
        (ToolCall::parse_input("[1]"), r#"{"input":[1]}"#),
        (json!("select 1"), r#"{"input":"select 1"}"#),
    ] {
        let sent = sent(vec![call("x", "look", input)]);
        assert_eq!(sent["tool_calls"], json!([function("x", "look", expected)]));
    }
}

/// A response without a message must be accepted. Gemini omits the message of a response that consists of thoughts only
/// (agentgateway#1464).
#[test]
fn response_without_message_is_accepted() {
    for message in [json!({}), json!({"message": null})] {
        let mut choice = message.clone();
        choice["finish_reason"] = json!("length");
        let response = read_whole(&json!({"choices": [choice]})).unwrap();
        assert_eq!(response.message.content, []);
        assert_eq!(response.stop_reason, StopReason::MaxTokens);
        // Content in another field would be lost, so such a response is an error.
        for key in ["text", "delta"] {
            let mut choice = choice.clone();
            choice[key] = json!({"content": "a"});
            let error = read_whole(&json!({"choices": [choice]})).unwrap_err();
            assert!(error.to_string().contains("missing field `message`"), "{error}");
        }
    }
}

/// The ids that this crate generates for calls must be unique within a conversation. Recorded responses of Snowflake
/// have no ids of responses or calls. Some of Snowflake's models are Anthropic's, and Anthropic rejects duplicate call
/// ids.
#[test]
fn generated_ids_are_unique() {
    let nameless = |created: usize, calls: Value| json!({"id": "", "created": created, "choices": [{"index": 0, "message": {"tool_calls": calls}, "finish_reason": ""}]});
    let ids = |response: &CompletionResponse| {
        assert_eq!(response.stop_reason, StopReason::ToolUse);
        let ids = response.message.tool_uses().map(|call| call.id.to_owned());
        ids.collect::<Vec<_>>()
    };
    let one = json!([function("", "look", "{}")]);
    let body = nameless(1_790_000_001, one.clone());
    assert_eq!(ids(&read_whole(&body).unwrap()), ["call_1790000001"]);
    let mut begun = body.clone();
    begun["choices"][0]["delta"] = begun["choices"][0]["message"].take();
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": ""}], "created": 1_790_000_002});
    let bytes = [sse(&[begun, end]), b"data: [DONE]\n\n".to_vec()].concat();
    let events = read_bytes::<ChatDecoder>(&bytes);
    assert_eq!(ids(response_of(&events)), ["call_1790000001"]);
    // Another call already has the id that would be generated.
    let two = json!([function("call", "look", "{}"), function("", "look", "{}")]);
    let body = nameless(0, two.clone());
    assert_eq!(ids(&read_whole(&body).unwrap()), ["call", "call_2"]);
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"tool_calls": two}, "finish_reason": "stop"}]});
    let events = read_bytes::<ChatDecoder>(&sse(&[chunk]));
    assert_eq!(ids(response_of(&events)), ["call", "call_2"]);
}

/// Some compatible servers give the same id to all calls of a response.
#[test]
fn equal_ids_of_calls_get_numbers() {
    let calls: Vec<Value> =
        ["{\"a\":1}", "{\"a\":2}", "{}"].map(|args| function("c", "look", args)).into();
    let expected = [("c", json!({"a": 1})), ("c_2", json!({"a": 2})), ("c_3", json!({}))];
    let check = |response: &CompletionResponse| {
        let calls = response.message.tool_uses().map(|call| (call.id, call.input.clone()));
        assert_eq!(calls.collect::<Vec<_>>(), expected);
    };
    let body = json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "stop"}]});
    check(&read_whole(&body).unwrap());
    // The fragments of the calls alternate, and each of them has the id.
    let fragment = |index: usize, name: &str, text: &str| {
        json!({"choices": [{"delta": {"tool_calls": [
            {"index": index, "id": "c", "function": {"name": name, "arguments": text}},
        ]}}]})
    };
    let mut chunks: Vec<Value> = (0..3).map(|index| fragment(index, "look", "")).collect();
    chunks.extend([
        fragment(1, "", "{\"a\""),
        fragment(0, "", "{\"a\":1}"),
        fragment(2, "", "{}"),
        fragment(1, "", ":2}"),
    ]);
    let end = json!({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]});
    chunks.push(end.clone());
    check(response_of(&read_bytes::<ChatDecoder>(&sse(&chunks))));
    // Without an index, each call is complete.
    let chunk = json!({"choices": [{"delta": {"tool_calls": calls}}]});
    check(response_of(&read_bytes::<ChatDecoder>(&sse(&[chunk, end]))));
}

/// A `message` next to a `delta` must be ignored. In recorded streams of Perplexity, each chunk has a `delta` and also
/// a `message` with the whole text so far.
#[test]
fn message_beside_deltas_is_ignored() {
    let chunk = |delta: &str, message: &str, reason: Value| {
        json!({"id": "p", "choices": [{"index": 0, "finish_reason": reason,
            "delta": {"role": "assistant", "content": delta}, "message": {"role": "assistant", "content": message}}]})
    };
    let chunks = [
        chunk("a", "", json!(null)),
        chunk("b", "ab", json!(null)),
        chunk("", "ab", json!("stop")),
    ];
    for chunks in [&chunks[..], &chunks[1..]] {
        let events = read_bytes::<ChatDecoder>(&sse(chunks));
        let expected = if chunks.len() == 3 { "ab" } else { "b" };
        assert_eq!(response_of(&events).message.content, [text(expected)]);
    }
    // A proxy sends the whole response as one message, after an empty chunk.
    let mut last = chunk("", "ab", json!("stop"));
    last["choices"][0].as_object_mut().unwrap().remove("delta");
    let first = json!({"id": "p", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]});
    let events = read_bytes::<ChatDecoder>(&sse(&[first, last]));
    assert_eq!(response_of(&events).message.content, [text("ab")]);
}

#[test]
fn content_parts_are_parsed() {
    // Source: Mistral's "Reasoning". A reference within the thoughts is kept.
    let thought = |text: &str| json!({"type": "thinking", "thinking": [{"type": "text", "text": text}], "closed": true});
    let reference = json!({"type": "reference", "reference_ids": [1]});
    let said = json!({"type": "text", "text": "a"});
    let mut with_reference = thought("hm");
    with_reference["thinking"].as_array_mut().unwrap().push(reference.clone());
    let kept = raw(json!({"type": "message", "content_parts": [reference]}), None);
    check(
        json!({"content": [with_reference, said]}),
        &[
            json!({"content": [thought("h")]}),
            json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}, reference]}]}),
            json!({"content": "a"}),
        ],
        &[thinking("hm"), text("a"), kept],
    );
    // Source: Databricks' "Query reasoning models".
    let reasoning = |text: &str| json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": text, "signature": ""}]});
    check(
        json!({"content": [reasoning("hm"), said]}),
        &[json!({"content": [reasoning("h")]}), json!({"content": [reasoning("m"), said]})],
        &[thinking("hm"), text("a")],
    );
}

/// Unknown fields of content parts, such as Databricks' citations, must be kept. Regression test. The citations were
/// lost.
#[test]
fn unknown_fields_of_parts_are_kept() {
    let cited = json!({"type": "text", "text": "a", "citations": [{"url": "u"}]});
    let kept = raw(json!({"type": "message", "content_parts": [cited]}), None);
    check(json!({"content": [cited]}), &[json!({"content": [cited]})], &[text("a"), kept]);
}

/// A call with both `arguments` and `input` must be accepted. Regression test. Such a call was ignored in a whole
/// response, and was an error in a stream.
#[test]
fn arguments_in_two_fields_are_accepted() {
    let mut sent = function("c", "look", "{\"a\":1}");
    sent["function"]["input"] = json!({});
    let expected = call("c", "look", json!({"a": 1}));
    check(json!({"tool_calls": [sent]}), &[json!({"tool_calls": [sent]})], &[expected]);
    // Arguments may be an object with empty values.
    let mut sent = function("c", "look", "");
    sent["function"]["arguments"] = json!({"text": "", "tags": []});
    let expected = call("c", "look", json!({"text": "", "tags": []}));
    check(json!({"tool_calls": [sent]}), &[json!({"tool_calls": [sent]})], &[expected]);
}

/// A later fragment of a call must not change the name or the position of the call. In recorded streams, Mistral's
/// calls have no index. In later fragments of Mistral and DashScope, the id or the name is `""`.
#[test]
fn later_fragments_do_not_rename_or_move_a_call() {
    let expected = [call("x", "look", json!({"a": 1})), call("y", "find", json!({}))];
    let more = |arguments: &str| json!({"id": "", "type": "function", "function": {"name": "", "arguments": arguments}});
    check_streamed(
        &[
            json!({"tool_calls": [function("x", "look", "{\"a\":")]}),
            json!({"tool_calls": [more("1"), more("}")]}),
            json!({"tool_calls": [function("y", "find", "{}")]}),
            json!({"tool_calls": [more("")]}),
        ],
        &expected,
    );
    check_streamed(
        &[
            json!({"tool_calls": [function("x", "look", "{\"a\":1}"), function("y", "find", "")]}),
            json!({"tool_calls": [with(more("{}"), "id", json!("y"))]}),
        ],
        &expected,
    );
}

#[test]
fn calls_without_finish_reason_are_tool_use() {
    let calls = json!({"tool_calls": [function("x", "look", "{}")]});
    for reason in [json!(""), json!(null)] {
        let mut body = whole(calls.clone());
        body["choices"][0]["finish_reason"] = reason.clone();
        assert_eq!(read_whole(&body).unwrap().stop_reason, StopReason::ToolUse);
        let mut chunk = chunk(calls.clone());
        chunk["choices"][0]["finish_reason"] = reason;
        let bytes = [sse(&[chunk]), b"data: [DONE]\n\n".to_vec()].concat();
        let events = read_bytes::<ChatDecoder>(&bytes);
        assert_eq!(response_of(&events).stop_reason, StopReason::ToolUse);
        assert!(events.iter().any(|event| matches!(event, StreamEvent::ToolUse { .. })));
    }
}
