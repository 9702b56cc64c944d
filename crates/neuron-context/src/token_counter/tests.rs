//! Tests of the estimates for each kind of content.

use neuron_types::{
    CompletionRequest, DocumentSource, EmbeddedResource, ImageSource, ResourceLink, Role,
    SystemBlock,
};
use serde_json::json;

use super::*;
use crate::calibrated_estimate::CalibratedEstimate;

#[track_caller]
fn check(block: ContentBlock, expected: usize) {
    let message = Message { role: Role::Assistant, content: vec![block] };
    let estimate = TokenCounter::new().estimate_messages(&[message]);
    assert_eq!(estimate, TOKENS_PER_MESSAGE + expected);
}

#[test]
fn each_kind_of_block_has_an_estimate() {
    let image = || ImageSource::Url { url: "https://example.com/a.png".into() };
    check(ContentBlock::Text(String::new()), 0);
    check(ContentBlock::Text("12345".into()), 2);
    check(ContentBlock::Text("日本".into()), 2);
    check(ContentBlock::Thinking { thinking: "12345678".into(), signature: "s".repeat(99) }, 2);
    check(ContentBlock::RedactedThinking { data: "1234".into() }, 1);
    let input = json!({ "a": 1 });
    assert_eq!(json_len(&input), 7);
    check(ContentBlock::ToolUse { id: "i".repeat(99), name: "t".into(), input }, 2);
    check(
        ContentBlock::ToolResult {
            tool_use_id: "i".repeat(99),
            content: vec![ContentItem::Text("1234".into()), ContentItem::Image { source: image() }],
            is_error: false,
        },
        301,
    );
    check(ContentBlock::Image { source: image() }, 300);
    let source = DocumentSource::PlainText { data: "x".repeat(9999) };
    check(ContentBlock::Document { source }, 500);
    check(ContentBlock::Compaction { content: "1234".into() }, 1);
}

#[test]
fn result_items_count_in_their_sent_form() {
    let check = |item, expected| {
        let tool_use_id = "c1".to_owned();
        check(
            ContentBlock::ToolResult { tool_use_id, content: vec![item], is_error: false },
            expected,
        );
    };
    let resource = |resource| ContentItem::Resource { resource };
    let bytes = || "aGkh".repeat(9999);
    let blob = |mime_type: &str| {
        resource(EmbeddedResource::blob("a:b", bytes()).with_mime_type(mime_type))
    };
    check(ContentItem::Audio { media_type: "audio/wav".into(), data: bytes() }, 5);
    check(resource(EmbeddedResource::text("a:b", "x".repeat(400))), 104);
    check(blob("image/png"), 300);
    check(blob("image/tiff"), 7);
    check(blob("application/pdf"), 500);
    check(ContentItem::ResourceLink { resource: ResourceLink::new("a:b", "name") }, 7);
    let source = ImageSource::Base64 { media_type: "image/png".into(), data: bytes() };
    check(ContentItem::Image { source }, 300);
}

fn tool() -> ToolDefinition {
    ToolDefinition {
        name: "ab".into(),
        title: Some("not sent".into()),
        description: "cd".into(),
        input_schema: json!({}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

#[test]
fn tools_count_name_description_and_schema() {
    assert_eq!(TokenCounter::new().estimate_tools(&[tool(), tool()]), 4);
}

#[test]
fn pin_has_no_tokens() {
    let message = Message::user("12345678");
    let counter = TokenCounter::new();
    assert_eq!(counter.estimate_message(&message), 6);
    assert_eq!(counter.estimate_message(&message.pinned()), 6);
}

#[test]
fn request_counts_system_prompt_and_tools() {
    let counter = TokenCounter::new();
    let block = |text: &str| SystemBlock { text: text.into(), cache_control: None };
    let request = CompletionRequest {
        messages: vec![Message::user("12345678")],
        system: Some(SystemPrompt::Blocks(vec![block("1234"), block("12345")])),
        tools: vec![tool()],
        ..Default::default()
    };
    assert_eq!(counter.estimate_request(request.view()), (4 + 2) + (1 + 2) + 2);
    assert_eq!(counter.estimate_system(&"12345".into()), 2);
    assert_eq!(counter.estimate_request(CompletionRequest::default().view()), 0);
}

#[test]
fn invalid_ratio_is_refused() {
    for ratio in [0.0, -0.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let error = TokenCounter::try_with_ratio(ratio).unwrap_err();
        let ContextError::InvalidSetting(text) = error else { panic!("{error}") };
        assert_eq!(
            text,
            format!("characters for each token must be a positive number, not {ratio}")
        );
        assert_eq!(TokenCounter::with_ratio(ratio), TokenCounter::new());
    }
    assert_eq!(TokenCounter::try_with_ratio(f32::MIN_POSITIVE).unwrap().estimate_text(""), 0);
}

/// Checks that the sum of estimates that are already `usize::MAX` saturates and does not overflow.
#[test]
fn tiny_ratio_saturates() {
    let counter = TokenCounter::try_with_ratio(f32::MIN_POSITIVE).unwrap();
    let block = SystemBlock { text: "rules".into(), cache_control: None };
    let result = ContentBlock::ToolResult {
        tool_use_id: "i".into(),
        content: vec![ContentItem::Text("a".into()), ContentItem::Text("b".into())],
        is_error: false,
    };
    let talk = Message { role: Role::User, content: vec![result, ContentBlock::Text("c".into())] };
    let request = CompletionRequest {
        messages: vec![talk.clone(), talk],
        system: Some(SystemPrompt::Blocks(vec![block.clone(), block])),
        tools: vec![tool(), tool()],
        ..Default::default()
    };
    assert_eq!(counter.estimate_request(request.view()), usize::MAX);
    assert_eq!(CalibratedEstimate::new(&counter, request.view(), 9).tokens(&request.messages), 9);
}
