//! Property tests for round trips. A response is parsed, sent back in the next request, and parsed again.

use futures_util::{FutureExt, stream};
use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role,
};
use neuron_provider_gemini::wire;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::chunk;

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
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

fn object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec(("[a-c]{1,2}", value()), 0..3)
        .prop_map(|fields| fields.into_iter().collect())
}

/// Generates a part of a response. Every call has an id, because an invented id differs each time.
fn part() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,6}".prop_map(|text| json!({"text": text})),
        "[a-zé🦀 ]{1,6}".prop_map(|text| json!({"text": text, "thought": true})),
    ];
    let call = ("[a-z]{1,4}", object(), "[a-c/]{1,2}").prop_map(
        |(name, args, id)| json!({"functionCall": {"name": name, "args": args, "id": id}}),
    );
    let other = prop_oneof![
        Just(json!({"executableCode": {"language": "PYTHON", "code": "1"}})),
        Just(json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}})),
        Just(json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}})),
        object().prop_map(|fields| json!({"newContent": fields})),
    ];
    let signature = prop::option::weighted(0.4, "[a-z]{1,5}");
    (prop_oneof![2 => text, 2 => call, 1 => other], signature, prop::option::weighted(0.2, value()))
        .prop_map(|(mut part, signature, more)| {
            if let Some(signature) = signature {
                part["thoughtSignature"] = json!(signature);
            }
            if let Some(more) = more {
                part["newField"] = more;
            }
            part
        })
}

fn read(parts: &[Value]) -> CompletionResponse {
    let body = chunk(&json!(parts), Some("STOP"));
    wire::read_response(body.to_string().as_bytes()).unwrap()
}

/// Decodes the parts as a stream with one part per chunk of the API, in pieces of `size` bytes.
fn read_streamed(parts: &[Value], size: usize) -> CompletionResponse {
    let chunks = parts.iter().map(|part| chunk(&json!([part]), None));
    let chunks = chunks.chain([chunk(&json!([]), Some("STOP"))]);
    let bytes: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
    let pieces: Vec<Result<_, ProviderError>> =
        bytes.as_bytes().chunks(size).map(|piece| Ok(piece.to_vec().into())).collect();
    let response = wire::read_stream(stream::iter(pieces)).into_response();
    response.now_or_never().expect("nothing to wait for").unwrap()
}

/// Returns the parts of the response in the next request, and the ids in the results of its calls.
fn written(message: &Message) -> (Vec<Value>, Vec<Value>) {
    let result = |id: &str| ContentBlock::ToolResult {
        tool_use_id: id.to_owned(),
        content: Vec::new(),
        is_error: false,
    };
    let results = message.tool_uses().map(|call| result(call.id)).collect();
    let messages =
        vec![Message::user("hi"), message.clone(), Message { role: Role::User, content: results }];
    // A model that gets ids, and no other signature in place of a missing one.
    let request =
        CompletionRequest { model: "gemma-3-27b-it".into(), messages, ..Default::default() };
    let body = wire::write_request(request.view()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let parts = |index: usize| body["contents"][index]["parts"].as_array().cloned();
    let is_empty = message.content.is_empty();
    let ids = parts(2).unwrap_or_default().into_iter();
    // A conversation without results gets another content of the user.
    let ids = ids.filter_map(|part| Some(part.get("functionResponse")?["id"].clone())).collect();
    (if is_empty { Vec::new() } else { parts(1).unwrap() }, ids)
}

proptest! {
    #[test]
    fn response_is_unchanged_by_round_trip(parts in prop::collection::vec(part(), 0..6), size in 1_usize..60) {
        let first = read(&parts);
        let (sent, ids) = written(&first.message);
        let second = read(&sent);
        prop_assert_eq!(&second.message, &first.message);
        prop_assert_eq!(written(&second.message), (sent.clone(), ids.clone()));
        prop_assert_eq!(read_streamed(&parts, size), read(&parts));

        // Each signed part and each unknown part is sent back unchanged, and in order.
        let is_own = |part: &&Value| part.as_object().unwrap().keys().any(|key| key != "text" && key != "thought");
        let own: Vec<_> = parts.iter().filter(is_own).collect();
        prop_assert_eq!(sent.iter().filter(is_own).collect::<Vec<_>>(), own);
        // Each result has the id that the server gave to its call.
        let calls = parts.iter().filter_map(|part| part.get("functionCall"));
        prop_assert_eq!(ids, calls.map(|call| call["id"].clone()).collect::<Vec<_>>());
        let mut unique: Vec<_> = first.message.tool_uses().map(|call| call.id).collect();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), first.message.tool_uses().count());
    }
}
