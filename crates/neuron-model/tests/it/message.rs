//! Tests of the `Display` text of messages, and of the field `portable` of `ContentBlock::Raw`. This field is the block
//! that all other providers send.

use neuron_model::{
    ContentBlock, ContentItem, DocumentSource, EmbeddedResource, ImageSource, Message,
    ResourceLink, Role, SystemBlock, SystemPrompt,
};
use serde_json::json;

fn raw(portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw {
        provider: "anthropic".into(),
        json: json!({ "type": "new" }),
        portable: portable.map(Box::new),
    }
}

fn call(id: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: "search".into(), input: json!({ "q": 1 }) }
}

fn image() -> ImageSource {
    ImageSource::Url { url: "https://a/b.png".into() }
}

#[test]
fn blocks_display_text_or_a_short_form() {
    #[track_caller]
    fn check(block: ContentBlock, text: &str) {
        assert_eq!(block.to_string(), text);
    }
    check(ContentBlock::Text("as it is\n".into()), "as it is\n");
    let (thinking, signature) = ("Hm.".into(), "s".into());
    let thinking = ContentBlock::Thinking { thinking, signature };
    check(thinking, "[thinking]");
    let data = "opaque".into();
    check(ContentBlock::RedactedThinking { data }, "[thinking]");
    check(call("c1"), r#"[tool call c1: search {"q":1}]"#);
    let result = |is_error| ContentBlock::ToolResult {
        tool_use_id: "c1".into(),
        content: vec![ContentItem::Text("22".into()), ContentItem::Image { source: image() }],
        is_error,
    };
    check(result(false), "[tool result c1: 22 [image]]");
    check(result(true), "[tool error c1: 22 [image]]");
    check(ContentBlock::Image { source: image() }, "[image]");
    let source = DocumentSource::PlainText { data: "d".into() };
    check(ContentBlock::Document { source }, "[document]");
    let content = "so far".into();
    check(ContentBlock::Compaction { content }, "[summary of the conversation so far]");
    check(raw(None), "[anthropic block]");
    check(raw(Some(call("c2"))), r#"[tool call c2: search {"q":1}]"#);
}

#[test]
fn result_items_display_a_text_form() {
    #[track_caller]
    fn check(item: ContentItem, text: &str) {
        assert_eq!(item.to_string(), text);
    }
    let resource = |resource| ContentItem::Resource { resource };
    let link = |resource| ContentItem::ResourceLink { resource };
    check(ContentItem::Text("as it is\n".into()), "as it is\n");
    check(ContentItem::Image { source: image() }, "[image]");
    let (media_type, data) = ("audio/wav".into(), "UklGRg==".into());
    check(ContentItem::Audio { media_type, data }, "[audio, audio/wav]");
    let text = EmbeddedResource::text("file:///a.txt", "hi\n").with_mime_type("text/plain");
    check(resource(text), "[resource file:///a.txt]\nhi\n");
    let blob = EmbeddedResource::blob("file:///a.gz", "H4sI");
    check(resource(blob.clone()), "[resource file:///a.gz]");
    let zipped = blob.with_mime_type("application/gzip");
    check(resource(zipped), "[resource file:///a.gz, application/gzip]");
    let plain = ResourceLink::new("file:///a.txt", "a");
    check(link(plain.clone()), "[link to resource file:///a.txt: a]");
    let described = ResourceLink {
        title: Some("A".into()),
        description: Some("the first".into()),
        mime_type: Some("text/plain".into()),
        size: Some(1),
        ..plain
    };
    check(link(described), "[link to resource file:///a.txt: A, the first, text/plain]");
}

#[test]
fn text_and_calls_include_provider_blocks() {
    let message = Message {
        role: Role::Assistant,
        content: vec![
            ContentBlock::Text("It is ".into()),
            call("c1"),
            raw(Some(ContentBlock::Text("sunny".into()))),
            raw(None),
            ContentBlock::Text(".".into()),
            raw(Some(call("c2"))),
        ],
    };
    assert_eq!(message.text(), "It is sunny.");
    let ids: Vec<_> = message.tool_uses().map(|call| call.id).collect();
    assert_eq!(ids, ["c1", "c2"]);
    assert_eq!(raw(None).portable(), None);
}

#[test]
fn portable_block_can_be_changed_in_place() {
    for mut block in [call("c1"), raw(Some(call("c1")))] {
        let Some(ContentBlock::ToolUse { id, .. }) = block.portable_mut() else {
            panic!("{block}")
        };
        *id = "c2".into();
        assert_eq!(block.as_tool_use().unwrap().id, "c2");
    }
    assert_eq!(raw(None).portable_mut(), None);
}

#[test]
fn system_prompt_without_text_is_empty() {
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    for (prompt, is_empty) in [
        (SystemPrompt::default(), true),
        (SystemPrompt::from("text"), false),
        (SystemPrompt::from(String::new()), true),
        (SystemPrompt::from(vec![]), true),
        (SystemPrompt::from(vec![block(""), block("")]), true),
        (SystemPrompt::from(vec![block(""), block("text")]), false),
    ] {
        assert_eq!(prompt.is_empty(), is_empty, "{prompt:?}");
    }
}
