//! Enums of the options in [`LoopConfig`](crate::LoopConfig).

use std::time::Duration;

/// When a run ends after its [`ToolContext::cancellation_token`](crate::ToolContext::cancellation_token) is cancelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// Immediately, even inside a hanging provider, stream or tool. The default.
    #[default]
    Now,
    /// After the current turn. The response, its tool calls and their results are completed, and then the run ends with
    /// [`LoopError::Cancelled`](crate::LoopError::Cancelled). If the response is final, the run ends with its result.
    ///
    /// Tools and nested agents are not notified, because they have a token of their own. The run waits for a hanging
    /// provider or tool. Dropping the run always stops it immediately.
    AfterTurn,
}

/// The behaviour of a run that reaches its limit on turns or a usage limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The run ends with the error of the limit. The default.
    #[default]
    Fail,
    /// The model is called once more without tools and is asked for a final response. This response is the run's
    /// result, and [`AgentResult::limit_reached`](crate::AgentResult) names the limit.
    ///
    /// - The call is the only one beyond the limits, and it counts. It is not made if the limit is zero, or if the
    ///   [`Budget`](crate::Budget) has no room for it.
    /// - The request is a system message at the end of the conversation, after the tool results, so that earlier
    ///   messages do not change. It stays in the conversation together with the response, and is removed if there is
    ///   none. A turn that the provider paused is continued without it.
    /// - The tool definitions stay in the request and the tool choice is [`ToolChoice::None`](crate::ToolChoice::None).
    ///   The provider's cache of the conversation starts with the definitions, and some vendors reject conversations
    ///   with calls of undefined tools. In a typed run the model must call the output tool instead.
    /// - If the model calls tools nevertheless, they do not run, and the run ends with the error of the limit. If the
    ///   call fails, the run ends with the error of the call.
    /// - The conversation is not compacted for this call.
    Finalize,
}

/// The way in which a typed run requests its output. Set by [`LoopConfig::output_mode`](crate::LoopConfig).
///
/// In every mode the output is checked by deserialising it into the type. The model receives the place and the reason
/// of a mismatch and may retry up to [`LoopConfig::output_retries`](crate::LoopConfig) times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// With a tool `final_output` whose arguments are the output. The default, because it works with every provider
    /// that has tools, next to other tools, and with all types.
    ///
    /// The call is not forced, because some providers cannot force it, or not while the model thinks. After a response
    /// without the call, the model is asked to make it. To force it, set the request's tool choice.
    #[default]
    Tool,
    /// With the provider's structured output, [`ResponseFormat::JsonSchema`](crate::ResponseFormat). The provider is
    /// asked to enforce the schema if it has an enforceable form. In this form all objects are closed and all fields
    /// are required, so an absent `Option` is `null`. Types with maps, tuples, flattened enums or arbitrary values have
    /// no such form, and some providers refuse them.
    Native,
    /// With instructions. The schema follows the system prompt. For models without tools. The response may contain the
    /// output in one fenced block.
    Prompt,
}

/// The handling of other tool calls in a response with a valid output in [`OutputMode::Tool`]. Set by
/// [`LoopConfig::end_strategy`](crate::LoopConfig).
///
/// Every call gets a result. Of several outputs, the first valid one is used. If no output is valid, the other calls
/// run as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndStrategy {
    /// The other calls do not run.
    Early,
    /// The other calls run before the run ends. If one of them fails with an error that the model sees, for example
    /// [`ModelRetry`](crate::ToolError::ModelRetry), the output is discarded and the model continues, because the
    /// output may depend on that call. The default.
    #[default]
    Graceful,
    /// The other calls run before the run ends, regardless of their results. Further outputs are validated, and the
    /// history contains their errors.
    Exhaustive,
}

/// The signal with which a durable engine delivers decisions on pending calls to a run. Set by
/// [`LoopConfig::approval_signal`](crate::LoopConfig::approval_signal).
///
/// With a durable context such a run does not end. It [waits](crate::DurableContext::wait_for_approval), for days if
/// necessary, and continues like a run that starts with decisions. The signal's value is an
/// [`ApprovalDecisions`](crate::ApprovalDecisions).
///
/// - Partial decisions are executed, and the run waits for the rest.
/// - An invalid signal changes nothing. It is invalid if it has another type, decides on calls that are not pending,
///   has arguments that the tool refuses, or has an expired signature. The run logs a warning and waits again. After
///   1,000 invalid signals in a row it ends with [`LoopError::Durable`](crate::LoopError::Durable).
/// - After the timeout the run ends with [`LoopError::ApprovalRequired`](crate::LoopError::ApprovalRequired).
/// - A cancellation ends the run immediately, regardless of the [`CancelMode`](crate::CancelMode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSignal {
    /// Name of the signal.
    pub name: String,
    /// Timeout for one signal. It restarts after an invalid signal and after partial decisions.
    pub timeout: Duration,
}

/// The consequence of a tool failure for the run. A [`ToolError::ModelRetry`] is not a failure and always goes to the
/// model.
///
/// [`ToolError::ModelRetry`]: crate::ToolError::ModelRetry
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ToolErrorPolicy {
    /// The run ends with [`LoopError::Tool`](crate::LoopError::Tool).
    #[default]
    EndRun,
    /// The model receives an error result, and the run continues. This covers unknown tools (with the names of the
    /// known tools), invalid arguments, malformed JSON, denied calls and failed calls.
    ReturnToModel,
}
