//! The types of the options in [`LoopConfig`](crate::LoopConfig).

use std::time::Duration;

/// The point at which a run ends after its
/// [`ToolContext::cancellation_token`](crate::ToolContext::cancellation_token) was cancelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// The run ends immediately, even if a provider, a stream or a tool hangs. This is the default.
    #[default]
    Now,
    /// The run ends after the current turn, with [`LoopError::Cancelled`](crate::LoopError::Cancelled).
    ///
    /// The current response is completed, and its tool calls are run. If the response has no tool calls, the run ends
    /// with its result. Tools and nested agents do not see the cancellation, because their contexts have another token.
    /// The run waits for a provider or a tool that hangs. Dropping the run's future always stops the run immediately.
    AfterTurn,
}

/// The behaviour of a run that reaches its limit on turns or a usage limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The run ends with [`LoopError::MaxTurns`](crate::LoopError::MaxTurns) or
    /// [`LoopError::UsageLimitExceeded`](crate::LoopError::UsageLimitExceeded). This is the default.
    #[default]
    Fail,
    /// The model is called once more without tools and is asked for a final response. This response is the run's
    /// result, and [`AgentResult::limit_reached`](crate::AgentResult) names the limit.
    ///
    /// - Only this one model call exceeds the limits. It counts as a model call. It is not made if the limit on turns
    ///   or requests is zero, or if it does not fit into the [`Budget`](crate::Budget).
    /// - A system message at the end of the conversation asks for the final response. Earlier messages do not change.
    ///   The system message stays in the conversation together with the response. If the call returns no response, the
    ///   system message is removed. If the provider paused the last response, the model continues that response without
    ///   a system message.
    /// - The tool definitions stay in the request, and the tool choice is
    ///   [`ToolChoice::None`](crate::ToolChoice::None). Without the definitions, the provider's cache of the
    ///   conversation would be lost, and some vendors would reject the earlier tool calls. If the run returns its
    ///   output through a tool, the model must call this tool instead. See [`OutputMode::Tool`].
    /// - If the model calls tools nevertheless, they do not run, and the run ends with the error of the limit. If the
    ///   model call fails, the run ends with its error.
    /// - The conversation is not compacted for this call.
    Finalize,
}

/// The way in which a typed run, whose result is a value of a Rust type, requests its output from the model. Set by
/// [`LoopConfig::output_mode`](crate::LoopConfig).
///
/// In every mode, the loop checks the output by deserialising it into the output type. If the output does not match,
/// the model receives the position and the reason of the mismatch. It may retry up to
/// [`LoopConfig::output_retries`](crate::LoopConfig) times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// The model calls a tool `final_output`, whose arguments are the output. This is the default, because it works
    /// with all types, with other tools, and with every provider that supports tools.
    ///
    /// By default the model is not forced to call the tool, because some providers cannot force a call, or only without
    /// reasoning. If a response does not call the tool, the model is asked to do so. To force the call, set the
    /// request's tool choice.
    #[default]
    Tool,
    /// The model responds with the provider's structured output, [`ResponseFormat::JsonSchema`](crate::ResponseFormat).
    ///
    /// If the schema can be enforced, the provider is asked to enforce it. In an enforced schema, objects allow no
    /// additional fields and require all their fields. An absent `Option` is then `null`. A schema with maps, tuples,
    /// flattened enums or arbitrary values cannot be enforced, and some providers refuse such a schema.
    Native,
    /// The model is instructed to respond with JSON. Use this mode for models without tools.
    ///
    /// The loop appends the instructions and the schema to the system prompt. The response may contain other text if
    /// the JSON is in one fenced block.
    Prompt,
}

/// The handling of other tool calls in a response that also contains a valid output, in [`OutputMode::Tool`]. Set by
/// [`LoopConfig::end_strategy`](crate::LoopConfig).
///
/// If a response has several outputs, the first valid output is used. If no output is valid, the other calls run as
/// usual. Every tool call of the response gets a result in the conversation, even if it does not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndStrategy {
    /// The other calls do not run.
    Early,
    /// The other calls run before the run ends. This is the default.
    ///
    /// If one of the calls fails with an error that the model sees, for example
    /// [`ModelRetry`](crate::ToolError::ModelRetry), the output is discarded and the run continues. The output may
    /// depend on the failed call.
    #[default]
    Graceful,
    /// The other calls run before the run ends. The output is used even if one of these calls fails.
    ///
    /// If the response contains several outputs, the outputs after the first valid output are validated too. Their
    /// validation errors are added to the conversation.
    Exhaustive,
}

/// The signal with which a durable engine delivers decisions on pending calls to a run. Set by
/// [`LoopConfig::approval_signal`](crate::LoopConfig::approval_signal).
///
/// With a durable context and this signal, a run does not end when calls need an approval. It
/// [waits](crate::DurableContext::wait_for_approval) for the signal, for days if necessary. The value of the signal is
/// an [`ApprovalDecisions`](crate::ApprovalDecisions).
///
/// - After partial decisions, the decided calls are executed. The run waits for decisions on the other calls.
/// - After an invalid signal, the run logs a warning and waits again. A signal is invalid if its value has another
///   type, decides on calls that are not pending, has arguments that the tool refuses, or decides on a call with an
///   expired signature. After 1,000 consecutive invalid signals, the run ends with
///   [`LoopError::Durable`](crate::LoopError::Durable).
/// - After the timeout, the run ends with [`LoopError::ApprovalRequired`](crate::LoopError::ApprovalRequired).
/// - A cancellation ends the run immediately, regardless of the [`CancelMode`](crate::CancelMode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSignal {
    /// Name of the signal.
    pub name: String,
    /// Maximum time to wait for one signal. The time starts again after an invalid signal and after partial decisions.
    pub timeout: Duration,
}

/// The consequence of a failed tool call for the run.
///
/// A [`ToolError::ModelRetry`] is not a failure. It is always returned to the model as an error result.
///
/// [`ToolError::ModelRetry`]: crate::ToolError::ModelRetry
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ToolErrorPolicy {
    /// The run ends with [`LoopError::Tool`](crate::LoopError::Tool). This is the default.
    #[default]
    EndRun,
    /// The model receives the error as the result of the call, and the run continues.
    ///
    /// This applies to unknown tools, invalid arguments, malformed JSON, denied calls and failed calls. For an unknown
    /// tool, the result lists the names of the known tools.
    ReturnToModel,
}
