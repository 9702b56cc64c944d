//! The request to a model and its options.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::content::message::text_field;
use crate::{Message, ToolDefinition};

/// A request to a model.
///
/// # Example
///
/// ```
/// use neuron_model::{CompletionRequest, Message};
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
    /// The conversation so far.
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
    /// Sampling temperature. `None` means the provider's default. Some models reject a temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Probability mass of nucleus sampling, from 0 to 1. `None` means the provider's default. Some models reject this
    /// option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f32>,
    /// Texts at which the model stops generating.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Constraint on the model's tool calls. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The format of the response. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_format: Option<ResponseFormat>,
    /// Configuration of the model's reasoning before the response. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingConfig>,
    /// The amount of reasoning. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Provider-specific fields, merged deeply into the JSON body of the request. An array `tools` inside `extra` is
    /// appended to the tools of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
    /// Edits of the conversation that the provider makes on its server. `None` means no edits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_management: Option<ContextManagement>,
}

/// Instructions for the whole conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SystemPrompt {
    /// A single text.
    #[serde(with = "text_field")]
    Text(String),
    /// Several texts, each with an optional cache breakpoint.
    #[serde(with = "blocks_field")]
    Blocks(Vec<SystemBlock>),
}

impl SystemPrompt {
    /// Returns `true` if the prompt has no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Blocks(blocks) => blocks.iter().all(|block| block.text.is_empty()),
        }
    }

    /// Appends another prompt. Two [texts](Self::Text) are joined with an empty line between them. If a prompt consists
    /// of [blocks](Self::Blocks), the result contains all texts as separate blocks, so that cache breakpoints stay in
    /// place.
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
    /// The instructions of this block.
    pub text: String,
    /// Cache breakpoint after this text. `None` means no breakpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_control: Option<CacheControl>,
}

/// A cache breakpoint. The provider may cache the part of the request before the breakpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheControl {
    /// Lifetime of the cached prefix. `None` means the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
}

/// The lifetime of a cached prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheTtl {
    /// The prefix expires five minutes after its last use.
    FiveMinutes,
    /// The prefix expires one hour after its last use.
    OneHour,
}

/// A constraint on the tool calls of the next response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides whether it calls tools.
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call the named tool.
    Specific {
        /// Name of the tool.
        name: String,
    },
}

/// The format of a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResponseFormat {
    /// Text without a prescribed format.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that follows a schema.
    JsonSchema {
        /// Name of the schema.
        name: String,
        /// The JSON Schema that the response must match.
        schema: Value,
        /// Set if the provider must enforce the schema.
        strict: bool,
    },
}

/// The configuration of the model's reasoning before the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ThinkingConfig {
    /// The model reasons within a token budget.
    Enabled {
        /// Maximum number of tokens of reasoning.
        budget_tokens: usize,
    },
    /// The model does not reason.
    Disabled,
    /// The model decides how much it reasons.
    Adaptive,
}

/// The amount of the model's reasoning before the response, in the levels that vendors offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReasoningEffort {
    /// No reasoning.
    None,
    /// Little reasoning.
    Low,
    /// A medium amount of reasoning.
    Medium,
    /// Much reasoning.
    High,
}

/// Edits of a long conversation that the provider makes on its server before the model reads the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextManagement {
    /// The edits, in the order in which the provider applies them.
    pub edits: Vec<ContextEdit>,
}

/// An edit of [`ContextManagement`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContextEdit {
    /// The provider summarises a long conversation.
    Compact {
        /// The provider's name for the strategy, for example `compact_20260112`.
        strategy: String,
    },
    /// Any edit in the provider's JSON, including the settings of the edit.
    Raw {
        /// The JSON object of the edit, for example `{"type": "clear_tool_uses_20250919"}`.
        json: Value,
    },
}

/// Serialises the variant `Blocks(Vec<…>)` as `{"type":"blocks","blocks":[…]}`.
///
/// This module is needed because serde's internally tagged enums support only newtype variants that contain a map.
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
