//! Estimates of tokens from the length of texts.

use std::io;

use neuron_types::{ContentBlock, ContentItem, Message, ToolDefinition};
use serde_json::Value;

/// Characters for each token, by default: about right for English in the GPT and Claude families.
const DEFAULT_CHARS_PER_TOKEN: f64 = 4.0;

/// What the role markers of a message take.
const TOKENS_PER_MESSAGE: usize = 4;

/// An image, whatever its size.
const TOKENS_PER_IMAGE: usize = 300;

/// A document, whatever its size.
const TOKENS_PER_DOCUMENT: usize = 500;

/// Estimates tokens without a tokenizer: the length of a text over a number of characters for each
/// token.
///
/// Lengths are counted in bytes of UTF-8: the same as characters in English, and closer to the
/// truth in scripts where one character takes a token or more.
///
/// # Example
///
/// ```
/// use neuron_context::TokenCounter;
///
/// assert_eq!(TokenCounter::new().estimate_text("Hello, world!"), 4);
/// assert_eq!(TokenCounter::with_ratio(2.0).estimate_text("Hello, world!"), 7);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct TokenCounter {
    chars_per_token: f64,
}

impl TokenCounter {
    /// Counts four characters a token.
    #[must_use]
    pub fn new() -> Self {
        Self { chars_per_token: DEFAULT_CHARS_PER_TOKEN }
    }

    /// Counts so many characters a token. A ratio that is not a positive number makes no sense and
    /// gives the default.
    #[must_use]
    pub fn with_ratio(chars_per_token: f32) -> Self {
        if chars_per_token.is_finite() && chars_per_token > 0.0 {
            Self { chars_per_token: f64::from(chars_per_token) }
        } else {
            Self::new()
        }
    }

    /// Estimates the tokens of a text, rounded up.
    #[must_use]
    pub fn estimate_text(&self, text: &str) -> usize {
        self.tokens(text.len())
    }

    /// Estimates the tokens of a conversation.
    #[must_use]
    pub fn estimate_messages(&self, messages: &[Message]) -> usize {
        messages.iter().map(|message| self.estimate_message(message)).sum()
    }

    /// Estimates the tokens of one message: four for its role, and its content.
    #[must_use]
    pub fn estimate_message(&self, message: &Message) -> usize {
        let content: usize = message.content.iter().map(|block| self.block(block)).sum();
        TOKENS_PER_MESSAGE + content
    }

    /// Estimates the tokens of tool definitions.
    #[must_use]
    pub fn estimate_tools(&self, tools: &[ToolDefinition]) -> usize {
        tools
            .iter()
            .map(|tool| {
                let texts = tool.name.len() + tool.description.len();
                self.tokens(texts + json_len(&tool.input_schema))
            })
            .sum()
    }

    fn block(&self, block: &ContentBlock) -> usize {
        match block {
            ContentBlock::Text(text) => self.estimate_text(text),
            ContentBlock::Thinking { thinking, .. } => self.estimate_text(thinking),
            ContentBlock::RedactedThinking { data } => self.estimate_text(data),
            ContentBlock::ToolUse { name, input, .. } => self.tokens(name.len() + json_len(input)),
            ContentBlock::ToolResult { content, .. } => {
                content.iter().map(|item| self.item(item)).sum()
            }
            ContentBlock::Image { .. } => TOKENS_PER_IMAGE,
            ContentBlock::Document { .. } => TOKENS_PER_DOCUMENT,
            ContentBlock::Compaction { content } => self.estimate_text(content),
            ContentBlock::Raw { json, .. } => self.tokens(json_len(json)),
            // A kind that a newer neuron-types knows; its text form is the best guess.
            other => self.estimate_text(&other.to_string()),
        }
    }

    fn item(&self, item: &ContentItem) -> usize {
        match item {
            ContentItem::Text(text) => self.estimate_text(text),
            ContentItem::Image { .. } => TOKENS_PER_IMAGE,
            other => self.estimate_text(&other.to_string()),
        }
    }

    fn tokens(&self, chars: usize) -> usize {
        (chars as f64 / self.chars_per_token).ceil() as usize
    }
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// The length of a value as JSON text, without making the text.
fn json_len(value: &Value) -> usize {
    struct Length(usize);

    impl io::Write for Length {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut length = Length(0);
    // A `Value` has only string keys, so this cannot fail; if it did, the length so far stands.
    serde_json::to_writer(&mut length, value).ok();
    length.0
}

#[cfg(test)]
mod tests {
    use neuron_types::{DocumentSource, ImageSource, Role};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(block: ContentBlock, expected: usize) {
        let message = Message { role: Role::Assistant, content: vec![block] };
        let estimate = TokenCounter::new().estimate_messages(&[message]);
        assert_eq!(estimate, TOKENS_PER_MESSAGE + expected);
    }

    #[test]
    fn each_kind_of_block_has_its_estimate() {
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
                content: vec![
                    ContentItem::Text("1234".into()),
                    ContentItem::Image { source: image() },
                ],
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
    fn tools_count_their_name_description_and_schema() {
        let tool = ToolDefinition {
            name: "ab".into(),
            title: Some("not sent".into()),
            description: "cd".into(),
            input_schema: json!({}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        };
        assert_eq!(TokenCounter::new().estimate_tools(&[tool.clone(), tool]), 4);
    }

    #[test]
    fn a_ratio_that_makes_no_sense_gives_the_default() {
        for ratio in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(TokenCounter::with_ratio(ratio), TokenCounter::new());
        }
    }
}
