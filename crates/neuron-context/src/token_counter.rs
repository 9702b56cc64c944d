//! Token estimates from the length of texts.

use std::io;

use neuron_types::{
    ContentBlock, ContentItem, ContextError, Message, ModelContent, RequestRef, SystemPrompt,
    ToolDefinition,
};
use serde_json::Value;

/// Default number of characters per token, which fits English text and the GPT and Claude families.
const DEFAULT_CHARS_PER_TOKEN: f64 = 4.0;

/// Estimated tokens for the role markers of a message.
const TOKENS_PER_MESSAGE: usize = 4;

/// Estimated tokens of an image of any size.
const TOKENS_PER_IMAGE: usize = 300;

/// Estimated tokens of a document of any size.
const TOKENS_PER_DOCUMENT: usize = 500;

/// Estimates tokens without a tokenizer, as the length of a text divided by a number of characters per token.
///
/// Lengths are in UTF-8 bytes. In English they equal characters. In scripts with one or more tokens per character they
/// are more accurate than characters.
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
    /// Creates a counter with four characters per token.
    #[must_use]
    pub fn new() -> Self {
        Self { chars_per_token: DEFAULT_CHARS_PER_TOKEN }
    }

    /// Creates a counter with this number of characters per token.
    ///
    /// If the ratio is not a positive number, a warning is logged and the default is used. For a ratio from a
    /// configuration, use [`try_with_ratio`](Self::try_with_ratio).
    #[must_use]
    pub fn with_ratio(chars_per_token: f32) -> Self {
        Self::try_with_ratio(chars_per_token).unwrap_or_else(|error| {
            tracing::warn!(%error, "counting {DEFAULT_CHARS_PER_TOKEN} characters a token instead");
            Self::new()
        })
    }

    /// Creates a counter with this number of characters per token.
    ///
    /// # Errors
    ///
    /// [`ContextError::InvalidSetting`] if the ratio is not a positive number.
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

    /// Estimates the tokens of one message, which are four for its role plus its content.
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

    /// Estimates the tokens of a whole request, with system prompt, tool definitions and conversation.
    #[must_use]
    pub fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        let messages = self.estimate_messages(request.messages);
        self.estimate_overhead(request).saturating_add(messages)
    }

    /// Estimates the tokens of a request outside of its conversation.
    pub(crate) fn estimate_overhead(&self, request: RequestRef<'_>) -> usize {
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
            // A marker block is not sent.
            block if block.is_mark() => 0,
            ContentBlock::Raw { json, .. } => self.tokens(json_len(json)),
            // A variant of a newer neuron-types, whose text form is the best guess.
            other => self.estimate_text(&other.to_string()),
        }
    }

    fn item(&self, item: &ContentItem) -> usize {
        match item.for_model() {
            ModelContent::Text(text) => self.estimate_text(text),
            ModelContent::Image { .. } | ModelContent::ImageUrl { .. } => TOKENS_PER_IMAGE,
            ModelContent::Pdf { .. } => TOKENS_PER_DOCUMENT,
            // Audio, for example, is sent as a text, because no provider accepts it.
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

/// Sums estimates, saturating, because with a tiny ratio each may be `usize::MAX`.
pub(crate) fn total(estimates: impl Iterator<Item = usize>) -> usize {
    estimates.fold(0, usize::saturating_add)
}

/// Returns the length of a value as JSON, without allocating the text.
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
    // Serialising cannot fail, because all keys of a `Value` are strings.
    serde_json::to_writer(&mut length, value).ok();
    length.0
}

#[cfg(test)]
mod tests;
