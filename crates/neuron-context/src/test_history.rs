//! A short notation for the histories in tests.

use neuron_types::{ContentBlock, ContentItem, Message, Role};
use proptest::prelude::*;
use serde_json::json;

use crate::history::SUMMARY_PREFIX;

/// Builds a history from a text with one letter per message. `s` is a system message, `u` a user message, `a` an
/// assistant message, `c` a tool call, `r` a tool result, and `z` a summary. A capital letter is a pinned message.
pub(crate) fn history(letters: &str) -> Vec<Message> {
    let message = |(index, letter): (usize, char)| {
        let message = plain(index, letter.to_ascii_lowercase());
        if letter.is_uppercase() { message.pinned() } else { message }
    };
    letters.chars().enumerate().map(message).collect()
}

/// Builds the message that `letter` stands for in the notation of [`history`]. The message is not pinned. Its content
/// includes `index`, so that all messages differ.
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

/// Generates valid histories in the notation of [`history`].
pub(crate) fn letters() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec![
            "u", "a", "cr", "crcr", "s", "ua", "U", "A", "Cr", "cR", "z", "Z", "acr",
        ]),
        0..12,
    )
    .prop_map(|parts| format!("u{}", parts.concat()))
}
