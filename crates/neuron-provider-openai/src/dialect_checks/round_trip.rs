//! Property tests for round trips. A response is parsed, sent back and parsed again, with the same result.

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::dialect::{Dialect, ReasoningBack};

/// Generates any JSON value, for an unknown field.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-zé🦀\"\\\\ ]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[a-c]", inner, 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

type Fields = Map<String, Value>;

/// Generates a subset of the fields `keys` with any values.
fn fields(keys: &'static [&'static str]) -> impl Strategy<Value = Fields> {
    let field = (prop::sample::select(keys), value());
    prop::collection::vec(field, 0..3)
        .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Generates a call with unknown fields in the call and in its function.
fn any_call() -> impl Strategy<Value = Value> {
    const ARGUMENTS: [&str; 6] =
        ["", "{}", "{\"a\":1}", "{ \"z\": 1.5, \"a\": [\"é\"] }", "{\"a\":", "null"];
    (
        any::<bool>(),
        prop::sample::select(&ARGUMENTS[..]),
        fields(&["extra_content", "new", "status"]),
        fields(&["strict", "new"]),
        any::<bool>(),
    )
        .prop_map(|(is_custom, text, more, inner, has_stub)| {
            let (kind, stub, key) = match is_custom {
                true => ("custom", "function", "input"),
                false => ("function", "custom", "arguments"),
            };
            let mut named = inner;
            named.insert("name".into(), json!("look"));
            named.insert(key.into(), json!(text));
            let mut json = more;
            json.insert("type".into(), json!(kind));
            json.insert(kind.into(), named.into());
            if has_stub {
                json.insert(stub.into(), json!({"name": ""}));
            }
            json.into()
        })
}

/// Generates a list of `reasoning_details`.
fn details() -> impl Strategy<Value = Vec<Value>> {
    let detail = prop::sample::select(vec![
        ("reasoning.text", "text"),
        ("reasoning.summary", "summary"),
        ("reasoning.encrypted", "data"),
    ]);
    prop::collection::vec((detail, "[a-z]{1,6}", any::<bool>()), 0..4).prop_map(|details| {
        let details =
            details.into_iter().enumerate().map(|(index, ((kind, key), text, has_index))| {
                let mut json = json!({"type": kind, "format": "f", key: text});
                if has_index {
                    json["index"] = json!(index);
                }
                json
            });
        details.collect()
    })
}

#[derive(Debug, Clone)]
struct Answer {
    text: String,
    thinking: String,
    calls: Vec<Value>,
    details: Vec<Value>,
    /// Unknown fields that the API also accepts in requests.
    goes: Fields,
    /// Unknown fields that only responses have.
    stays: Fields,
}

fn any_answer() -> impl Strategy<Value = Answer> {
    (
        "[a-zé🦀\" ]{0,6}",
        "[a-z]{0,6}",
        prop::collection::vec(any_call(), 0..4),
        details(),
        prop::option::of(value()),
        fields(&["executed_tools", "channel", "padding", "annotations", "citations", "new"]),
    )
        .prop_map(|(text, thinking, mut calls, details, extra, stays)| {
            for (index, call) in calls.iter_mut().enumerate() {
                // The third call has no id.
                let id = if index == 2 { String::new() } else { format!("c{index}") };
                call["id"] = json!(id);
            }
            let goes = extra.map(|extra| ("extra_content".to_owned(), extra)).into_iter().collect();
            Answer { text, thinking, calls, details, goes, stays }
        })
}

impl Answer {
    fn message(&self, with_stays: bool) -> Value {
        let mut message = self.goes.clone();
        if with_stays {
            message.extend(self.stays.clone());
        }
        message.insert("role".into(), json!("assistant"));
        message.insert("content".into(), json!(self.text));
        message.insert("reasoning_content".into(), json!(self.thinking));
        message.insert("tool_calls".into(), json!(self.calls));
        message.insert("reasoning_details".into(), json!(self.details));
        message.into()
    }

    /// Returns the deltas of the response. Texts are split by character, and each call and each field has its own
    /// delta.
    fn deltas(&self) -> Vec<Value> {
        let chars = |key: &'static str, text: &str| {
            text.chars().map(|c| json!({key: c.to_string()})).collect::<Vec<_>>()
        };
        let mut deltas = chars("reasoning_content", &self.thinking);
        deltas.extend(chars("content", &self.text));
        for detail in &self.details {
            let has_index = detail.get("index").is_some();
            let key = ["text", "summary", "data"].into_iter().find(|key| detail[key].is_string());
            let key = key.expect("each has a text");
            let text = detail[key].as_str().unwrap_or_default();
            let pieces: Vec<_> = match has_index {
                true => text.chars().map(String::from).collect(),
                false => vec![text.to_owned()],
            };
            deltas.extend(pieces.into_iter().map(
                |piece| json!({"reasoning_details": [with(detail.clone(), key, json!(piece))]}),
            ));
        }
        for (index, call) in self.calls.iter().enumerate() {
            let mut begin = with(call.clone(), "index", json!(index));
            let (kind, key) = match call["type"] == "custom" {
                true => ("custom", "input"),
                false => ("function", "arguments"),
            };
            let text = begin[kind][key].take();
            deltas.push(json!({"tool_calls": [begin]}));
            let pieces = text.as_str().unwrap_or_default().chars();
            deltas.extend(pieces.map(
                |piece| json!({"tool_calls": [{"index": index, kind: {key: piece.to_string()}}]}),
            ));
        }
        for (key, value) in self.goes.iter().chain(&self.stays) {
            deltas.push(json!({key: value}));
        }
        deltas
    }
}

