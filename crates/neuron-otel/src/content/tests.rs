//! Tests that convert every kind of block and item to JSON, including an empty conversation and a huge conversation.

use neuron_types::{
    CompletionRequest, DocumentSource, EmbeddedResource, HistoryKey, ImageSource, ResourceLink,
    StopReason, SystemBlock, TokenUsage, ToolCall,
};

use super::*;

/// Returns a message with one block.
fn message(role: Role, block: ContentBlock) -> Message {
    Message { role, content: vec![block] }
}

/// Checks that `block` is converted to the message part `expected`.
#[track_caller]
fn check(block: ContentBlock, expected: Value) {
    let parts = input_messages(&[message(Role::Assistant, block)]);
    assert_eq!(parts, json!([{ "role": "assistant", "parts": [expected] }]));
}

/// Checks that an item of a tool result is converted to the message part `expected`.
#[track_caller]
fn check_item(item: ContentItem, expected: Value) {
    // The result also contains an image, so it becomes a list of parts and not one text.
    let url = ImageSource::Url { url: "https://a".into() };
    let output = ToolOutput {
        content: vec![item, ContentItem::Image { source: url }],
        ..Default::default()
    };
    let image = json!({ "type": "uri", "modality": "image", "uri": "https://a" });
    assert_eq!(tool_result(&output), json!([expected, image]));
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn result(content: Vec<ContentItem>) -> ContentBlock {
    ContentBlock::ToolResult { tool_use_id: "call_1".into(), content, is_error: false }
}

fn text_item(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

#[test]
fn system_prompt_becomes_texts() {
    let text = |text: &str| json!({ "type": "text", "content": text });
    assert_eq!(system_instructions(&"Be brief.".into()), json!([text("Be brief.")]));
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let blocks = SystemPrompt::Blocks(vec![block("Be brief."), block(""), block("Be kind.")]);
    assert_eq!(system_instructions(&blocks), json!([text("Be brief."), text("Be kind.")]));
    assert_eq!(system_instructions(&SystemPrompt::default()), json!([]));
    assert_eq!(system_instructions(&SystemPrompt::Blocks(Vec::new())), json!([]));
}

#[test]
fn every_block_has_a_part() {
    check(ContentBlock::Text("hi".into()), json!({ "type": "text", "content": "hi" }));
    check(ContentBlock::Text(String::new()), json!({ "type": "text", "content": "" }));
    check(
        ContentBlock::Thinking { thinking: "so".into(), signature: "secret".into() },
        json!({ "type": "reasoning", "content": "so" }),
    );
    check(
        ContentBlock::RedactedThinking { data: "secret".into() },
        json!({ "type": "redacted_thinking" }),
    );
    check(
        ContentBlock::Compaction { content: "before".into() },
        json!({ "type": "compaction", "content": "before" }),
    );
    let call = |input| ContentBlock::ToolUse { id: "call_1".into(), name: "add".into(), input };
    for (input, arguments) in [
        (json!({ "a": 1 }), json!({ "a": 1 })),
        (json!({}), json!({})),
        (Value::Null, Value::Null),
        (ToolCall::invalid_json_input("{\"a\":"), json!("{\"a\":")),
    ] {
        let part =
            json!({ "type": "tool_call", "id": "call_1", "name": "add", "arguments": arguments });
        check(call(input), part);
    }
}

#[test]
fn media_become_blobs_or_uris() {
    let image = |source| ContentBlock::Image { source };
    let png =
        json!({ "type": "blob", "mime_type": "image/png", "modality": "image", "content": "aGk=" });
    check(
        image(ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() }),
        png.clone(),
    );
    check(
        image(ImageSource::Url { url: "https://a/b.png".into() }),
        json!({ "type": "uri", "modality": "image", "uri": "https://a/b.png" }),
    );
    check(image(ImageSource::Url { url: "data:image/png;base64,aGk=".into() }), png);
    check(
        image(ImageSource::Url { url: "data:;base64,aGk=".into() }),
        json!({ "type": "blob", "modality": "image", "content": "aGk=" }),
    );

    let document = |source| ContentBlock::Document { source };
    check(
        document(DocumentSource::Base64Pdf { data: "aGk=".into() }),
        json!({
            "type": "blob", "mime_type": "application/pdf", "modality": "document", "content": "aGk=",
        }),
    );
    check(
        document(DocumentSource::PlainText { data: "hi".into() }),
        json!({ "type": "text", "content": "hi" }),
    );
    check(
        document(DocumentSource::Url { url: "https://a".into() }),
        json!({ "type": "uri", "modality": "document", "uri": "https://a" }),
    );
}

#[test]
fn raw_block_becomes_portable_part_or_only_its_type() {
    let text = ContentBlock::Text("hi".into());
    let said = json!({ "type": "text", "content": "hi" });
    let cited = raw("anthropic", json!({ "type": "text", "citations": [1] }), Some(text.clone()));
    check(cited.clone(), said.clone());
    check(raw("openai", json!({}), Some(cited)), said);
    check(
        raw("anthropic", json!({ "type": "web_search_tool_result", "content": "secret" }), None),
        json!({ "type": "web_search_tool_result", "provider": "anthropic" }),
    );
    // The conventions require the field `content` in a part of type `reasoning`, and a raw block lacks this field.
    check(
        raw("openai", json!({ "type": "reasoning", "encrypted_content": "secret" }), None),
        json!({ "type": "openai.reasoning", "provider": "openai" }),
    );
    for json in [json!({}), json!(null), json!({ "type": 5 }), json!("text")] {
        check(raw("ollama", json, None), json!({ "type": "raw", "provider": "ollama" }));
    }
}

#[test]
fn result_of_texts_becomes_one_text() {
    let response = |response: Value| {
        let id = "call_1";
        json!({ "type": "tool_call_response", "id": id, "response": response })
    };
    check_result(vec![], response(json!("")));
    check_result(vec![text_item("4")], response(json!("4")));
    check_result(vec![text_item("a"), text_item("b")], response(json!("a\nb")));
    let sound = ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() };
    check_result(
        vec![text_item("a"), sound],
        response(json!([
            { "type": "text", "content": "a" },
            { "type": "blob", "mime_type": "audio/wav", "modality": "audio", "content": "aGk=" },
        ])),
    );
}

