//! Tests of the signatures that the server sends, and of the same signatures in the next request.

use neuron_testing::Reply;
use neuron_types::{CompletionResponse, ContentBlock};
use serde_json::{Value, json};

use super::{GENERATE, HEADERS, STREAM, ask, call, chunks, parts, post, response, start};
use crate::servers::http::exchange;

const OLD: &str = "POST /v1beta/models/gemini-2.5-flash:generateContent";

/// Returns `true` for each part that has a signature.
fn are_signed(parts: &Value) -> Vec<bool> {
    let parts = parts.as_array().unwrap().iter();
    parts.map(|part| part.get("thoughtSignature").is_some()).collect()
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn two_calls() -> CompletionResponse {
    let calls = [call("1", "f", json!({"b": 1, "a": 2})), call("2", "f", json!({}))];
    response([vec![text("Let me look.")], calls.to_vec()].concat())
}

#[tokio::test]
async fn only_the_first_call_or_the_last_text_is_signed() {
    let thinking = ContentBlock::Thinking { thinking: "hmm".into(), signature: String::new() };
    let server = start([
        two_calls(),
        response(vec![thinking.clone(), text("a"), text("b")]),
        response(vec![text("a"), thinking.clone()]),
        response(vec![thinking]),
        two_calls(),
    ])
    .await;
    let signed = async |endpoint: &str| are_signed(parts(&post(&server, endpoint).await.json()));
    assert_eq!(signed(GENERATE).await, [false, true, false]);
    assert_eq!(signed(GENERATE).await, [false, false, true]);
    assert_eq!(signed(GENERATE).await, [true, false]);
    assert_eq!(signed(GENERATE).await, [false]);
    assert_eq!(signed(OLD).await, [false, false, false]);
}

#[tokio::test]
async fn stream_signs_a_text_with_an_empty_last_part() {
    let server = start([Reply::text("hello").chunk_chars(3), two_calls().into()]).await;
    let texts = chunks(&post(&server, STREAM).await);
    let signed: Vec<Vec<bool>> = texts.iter().map(|chunk| are_signed(parts(chunk))).collect();
    assert_eq!(signed, [[false], [false], [true]]);
    assert_eq!(parts(&texts[2])[0]["text"], "");
    let calls = chunks(&post(&server, STREAM).await);
    let signed: Vec<Vec<bool>> = calls.iter().map(|chunk| are_signed(parts(chunk))).collect();
    assert_eq!(signed, [[false], [true], [false], [false]]);
}

/// Returns the next request after a response with two calls, with the parts of this response.
fn next_request(parts: &[Value]) -> Value {
    let mut body = ask(GENERATE);
    let contents = body["contents"].as_array_mut().unwrap();
    contents.push(json!({"role": "model", "parts": parts}));
    let result = |id| json!({"functionResponse": {"id": id, "name": "f", "response": {}}});
    contents.push(json!({"role": "user", "parts": [result("1"), result("2")]}));
    body
}

#[tokio::test]
async fn parts_are_accepted_only_as_they_were_sent() {
    let server = start([two_calls(), two_calls(), response(vec![text("noon")])]).await;
    let whole = parts(&post(&server, GENERATE).await.json()).as_array().unwrap().clone();
    let streamed: Vec<Value> = chunks(&post(&server, STREAM).await)
        .iter()
        .flat_map(|chunk| parts(chunk).as_array().unwrap().clone())
        .collect();
    assert_eq!(streamed[..3], whole[..3]);

    let next = async |parts: &[Value]| {
        let answer = exchange(&server.url(), GENERATE, HEADERS, &next_request(parts)).await;
        (answer.status, answer.json()["error"]["message"].clone())
    };
    let mut lost = whole.clone();
    lost[1].as_object_mut().unwrap().remove("thoughtSignature");
    let (status, message) = next(&lost).await;
    assert_eq!(status, 400);
    assert!(message.as_str().unwrap().contains("missing a thought_signature"), "{message}");

    let mut moved = lost.clone();
    moved[2]["thoughtSignature"] = whole[1]["thoughtSignature"].clone();
    assert_eq!(next(&moved).await, (400, json!("Corrupted thought signature.")));
    assert_eq!(server.remaining(), 1);
    assert_eq!(next(&whole).await, (200, Value::Null));
}
