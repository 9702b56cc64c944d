//! The settings of an agent.

use std::time::Duration;

use crate::{
    ActivityOptions, ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, RequestSettings,
    SystemPrompt, ToolErrorPolicy, UsageLimits,
};

/// The settings of an agent.
///
/// Create the struct with `..Default::default()`, because later versions may add fields.
///
/// `LoopConfig::default()` and `Agent::builder` have different defaults for the cache in `request`, `max_turns`,
/// `tool_timeout`, `tool_errors` and `retries`. The fields name both. `AgentLoop` and `SubAgentConfig` use
/// `LoopConfig::default()`.
///
/// # Example
///
/// ```
/// use neuron_types::LoopConfig;
///
/// let config = LoopConfig {
///     system_prompt: "You are a code reviewer.".into(),
///     max_turns: Some(20),
///     parallel_tool_execution: true,
///     ..Default::default()
/// };
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LoopConfig {
    /// Name of the agent, for hooks and telemetry. Default: none.
    pub name: String,
    /// Instructions for the model. Default: none.
    pub system_prompt: SystemPrompt,
    /// Model, sampling, reasoning and other options of model calls. Default: the provider's defaults. `Agent::builder`
    /// also sets [`cache`](RequestSettings::cache).
    pub request: RequestSettings,
    /// Maximum number of model calls that return a response in one run. Default: no limit. Default of `Agent::builder`:
    /// 50.
    pub max_turns: Option<usize>,
    /// Set to run the tool calls of one response concurrently. Default: the calls run one after another.
    pub parallel_tool_execution: bool,
    /// Usage limits of one run. Default: no limits.
    pub usage_limits: Option<UsageLimits>,
    /// The behaviour of a run that reaches `max_turns` or a usage limit. Default: the run ends with an error.
    pub on_limit: OnLimit,
    /// The point at which a cancelled run ends. Default: immediately.
    pub cancel_mode: CancelMode,
    /// Maximum time for which running tool calls may continue after a parallel call has failed in a way that ends the
    /// run. Default: 5 seconds.
    ///
    /// The cancellation tokens of the running calls are cancelled at once. Calls that have not finished after this time
    /// are dropped. They are dropped immediately if the time is zero, or if there is no timer (see
    /// [`sleep`](crate::clock::sleep)). The timer of a tokio runtime must be enabled.
    pub tool_grace: Duration,
    /// Maximum number of tool calls of one response that run concurrently. Zero means one. Default: no limit.
    pub max_parallel_tools: Option<usize>,
    /// Timeout of each tool call. Default: no timeout. Default of `Agent::builder`: ten minutes.
    ///
    /// Ignored without a timer, see [`sleep`](crate::clock::sleep). A durable engine uses the timeout in
    /// `tool_activity` instead.
    pub tool_timeout: Option<Duration>,
    /// The consequence of a failed tool call for the run. Default: the run ends ([`ToolErrorPolicy::EndRun`]). Default
    /// of `Agent::builder`: the model receives the error ([`ToolErrorPolicy::ReturnToModel`]).
    pub tool_errors: ToolErrorPolicy,
    /// Maximum number of consecutive turns in which calls of the same tool fail with errors that the model sees.
    /// Default: no limit.
    ///
    /// If the tool fails in one more turn, the run ends with [`LoopError::Tool`](crate::LoopError::Tool). A successful
    /// call of the tool resets its counter. All unknown tool names share one counter, which a turn with other calls only
    /// resets. If the agent defers tools, each name has its own counter, also the name of a tool that was not found yet.
    pub tool_retry_limit: Option<usize>,
    /// Set to stop the run with [`LoopError::ApprovalRequired`](crate::LoopError) when the permission policy asks for
    /// an approval of a tool call. By default, the call is denied and the model receives the reason.
    ///
    /// To continue the run, start it with the decisions on the pending calls.
    pub pause_for_approval: bool,
    /// The signal that delivers decisions on pending calls to a run with a durable context. Default: `None`.
    ///
    /// If set, a run whose tool calls need an approval waits for this signal and does not end. `pause_for_approval`
    /// need not be set. Ignored without a durable context. See [`ApprovalSignal`].
    pub approval_signal: Option<ApprovalSignal>,
    /// Maximum number of retries of a model call after a transient error. Default: 0. Default of `Agent::builder`: 2.
    ///
    /// Ignored with a durable context, whose engine retries failed calls itself. Set the `retry_policy` of
    /// [`llm_activity`](Self::llm_activity) instead. By default only Temporal retries failed model calls.
    pub retries: usize,
    /// Set to start calls of tools with [`ToolEffect::Pure`](crate::ToolEffect::Pure) while the response is still being
    /// streamed. Default: `false`.
    ///
    /// This applies only to streamed responses without a durable context. A call starts early only if all these
    /// conditions are met:
    ///
    /// - Its arguments are complete.
    /// - All preceding calls of the response have started early. The call therefore cannot overtake a call that changes
    ///   something.
    /// - The permission policy and all limits allow the call.
    /// - Its tool does not [run alone](crate::Tool::runs_alone).
    ///
    /// With `parallel_tool_execution`, at most `max_parallel_tools` early calls run at the same time. Otherwise one
    /// call runs at a time.
    ///
    /// Hooks receive the events of an early call before the response is complete. The results are added to the
    /// conversation after the response, in the order of the calls.
    ///
    /// If the response breaks off, or if its calls must not run, the early results are discarded, although the early calls
    /// may have run. They still count for the limits on tool calls. A response that breaks off is not added to the
    /// conversation. If the model refuses to go on, or the arguments of a call are truncated, the response is added, and the
    /// results of its calls say that they were not executed.
    pub early_tools: bool,
    /// The way in which a typed run, whose result is a value of a Rust type, requests its output from the model.
    /// Default: as a tool call.
    pub output_mode: OutputMode,
    /// Maximum number of retries after an invalid output in one typed run, and after a response without text and calls in
    /// any other run. Retries of tools do not count. Default: 2.
    ///
    /// A run whose last response is still empty ends with the stop reason [`EMPTY_ANSWER`](crate::EMPTY_ANSWER), unless a
    /// limit made it the last one.
    pub output_retries: usize,
    /// The handling of a response that contains the output of a typed run and also calls other tools. By default the
    /// other calls run first, and the output is discarded if one of them fails.
    pub end_strategy: EndStrategy,
    /// Options for model calls that a durable context makes, such as timeouts and retries.
    pub llm_activity: ActivityOptions,
    /// Options for tool calls that a durable context makes, such as timeouts and retries.
    pub tool_activity: ActivityOptions,
}

