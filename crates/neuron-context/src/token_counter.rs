//! Estimates of the number of tokens, from the length of texts.

use std::io;

use neuron_types::{
    ContentBlock, ContentItem, ContextError, Message, ModelContent, RequestRef, SystemPrompt,
    ToolDefinition,
};
use serde_json::Value;

/// Default number of characters per token. The value fits English text with GPT and Claude models.
const DEFAULT_CHARS_PER_TOKEN: f64 = 4.0;

/// Estimated number of tokens with which a vendor marks the role of a message.
const TOKENS_PER_MESSAGE: usize = 4;

/// Estimated number of tokens of an image of any size.
const TOKENS_PER_IMAGE: usize = 300;

/// Estimated number of tokens of a document of any size.
const TOKENS_PER_DOCUMENT: usize = 500;

/// Estimates the number of tokens without a tokenizer. The estimate is the length of the text divided by a fixed number
/// of characters per token.
///
/// The length is in UTF-8 bytes. An English text has as many bytes as characters. In some scripts, a character has one
/// or more tokens, and the number of bytes gives a better estimate than the number of characters.
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
    /// Number of UTF-8 bytes per token. Positive and finite.
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
    /// If `chars_per_token` is not a positive number, a warning is logged and the default of four is used. To get an
    /// error instead, use [`try_with_ratio`](Self::try_with_ratio).
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

    /// Estimates the number of tokens of a text, rounded up.
    #[must_use]
    pub fn estimate_text(&self, text: &str) -> usize {
        self.tokens(text.len())
    }

    /// Estimates the number of tokens of a conversation.
    #[must_use]
    pub fn estimate_messages(&self, messages: &[Message]) -> usize {
        total(messages.iter().map(|message| self.estimate_message(message)))
    }

    /// Estimates the number of tokens of one message, which is four for its role plus the tokens of its content.
    #[must_use]
    pub fn estimate_message(&self, message: &Message) -> usize {
        let content = total(message.content.iter().map(|block| self.estimate_block(block)));
        TOKENS_PER_MESSAGE.saturating_add(content)
    }

    /// Estimates the number of tokens of tool definitions. The [deferred tools](RequestRef::deferred_tools) do not count,
    /// although OpenAI sends their names and descriptions to the model if it searches them.
    #[must_use]
    pub fn estimate_tools(&self, tools: &[ToolDefinition]) -> usize {
        total(tools.iter().map(|tool| {
            // Vendors do not receive the title and the options in the schema.
            let texts = tool.name.len() + tool.description.len();
            self.tokens(texts + json_len(&tool.plain_schema()))
        }))
    }

    /// Estimates the number of tokens of a system prompt.
    #[must_use]
    pub fn estimate_system(&self, prompt: &SystemPrompt) -> usize {
        match prompt {
            SystemPrompt::Text(text) => self.estimate_text(text),
            SystemPrompt::Blocks(blocks) => {
                total(blocks.iter().map(|block| self.estimate_text(&block.text)))
            }
        }
    }

    /// Estimates the number of tokens of a whole request, with system prompt, tool definitions and conversation.
    #[must_use]
    pub fn estimate_request(&self, request: RequestRef<'_>) -> usize {
        let messages = self.estimate_messages(request.messages);
        self.estimate_overhead(request).saturating_add(messages)
    }

    /// Estimates the number of tokens of a request's system prompt and tool definitions.
    pub(crate) fn estimate_overhead(&self, request: RequestRef<'_>) -> usize {
        let system = request.system.map_or(0, |prompt| self.estimate_system(prompt));
        system.saturating_add(self.estimate_tools(request.tools))
    }

    /// Estimates the number of tokens of a content block.
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
            // A marker block is never sent to a model.
            block if block.is_mark() => 0,
            ContentBlock::Raw { json, .. } => self.tokens(json_len(json)),
            // The variant is from a newer version of neuron-types. Its text form is the best guess.
            other => self.estimate_text(&other.to_string()),
        }
    }

    /// Estimates the number of tokens of one content item of a tool result.
    fn item(&self, item: &ContentItem) -> usize {
        match item.for_model() {
            ModelContent::Text(text) => self.estimate_text(text),
            ModelContent::Image { .. } | ModelContent::ImageUrl { .. } => TOKENS_PER_IMAGE,
            ModelContent::Pdf { .. } => TOKENS_PER_DOCUMENT,
            // Other items are sent as text. An example is audio, which no provider accepts in tool results.
            _ => self.estimate_text(&item.to_string()),
        }
    }

    /// Converts a length in bytes to tokens, rounded up.
    fn tokens(&self, chars: usize) -> usize {
        (chars as f64 / self.chars_per_token).ceil() as usize
    }
}

impl Default for TokenCounter {
    fn default() -> Self {
        Self::new()
    }
}

/// Sums estimates. The sum saturates, because with a tiny number of characters per token each estimate may be
/// `usize::MAX`.
pub(crate) fn total(estimates: impl Iterator<Item = usize>) -> usize {
    estimates.fold(0, usize::saturating_add)
}

/// Returns the length of a value as JSON in bytes, without allocating the JSON text.
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
