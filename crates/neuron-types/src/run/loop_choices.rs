//! The types of the options in [`LoopConfig`](crate::LoopConfig).

use std::time::Duration;

/// The point at which a run ends after its
/// [`ToolContext::cancellation_token`](crate::ToolContext::cancellation_token) was cancelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelMode {
    /// The run ends immediately, even if a provider, a stream or a tool hangs. This is the default.
    #[default]
    Now,
    /// The run ends after the current turn, with [`LoopError::Cancelled`](crate::LoopError::Cancelled).
    ///
    /// The current response is completed, and its tool calls are run. If the response has no tool calls, the run ends
    /// with its normal result. Running tools and nested agents are not cancelled, so a provider or a tool that hangs
    /// delays the end of the run. To stop a run immediately, drop its future.
    AfterTurn,
}

/// The behaviour of a run that reaches its limit on turns or a usage limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnLimit {
    /// The run ends with [`LoopError::MaxTurns`](crate::LoopError::MaxTurns) or
    /// [`LoopError::UsageLimitExceeded`](crate::LoopError::UsageLimitExceeded). This is the default.
    #[default]
    Fail,
    /// The model is called once more and asked for a final response without tool calls. This response is the run's
    /// result, and [`AgentResult::limit_reached`](crate::AgentResult) names the limit.
    ///
    /// - This extra model call may exceed the limits of the run, and is counted like the others. It is not made if the
    ///   limit on turns or requests is zero, or if it does not fit into the [`Budget`](crate::Budget).
    /// - A system message at the end of the conversation asks for the final response. Earlier messages do not change.
    ///   The system message stays in the conversation, unless the call returns no response. If the provider paused the
    ///   last response, the model continues that response without a system message.
    /// - The tool choice is [`ToolChoice::None`](crate::ToolChoice::None). The request still contains the tool
    ///   definitions, because some vendors reject earlier tool calls without them, and because the provider's cache of
    ///   the conversation stays valid. If the run returns its output through a tool ([`OutputMode::Tool`]), the model
    ///   must call this tool instead.
    /// - If the model calls tools nevertheless, the tools do not run, and the run ends with the error of the limit. If
    ///   the model call fails, the run ends with the error of the call.
    /// - The conversation is not compacted for this call.
    Finalize,
}

/// The way in which a typed run, whose result is a value of a Rust type, requests its output from the model. Set by
/// [`LoopConfig::output_mode`](crate::LoopConfig).
///
/// In every mode, the loop deserialises the output into the output type. If this fails, the model receives the position
/// and the reason of the mismatch and may try again, up to [`LoopConfig::output_retries`](crate::LoopConfig) times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputMode {
    /// The model calls a tool `final_output`, whose arguments are the output. This is the default, because it works
    /// with all output types and with every provider that supports tools.
    ///
    /// By default the model is not forced to call the tool, because some providers cannot force a call, or can force it
    /// only without reasoning. If a response calls no tool, the model is asked to call `final_output`. To force the
    /// call, set the request's tool choice.
    #[default]
    Tool,
    /// The model responds with the provider's structured output, [`ResponseFormat::JsonSchema`](crate::ResponseFormat).
    ///
    /// The provider is asked to enforce the schema, if possible. In an enforced schema, objects require all their
    /// fields and allow no other fields. An absent `Option` is then `null`. A schema with maps, tuples, flattened enums
    /// or arbitrary values cannot be enforced, and some providers refuse such a schema.
    Native,
    /// The model is instructed to respond with JSON. Use this mode for models without tools.
    ///
    /// The loop appends the instructions and the schema to the system prompt. If the response contains other text,
    /// the JSON must be in its only fenced code block.
    Prompt,
}

/// The handling of a response that contains a valid typed output and also calls other tools. Set by
/// [`LoopConfig::end_strategy`](crate::LoopConfig). Used in [`OutputMode::Tool`], in which the output is a tool call.
///
/// If a response has several outputs, the first valid output is used. If no output is valid, all other tool calls run
/// as usual. Every tool call of the response gets a result in the conversation, even if it does not run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndStrategy {
    /// The tool calls besides the output do not run.
    Early,
    /// The tool calls besides the output are executed first, and then the run ends. This is the default.
    ///
    /// The output may depend on these calls. If one of them fails with an error that the model sees, for example
    /// [`ModelRetry`](crate::ToolError::ModelRetry), the output is discarded and the run continues.
    #[default]
    Graceful,
    /// The tool calls besides the output are executed first, and then the run ends. The output is used even if one of
    /// these calls fails.
    ///
    /// If the response has several outputs, the outputs after the first valid one are validated too. Their validation
    /// errors are added to the conversation.
    Exhaustive,
}

/// The signal with which a durable engine delivers decisions on pending calls to a run. Set by
/// [`LoopConfig::approval_signal`](crate::LoopConfig::approval_signal).
///
/// When tool calls need an approval, a run with a durable context and this signal does not end. It
/// [waits](crate::DurableContext::wait_for_approval) for the signal, for days if necessary. The value of the signal is
/// an [`ApprovalDecisions`](crate::ApprovalDecisions).
///
/// - After partial decisions, the decided calls are executed. The run waits for decisions on the remaining calls.
/// - After an invalid signal, the run logs a warning and waits again. After 1,000 consecutive invalid signals, the run
///   ends with [`LoopError::Durable`](crate::LoopError::Durable). A signal is invalid if its value has another type,
///   decides on a call that is not pending or whose signature has expired, or contains arguments that the tool refuses.
/// - After the timeout, the run ends with [`LoopError::ApprovalRequired`](crate::LoopError::ApprovalRequired).
/// - A cancellation ends the run immediately, regardless of the [`CancelMode`](crate::CancelMode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSignal {
    /// Name of the signal.
    pub name: String,
    /// Maximum time to wait for one signal. The time starts again after an invalid signal and after partial decisions.
    pub timeout: Duration,
}

/// The effect of a failed tool call on the run.
///
/// [`EndRun`](Self::EndRun) is the default of this type and of [`LoopConfig`](crate::LoopConfig), which `AgentLoop` and
/// `SubAgentConfig` use. [`ReturnToModel`](Self::ReturnToModel) is the default of `Agent::builder`.
///
/// With both policies, the model receives these results as error results, and the run continues:
///
/// - A [`ToolError::ModelRetry`]. It does not count as a failure.
/// - A [`ToolOutput::error`](crate::ToolOutput::error).
/// - The denial of a call by the agent's permission policy or by a person.
///
/// With both policies, the run ends if a hook ends the run of an agent inside the call, or if the run is cancelled. It
/// also ends if a tool fails more often than [`tool_retry_limit`](crate::LoopConfig::tool_retry_limit) allows.
///
/// [`ToolError::ModelRetry`]: crate::ToolError::ModelRetry
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ToolErrorPolicy {
    /// The run ends with [`LoopError::Tool`](crate::LoopError::Tool). This is the default of
    /// [`LoopConfig`](crate::LoopConfig).
    #[default]
    EndRun,
    /// The model receives the error as the result of the call, and the run continues. This is the default of
    /// `Agent::builder`.
    ///
    /// This applies to failed calls, timeouts, invalid arguments, malformed JSON and unknown tools. For an unknown
    /// tool, the result lists the names of the known tools.
    ///
    /// It also applies to [`ToolError::PermissionDenied`](crate::ToolError::PermissionDenied), which the tool or the
    /// middleware `PermissionChecker` returns.
    ReturnToModel,
}
