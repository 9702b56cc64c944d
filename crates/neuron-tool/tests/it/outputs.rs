//! Tests of `OutputFormatter` and of the maximum length of all results.

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::OutputFormatter;
use neuron_types::{
    ContentItem, EmbeddedResource, ImageSource, ResourceLink, ToolError, ToolOutput,
    UncertainEffect,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{registry, run, shown, tool};

fn text(text: &str) -> ContentItem {
    ContentItem::Text(text.into())
}

fn image() -> ContentItem {
    ContentItem::Image { source: ImageSource::Url { url: "https://a/b.png".into() } }
}

fn with_limit(output: ToolOutput, limit: usize) -> ToolRegistry {
    let mut registry = registry([tool("t", move |_| Ok(output.clone()))]);
    registry.add_middleware(OutputFormatter::new(limit));
    registry
}

#[track_caller]
fn check(content: Vec<ContentItem>, limit: usize, expected: Vec<ContentItem>) {
    let output = ToolOutput { content, structured_content: Some(json!([1, 2])), is_error: true };
    let registry = with_limit(output, limit);
    let run = run(&registry, "t", json!({}));
    let output = futures_util::FutureExt::now_or_never(run).unwrap().unwrap();
    assert_eq!(output.content, expected);
    // The structured content is not truncated, and the error flag is kept.
    assert_eq!((output.structured_content, output.is_error), (Some(json!([1, 2])), true));
}

#[test]
fn texts_are_truncated_at_characters_and_images_are_kept() {
    check(vec![text("äöü")], 3, vec![text("äöü")]);
    let notice = "äö\n[truncated: the first 2 of 3 characters are shown]";
    check(vec![text("äöü")], 2, vec![text(notice)]);
    let notice = "\n[truncated: the first 0 of 3 characters are shown]";
    check(vec![text("äöü")], 0, vec![text(notice)]);
    check(vec![], 0, vec![]);
    check(vec![image()], 0, vec![image()]);
    let notice = "d\n[truncated: the first 4 of 9 characters are shown]";
    check(
        vec![text("abc"), image(), text("def"), image(), text("ghi")],
        4,
        vec![text("abc"), image(), text(notice), image()],
    );
    // The limit is at the end of the first of two texts.
    let notice = "\n[truncated: the first 3 of 4 characters are shown]";
    check(vec![text("abc"), text("d")], 3, vec![text("abc"), text(notice)]);
}

#[test]
fn text_resources_and_links_count_as_text() {
    let resource = |text: &str| ContentItem::Resource {
        resource: EmbeddedResource::text("a:b", text).with_mime_type("text/plain"),
    };
    let bytes = || ContentItem::Resource { resource: EmbeddedResource::blob("a:b", "aGk=") };
    let sound = || ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() };
    let link = || ContentItem::ResourceLink { resource: ResourceLink::new("a:b", "b") };
    let empty = || ContentItem::Resource { resource: EmbeddedResource::default() };
    let whole = vec![resource("0123"), bytes(), link(), empty(), sound()];
    // The lengths of `[resource a:b]` with a line feed and the text, `[link to resource a:b: b]`, and `[resource ]`.
    check(whole.clone(), 19 + 25 + 11, whole.clone());
    let notice = "[resour\n[truncated: the first 51 of 55 characters are shown]";
    check(whole.clone(), 51, vec![resource("0123"), bytes(), link(), text(notice), sound()]);
    let notice = "[link to\n[truncated: the first 27 of 55 characters are shown]";
    check(whole.clone(), 27, vec![resource("0123"), bytes(), text(notice), sound()]);
    let notice = "[resource a:b]\n01\n[truncated: the first 17 of 55 characters are shown]";
    check(whole.clone(), 17, vec![text(notice), bytes(), sound()]);
    check(vec![bytes(), sound()], 0, vec![bytes(), sound()]);
}

/// Returns an error of each variant that has a text.
fn errors(text: &str) -> [ToolError; 7] {
    let text = || text.to_owned();
    [
        ToolError::NotFound(text()),
        ToolError::InvalidInput(text()),
        ToolError::ExecutionFailed(text().into()),
        ToolError::ExecutionFailed(Box::new(UncertainEffect(text()))),
        ToolError::PermissionDenied(text()),
        ToolError::ModelRetry(text()),
        ToolError::HookTerminated(text()),
    ]
}

#[tokio::test]
async fn errors_are_truncated_and_keep_their_kind() {
    for index in 0..errors("").len() {
        let error = move |text: &str| errors(text).into_iter().nth(index).unwrap();
        let mut registry = registry([tool("t", move |_| Err(error("äöü")))]);
        registry.add_middleware(OutputFormatter::new(2));
        let found = run(&registry, "t", json!({})).await.unwrap_err();
        let expected = error("äö\n[truncated: the first 2 of 3 characters are shown]");
        assert_eq!(found.to_string(), expected.to_string());
        assert_eq!(
            (found.kind(), found.is_uncertain()),
            (expected.kind(), expected.is_uncertain())
        );
    }
}

#[tokio::test]
async fn all_results_have_a_maximum_length() {
    const MOST: usize = 200_000;
    let output = tool("output", |_| Ok(ToolOutput::text("x".repeat(MOST + 1))));
    let error = tool("error", |_| Err(ToolError::ExecutionFailed("x".repeat(MOST + 1).into())));
    let whole = tool("whole", |_| Ok(ToolOutput::text("x".repeat(MOST))));
    let inner = registry([output, error, whole]);
    let mut merged = ToolRegistry::new();
    merged.merge_prefixed("in_", inner.clone()).unwrap();
    for (registry, prefix) in [(inner, ""), (merged, "in_")] {
        for name in ["output", "error"] {
            let name = format!("{prefix}{name}");
            let text = shown(&run(&registry, &name, json!({})).await);
            let notice = "x\n[truncated: the first 200000 of 200001 characters are shown]";
            assert!(text.len() < MOST + 200 && text.ends_with(notice), "{name}");
            let mut raised = registry.clone();
            raised.set_max_output_characters(usize::MAX);
            let text = shown(&run(&raised, &name, json!({})).await);
            assert!(text.len() > MOST && text.ends_with('x'), "{name}");
        }
        let text = shown(&run(&registry, &format!("{prefix}whole"), json!({})).await);
        assert_eq!(text.len(), MOST);
    }
}

proptest! {
    #[test]
    fn truncated_output_is_a_prefix(texts in prop::collection::vec("\\PC{0,9}", 0..5), limit in 0_usize..30) {
        let content = texts.iter().map(|text| ContentItem::Text(text.clone())).collect();
        let registry = with_limit(ToolOutput { content, ..ToolOutput::default() }, limit);
        let run = run(&registry, "t", json!({}));
        let output = futures_util::FutureExt::now_or_never(run).unwrap().unwrap();
        let shown: String = output.content.iter().map(ContentItem::to_string).collect();
        let all = texts.concat();
        if all.chars().count() <= limit {
            prop_assert_eq!(shown, all);
        } else {
            let first: String = all.chars().take(limit).collect();
            let count = all.chars().count();
            let notice = format!("\n[truncated: the first {limit} of {count} characters are shown]");
            prop_assert_eq!(shown, first + &notice);
        }
    }
}
