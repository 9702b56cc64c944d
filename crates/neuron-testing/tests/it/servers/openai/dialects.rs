//! Tests of the dialects of compatible servers, for Chat Completions.

use neuron_testing::openai::Dialect;
use neuron_testing::{OpenAiServer, Reply};
use serde_json::{Value, json};

use super::{CHAT, post};

/// Streams a reply with reasoning and a tool call. Returns its chunks, and `true` if the stream ends with `[DONE]`.
async fn chunks(dialect: Dialect) -> (Vec<Value>, bool) {
    let reply = Reply::tool_call("c1", "f", json!({"a": 1})).thinking("hm", "").chunk_chars(4);
    let server = OpenAiServer::builder().dialect(dialect).start([reply]).await.unwrap();
    let mut events = post(&server, CHAT, json!({"stream": true})).await.events();
    let done = events.pop_if(|(_, data)| data == "[DONE]").is_some();
    let chunks = events.iter().map(|(_, data)| serde_json::from_str(data).unwrap());
    (chunks.collect(), done)
}

/// Streams a reply with a tool call, and returns the deltas of the call.
async fn calls(dialect: Dialect) -> Vec<Value> {
    let (chunks, _) = chunks(dialect).await;
    let calls = chunks.iter().map(|chunk| chunk["choices"][0]["delta"]["tool_calls"][0].clone());
    calls.filter(|call| !call.is_null()).collect()
}

#[tokio::test]
async fn dialect_removes_the_index_of_calls() {
    let calls = calls(Dialect::default().without_call_index()).await;
    assert!(calls.len() > 1);
    assert!(calls.iter().all(|call| call.get("index").is_none()));
}

#[tokio::test]
async fn dialect_changes_the_ids_of_later_deltas() {
    let later = async |dialect| calls(dialect).await[1].get("id").cloned();
    assert_eq!(later(Dialect::default()).await, None);
    assert_eq!(later(Dialect::default().later_ids_null()).await, Some(Value::Null));
    assert_eq!(later(Dialect::default().later_ids_empty()).await, Some(json!("")));
}

#[tokio::test]
async fn dialect_sends_a_whole_call_in_one_delta() {
    let function = json!({"name": "f", "arguments": "{\"a\":1}"});
    let whole = json!({"index": 0, "id": "c1", "type": "function", "function": function});
    assert_eq!(calls(Dialect::default().whole_arguments()).await, [whole]);
}

#[tokio::test]
async fn dialect_sends_stop_for_tool_calls() {
    let (chunks, _) = chunks(Dialect::default().stop_with_calls()).await;
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn dialect_moves_usage_and_removes_done() {
    let (chunks, done) = chunks(Dialect::default().usage_on_last_choice().without_done()).await;
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    assert!(last["usage"]["total_tokens"].as_u64() > Some(0));
    assert!(!done);
}

#[tokio::test]
async fn dialect_renames_the_reasoning_field() {
    let (chunks, done) = chunks(Dialect::default().reasoning_field()).await;
    assert_eq!(chunks[1]["choices"][0]["delta"], json!({"reasoning": "hm"}));
    assert!(done);
}

#[tokio::test]
async fn dialect_sends_numeric_codes_and_accepts_unknown_parameters() {
    let dialect = Dialect::default().numeric_codes().lenient();
    let server = OpenAiServer::builder().dialect(dialect).start(["hello"]).await.unwrap();
    let refused = post(&server, CHAT, json!({"messages": []})).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!(400)));
    assert_eq!(post(&server, CHAT, json!({"top_k": 5})).await.status, 200);
}