#[track_caller]
fn check_result(content: Vec<ContentItem>, part: Value) {
    let parts = input_messages(&[message(Role::User, result(content))]);
    assert_eq!(parts, json!([{ "role": "tool", "parts": [part] }]));
}

#[test]
fn every_result_item_has_a_part() {
    check_item(text_item("hi"), json!({ "type": "text", "content": "hi" }));
    check_item(
        ContentItem::Image {
            source: ImageSource::Base64 { media_type: "image/gif".into(), data: "aGk=".into() },
        },
        json!({ "type": "blob", "mime_type": "image/gif", "modality": "image", "content": "aGk=" }),
    );
    check_item(
        ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
        json!({ "type": "blob", "mime_type": "audio/wav", "modality": "audio", "content": "aGk=" }),
    );
    let link =
        ResourceLink { mime_type: Some("video/mp4".into()), ..ResourceLink::new("file:///a", "a") };
    check_item(
        ContentItem::ResourceLink { resource: link },
        json!({ "type": "uri", "mime_type": "video/mp4", "modality": "video", "uri": "file:///a" }),
    );
    check_item(
        ContentItem::ResourceLink { resource: ResourceLink::default() },
        json!({ "type": "uri", "modality": "document", "uri": "" }),
    );
}

#[test]
fn resource_becomes_text_blob_or_uri() {
    let check = |resource, expected| check_item(ContentItem::Resource { resource }, expected);
    check(
        EmbeddedResource::text("file:///a", "hi").with_mime_type("text/plain"),
        json!({ "type": "text", "content": "hi", "uri": "file:///a" }),
    );
    for (mime_type, modality) in [
        ("image/png", "image"),
        ("AUDIO/wav", "audio"),
        (" video/mp4; codecs=avc1", "video"),
        ("application/pdf", "document"),
        ("imagery/png", "document"),
        ("", "document"),
    ] {
        check(
            EmbeddedResource::blob("file:///a", "aGk=").with_mime_type(mime_type),
            json!({
                "type": "blob", "mime_type": mime_type, "modality": modality, "content": "aGk=",
                "uri": "file:///a",
            }),
        );
    }
    check(
        EmbeddedResource { uri: "file:///a".into(), ..Default::default() },
        json!({ "type": "uri", "modality": "document", "uri": "file:///a" }),
    );
}

#[test]
fn only_messages_of_results_have_the_tool_role() {
    let role = |message: Message| input_messages(&[message])[0]["role"].clone();
    assert_eq!(role(Message::user("hi")), "user");
    assert_eq!(role(Message::assistant("hi")), "assistant");
    assert_eq!(role(Message::system("hi")), "system");
    assert_eq!(role(Message { role: Role::User, content: vec![] }), "user");
    assert_eq!(role(Message { role: Role::User, content: vec![] }.pinned()), "user");
    let results = |content| Message { role: Role::User, content };
    assert_eq!(role(results(vec![result(vec![]), result(vec![])])), "tool");
    assert_eq!(role(results(vec![result(vec![])]).pinned()), "tool");
    assert_eq!(role(results(vec![raw("openai", json!({}), Some(result(vec![])))])), "tool");
    assert_eq!(role(results(vec![result(vec![]), ContentBlock::Text("and".into())])), "user");
}

