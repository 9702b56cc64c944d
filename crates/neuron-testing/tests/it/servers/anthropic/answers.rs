//! Tests of successful responses of the Anthropic server.

use neuron_testing::anthropic::sse_bytes;
use neuron_testing::{AnthropicServer, Reply, Wire};
use neuron_types::{ContentBlock, StopReason, ToolCall};
use serde_json::{Value, json};

use crate::servers::anthropic::client::{ask, post};
use crate::servers::anthropic::refusals::check_refused;
use crate::servers::anthropic::{response, start, streamed};

#[tokio::test]
async fn message_without_stream_returns_one_body() {
    let server = start([Reply::text("hello")]).await;
    let answer = post(&server, &ask(false)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("request-id"), Some("req_1"));
    let body = answer.json();
    assert!(body["usage"]["input_tokens"].as_u64() > Some(0));
    assert!(body["usage"]["output_tokens"].as_u64() > Some(0));
    assert_eq!(body["id"], "msg_1");
    assert_eq!(body["model"], "claude-sonnet-4-6");
    assert_eq!(body["content"], json!([{"type": "text", "text": "hello"}]));
    assert_eq!(body["stop_reason"], "end_turn");
    server.assert_complete();

    assert_eq!(server.bodies(), [ask(false)]);
    let requests = server.requests();
    assert_eq!(requests[0].method, "POST");
    assert_eq!(requests[0].path, "/v1/messages");
    assert_eq!(requests[0].body, ask(false).to_string().as_bytes());
    assert_eq!(requests[0].header("x-api-key"), Some(AnthropicServer::API_KEY));
    assert!(!format!("{requests:?}").contains(AnthropicServer::API_KEY));
}

#[tokio::test]
async fn stream_has_the_events_of_anthropic() {
    let mut whole = response(vec![
        ContentBlock::Compaction { content: "so far".into() },
        ContentBlock::Thinking { thinking: "hmm".into(), signature: "sig".into() },
        ContentBlock::RedactedThinking { data: "x".into() },
        ContentBlock::Raw {
            provider: "anthropic".into(),
            json: json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
            portable: None,
        },
        ContentBlock::Raw { provider: "openai".into(), json: json!({}), portable: None },
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "add".into(), input: json!({"a": 1}) },
        ContentBlock::ToolUse { id: "c2".into(), name: "now".into(), input: json!({}) },
    ]);
    whole.stop_reason = StopReason::ToolUse;
    let delta = |index: usize, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let block_start = |index: usize, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let block_stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    let expected = [
        json!({"type": "message_start", "message": {
            "id": "msg_9",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "stop_details": null,
            "usage": {
                "input_tokens": 10,
                "cache_read_input_tokens": 40,
                "output_tokens": 1,
                "service_tier": "standard",
            },
        }}),
        block_start(0, json!({"type": "compaction", "content": null})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "compaction_delta", "content": "so far"})),
        block_stop(0),
        block_start(1, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(1, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(1, json!({"type": "thinking_delta", "thinking": "m"})),
        delta(1, json!({"type": "signature_delta", "signature": "sig"})),
        block_stop(1),
        block_start(2, json!({"type": "redacted_thinking", "data": "x"})),
        block_stop(2),
        block_start(
            3,
            json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}),
        ),
        block_stop(3),
        block_start(4, json!({"type": "text", "text": ""})),
        delta(4, json!({"type": "text_delta", "text": "añ"})),
        delta(4, json!({"type": "text_delta", "text": "🦀"})),
        block_stop(4),
        block_start(5, json!({"type": "tool_use", "id": "c1", "name": "add", "input": {}})),
        delta(5, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "{\""})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "a\""})),
        delta(5, json!({"type": "input_json_delta", "partial_json": ":1"})),
        delta(5, json!({"type": "input_json_delta", "partial_json": "}"})),
        block_stop(5),
        block_start(6, json!({"type": "tool_use", "id": "c2", "name": "now", "input": {}})),
        delta(6, json!({"type": "input_json_delta", "partial_json": ""})),
        block_stop(6),
        json!({
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": null, "stop_details": null},
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 40, "output_tokens": 9},
        }),
        json!({"type": "message_stop"}),
    ];
    let events = streamed(Reply::from(whole.clone()).chunk_chars(2)).await;
    assert_eq!(events, expected);

    let server = start([Reply::from(whole.clone()).chunk_chars(2)]).await;
    let answer = post(&server, &ask(true)).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(answer.chunks.len(), expected.len(), "one chunk for each event");
    assert_eq!(answer.bytes(), sse_bytes(&whole, 2, &Wire::default()));
}

#[tokio::test]
async fn response_without_content_is_streamed() {
    let kinds: Vec<Value> = streamed(Reply::message(Vec::new()))
        .await
        .iter()
        .map(|event| event["type"].clone())
        .collect();
    assert_eq!(kinds, ["message_start", "ping", "message_delta", "message_stop"]);
}

#[tokio::test]
async fn invalid_arguments_are_sent_as_text() {
    let reply = Reply::tool_call("c1", "add", ToolCall::invalid_json_input("{\"a\": "))
        .stop_reason(StopReason::MaxTokens);
    let json: String = streamed(reply.clone())
        .await
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert_eq!(json, "{\"a\": ");

    let server = start([reply]).await;
    let body = post(&server, &ask(false)).await.json();
    assert_eq!(body["content"][0]["input"], "{\"a\": ");
    assert_eq!(body["stop_reason"], "max_tokens");
}

#[tokio::test]
async fn refusal_has_stop_details() {
    let reply = Reply::text("no").stop_reason(StopReason::Refusal);
    let events = streamed(reply).await;
    let end = &events[events.len() - 2]["delta"];
    assert_eq!(end["stop_reason"], "refusal");
    assert_eq!(end["stop_details"]["type"], "refusal");
}

#[tokio::test]
async fn request_after_the_last_reply_is_an_error() {
    let server = start(["hello"]).await;
    assert_eq!(post(&server, &ask(false)).await.status, 200);
    check_refused(
        &post(&server, &ask(false)).await,
        400,
        "invalid_request_error",
        "the script has 1 reply and this is call 2; its last message is \
         {\"role\":\"user\",\"content\":\"hi\"}",
    );
    server.push("more");
    assert_eq!(post(&server, &ask(false)).await.json()["id"], "msg_3");
}

#[tokio::test]
#[should_panic(expected = "1 of the script's 1 replies were not used")]
async fn replies_that_are_left_are_noticed() {
    start(["hello"]).await.assert_complete();
}
