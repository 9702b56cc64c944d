//! Helpers and generated conversations for the request tests of both APIs, Chat Completions and Responses. The
//! conversations contain every kind of block.

use neuron_model::{
    ContentBlock, ContentItem, DocumentSource, EmbeddedResource, ImageSource, Message,
    ResourceLink, Role, ToolCall, ToolDefinition,
};
use proptest::prelude::*;
use serde_json::{Value, json};

pub(crate) fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        title: None,
        description: "Looks".into(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Returns a strict tool with vendor fields of OpenAI and of another vendor. One of OpenAI's fields has the standard
/// name `name`, so its value must not be sent.
pub(crate) fn strict_tool() -> ToolDefinition {
    let input_schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    ToolDefinition { description: "d".into(), input_schema, ..tool("act") }
        .strict()
        .with_vendor_field("openai", "defer_loading", true)
        .with_vendor_field("openai", "name", "ignored")
        .with_vendor_field("another", "other", true)
}

/// Returns one item of each type that MCP servers return.
pub(crate) fn items_of_others() -> Vec<ContentItem> {
    let blob = |mime_type: &str| ContentItem::Resource {
        resource: EmbeddedResource::blob("file:///a", "aGk=").with_mime_type(mime_type),
    };
    let svg = ImageSource::Base64 { media_type: "image/svg+xml".into(), data: "aGk=".into() };
    vec![
        ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
        ContentItem::Resource { resource: EmbeddedResource::text("file:///a", "hi") },
        blob("image/jpg"),
        blob("application/pdf"),
        blob("application/zip"),
        ContentItem::Image { source: svg },
        ContentItem::ResourceLink { resource: ResourceLink::new("file:///a", "a") },
    ]
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn text(text: &str) -> ContentBlock {
    ContentBlock::Text(text.into())
}

fn png() -> ImageSource {
    ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() }
}

/// Generates a block of a user message, of any kind.
fn user_block() -> impl Strategy<Value = ContentBlock> {
    let document = |source| ContentBlock::Document { source };
    prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,8}".prop_map(ContentBlock::Text),
        Just(ContentBlock::Image { source: png() }),
        Just(ContentBlock::Image { source: ImageSource::Url { url: "https://h/a".into() } }),
        Just(document(DocumentSource::PlainText { data: "d".into() })),
        Just(document(DocumentSource::Base64Pdf { data: "aGk=".into() })),
        Just(raw("anthropic", json!({"type": "search_result"}), None)),
        Just(raw("anthropic", json!({"type": "text", "text": "t"}), Some(text("t")))),
    ]
}

/// Generates a block of an assistant message, of any kind, from this provider or from another provider.
fn assistant_block() -> impl Strategy<Value = ContentBlock> {
    let thinking = |(thinking, signature)| ContentBlock::Thinking { thinking, signature };
    let reasoning = |encrypted: bool| {
        let mut json = json!({"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]});
        if encrypted {
            json["encrypted_content"] = json!("gAAA");
        }
        let portable = ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() };
        raw("openai", json, Some(portable))
    };
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "a", "annotations": [], "logprobs": []}]});
    prop_oneof![
        "[a-zé🦀\"\\\\ \n]{0,8}".prop_map(ContentBlock::Text),
        ("[a-z]{0,3}", "[a-z]{0,2}").prop_map(thinking),
        Just(ContentBlock::RedactedThinking { data: "r".into() }),
        Just(ContentBlock::Compaction { content: "sum".into() }),
        Just(raw("anthropic", json!({"type": "text", "citations": [1]}), Some(text("t")))),
        Just(raw("anthropic", json!({"type": "server_tool_use", "id": "srvtoolu_1"}), None)),
        Just(raw("anthropic", json!({"type": "compaction", "content": null}), None)),
        Just(raw("openai", json!({"type": "message", "refusal": "No."}), Some(text("No.")))),
        Just(raw("openai", json!({"type": "message", "audio": {"id": "a", "data": "x"}}), None)),
        Just(raw("openai", json!({"type": "message", "annotations": [1]}), None)),
        Just(raw("openai", item, Some(text("a")))),
        any::<bool>().prop_map(reasoning),
        Just(raw("openai", json!({"type": "web_search_call", "id": "ws_1"}), None)),
    ]
}

