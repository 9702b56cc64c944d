//! What every call of the model is asked for, beside the conversation, the tools and the system
//! prompt.

use std::mem::swap;

use neuron_types::{
    CompletionRequest, ContextManagement, ReasoningEffort, ResponseFormat, ThinkingConfig,
    ToolChoice,
};
use serde_json::Value;

/// What every call of the model is asked for, beside the conversation, the tools and the system
/// prompt. Build it with `..Default::default()`: fields may be added.
///
/// The default asks for nothing: the provider decides. The builder of an agent has a method for each
/// field; [`AgentLoop::config_mut`](crate::AgentLoop::config_mut) changes them for later calls, and
/// [`prepare_turn`](crate::AgentLoopBuilder::prepare_turn) for one.
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
    /// Exchanges these settings with the request's. Done twice, all is as before.
    pub(crate) fn swap_with(&mut self, request: &mut CompletionRequest) {
        // Whole, so that a field that is added to the request cannot be forgotten here.
        let CompletionRequest {
            messages: _,
            system: _,
            tools: _,
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
        } = request;
        swap(&mut self.model, model);
        swap(&mut self.max_tokens, max_tokens);
        swap(&mut self.temperature, temperature);
        swap(&mut self.top_p, top_p);
        swap(&mut self.stop_sequences, stop_sequences);
        swap(&mut self.tool_choice, tool_choice);
        swap(&mut self.response_format, response_format);
        swap(&mut self.thinking, thinking);
        swap(&mut self.reasoning_effort, reasoning_effort);
        swap(&mut self.extra, extra);
        swap(&mut self.context_management, context_management);
    }
}
