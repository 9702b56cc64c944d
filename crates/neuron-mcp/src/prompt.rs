//! Prompts: messages that a server has ready.

use neuron_types::{ContentItem, Role};

/// A prompt that a server offers.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPrompt {
    /// What it is asked for by.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it can be filled with.
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
    /// What it means.
    pub description: Option<String>,
    /// Whether the prompt cannot do without.
    pub required: bool,
}

/// A prompt with its arguments filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpPromptResult {
    /// What it is for.
    pub description: Option<String>,
    /// The conversation to begin with.
    pub messages: Vec<McpPromptMessage>,
}

/// A message of a prompt: one piece of content.
#[derive(Debug, Clone, PartialEq)]
pub struct McpPromptMessage {
    /// Who says it: the user or the assistant.
    pub role: Role,
    /// What is said.
    pub content: ContentItem,
}

impl McpPromptMessage {
    /// What the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: ContentItem::Text(text.into()) }
    }

    /// What the assistant says.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, content: ContentItem::Text(text.into()) }
    }
}
