//! The part of a request that stands beside the conversation, the tools and the system prompt.

use crate::{
    CacheControl, ContextManagement, ReasoningEffort, RequestRef, ResponseFormat, ThinkingConfig,
    ToolChoice,
};
use serde_json::Value;

/// The part of a request that stands beside the conversation, the tools and the system prompt. Build it with
/// `..Default::default()`, because fields may be added.
///
/// The default leaves everything to the provider.
///
/// # Example
///
/// ```
/// use neuron_types::{Message, RequestRef, RequestSettings};
///
/// let settings = RequestSettings { max_tokens: Some(2_000), ..Default::default() };
/// let messages = [Message::user("Hello")];
/// let request = RequestRef { messages: &messages, ..Default::default() }.with_settings(&settings);
/// assert_eq!(request.max_tokens, Some(2_000));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestSettings {
    /// The model's name; empty means the provider's default.
    pub model: String,
    /// The most tokens that one answer may have.
    pub max_tokens: Option<usize>,
    /// Sampling temperature; some models accept none.
    pub temperature: Option<f32>,
    /// Nucleus sampling; some models accept none.
    pub top_p: Option<f32>,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Whether and which tool the model must call. A model that must call a tool in every answer
    /// never comes to an end: demand it for single turns only.
    pub tool_choice: Option<ToolChoice>,
    /// The form of the answer.
    pub response_format: Option<ResponseFormat>,
    /// Reasoning before the answer.
    pub thinking: Option<ThinkingConfig>,
    /// How hard the model should try.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Fields of the provider's own, merged deep into the request's JSON.
    pub extra: Option<Value>,
    /// Context management by the provider.
    pub context_management: Option<ContextManagement>,
    /// A cache breakpoint at the end of the conversation; see [`RequestRef::cache`].
    pub cache: Option<CacheControl>,
}

impl<'a> RequestRef<'a> {
    /// Returns the request with these settings.
    #[must_use]
    pub fn with_settings(self, settings: &'a RequestSettings) -> Self {
        // All fields are named, so that the compiler reports a field that is missing here.
        let RequestSettings {
            model,
            max_tokens,
            temperature,
            top_p,
            stop_sequences,
            tool_choice,
            response_format,
            thinking,
            reasoning_effort,
            extra,
            context_management,
            cache,
        } = settings;
        Self {
            model,
            max_tokens: *max_tokens,
            temperature: *temperature,
            top_p: *top_p,
            stop_sequences,
            tool_choice: tool_choice.as_ref(),
            response_format: response_format.as_ref(),
            thinking: *thinking,
            reasoning_effort: *reasoning_effort,
            extra: extra.as_ref(),
            context_management: context_management.as_ref(),
            cache: *cache,
            ..self
        }
    }

    /// Copies the settings.
    #[must_use]
    pub fn to_settings(&self) -> RequestSettings {
        RequestSettings {
            model: self.model.to_owned(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            stop_sequences: self.stop_sequences.to_vec(),
            tool_choice: self.tool_choice.cloned(),
            response_format: self.response_format.cloned(),
            thinking: self.thinking,
            reasoning_effort: self.reasoning_effort,
            extra: self.extra.cloned(),
            context_management: self.context_management.cloned(),
            cache: self.cache,
        }
    }
}
