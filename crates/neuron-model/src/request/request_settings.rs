//! The options of a request, without its conversation, tools and system prompt.

use crate::{
    CacheControl, ContextManagement, ReasoningEffort, RequestRef, ResponseFormat, ThinkingConfig,
    ToolChoice,
};
use serde_json::Value;

/// The options of a request, without its conversation, tools and system prompt.
///
/// For an option without a value, the provider's default applies. Create the struct with `..Default::default()`,
/// because later versions may add fields.
///
/// # Example
///
/// ```
/// use neuron_model::{Message, RequestRef, RequestSettings};
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
    /// Maximum number of tokens of one response. `None` means the provider's default.
    pub max_tokens: Option<usize>,
    /// Sampling temperature. `None` means the provider's default. Some models reject a temperature.
    pub temperature: Option<f32>,
    /// Probability mass of nucleus sampling, from 0 to 1. `None` means the provider's default. Some models reject this
    /// option.
    pub top_p: Option<f32>,
    /// Texts at which the model stops generating.
    pub stop_sequences: Vec<String>,
    /// Constraint on the model's tool calls. `None` means the provider's default.
    ///
    /// An agent's run ends at a response without tool calls. Therefore require a tool call only for single turns,
    /// because otherwise the run does not end by itself.
    pub tool_choice: Option<ToolChoice>,
    /// The format of the response. `None` means the provider's default.
    pub response_format: Option<ResponseFormat>,
    /// Configuration of the model's reasoning before the response. `None` means the provider's default.
    pub thinking: Option<ThinkingConfig>,
    /// The amount of reasoning. `None` means the provider's default.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Provider-specific fields, merged deeply into the JSON body of the request.
    pub extra: Option<Value>,
    /// Edits of the conversation that the provider makes on its server. `None` means no edits.
    pub context_management: Option<ContextManagement>,
    /// Cache breakpoint at the end of the conversation. `None` means no breakpoint. See [`RequestRef::cache`].
    pub cache: Option<CacheControl>,
}

impl<'a> RequestRef<'a> {
    /// Returns the request with all its options replaced by `settings`.
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

    /// Copies the options of the request.
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
