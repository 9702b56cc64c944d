//! Prompts, which are messages that a server provides.

use neuron_types::{ContentItem, Role};

/// A prompt that a server offers.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPrompt {
    /// Name by which the prompt is requested.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// Arguments of the prompt.
    pub arguments: Vec<McpPromptArgument>,
}

impl McpPrompt {
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// An argument of a prompt. It is text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPromptArgument {
    /// Its name.
    pub name: String,
    /// Meaning of the argument.
    pub description: Option<String>,
    /// True if the prompt requires the argument.
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpPromptResult {
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// The conversation to begin with.
    pub messages: Vec<McpPromptMessage>,
}

/// A message of a prompt, with one item of content.
#[derive(Debug, Clone, PartialEq)]
pub struct McpPromptMessage {
    /// Author of the message, the user or the assistant.
    pub role: Role,
    /// Content of the message.
    pub content: ContentItem,
}

impl McpPromptMessage {
    /// Creates a message of the user.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: ContentItem::Text(text.into()) }
    }

    /// Creates a message of the assistant.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: ContentItem::Text(text.into()) }
    }
}
