//! Tests of Chat Completions, with and without streams.

use neuron_testing::openai::{Dialect, chat_bytes};
use neuron_testing::{Reply, Wire};
use neuron_types::{CompletionResponse, ContentBlock, ProviderError, StopReason, ToolCall};
use serde_json::{Value, json};

use super::{CHAT, call, post, raw, response, start, thinking};
use crate::servers::http::Answer;

/// Returns the JSON of every event. Asserts that no event has a name, and that the last event is `[DONE]`.
fn chunks(answer: &Answer) -> Vec<Value> {
    let events = answer.events();
    let (last, rest) = events.split_last().unwrap();
    assert_eq!(last, &(None, "[DONE]".to_owned()));
    let json = |(name, data): &(Option<String>, String)| {
        assert_eq!(name, &None);
        serde_json::from_str(data).unwrap()
    };
    rest.iter().map(json).collect()
}

fn deltas(chunks: &[Value]) -> Vec<Value> {
    chunks.iter().map(|chunk| chunk["choices"][0]["delta"].clone()).collect()
}

fn everything() -> CompletionResponse {
    let mut whole = response(vec![
        thinking("hmm", "ignored"),
        ContentBlock::Text("añ🦀".into()),
        call("c1", json!({"a": 1})),
        raw(json!({"type": "custom", "id": "c2", "custom": {"name": "g", "input": "x"}}), None),
        raw(json!({"type": "message", "annotations": [{"type": "url_citation"}]}), None),
        ContentBlock::Raw { provider: "anthropic".into(), json: json!({}), portable: None },
    ]);
    whole.stop_reason = StopReason::ToolUse;
    whole
}

#[tokio::test]
async fn chat_without_stream_returns_one_body() {
    let server = start([everything()]).await;
    let answer = post(&server, CHAT, json!({})).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("x-request-id"), Some("req_1"));
    assert_eq!(answer.header("openai-processing-ms"), Some("12"));
    let body = answer.json();
    assert_eq!((&body["id"], &body["object"]), (&json!("id_9"), &json!("chat.completion")));
    assert_eq!(
        body["choices"],
        json!([{
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "añ🦀",
                "refusal": null,
                "annotations": [{"type": "url_citation"}],
                "reasoning_content": "hmm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                    {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
                ],
            },
            "logprobs": null,
            "finish_reason": "tool_calls",
        }])
    );
    assert_eq!(body["usage"]["prompt_tokens_details"], json!({"cached_tokens": 40}));
    server.assert_complete();
}

#[tokio::test]
async fn stream_has_the_chunks_of_openai() {
    let server = start([Reply::from(everything()).chunk_chars(2)]).await;
    let answer = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let chunks = chunks(&answer);
    let calling = |index: usize, mut call: Value| {
        call["index"] = json!(index);
        json!({"tool_calls": [call]})
    };
    assert_eq!(
        deltas(&chunks),
        [
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!({"reasoning_content": "hm"}),
            json!({"reasoning_content": "m"}),
            json!({"content": "añ"}),
            json!({"content": "🦀"}),
            calling(
                0,
                json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}})
            ),
            calling(0, json!({"function": {"arguments": "{\""}})),
            calling(0, json!({"function": {"arguments": "a\""}})),
            calling(0, json!({"function": {"arguments": ":1"}})),
            calling(0, json!({"function": {"arguments": "}"}})),
            calling(
                1,
                json!({"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}})
            ),
            json!({"annotations": [{"type": "url_citation"}]}),
            json!({}),
        ]
    );
    let finished = |chunk: &Value| !chunk["choices"][0]["finish_reason"].is_null();
    assert_eq!(chunks.iter().position(finished), Some(chunks.len() - 1));
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert!(chunk["obfuscation"].is_string());
        assert_eq!(chunk.get("usage"), None);
    }
}

