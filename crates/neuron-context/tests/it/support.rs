//! A short notation for histories, and a scripted strategy.

use neuron_context::TokenCounter;
use neuron_types::{
    CompletionRequest, ContentBlock, ContentItem, ContextError, ContextStrategy, Message, Role,
    TokenUsage,
};
use serde_json::json;

pub(crate) const SUMMARY: &str = "[Summary of earlier conversation]";
pub(crate) const CLEARED: &str = "[tool result cleared]";

/// Builds a history from a text with one letter per message. `s` is a system message, `u` a user message, `a` an
/// assistant message, `c` a message with two tool calls, `r` a message with their results, and `z` a summary. A capital
/// letter is a pinned message.
pub(crate) fn history(letters: &str) -> Vec<Message> {
    let message = |(index, letter): (usize, char)| {
        let message = plain(index, letter.to_ascii_lowercase());
        if letter.is_uppercase() { message.pinned() } else { message }
    };
    letters.chars().enumerate().map(message).collect()
}

/// The end of each text of a [`long_history`]. [`short`] omits it.
pub(crate) const REST: &str =
    ", and so on for longer than any mark that a compaction leaves behind";

/// Builds a [`history`] whose texts are longer than the mark of a cleared result and than a summary.
pub(crate) fn long_history(letters: &str) -> Vec<Message> {
    let mut messages = history(letters);
    let is_long = |message: &&mut Message| message.role != Role::System;
    for block in messages.iter_mut().filter(is_long).flat_map(|message| &mut message.content) {
        match block {
            ContentBlock::Text(text) => text.push_str(REST),
            ContentBlock::ToolResult { content, .. } => {
                content.push(ContentItem::Text(REST.into()))
            }
            _ => {}
        }
    }
    messages
}

fn plain(index: usize, letter: char) -> Message {
    match letter {
        's' => Message::system(format!("s{index}")),
        'u' => Message::user(format!("u{index}")),
        'a' => Message::assistant(format!("a{index}")),
        'z' => Message::user(format!("{SUMMARY}\nz{index}")),
        'c' => {
            Message { role: Role::Assistant, content: ["x", "y"].map(|id| call(id, index)).into() }
        }
        _ => Message {
            role: Role::User,
            content: ["x", "y"].map(|id| result(id, format!("r{index}"))).into(),
        },
    }
}

pub(crate) fn call(id: &str, index: usize) -> ContentBlock {
    let input = json!({ "index": index });
    ContentBlock::ToolUse { id: id.into(), name: "look".into(), input }
}

pub(crate) fn result(id: &str, text: impl Into<String>) -> ContentBlock {
    ContentBlock::ToolResult {
        tool_use_id: id.into(),
        content: vec![ContentItem::Text(text.into())],
        is_error: id == "y",
    }
}

/// Formats a history for comparisons, with a space between messages. A tool call becomes `c` and its id, a cleared
/// result becomes `-`, and the prefix of a summary becomes `=`. All other content is shown as its text.
pub(crate) fn short(messages: &[Message]) -> String {
    let message = |message: &Message| {
        let block = |block: &ContentBlock| match block {
            ContentBlock::ToolUse { id, .. } => format!("c{id}"),
            ContentBlock::ToolResult { content, .. } => content[0].to_string(),
            other => other.to_string(),
        };
        let text: String = message.content.iter().map(block).collect::<Vec<_>>().join("");
        text.replace(REST, "").replace(CLEARED, "-").replace(&format!("{SUMMARY}\n"), "=")
    };
    messages.iter().map(message).collect::<Vec<_>>().join(" ")
}

/// A strategy whose compaction applies the function `how`, and reports that it used `tokens` tokens.
pub(crate) struct Scripted {
    pub(crate) how: fn(Vec<Message>) -> Result<Vec<Message>, ContextError>,
    pub(crate) tokens: usize,
}

impl ContextStrategy for Scripted {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        (self.how)(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        TokenCounter::new().estimate_messages(messages)
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        let usage = TokenUsage { output_tokens: self.tokens, ..Default::default() };
        Ok(((self.how)(messages)?, usage))
    }
}

pub(crate) fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest { messages, ..Default::default() }
}
