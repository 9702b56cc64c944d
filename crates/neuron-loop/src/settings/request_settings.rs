//! What every call of the model is asked for, beside the conversation, the tools and the system
//! prompt.

use neuron_types::{
    ContextManagement, ReasoningEffort, RequestRef, ResponseFormat, ThinkingConfig, ToolChoice,
};
use serde_json::Value;

/// What every call of the model is asked for, beside the conversation, the tools and the system
/// prompt. Build it with `..Default::default()`: fields may be added.
///
/// The default asks for nothing: the provider decides. [`AgentBuilder::request`](crate::AgentBuilder::request) changes them
/// for all calls of an agent, and [`prepare_turn`](crate::AgentBuilder::prepare_turn) for one.
///
/// # Example
///
/// ```
/// use neuron_loop::{LoopConfig, RequestSettings};
///
/// let config = LoopConfig {
///     request: RequestSettings {
///         model: "claude-sonnet-4-6".into(),
///         max_tokens: Some(2_000),
///         ..Default::default()
///     },
///     ..Default::default()
/// };
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
}

impl RequestSettings {
    /// Returns the request with these settings.
    pub(crate) fn apply<'a>(&'a self, request: RequestRef<'a>) -> RequestRef<'a> {
        // All fields are named, so that the compiler reports a field that is missing here.
        let Self {
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
        } = self;
        RequestRef {
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
            ..request
        }
    }

    /// Copies the settings of a request.
    pub(crate) fn of(request: &RequestRef<'_>) -> Self {
        Self {
            model: request.model.to_owned(),
            max_tokens: request.max_tokens,
            temperature: request.temperature,
            top_p: request.top_p,
            stop_sequences: request.stop_sequences.to_vec(),
            tool_choice: request.tool_choice.cloned(),
            response_format: request.response_format.cloned(),
            thinking: request.thinking,
            reasoning_effort: request.reasoning_effort,
            extra: request.extra.cloned(),
            context_management: request.context_management.cloned(),
        }
    }
}
