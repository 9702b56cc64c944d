//! Property tests for round trips. A response that is sent back and received again must be unchanged.

use futures_util::{FutureExt, stream};
use neuron_model::{CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError};
use neuron_provider_ollama::wire;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1.0e3..1.0e3_f64).prop_map(Value::from),
        "[a-zé🦀\"\\\\ \n]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-c]{1,2}", inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Generates additional fields for a message. A field that the API defines has a value of the documented type, and any
/// other field has any value.
fn unknown_fields() -> impl Strategy<Value = Map<String, Value>> {
    let field = prop_oneof![
        4 => ("(type|signature|[a-c]{1,2})", value()),
        1 => ("(tool_name|tool_call_id)", "[a-z]{0,3}".prop_map(Value::from)),
        1 => (Just("images".to_owned()), Just(json!(["aGk="]))),
    ];
    prop::collection::vec(field, 0..3).prop_map(|fields| fields.into_iter().collect())
}

/// Generates arguments in the formats of current servers, older servers and proxies.
fn arguments() -> impl Strategy<Value = Value> {
    let object = || {
        prop::collection::vec(("[a-c]{1,2}", value()), 0..3)
            .prop_map(|fields| Value::Object(fields.into_iter().collect()))
    };
    prop_oneof![
        object(),
        object().prop_map(|object| object.to_string().into()),
        (object(), any::<prop::sample::Index>()).prop_map(|(object, cut)| {
            let text = object.to_string();
            let chars = cut.index(text.chars().count());
            text.chars().take(chars).collect::<String>().into()
        }),
        Just(json!(null)),
    ]
}

fn call() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just(None), "(call_)?[a-b]{0,2}".prop_map(Some)];
    let full = (id, "[a-z]{1,4}", arguments(), 0_usize..3, unknown_fields(), unknown_fields())
        .prop_map(|(id, name, arguments, index, mut outer, mut inner)| {
            inner.insert("name".into(), name.into());
            inner.insert("arguments".into(), arguments);
            inner.insert("index".into(), index.into());
            outer.insert("function".into(), Value::Object(inner));
            if let Some(id) = id {
                outer.insert("id".into(), id.into());
            }
            Value::Object(outer)
        });
    prop_oneof![
        8 => full,
        1 => Just(json!(null)),
        1 => Just(json!({"type": "custom", "custom": {"name": "look"}})),
    ]
}

fn message() -> impl Strategy<Value = Value> {
    let text = || prop::option::of("[a-zé🦀\"\\\\ \n]{0,8}");
    (text(), text(), prop::option::of(prop::collection::vec(call(), 0..4)), unknown_fields())
        .prop_map(|(content, thinking, calls, mut fields)| {
            fields.insert("role".into(), "assistant".into());
            fields.insert("content".into(), content.into());
            fields.insert("thinking".into(), thinking.into());
            fields.insert("tool_calls".into(), calls.into());
            Value::Object(fields)
        })
}

fn read(message: &Value) -> CompletionResponse {
    let body = json!({"model": "m", "message": message, "done": true, "done_reason": "stop"});
    wire::read_response(body.to_string().as_bytes()).unwrap()
}

/// Decodes the message as a stream of two lines, in chunks of `size` bytes.
fn read_streamed(message: &Value, size: usize) -> CompletionResponse {
    let lines = [
        json!({"model": "m", "message": message, "done": false}).to_string(),
        // The line feed at the end of the last line may be missing.
        json!({"model": "m", "done": true, "done_reason": "stop"}).to_string(),
    ];
    let bytes = lines.join("\n").into_bytes();
    let pieces: Vec<Result<_, ProviderError>> =
        bytes.chunks(size).map(|piece| Ok(piece.to_vec().into())).collect();
    let response = wire::read_stream(stream::iter(pieces)).into_response();
    response.now_or_never().expect("nothing to wait for").unwrap()
}

/// Returns the JSON of the message in the next request. Returns `None` if the message is empty and therefore not sent.
fn written(message: Message) -> Option<Value> {
    let request = CompletionRequest { messages: vec![message], ..Default::default() };
    let body = wire::write_request(request.view(), false).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(neuron_testing::ollama::check_chat_request(&body), Ok(()));
    body["messages"].get(0).cloned()
}

proptest! {
    #[test]
    fn response_is_unchanged_by_round_trip(message in message(), size in 1_usize..40) {
        let first = read(&message).message;
        let Some(sent) = written(first.clone()) else {
            prop_assert_eq!(&first.content, &[]);
            return Ok(());
        };
        let second = read(&sent);
        prop_assert_eq!(&second.message, &first);
        prop_assert_eq!(written(second.message.clone()), Some(sent.clone()));
        prop_assert_eq!(read_streamed(&sent, size), second);
        for (key, value) in message.as_object().unwrap() {
            let is_kept = match value {
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                value => !value.is_null(),
            };
            if is_kept && !["type", "tool_calls"].contains(&key.as_str()) {
                prop_assert_eq!(&sent[key], value);
            }
        }
        let ids: Vec<_> = first.tool_uses().map(|call| call.id.to_owned()).collect();
        for (index, id) in ids.iter().enumerate() {
            prop_assert!(!id.is_empty() && !ids[..index].contains(id));
        }
        for call in first.content.iter().filter(|block| matches!(block, ContentBlock::Raw { .. })) {
            prop_assert_eq!(call.as_tool_use().is_none_or(|call| !call.name.is_empty()), true);
        }
    }
}