impl LoopConfig {
    /// Returns `true` if tool calls wait when the permission policy asks for an approval, and `false` if they are
    /// denied. `is_durable` states that the run has a durable context.
    ///
    /// Calls wait if `pause_for_approval` is set. With a durable context, calls also wait if `approval_signal` is set.
    #[must_use]
    pub fn pauses(&self, is_durable: bool) -> bool {
        self.pause_for_approval || (is_durable && self.approval_signal.is_some())
    }

    /// Returns the maximum number of tool calls that run concurrently, which is at least one. Without a limit, returns
    /// `usize::MAX`.
    #[must_use]
    pub fn most_tools_at_once(&self) -> usize {
        self.max_parallel_tools.map_or(usize::MAX, |most| most.max(1))
    }
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            system_prompt: SystemPrompt::default(),
            request: RequestSettings::default(),
            max_turns: None,
            parallel_tool_execution: false,
            usage_limits: None,
            on_limit: OnLimit::Fail,
            cancel_mode: CancelMode::Now,
            tool_grace: Duration::from_secs(5),
            max_parallel_tools: None,
            tool_timeout: None,
            tool_errors: ToolErrorPolicy::default(),
            tool_retry_limit: None,
            pause_for_approval: false,
            approval_signal: None,
            retries: 0,
            early_tools: false,
            output_mode: OutputMode::default(),
            output_retries: 2,
            end_strategy: EndStrategy::default(),
            llm_activity: ActivityOptions::default(),
            tool_activity: ActivityOptions::default(),
        }
    }
}
