//! Property tests for round trips. A response is parsed, sent back in the next request, and parsed again.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream;
use neuron_model::{CompletionRequest, CompletionResponse, Message};
use neuron_provider_anthropic::wire;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::soon;

/// Generates any JSON value, for a field that Anthropic may add to the API.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z\"\\\\é🦀 ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(object),
        ]
    })
}

fn object(fields: BTreeMap<String, Value>) -> Value {
    Value::Object(fields.into_iter().collect())
}

/// Generates fields that Anthropic may add to any object of the API.
fn more() -> impl Strategy<Value = BTreeMap<String, Value>> {
    prop::collection::btree_map("new_[a-z]{1,2}", any_json(), 0..3)
}

fn with(mut json: Value, more: BTreeMap<String, Value>) -> Value {
    json.as_object_mut().unwrap().extend(more);
    json
}

fn kind(kind: &'static str) -> Value {
    json!({"type": kind})
}

/// Generates a content block of a response. The block has no id.
fn block() -> impl Strategy<Value = Value> {
    let text = "[a-z\"\\\\é🦀 \n]{0,6}x";
    let citation = (more(), "[a-z]{0,3}").prop_map(|(more, cited)| {
        with(json!({"type": "char_location", "cited_text": cited, "document_index": 0}), more)
    });
    let citations = prop_oneof![
        Just(json!({})),
        Just(json!({"citations": null})),
        prop::collection::vec(citation, 0..3).prop_map(|list| json!({"citations": list})),
    ];
    let caller = prop_oneof![
        Just(json!({})),
        Just(json!({"caller": {"type": "direct"}})),
        Just(json!({"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}})),
    ];
    let input = prop::collection::btree_map("[a-z]{1,3}", any_json(), 0..3).prop_map(object);
    let fields = |json: Value| json.as_object().cloned().unwrap_or_default();
    let known = prop_oneof![
        (text, citations).prop_map(move |(text, citations)| {
            let mut json = json!({"type": "text", "text": text});
            json.as_object_mut().unwrap().extend(fields(citations));
            json
        }),
        ("[a-z ]{0,5}", "[a-z=]{1,5}").prop_map(
            |(text, sign)| json!({"type": "thinking", "thinking": text, "signature": sign})
        ),
        "[a-z]{0,5}".prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        (input, caller).prop_map(move |(input, caller)| {
            let mut json = json!({"type": "tool_use", "id": "", "name": "look", "input": input});
            json.as_object_mut().unwrap().extend(fields(caller));
            json
        }),
        any_json().prop_map(|input| {
            json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": input}})
        }),
        any_json().prop_map(|content| {
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content})
        }),
        text.prop_map(|content| json!({"type": "compaction", "content": content})),
        Just(json!({"type": "compaction", "content": null, "encrypted_content": "x"})),
        Just(kind("new_block")),
    ];
    (known, more()).prop_map(|(block, more)| with(block, more))
}

fn blocks() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(block(), 1..5).prop_map(|mut blocks| {
        for (index, block) in blocks.iter_mut().enumerate() {
            if block["type"] == "tool_use" {
                block["id"] = format!("toolu_{index}").into();
            }
        }
        blocks
    })
}

fn body(content: &Value) -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
        "stop_reason": "end_turn", "usage": {"input_tokens": 9, "output_tokens": 3},
    })
}

fn read(content: &Value, more: BTreeMap<String, Value>) -> CompletionResponse {
    wire::read_response(with(body(content), more).to_string().as_bytes()).unwrap()
}

/// Returns the content of the assistant message in the next request.
fn written(answer: &CompletionResponse) -> Value {
    let request = CompletionRequest {
        messages: vec![Message::user("hi"), answer.message.clone()],
        ..Default::default()
    };
    let body = wire::write_request(request.view(), false).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["messages"][1]["content"].take()
}

/// Returns the events of a streamed response. Texts, reasoning and arguments are sent as deltas, and all other blocks
/// are whole. `more` contains further fields for the events.
fn events(content: &[Value], more: &BTreeMap<String, Value>) -> String {
    let mut start = body(&json!([]));
    let usage = json!({"output_tokens": 3});
    start["stop_reason"] = Value::Null;
    let mut events = vec![with(json!({"type": "message_start", "message": start}), more.clone())];
    for (index, block) in content.iter().enumerate() {
        let mut block = block.clone();
        let take = |block: &mut Value, key: &str, empty: Value| {
            block.get_mut(key).map(|value| std::mem::replace(value, empty))
        };
        let deltas = match block["type"].as_str() {
            Some("text") => {
                let text = take(&mut block, "text", json!("")).unwrap();
                let citations = block.get_mut("citations").and_then(Value::as_array_mut);
                let citations = citations.map(std::mem::take).into_iter().flatten();
                let citations = citations
                    .map(|citation| json!({"type": "citations_delta", "citation": citation}));
                let text = json!({"type": "text_delta", "text": text});
                std::iter::once(text).chain(citations).collect()
            }
            Some("thinking") => {
                let text = take(&mut block, "thinking", json!(""));
                let sign = take(&mut block, "signature", json!(""));
                vec![
                    json!({"type": "thinking_delta", "thinking": text}),
                    json!({"type": "signature_delta", "signature": sign}),
                ]
            }
            Some("tool_use" | "server_tool_use") => {
                let input = take(&mut block, "input", json!({})).unwrap().to_string();
                let half = input.char_indices().nth(input.chars().count() / 2).unwrap().0;
                let piece = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
                vec![piece(&input[..half]), piece(&input[half..])]
            }
            _ => Vec::new(),
        };
        let event = |kind: &str, key: &str, value: Value| {
            let mut event = Map::new();
            event.insert("type".into(), kind.into());
            event.insert("index".into(), index.into());
            event.insert(key.into(), value);
            with(Value::Object(event), more.clone())
        };
        events.push(event("content_block_start", "content_block", block));
        for delta in deltas {
            let delta = with(delta, more.clone());
            events.push(event("content_block_delta", "delta", delta));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": with(json!({"stop_reason": "end_turn"}), more.clone()), "usage": with(usage, more.clone())}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

proptest! {
    #[test]
    fn response_is_unchanged_by_round_trip(mut blocks in blocks(), more in more()) {
        // The API does not accept thinking at the end of a message.
        blocks.push(json!({"type": "text", "text": "end"}));
        let answer = read(&Value::from(blocks.clone()), more.clone());
        let back = written(&answer);
        prop_assert_eq!(back.as_array().unwrap().len(), blocks.len());
        let again = read(&back, more);
        prop_assert_eq!(&again, &answer);
        prop_assert_eq!(written(&again), back.clone());
        // All fields that are not empty are sent back, whether this crate knows them or not.
        for (sent, came) in back.as_array().unwrap().iter().zip(&blocks) {
            for (key, value) in came.as_object().unwrap() {
                let is_empty = value.is_null() || (key == "citations" && value == &json!([]));
                prop_assert!(is_empty || &sent[key] == value, "{} of {} in {}", key, came, sent);
            }
        }
    }

    #[test]
    fn streamed_response_equals_whole_response(blocks in blocks(), more in more(), cut in any::<prop::sample::Index>()) {
        let whole = read(&Value::from(blocks.clone()), BTreeMap::new());
        let bytes = Bytes::from(events(&blocks, &more));
        let at = cut.index(bytes.len());
        let pieces = vec![Ok(bytes.slice(..at)), Ok(bytes.slice(at..))];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let handle = wire::read_stream(stream::iter(pieces));
        let streamed = runtime.block_on(soon(handle.into_response())).unwrap();
        prop_assert_eq!(streamed, whole);
    }
}
