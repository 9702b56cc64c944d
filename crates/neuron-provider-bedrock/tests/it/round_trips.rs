//! Property tests for round trips. A response is parsed, sent back in the next request, and parsed again.

use futures_util::{FutureExt, stream};
use neuron_model::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role,
};
use neuron_provider_bedrock::wire;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::support::{body, delta, end, event};

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

/// Generates a content block of a response.
fn block() -> impl Strategy<Value = Value> {
    let text = "[a-zé🦀\"\\\\ \n]{0,6}".prop_map(|text| json!({ "text": text }));
    let reasoning = ("[a-zé🦀 ]{0,6}", "[a-z]{1,5}").prop_map(|(text, signature)| {
        json!({"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}})
    });
    let redacted = Just(json!({"reasoningContent": {"redactedContent": "RW13Sw=="}}));
    let call = ("[a-z]{1,4}", object(), "[a-c]{1,2}").prop_map(
        |(name, input, id)| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}}),
    );
    let cited = "[a-z]{1,5}".prop_map(|text| {
        json!({"citationsContent": {"content": [{ "text": text }], "citations": [{"title": "t"}]}})
    });
    prop_oneof![3 => text, 2 => reasoning, 1 => redacted, 2 => call, 1 => cited]
}

fn read(blocks: &[Value]) -> CompletionResponse {
    wire::read_response(body(&json!(blocks)).to_string().as_bytes()).unwrap()
}

/// Returns the events of a block in a stream.
fn events(index: usize, block: &Value) -> Vec<u8> {
    let start = |start: Value| {
        event("contentBlockStart", &json!({"contentBlockIndex": index, "start": start}))
    };
    let mut bytes = Vec::new();
    if let Some(call) = block.get("toolUse") {
        let (id, name) = (&call["toolUseId"], &call["name"]);
        bytes.extend(start(json!({"toolUse": {"toolUseId": id, "name": name}})));
        let input = call["input"].to_string();
        bytes.extend(delta(index, &json!({"toolUse": { "input": input }})));
    } else if let Some(reasoning) = block.get("reasoningContent") {
        let inner = reasoning.get("reasoningText").unwrap_or(reasoning).as_object().unwrap();
        for (key, value) in inner {
            bytes.extend(delta(index, &json!({"reasoningContent": { key: value }})));
        }
    } else if let Some(cited) = block.get("citationsContent") {
        bytes.extend(delta(index, &json!({"text": cited["content"][0]["text"]})));
        bytes.extend(delta(index, &json!({"citation": cited["citations"][0]})));
    } else {
        bytes.extend(delta(index, block));
    }
    bytes.extend(event("contentBlockStop", &json!({ "contentBlockIndex": index })));
    bytes
}

/// Decodes the blocks as a stream, in pieces of `size` bytes.
fn read_streamed(blocks: &[Value], size: usize) -> CompletionResponse {
    let mut bytes: Vec<u8> =
        blocks.iter().enumerate().flat_map(|(index, block)| events(index, block)).collect();
    bytes.extend(end());
    let pieces: Vec<Result<_, ProviderError>> =
        bytes.chunks(size).map(|piece| Ok(piece.to_vec().into())).collect();
    let response = wire::read_stream(stream::iter(pieces)).into_response();
    response.now_or_never().expect("nothing to wait for").unwrap()
}

/// Returns the blocks of the response in the next request, and the ids in the results of its calls.
fn written(message: &Message) -> (Vec<Value>, Vec<Value>) {
    let result = |id: &str| ContentBlock::ToolResult {
        tool_use_id: id.to_owned(),
        content: Vec::new(),
        is_error: false,
    };
    let results = message.tool_uses().map(|call| result(call.id)).collect();
    let messages =
        vec![Message::user("hi"), message.clone(), Message { role: Role::User, content: results }];
    let request = CompletionRequest { messages, ..Default::default() };
    let body = wire::write_request(request.view()).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let content = |index: usize| body["messages"][index]["content"].as_array().cloned();
    let sent = content(1).unwrap_or_default();
    let ids = content(2).unwrap_or_default().into_iter();
    (sent, ids.map(|block| block["toolResult"]["toolUseId"].clone()).collect())
}

proptest! {
    #[test]
    fn response_is_unchanged_by_round_trip(blocks in prop::collection::vec(block(), 0..6), size in 1_usize..60) {
        let first = read(&blocks);
        let (sent, ids) = written(&first.message);
        let second = read(&sent);
        // Blank texts are not sent, and no reasoning at the end.
        let is_blank = |block: &ContentBlock| block.as_text().is_some_and(|text| text.trim().is_empty());
        let is_reasoning = |block: &mut ContentBlock| {
            matches!(block, ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. })
        };
        let mut kept = first.message.clone();
        kept.content.retain(|block| !is_blank(block));
        while kept.content.pop_if(is_reasoning).is_some() {}
        prop_assert_eq!(&second.message, &kept);
        prop_assert_eq!(written(&second.message), (sent.clone(), ids.clone()));
        prop_assert_eq!(read_streamed(&blocks, size), first.clone());

        // Other reasoning and texts with citations are sent back unchanged, and in order.
        let is_kept = |block: &&Value| block.get("text").is_none() && block.get("toolUse").is_none();
        let is_last = |block: &Value| {
            let text = block.get("text").map(|text| text.as_str().unwrap_or_default());
            block.get("reasoningContent").is_some() || text.is_some_and(|text| text.trim().is_empty())
        };
        let end = blocks.iter().rposition(|block| !is_last(block)).map_or(0, |last| last + 1);
        let own: Vec<_> = blocks[..end].iter().filter(is_kept).collect();
        prop_assert_eq!(sent.iter().filter(is_kept).collect::<Vec<_>>(), own);
        // Each result refers to a call, and no two calls have the same id.
        let calls = sent.iter().filter_map(|block| block.get("toolUse"));
        prop_assert_eq!(&ids, &calls.map(|call| call["toolUseId"].clone()).collect::<Vec<_>>());
        let mut unique: Vec<_> = ids.iter().map(Value::to_string).collect();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), ids.len());
    }
}
