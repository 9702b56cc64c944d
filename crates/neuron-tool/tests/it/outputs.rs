//! `OutputFormatter`.

use neuron_tool::ToolRegistry;
use neuron_tool::builtin::OutputFormatter;
use neuron_types::{ContentItem, ImageSource, ToolOutput};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{registry, run, tool};

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
    // Programs get all of it, and an error stays one.
    assert_eq!((output.structured_content, output.is_error), (Some(json!([1, 2])), true));
}

#[test]
fn texts_are_cut_between_characters_and_images_are_kept() {
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
    // The cut between two texts.
    let notice = "\n[truncated: the first 3 of 4 characters are shown]";
    check(vec![text("abc"), text("d")], 3, vec![text("abc"), text(notice)]);
}

proptest! {
    #[test]
    fn what_is_shown_is_the_beginning(texts in prop::collection::vec("\\PC{0,9}", 0..5), limit in 0_usize..30) {
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
