//! The request for a model and its options.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::text_field;
use crate::{Message, ToolDefinition};

/// A request for a model.
///
/// # Example
///
/// ```
/// use neuron_types::{CompletionRequest, Message};
///
/// let request = CompletionRequest {
///     messages: vec![Message::user("What is Rust?")],
///     max_tokens: Some(256),
///     ..Default::default()
/// };
/// assert!(request.model.is_empty(), "empty: the provider's default model");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CompletionRequest {
    /// Name of the model. Empty means the provider's default.
    #[serde(default)]
    pub model: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// Instructions for the whole conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<SystemPrompt>,
    /// The tools that the model may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolDefinition>,
    /// Maximum number of tokens of the response. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Sampling temperature. Some models reject it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling. Some models reject it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Texts that stop the model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Constraint on the model's tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The format of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Reasoning before the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingConfig>,
    /// The amount of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Provider-specific fields, merged deeply into the request's JSON. Its `tools` are appended to the tools of the
    /// request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// Context management by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_management: Option<ContextManagement>,
}

/// Instructions for the whole conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SystemPrompt {
    /// One text.
    #[serde(with = "text_field")]
    Text(String),
    /// Several texts, each with its own cache breakpoint.
    #[serde(with = "blocks_field")]
    Blocks(Vec<SystemBlock>),
}

impl SystemPrompt {
    /// Returns `true` if there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.iter().all(|block| block.text.is_empty()),
        }
    }

    /// Appends another prompt. Blocks stay separate, because they may end cached prefixes. Two texts are joined with an
    /// empty line.
    #[must_use]
    pub fn and(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
            // An empty prompt must not add an empty line or block.
            (first, second) if second.is_empty() => first,
            (first, second) if first.is_empty() => second,
            (Self::Text(first), Self::Text(second)) => Self::Text(format!("{first}\n\n{second}")),
            (first, second) => {
                let mut blocks = first.into_blocks();
                blocks.extend(second.into_blocks());
                Self::Blocks(blocks)
            }
        }
    }

    fn into_blocks(self) -> Vec<SystemBlock> {
        match self {
            Self::Text(text) => vec![SystemBlock { text, cache_control: None }],
            Self::Blocks(blocks) => blocks,
        }
    }
}

impl Default for SystemPrompt {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<SystemBlock>> for SystemPrompt {
    fn from(blocks: Vec<SystemBlock>) -> Self {
        Self::Blocks(blocks)
    }
}

/// A text of a [`SystemPrompt`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemBlock {
    /// The text.
    pub text: String,
    /// Ends a cached prefix after this text, if set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// A cache breakpoint. The provider may cache the request up to this point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheControl {
    /// Lifetime of the cache. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
}

/// The lifetime of a cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheTtl {
    /// Five minutes since the last use.
    FiveMinutes,
    /// One hour since the last use.
    OneHour,
}

/// The choice of tools that a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool may be called.
    None,
    /// At least one tool must be called.
    Required,
    /// This tool must be called.
    Specific {
        /// The tool's name.
        name: String,
    },
}

/// The format of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Free text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that follows a schema.
    JsonSchema {
        /// Name of the schema.
        name: String,
        /// The JSON Schema.
        schema: Value,
        /// Set if the provider must enforce the schema.
        strict: bool,
    },
}

/// The configuration of reasoning before the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingConfig {
    /// On, with a token budget.
    Enabled {
        /// Maximum number of tokens of reasoning.
        budget_tokens: usize,
    },
    /// Off.
    Disabled,
    /// The model decides on the amount.
    Adaptive,
}

/// The amount of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
}

/// Context management by the provider, which edits the conversation on the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextManagement {
    /// The edits, in the order of application.
    pub edits: Vec<ContextEdit>,
}

/// An edit of [`ContextManagement`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextEdit {
    /// Summarise a long conversation.
    Compact {
        /// The provider's name for the strategy, for example `compact_20260112`.
        strategy: String,
    },
    /// Any edit in the provider's JSON, including its settings.
    Raw {
        /// The edit, for example `{"type": "clear_tool_uses_20250919"}`.
        json: Value,
    },
}

/// Serialises `Blocks(Vec<…>)` as `{"type":"blocks","blocks":[…]}`, like [`text_field`] for texts.
mod blocks_field {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::SystemBlock;

    #[derive(Serialize, Deserialize)]
    struct Field<'a> {
        blocks: Cow<'a, [SystemBlock]>,
    }

    pub(super) fn serialize<S: Serializer>(
        blocks: &[SystemBlock],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Field { blocks: Cow::Borrowed(blocks) }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<SystemBlock>, D::Error> {
        Ok(Field::deserialize(deserializer)?.blocks.into_owned())
    }
}
