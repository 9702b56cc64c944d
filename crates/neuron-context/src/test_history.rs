//! Histories for tests from a short notation.

use neuron_types::{ContentBlock, ContentItem, Message, Role};
use proptest::prelude::*;
use serde_json::json;

use crate::history::SUMMARY_PREFIX;

/// Builds a history from a notation with one letter per message. `s` is system, `u` user, `a` assistant, `c` a tool
/// call, `r` its result, `z` a summary. Capital letters are pinned.
pub(crate) fn history(letters: &str) -> Vec<Message> {
    let message = |(index, letter): (usize, char)| {
        let message = plain(index, letter.to_ascii_lowercase());
        if letter.is_uppercase() { message.pinned() } else { message }
    };
    letters.chars().enumerate().map(message).collect()
}

fn plain(index: usize, letter: char) -> Message {
    let text =
        |role| Message { role, content: vec![ContentBlock::Text(format!("{letter}{index}"))] };
    match letter {
        's' => text(Role::System),
        'u' => text(Role::User),
        'a' => text(Role::Assistant),
        'z' => Message::user(format!("{SUMMARY_PREFIX}\nsummary {index}")),
        'c' => Message {
            role: Role::Assistant,
            content: vec![ContentBlock::ToolUse {
                id: "id".into(),
                name: "tool".into(),
                input: json!({ "index": index }),
            }],
        },
        _ => Message {
            role: Role::User,
            content: vec![ContentBlock::ToolResult {
                tool_use_id: "id".into(),
                content: vec![ContentItem::Text(format!("result {index}"))],
                is_error: false,
            }],
        },
    }
}

/// Generates any valid history in the notation of [`history`].
pub(crate) fn letters() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec![
            "u", "a", "cr", "crcr", "s", "ua", "U", "A", "Cr", "cR", "z", "Z", "acr",
        ]),
        0..12,
    )
    .prop_map(|parts| format!("u{}", parts.concat()))
}
