//! Choices between ways to run an agent.

use std::time::Duration;

/// When a run ends whose [`ToolContext::cancellation_token`](crate::ToolContext::cancellation_token) is cancelled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CancelMode {
    /// At once, inside a hanging provider, stream or tool. The default.
    #[default]
    Now,
    /// Before the next turn: what the turn has begun is finished, the model's answer, its tools and
    /// their results, and then the run ends with [`LoopError::Cancelled`](crate::LoopError::Cancelled). If the answer was the last,
    /// the run ends with it.
    ///
    /// Tools, and agents within them, do not learn of the cancellation: their token is one of its own.
    /// A provider or tool that hangs is waited for; dropping the run stops it at once in any case.
    AfterTurn,
}

/// What happens when a run reaches a limit: on turns, or one of its usage limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// The run ends with the limit's error. The default.
    #[default]
    Fail,
    /// The model is called once more, without tools, and told to answer from what is known. Its answer
    /// is the run's result, and [`AgentResult::limit_reached`](crate::AgentResult) says which
    /// limit it was.
    ///
    /// - The call is the only one beyond the limits, and counts. A run whose limit is zero makes none,
    ///   and neither does one whose [`Budget`](crate::Budget) has no room for it.
    /// - What the model is told is a system message at the end of the conversation, after the results
    ///   of the tools, so that what was sent before stays as it was. It stays in the conversation
    ///   together with the answer; without one it is taken back. A turn that the provider paused is
    ///   continued without it.
    /// - The definitions of the tools stay, and the tool choice is
    ///   [`ToolChoice::None`](crate::ToolChoice::None): the provider's cache of the conversation
    ///   begins with them, and some vendors reject a conversation with calls of tools that are not
    ///   defined. A typed run's output tool is the one that it must call.
    /// - If the model calls tools nevertheless, none runs, and the run ends with the limit's error. So
    ///   it does if the call fails, with the error of the call.
    /// - The conversation is not compacted for this call.
    Finalize,
}

/// How a typed run asks for its output. Set by [`LoopConfig::output_mode`](crate::LoopConfig).
///
/// In every mode the value is checked by reading it as the type; one that does not fit goes back to
/// the model with the place and the reason, as often as
/// [`LoopConfig::output_retries`](crate::LoopConfig) says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OutputMode {
    /// By a tool, `final_output`, whose arguments are the output. The default: it works with every
    /// provider that has tools, beside other tools and with all types.
    ///
    /// No provider is told to force the call, because some cannot, and others do not while the model
    /// thinks: an answer without it is sent back with the request to call it. To force it, set the
    /// request's tool choice.
    #[default]
    Tool,
    /// By the provider's own format for structured answers,
    /// [`ResponseFormat::JsonSchema`](crate::ResponseFormat). It is asked to enforce the
    /// schema if that can be: all objects are closed then, and all fields required, so that an
    /// `Option` is `null` where it has no value. Types with maps, tuples, flattened enums or values of
    /// any kind have no such schema; some providers refuse them.
    Native,
    /// By instructions: the schema follows the system prompt. For models without tools; the answer
    /// may stand in one fenced block.
    Prompt,
}

/// What happens to other tool calls in the answer that gives a valid output by
/// [`OutputMode::Tool`]. Set by [`LoopConfig::end_strategy`](crate::LoopConfig).
///
/// Every call has a result in any case. Of several outputs the first that fits counts; one that does
/// not fit, in an answer without one that does, leaves the other calls to run as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EndStrategy {
    /// They do not run.
    Early,
    /// They run, and the run ends after them. If one ends with an error that the model sees (a
    /// [`ModelRetry`](crate::ToolError::ModelRetry), say), the output is not used and the
    /// model goes on: what it said may rest on that call. The default.
    #[default]
    Graceful,
    /// They run, and the run ends after them, whatever they gave. Further outputs are checked, and
    /// the model's history says what is wrong with them.
    Exhaustive,
}

/// The signal by which a durable engine brings a run the decisions on the calls that wait for an
/// approval. Set by [`LoopConfig::approval_signal`](crate::LoopConfig::approval_signal).
///
/// With a durable context such a run does not end: it
/// [waits](crate::DurableContext::wait_for_approval), for days if need be, and goes on with what was decided,
/// as in a run that starts with decisions. The signal holds [`ApprovalDecisions`](crate::ApprovalDecisions).
///
/// - Partial decisions are carried out, and the run waits for the rest.
/// - What does not fit changes nothing: decisions on calls that do not wait, arguments that the tool
///   refuses, such as come after the life of a signature, or something else altogether. The log has a
///   warning, and the run waits again; after the thousandth in a row it ends with
///   [`LoopError::Durable`](crate::LoopError::Durable).
/// - If nobody decides in time, the run ends with [`LoopError::ApprovalRequired`](crate::LoopError::ApprovalRequired).
/// - A cancellation ends the run at once, whatever the [`CancelMode`](crate::CancelMode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSignal {
    /// The signal's name.
    pub name: String,
    /// How long the run waits for one signal. After one that does not fit, or decides on some of the
    /// calls, it waits as long again.
    pub timeout: Duration,
}

/// What the failure of a tool means for the run. [`ToolError::ModelRetry`] is none: the model always
/// sees it.
///
/// [`ToolError::ModelRetry`]: crate::ToolError::ModelRetry
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ToolErrorPolicy {
    /// It ends the run with [`LoopError::Tool`](crate::LoopError::Tool).
    #[default]
    EndRun,
    /// The model sees it as an error result, and the run goes on: an unknown tool (with the names of
    /// those that exist), arguments that do not fit or are no JSON, a denied or a failed call.
    ReturnToModel,
}