/// Adds the fields `unknown` to a body or a chunk, to its choice and to its usage.
fn with_unknown(mut body: Value, unknown: &Fields) -> Value {
    for place in ["", "/choices/0", "/usage"] {
        if let Some(Value::Object(object)) = body.pointer_mut(place) {
            object.extend(unknown.clone());
        }
    }
    body
}

proptest! {
    #[test]
    fn response_is_stable_over_round_trip(
        answer in any_answer(),
        unknown in fields(&["new", "x_vendor"]),
    ) {
        let response = read_whole(&whole(answer.message(true))).unwrap();
        let events = read_bytes::<ChatDecoder>(&streamed(answer.deltas()));
        prop_assert_eq!(&response_of(&events).message, &response.message);
        // Unknown fields around the message are ignored.
        let mut body = whole(answer.message(true));
        body["usage"] = json!({ "prompt_tokens": 1 });
        let marked = read_whole(&with_unknown(body, &unknown)).unwrap();
        prop_assert_eq!(&marked.message, &response.message);
        prop_assert_eq!(marked.usage.input_tokens, 1);
        let chunks = answer.deltas().into_iter().map(chunk).chain([last_chunk("stop")]);
        let chunks: Vec<_> = chunks.map(|chunk| with_unknown(chunk, &unknown)).collect();
        let bytes = [sse(&chunks), b"data: [DONE]\n\n".to_vec()].concat();
        let events = read_bytes::<ChatDecoder>(&bytes);
        prop_assert_eq!(&response_of(&events).message, &response.message);
        prop_assert_eq!(response.message.tool_uses().count(), answer.calls.len());
        // Fields that only responses have are kept in the message but not sent back.
        let dialect = Dialect { reasoning: ReasoningBack::Always, ..Dialect::openai() };
        let settings = Settings { dialect: &dialect, ..Settings::default() };
        let kept = read_whole(&whole(answer.message(false))).unwrap().message;
        let sent = sent_with(response.message.content, settings);
        prop_assert_eq!(&sent, &sent_with(kept.content.clone(), settings));
        for call in sent["tool_calls"].as_array().into_iter().flatten() {
            if let Some(arguments) = call.pointer("/function/arguments") {
                let arguments = arguments.as_str().unwrap_or_default();
                prop_assert!(serde_json::from_str::<Fields>(arguments).is_ok(), "{}", arguments);
            }
        }
        if sent.is_null() {
            prop_assert_eq!(kept.content, vec![]);
            return Ok(());
        }
        let again = read_whole(&whole(sent.clone())).unwrap().message;
        prop_assert_eq!(sent_with(again.content.clone(), settings), sent);
        prop_assert_eq!(again.content, kept.content);
    }
}
