//! Estimates of tokens from the length of texts.

use std::io;

use neuron_types::{
    ContentBlock, ContentItem, ContextError, Message, ModelContent, RequestRef, SystemPrompt,
    ToolDefinition,
};
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

    /// Counts so many characters a token.
    ///
    /// A ratio that is not a positive number is refused: a warning is logged, and the default counts.
    /// For a ratio that comes from a configuration use [`try_with_ratio`](Self::try_with_ratio).
    #[must_use]
    pub fn with_ratio(chars_per_token: f32) -> Self {
        Self::try_with_ratio(chars_per_token).unwrap_or_else(|error| {
            tracing::warn!(%error, "counting {DEFAULT_CHARS_PER_TOKEN} characters a token instead");
            Self::new()
        })
    }

    /// Counts so many characters a token.
    ///
    /// # Errors
    ///
    /// [`ContextError::InvalidSetting`] for a ratio that is not a positive number.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_context::TokenCounter;
    ///
    /// assert!(TokenCounter::try_with_ratio(3.5).is_ok());
    /// let error = TokenCounter::try_with_ratio(0.0).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "invalid setting: characters for each token must be a positive number, not 0"
    /// );
    /// ```
    pub fn try_with_ratio(chars_per_token: f32) -> Result<Self, ContextError> {
        if chars_per_token.is_finite() && chars_per_token > 0.0 {
            Ok(Self { chars_per_token: f64::from(chars_per_token) })
        } else {
            Err(ContextError::InvalidSetting(format!(
                "characters for each token must be a positive number, not {chars_per_token}"
            )))
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
        total(messages.iter().map(|message| self.estimate_message(message)))
    }

    /// Estimates the tokens of one message: four for its role, and its content.
    #[must_use]
    pub fn estimate_message(&self, message: &Message) -> usize {
        let content = total(message.content.iter().map(|block| self.estimate_block(block)));
        TOKENS_PER_MESSAGE.saturating_add(content)
    }

    /// Estimates the tokens of tool definitions.
    #[must_use]
    pub fn estimate_tools(&self, tools: &[ToolDefinition]) -> usize {
        total(tools.iter().map(|tool| {
            let texts = tool.name.len() + tool.description.len();
            self.tokens(texts + json_len(&tool.plain_schema()))
        }))
    }

    /// Estimates the tokens of a system prompt.
    #[must_use]
    pub fn estimate_system(&self, prompt: &SystemPrompt) -> usize {
        match prompt {
            SystemPrompt::Text(text) => self.estimate_text(text),
            SystemPrompt::Blocks(blocks) => {
                total(blocks.iter().map(|block| self.estimate_text(&block.text)))
            }
        }
    }

    /// Estimates the tokens of all that a request sends: system prompt, tool definitions and
    /// conversation.
    #[must_use]
    pub fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        let messages = self.estimate_messages(request.messages);
        self.estimate_surroundings(request).saturating_add(messages)
    }

    /// Estimates what a request sends beside its conversation.
    pub(crate) fn estimate_surroundings(&self, request: RequestRef<'_>) -> usize {
        let system = request.system.map_or(0, |prompt| self.estimate_system(prompt));
        system.saturating_add(self.estimate_tools(request.tools))
    }

    pub(crate) fn estimate_block(&self, block: &ContentBlock) -> usize {
        match block {
            ContentBlock::Text(text) => self.estimate_text(text),
            ContentBlock::Thinking { thinking, .. } => self.estimate_text(thinking),
            ContentBlock::RedactedThinking { data } => self.estimate_text(data),
            ContentBlock::ToolUse { name, input, .. } => self.tokens(name.len() + json_len(input)),
            ContentBlock::ToolResult { content, .. } => {
                total(content.iter().map(|item| self.item(item)))
            }
            ContentBlock::Image { .. } => TOKENS_PER_IMAGE,
            ContentBlock::Document { .. } => TOKENS_PER_DOCUMENT,
            ContentBlock::Compaction { content } => self.estimate_text(content),
            // A mark that is not sent.
            block if block.is_mark() => 0,
            ContentBlock::Raw { json, .. } => self.tokens(json_len(json)),
            // A kind that a newer neuron-types knows; its text form is the best guess.
            other => self.estimate_text(&other.to_string()),
        }
    }

    fn item(&self, item: &ContentItem) -> usize {
        match item.for_model() {
            ModelContent::Text(text) => self.estimate_text(text),
            ModelContent::Image { .. } | ModelContent::ImageUrl { .. } => TOKENS_PER_IMAGE,
            ModelContent::Pdf { .. } => TOKENS_PER_DOCUMENT,
            // Sound for instance, whose bytes no provider sends.
            _ => self.estimate_text(&item.to_string()),
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

/// The sum of estimates; saturates, because with a tiny ratio each may be as large as numbers go.
pub(crate) fn total(estimates: impl Iterator<Item = usize>) -> usize {
    estimates.fold(0, usize::saturating_add)
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
mod tests;
