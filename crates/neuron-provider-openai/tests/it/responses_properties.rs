//! Property tests that parse a response of the Responses API, send it back in the next request, and parse it again.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream;
use neuron_model::{CompletionRequest, CompletionResponse};
use neuron_provider_openai::wire::responses;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::soon;

/// Generates any JSON value, for a field that OpenAI may add to the API.
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

/// Generates fields that OpenAI may add to any object of the API.
fn more() -> impl Strategy<Value = BTreeMap<String, Value>> {
    prop::collection::btree_map("new_[a-z]{1,2}", any_json(), 0..3)
}

fn with(mut json: Value, more: BTreeMap<String, Value>) -> Value {
    json.as_object_mut().unwrap().extend(more);
    json
}

/// Generates an item of a response. The item has no ids.
fn item() -> impl Strategy<Value = Value> {
    let text = "[a-z\"\\\\é🦀 \n]{0,6}x";
    let part = prop_oneof![
        (text, any_json()).prop_map(
            |(text, note)| json!({"type": "output_text", "text": text, "annotations": [note]})
        ),
        text.prop_map(|text| json!({"type": "refusal", "refusal": text})),
        Just(json!({"type": "new_part"})),
    ];
    let parts = (part, more()).prop_map(|(part, more)| with(part, more));
    let parts = prop::collection::vec(parts, 0..3);
    let summary = (text, more())
        .prop_map(|(text, more)| with(json!({"type": "summary_text", "text": text}), more));
    let summary = prop::collection::vec(summary, 0..3);
    let input = prop::collection::btree_map("[a-z]{1,3}", any_json(), 0..3).prop_map(object);
    let known = prop_oneof![
        parts.prop_map(|parts| json!({"type": "message", "id": "", "role": "assistant", "content": parts})),
        summary.prop_map(|summary| json!({"type": "reasoning", "id": "", "summary": summary, "encrypted_content": "gAAA"})),
        input.prop_map(|input| json!({"type": "function_call", "id": "", "call_id": "", "name": "look", "arguments": input.to_string()})),
        text.prop_map(|input| json!({"type": "custom_tool_call", "id": "", "call_id": "", "name": "look", "input": input})),
        any_json().prop_map(|action| json!({"type": "web_search_call", "id": "", "action": action})),
        Just(json!({"type": "new_item"})),
    ];
    (known, more()).prop_map(|(item, more)| with(item, more))
}

/// Generates the items of a response. Reasoning is never the last item, because it is sent back only before another
/// item.
fn items() -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(item(), 0..5).prop_map(|mut items| {
        items.push(json!({"type": "message", "id": "", "role": "assistant", "content": []}));
        for (index, item) in items.iter_mut().enumerate() {
            for (key, prefix) in [("id", "item"), ("call_id", "call")] {
                if item.get(key).is_some() {
                    item[key] = format!("{prefix}_{index}").into();
                }
            }
        }
        items
    })
}

fn body(output: &Value, status: &str) -> Value {
    json!({
        "id": "resp_1", "object": "response", "model": "m", "status": status, "output": output,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    })
}

fn read(output: &Value, more: BTreeMap<String, Value>) -> CompletionResponse {
    let body = with(body(output, "completed"), more).to_string();
    responses::read_response(body.as_bytes()).unwrap()
}

/// Returns the items that the next request contains.
fn written(answer: &CompletionResponse) -> Value {
    let request =
        CompletionRequest { messages: vec![answer.message.clone()], ..Default::default() };
    let body = responses::write_request(request.view(), false).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["input"].take()
}

/// Returns the events of a streamed response with the given items. The fields `more` are added to every event. Events
/// contain output indices if `has_places` is set, and otherwise only item ids. If `has_output` is set, the last event
/// repeats all items.
fn events(
    items: &[Value],
    more: &BTreeMap<String, Value>,
    has_places: bool,
    has_output: bool,
) -> String {
    let mut events = vec![
        json!({"type": "response.created", "response": with(body(&json!([]), "in_progress"), more.clone())}),
    ];
    for (place, item) in items.iter().enumerate() {
        let mut event = |kind: &str, fields: Value| {
            let mut event = with(json!({"type": format!("response.{kind}")}), more.clone());
            event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            if has_places {
                event["output_index"] = place.into();
            }
            events.push(event);
        };
        let mut begun = item.clone();
        let kind = item["type"].as_str().unwrap();
        let pieces: Vec<_> = match kind {
            "message" => {
                begun["content"] = json!([]);
                let parts = item["content"].as_array().unwrap().iter();
                parts
                    .filter_map(|part| match part["type"].as_str()? {
                        "output_text" => Some(("output_text.delta", part["text"].clone())),
                        "refusal" => Some(("refusal.delta", part["refusal"].clone())),
                        _ => None,
                    })
                    .collect()
            }
            "reasoning" => {
                begun["summary"] = json!([]);
                let parts = item["summary"].as_array().unwrap().iter();
                parts.map(|part| ("reasoning_summary_text.delta", part["text"].clone())).collect()
            }
            "function_call" => {
                begun["arguments"] = json!("");
                vec![("function_call_arguments.delta", item["arguments"].clone())]
            }
            "custom_tool_call" => {
                begun["input"] = json!("");
                vec![("custom_tool_call_input.delta", item["input"].clone())]
            }
            _ => Vec::new(),
        };
        event("output_item.added", json!({"item": begun}));
        for (index, (kind, delta)) in pieces.into_iter().enumerate() {
            event(kind, json!({"delta": delta, "item_id": item["id"], "summary_index": index}));
        }
        event("output_item.done", json!({"item": item}));
    }
    let output = if has_output { json!(items) } else { json!([]) };
    events.push(json!({"type": "response.completed", "response": body(&output, "completed")}));
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

proptest! {
    #[test]
    fn response_is_unchanged_by_round_trip(items in items(), more in more()) {
        let answer = read(&json!(items), more.clone());
        let back = written(&answer);
        prop_assert_eq!(&back, &json!(items));
        prop_assert_eq!(read(&back, more), answer);
    }

    #[test]
    fn streamed_response_equals_whole_response(
        items in items(),
        more in more(),
        has_places in any::<bool>(),
        has_output in any::<bool>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let whole = read(&json!(items), BTreeMap::new());
        let bytes = Bytes::from(events(&items, &more, has_places, has_output));
        let at = cut.index(bytes.len());
        let pieces = vec![Ok(bytes.slice(..at)), Ok(bytes.slice(at..))];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let handle = responses::read_stream(stream::iter(pieces));
        let streamed = runtime.block_on(soon(handle.into_response())).unwrap();
        prop_assert_eq!(streamed, whole);
    }
}
