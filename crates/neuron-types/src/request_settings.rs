//! The options of a request apart from conversation, tools and system prompt.

use crate::{
    CacheControl, ContextManagement, ReasoningEffort, RequestRef, ResponseFormat, ThinkingConfig,
    ToolChoice,
};
use serde_json::Value;

/// The options of a request apart from conversation, tools and system prompt. Create it with `..Default::default()`,
/// because fields may be added.
///
/// By default the provider decides.
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
    /// Name of the model. Empty means the provider's default.
    pub model: String,
    /// Maximum number of tokens of one response.
    pub max_tokens: Option<usize>,
    /// Sampling temperature. Some models reject it.
    pub temperature: Option<f32>,
    /// Nucleus sampling. Some models reject it.
    pub top_p: Option<f32>,
    /// Texts that stop the model.
    pub stop_sequences: Vec<String>,
    /// Constraint on the model's tool calls. A run in which the model must call a tool in every response never
    /// ends, so require it only for single turns.
    pub tool_choice: Option<ToolChoice>,
    /// The format of the response.
    pub response_format: Option<ResponseFormat>,
    /// Reasoning before the response.
    pub thinking: Option<ThinkingConfig>,
    /// The amount of reasoning.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Provider-specific fields, merged deeply into the request's JSON.
    pub extra: Option<Value>,
    /// Context management by the provider.
    pub context_management: Option<ContextManagement>,
    /// Cache breakpoint at the end of the conversation. See [`RequestRef::cache`].
    pub cache: Option<CacheControl>,
}

impl<'a> RequestRef<'a> {
    /// Returns the request with these settings.
    #[must_use]
    pub fn with_settings(self, settings: &'a RequestSettings) -> Self {
        // Name all fields, so that the compiler reports a missing field.
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