/// Returns a tool call. `form` selects one of the formats in which providers keep calls, and `input` selects the
/// arguments.
fn call(id: &str, form: u8, input: u8) -> ContentBlock {
    let inputs = [
        json!(null),
        json!({}),
        json!([1]),
        json!({"b": 0.1, "a": {"z": "🦀"}}),
        ToolCall::invalid_json_input("{\"a\":"),
    ];
    let input = inputs[usize::from(input)].clone();
    let name = if form == 0 { "no.such tool" } else { "look" };
    let plain = |input| ContentBlock::ToolUse { id: id.into(), name: name.into(), input };
    match form {
        0 | 1 => plain(input),
        2 => raw("anthropic", json!({"type": "tool_use", "caller": 1}), Some(plain(input))),
        3 => raw(
            "openai",
            json!({"id": id, "type": "custom", "custom": {"name": "look", "input": "x"}}),
            Some(plain(json!("x"))),
        ),
        4 => raw(
            "openai",
            json!({"type": "custom_tool_call", "id": "ctc_1", "call_id": id, "name": "look", "input": "x"}),
            Some(plain(json!("x"))),
        ),
        _ => raw(
            "openai",
            json!({"type": "function_call", "id": "fc_1", "call_id": id, "name": "look", "arguments": "{}", "status": "completed"}),
            Some(plain(json!({}))),
        ),
    }
}

/// The generated parts of one turn of a conversation. They are:
///
/// - the user's blocks
/// - the model's calls, each as three indices that select its format, its arguments and its result
/// - the model's other blocks
/// - `true` if a system message follows
type Turn = (Vec<ContentBlock>, Vec<(u8, u8, u8)>, Vec<ContentBlock>, bool);

fn turn() -> impl Strategy<Value = Turn> {
    (
        prop::collection::vec(user_block(), 0..3),
        prop::collection::vec((0_u8..6, 0_u8..5, 0_u8..5), 0..3),
        prop::collection::vec(assistant_block(), 0..4),
        any::<bool>(),
    )
}

/// Generates a valid conversation. Also returns each number of leading messages that form a valid conversation by
/// themselves.
pub(crate) fn history() -> impl Strategy<Value = (Vec<Message>, Vec<usize>)> {
    prop::collection::vec(turn(), 0..6).prop_map(|turns| {
        let mut messages = vec![Message::user("hi")];
        let mut ends = vec![1];
        for (index, (user, calls, mut asked, system)) in turns.into_iter().enumerate() {
            messages.push(Message { role: Role::User, content: user });
            ends.push(messages.len());
            let mut results = Vec::new();
            for (position, (form, input, outcome)) in calls.into_iter().enumerate() {
                let id = format!("call_{index}_{position}");
                asked.push(call(&id, form, input));
                let outcomes = [
                    vec![],
                    vec![ContentItem::Text("fine".into())],
                    vec![ContentItem::Text(" ".into()), ContentItem::Text("x".into())],
                    vec![ContentItem::Image { source: png() }],
                    items_of_others(),
                ];
                results.push(ContentBlock::ToolResult {
                    tool_use_id: id,
                    content: outcomes[usize::from(outcome)].clone(),
                    is_error: position == 1,
                });
            }
            messages.push(Message { role: Role::Assistant, content: asked });
            if !results.is_empty() {
                messages.push(Message { role: Role::User, content: results });
            }
            if system {
                messages.push(Message::system("remember"));
            }
            ends.push(messages.len());
        }
        (messages, ends)
    })
}
