//! Sampling, which is a request of a server to the model of the client.

use std::future::Future;

use neuron_types::{McpError, Message, StopReason, ToolChoice, ToolDefinition};

use crate::TraceContext;

/// A request of a server to the model of the client.
///
/// Build it with `..Default::default()`, because fields may be added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SamplingRequest {
    /// Messages of the conversation, in order.
    pub messages: Vec<Message>,
    /// The system prompt that the server suggests.
    pub system_prompt: Option<String>,
    /// Maximum number of tokens of the response.
    pub max_tokens: u32,
    /// The temperature that the server suggests.
    pub temperature: Option<f32>,
    /// Texts that end the response of the model.
    pub stop_sequences: Vec<String>,
    /// The server's preferences for the choice of the model.
    pub model_preferences: ModelPreferences,
    /// Tools that the model may call. The server executes the calls, and sends another request with the results.
    pub tools: Vec<ToolDefinition>,
    /// Restricts whether and how the model uses the tools.
    pub tool_choice: Option<ToolChoice>,
    /// Trace context of the request. If it is `None`, a server sends the trace context of its current span instead.
    /// Without a current trace context, it sends the trace context of the client's call (see
    /// [`McpPeer::ask`](crate::McpPeer::ask)).
    pub trace_context: Option<TraceContext>,
}

/// A server's preferences for the choice of the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPreferences {
    /// Names of models, or parts of names, in order of preference.
    pub hints: Vec<String>,
    /// Importance of a low price, from 0 to 1.
    pub cost_priority: Option<f32>,
    /// Importance of speed, from 0 to 1.
    pub speed_priority: Option<f32>,
    /// Importance of the model's capability, from 0 to 1.
    pub intelligence_priority: Option<f32>,
}

/// A response of the client's model.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingResponse {
    /// The message that the model wrote.
    pub message: Message,
    /// Name of the model.
    pub model: String,
    /// The reason why the model stopped.
    pub stop_reason: Option<StopReason>,
}

/// A handler that lets servers use a model of the client.
pub trait SamplingHandler: Send + Sync {
    /// Handles a sampling request of a server. Either returns the model's response, or refuses the request with an
    /// error.
    ///
    /// # Errors
    ///
    /// The server receives the `Display` text of the error.
    fn sample(
        &self,
        request: SamplingRequest,
    ) -> impl Future<Output = Result<SamplingResponse, McpError>> + Send;
}
