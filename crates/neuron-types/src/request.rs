//! What is asked of a model: the request and its options.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::text_field;
use crate::{Message, ToolDefinition};

/// One call of a model.
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
    /// The model's name; empty means the provider's default.
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
    /// The most tokens the answer may have; `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<usize>,
    /// Sampling temperature; some models accept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Nucleus sampling; some models accept none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Texts at which the model stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Whether and which tool the model must call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Reasoning before the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingConfig>,
    /// How hard the model should try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Fields of the provider's own, merged deep into the request's JSON; its `tools` are
    /// appended to ours.
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
    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.iter().all(|block| block.text.is_empty()),
        }
    }

    /// Adds another prompt after this one. Blocks stay apart, because they may end cached prefixes; two texts become one
    /// with an empty line between them.
    #[must_use]
    pub fn and(self, other: impl Into<Self>) -> Self {
        match (self, other.into()) {
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

/// One text of a [`SystemPrompt`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemBlock {
    /// The text.
    pub text: String,
    /// Ends a cached prefix here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// A cache breakpoint: everything up to here may be cached by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheControl {
    /// How long the cache lives; `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
}

/// How long a cached prefix lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheTtl {
    /// Five minutes since the last use.
    FiveMinutes,
    /// One hour since the last use.
    OneHour,
}

/// Whether and which tool the model must call.
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

/// The form of an answer.
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
        /// A name for the schema.
        name: String,
        /// The JSON Schema.
        schema: Value,
        /// Whether the provider must enforce it.
        strict: bool,
    },
}

/// Reasoning before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingConfig {
    /// On, with at most so many tokens of it.
    Enabled {
        /// The most tokens of reasoning.
        budget_tokens: usize,
    },
    /// Off.
    Disabled,
    /// The model decides how much.
    Adaptive,
}

/// How hard the model should try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// Context management by the provider: it edits the conversation on its side.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextManagement {
    /// The edits, in the order in which they apply.
    pub edits: Vec<ContextEdit>,
}

/// One edit of [`ContextManagement`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextEdit {
    /// Summarise the conversation when it grows long.
    Compact {
        /// The provider's name for the strategy, `compact_20260112` for one.
        strategy: String,
    },
    /// Any edit in the provider's own JSON, with the settings that it takes.
    Raw {
        /// The edit, `{"type": "clear_tool_uses_20250919"}` for one.
        json: Value,
    },
}

/// Gives `Blocks(Vec<…>)` the stored form `{"type":"blocks","blocks":[…]}`, as [`text_field`] does
/// for texts.
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