#[test]
fn mark_of_pinned_message_is_omitted() {
    let parts = input_messages(&[Message::user("hi").pinned()]);
    assert_eq!(parts, json!([{ "role": "user", "parts": [{ "type": "text", "content": "hi" }] }]));
}

fn response(message: Message) -> CompletionResponse {
    CompletionResponse {
        id: "msg_1".into(),
        model: "m".into(),
        message,
        usage: TokenUsage::default(),
        stop_reason: StopReason::EndTurn,
    }
}

#[test]
fn response_is_one_message_with_finish_reason() {
    let parts = json!([{ "type": "text", "content": "hi" }]);
    let answer = response(Message::assistant("hi"));
    assert_eq!(
        output_messages(&answer, Some("stop")),
        json!([{ "role": "assistant", "parts": parts, "finish_reason": "stop" }])
    );
    assert_eq!(output_messages(&answer, None), json!([{ "role": "assistant", "parts": parts }]));
    let nothing = response(Message { role: Role::Assistant, content: vec![] });
    assert_eq!(
        output_messages(&nothing, Some("length")),
        json!([{ "role": "assistant", "parts": [], "finish_reason": "length" }])
    );
}

#[test]
fn tools_become_function_definitions() {
    let tool = ToolDefinition {
        name: "add".into(),
        title: Some("Addition".into()),
        description: "Adds".into(),
        input_schema: json!({ "type": "object" }),
        output_schema: None,
        annotations: None,
        cache_control: None,
    };
    assert_eq!(
        tool_definitions(&[tool]),
        json!([{
            "type": "function", "name": "add", "description": "Adds", "parameters": { "type": "object" },
        }])
    );
    assert_eq!(tool_definitions(&[]), json!([]));
}

#[test]
fn structured_result_takes_precedence() {
    let structured =
        |value: Value| ToolOutput { structured_content: Some(value), ..ToolOutput::text("text") };
    assert_eq!(tool_result(&structured(json!({ "sum": 4 }))), json!({ "sum": 4 }));
    assert_eq!(tool_result(&structured(Value::Null)), Value::Null);
    assert_eq!(tool_result(&ToolOutput::text("4")), json!("4"));
    assert_eq!(tool_result(&ToolOutput::error("no")), json!("no"));
    assert_eq!(tool_result(&ToolOutput::default()), json!(""));
}

#[test]
fn huge_conversation_is_serialised_whole() {
    let text = "long ".repeat(1_000_000);
    let mut messages = vec![Message::user(text.clone())];
    let mut nested = ContentBlock::Text("deep".into());
    for _ in 0..100 {
        nested = raw("openai", json!({}), Some(nested));
    }
    messages.resize(1_000, message(Role::Assistant, nested));
    let parts = input_messages(&messages);
    assert_eq!(parts.as_array().unwrap().len(), 1_000);
    assert_eq!(parts[0]["parts"][0]["content"], text);
    assert_eq!(parts[999]["parts"][0], json!({ "type": "text", "content": "deep" }));
    assert_eq!(input_messages(&[]), json!([]));
}

/// Checks that incremental serialisation gives the same text as serialisation of the whole conversation. Several
/// conversations are serialised in turn, with and without keys.
#[test]
fn growing_conversation_equals_whole_serialisation() {
    let messages: Vec<Message> =
        (0..20).map(|number| Message::user(format!("\"{number}\"\n"))).collect();
    let other: Vec<Message> = (0..9).map(|_| Message::assistant("x")).collect();
    let (key, changed) = (HistoryKey::unique(), HistoryKey::unique());
    let mut history = History::default();
    for (messages, key) in [
        (&messages[..0], Some(key)),
        (&messages[..1], Some(key)),
        (&messages[..2], Some(key)),
        (&messages[..9], Some(key)),
        (&messages[..9], Some(key)),
        (&other[..9], None),
        (&other[..9], Some(changed)),
        (&messages[..9], Some(key)),
        (&messages[..3], Some(key)),
        (&messages[..], Some(key)),
        (&[], Some(changed)),
        (&other[..1], None),
        (&messages[..20], Some(key)),
    ] {
        let request = CompletionRequest { messages: messages.to_vec(), ..Default::default() };
        let view = request.view();
        let view = key.map_or(view, |key| view.with_history(key));
        let text = history.input_messages(&view);
        assert_eq!(text, input_messages(messages).to_string());
    }
}
