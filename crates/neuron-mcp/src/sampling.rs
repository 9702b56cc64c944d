//! Sampling, by which a server uses the client's model.

use std::future::Future;

use neuron_types::{McpError, Message, StopReason, ToolChoice, ToolDefinition};

use crate::TraceContext;

/// A request of a server to the client's model.
///
/// Build it with `..Default::default()`: fields may be added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingRequest {
    /// The conversation.
    pub messages: Vec<Message>,
    /// The system prompt that the server would like.
    pub system_prompt: Option<String>,
    /// At most this many tokens are written.
    pub max_tokens: u32,
    /// The temperature, if the server wants one.
    pub temperature: Option<f32>,
    /// Texts that end the answer.
    pub stop_sequences: Vec<String>,
    /// The server's preferences for the model.
    pub model_preferences: ModelPreferences,
    /// Tools that the model may call. The server executes them, and asks again with the results.
    pub tools: Vec<ToolDefinition>,
    /// Choice of a tool by the model.
    pub tool_choice: Option<ToolChoice>,
    /// Trace context of the request. In a server it defaults to the trace context of the calling request.
    pub trace_context: Option<TraceContext>,
}

/// The preferences of a server for the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPreferences {
    /// Names or parts of names, the best first.
    pub hints: Vec<String>,
    /// Weight of a low price, from 0 to 1.
    pub cost_priority: Option<f32>,
    /// Weight of speed, from 0 to 1.
    pub speed_priority: Option<f32>,
    /// Weight of intelligence, from 0 to 1.
    pub intelligence_priority: Option<f32>,
}

/// A response of the client's model.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingResponse {
    /// The answer.
    pub message: Message,
    /// The model that wrote it.
    pub model: String,
    /// Why it stopped.
    pub stop_reason: Option<StopReason>,
}

/// Lets servers use a model of the client.
pub trait SamplingHandler: Send + Sync {
    /// Answers a request, or refuses it.
    ///
    /// # Errors
    ///
    /// Whatever is returned is told to the server, in its `Display` form.
    fn sample(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = Result<SamplingResponse, McpError>> + Send;
}
