//! Prompts, which are messages that a server prepares for a model.

use neuron_types::{ContentItem, Role};

/// A prompt in the list of a server.
///
/// Build it with `..Default::default()`, because fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPrompt {
    /// Name by which the prompt is requested.
    pub name: String,
    /// Display name.
    pub title: Option<String>,
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// Arguments of the prompt.
    pub arguments: Vec<McpPromptArgument>,
}

impl McpPrompt {
    /// Creates a prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// An argument of a prompt. Its value is a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPromptArgument {
    /// Name of the argument.
    pub name: String,
    /// Meaning of the argument.
    pub description: Option<String>,
    /// Set to `true` if the prompt requires the argument.
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpPromptResult {
    /// Purpose of the prompt.
    pub description: Option<String>,
    /// The messages with which a conversation can begin.
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