#[tokio::test]
async fn usage_is_the_last_chunk_and_only_if_requested() {
    let server = start([everything()]).await;
    let options = json!({"include_usage": true, "include_obfuscation": false});
    let answer = post(&server, CHAT, json!({"stream": true, "stream_options": options})).await;
    let chunks = chunks(&answer);
    let (last, rest) = chunks.split_last().unwrap();
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"]["total_tokens"], 59);
    for chunk in rest {
        assert_eq!(chunk.get("usage"), Some(&Value::Null));
        assert_eq!(chunk.get("obfuscation"), None);
    }

    let server = start([Reply::from(everything())]).await;
    let answer =
        post(&server, CHAT, json!({"stream": true, "stream_options": {"include_usage": true}}));
    let bytes = chat_bytes(&everything(), 16, &Wire::default(), &Dialect::default());
    assert_eq!(answer.await.bytes(), bytes);
}

#[tokio::test]
async fn tool_calls_without_text_have_null_content() {
    let reply = || Reply::tool_call("c1", "f", json!({}));
    let server = start([reply(), reply()]).await;
    let body = post(&server, CHAT, json!({})).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], Value::Null);
    let answer = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!(deltas(&chunks(&answer))[0]["content"], Value::Null);
}

#[tokio::test]
async fn refusal_is_in_its_own_field() {
    let told = Reply::text("no").stop_reason(StopReason::Refusal);
    let kept = response(vec![raw(
        json!({"type": "message", "refusal": "no"}),
        Some(ContentBlock::Text("no".into())),
    )]);
    let server = start([told.clone(), kept.into(), told]).await;
    for _ in 0..2 {
        let body = post(&server, CHAT, json!({})).await.json();
        let choice = &body["choices"][0];
        assert_eq!(choice["message"]["refusal"], "no");
        assert_eq!(choice["message"]["content"], Value::Null);
        assert_eq!(choice["finish_reason"], "stop");
    }
    let answer = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!(deltas(&chunks(&answer))[1], json!({"refusal": "no"}));
}

#[tokio::test]
async fn invalid_arguments_are_sent_as_text() {
    let broken = ToolCall::invalid_json_input("{\"a\": ");
    let server = start([Reply::tool_call("c1", "f", broken)]).await;
    let body = post(&server, CHAT, json!({})).await.json();
    let function = &body["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], "{\"a\": ");
}

#[tokio::test]
async fn stream_breaks_after_the_scripted_event() {
    let busy = || ProviderError::ServiceUnavailable("busy".into());
    let reply = Reply::text("hello");
    // The stream has four events: the role, the text, the finish reason and `[DONE]`.
    let server = start([
        reply.clone().fail_after(2, busy()),
        reply.clone().end_early_after(3),
        reply.clone().fail_after(1, ProviderError::Network("reset".into())),
        reply.clone().fail_after(3, busy()),
        reply.fail_after(4, busy()),
    ])
    .await;
    let failed = post(&server, CHAT, json!({"stream": true})).await;
    let events = failed.events();
    assert_eq!((events.len(), failed.complete), (3, true));
    assert_eq!(
        serde_json::from_str::<Value>(&events[2].1).unwrap(),
        json!({"error": {
            "message": "busy",
            "type": "service_unavailable_error",
            "param": null,
            "code": "server_is_overloaded",
        }})
    );
    let ended = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!((ended.events().len(), ended.complete), (3, true));
    let cut = post(&server, CHAT, json!({"stream": true})).await;
    assert_eq!((cut.events().len(), cut.complete), (1, false));
    assert_eq!(post(&server, CHAT, json!({})).await.status, 503);
    assert_eq!(post(&server, CHAT, json!({})).await.status, 200);
}

#[tokio::test]
async fn stream_bytes_can_be_split_and_cut_anywhere() {
    let bytes = chat_bytes(&everything(), 16, &Wire::default().crlf(), &Dialect::default());
    let reply = || Reply::from(everything());
    let wire = Wire::default().crlf();
    let server =
        start([reply().over(wire.clone().split_every(7)), reply().over(wire.cut_at(100))]).await;
    let fields = || json!({"stream": true, "stream_options": {"include_usage": true}});
    let sevens = post(&server, CHAT, fields()).await;
    assert_eq!(sevens.bytes(), bytes);
    assert!(sevens.chunks.iter().rev().skip(1).all(|chunk| chunk.len() == 7));
    let cut = post(&server, CHAT, fields()).await;
    assert_eq!((cut.bytes().as_slice(), cut.complete), (&bytes[..100], false));
}
