//! Settings of an agent.

use std::time::Duration;

use crate::{
    ActivityOptions, ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, RequestSettings,
    SystemPrompt, ToolErrorPolicy, UsageLimits,
};

/// The settings of an agent. Create it with `..Default::default()`, because fields may be added.
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
    /// Model, sampling, thinking and other options of model calls. Default: decided by the provider.
    pub request: RequestSettings,
    /// Maximum number of model calls in one run. Default: no limit.
    pub max_turns: Option<usize>,
    /// Set to run the tool calls of one response concurrently. Default: one after another.
    pub parallel_tool_execution: bool,
    /// Usage limits of one run. Default: no limits.
    pub usage_limits: Option<UsageLimits>,
    /// The behaviour at the limit on turns or at a usage limit. Default: the run ends with the error.
    pub on_limit: OnLimit,
    /// The time at which a cancelled run ends. Default: immediately.
    pub cancel_mode: CancelMode,
    /// Grace period of parallel tools. After one call of a response has failed for good, the cancellation tokens of the
    /// other calls are triggered, and they may take this long to finish. With zero or without a tokio runtime (in a
    /// browser, for example) they are dropped immediately. The timer of the tokio runtime must be enabled. Default: 5
    /// seconds.
    pub tool_grace: Duration,
    /// Maximum number of parallel tool calls of one response. Zero means one. Default: all of them.
    pub max_parallel_tools: Option<usize>,
    /// Timeout of one tool call. It needs a tokio runtime. A durable engine has limits of its own. Default: no limit.
    pub tool_timeout: Option<Duration>,
    /// The consequence of a tool failure for the run. Default: it ends the run.
    pub tool_errors: ToolErrorPolicy,
    /// Maximum number of consecutive turns in which a tool's calls fail with errors that the model sees. One more ends
    /// the run with [`LoopError::Tool`](crate::LoopError::Tool). A success resets the counter. Unknown tool names share
    /// one counter. Default: no limit.
    pub tool_retry_limit: Option<usize>,
    /// Set to stop the run with [`LoopError::ApprovalRequired`](crate::LoopError) when the permission policy asks for
    /// an approval. A run that starts with the decisions continues it. Default: the call is denied, and the model
    /// receives the reason.
    pub pause_for_approval: bool,
    /// The signal with the decisions on pending calls, for runs with a durable context. See [`ApprovalSignal`]. If set,
    /// calls wait for approvals as with `pause_for_approval`, and the run continues instead of ending. Ignored without
    /// a durable context. Default: none.
    pub approval_signal: Option<ApprovalSignal>,
    /// Maximum number of retries of a model call after a transient error. Ignored with a durable context, which has its
    /// own retries. Default: 0.
    pub retries: usize,
    /// Set to start tools with [`ToolEffect::Pure`](crate::ToolEffect::Pure) as soon as their call is complete, while
    /// the rest of the response still streams. Default: `false`.
    ///
    /// Only effective while streaming and without a durable context. A call starts early if all calls before it in the
    /// response did, so it cannot overtake a call that changes something. The policy must allow it, no limit may forbid
    /// it, and the tool must not [run alone](crate::Tool::runs_alone). The number of early calls that run at the same
    /// time is limited by `max_parallel_tools`, or to one without parallel execution.
    ///
    /// Hooks receive an early call before the response is complete. Its result follows the response, in order, as
    /// usual. If the response breaks off, or its calls must not run, the early results are discarded. Such calls may
    /// have run although the conversation does not show them, and they count for the limits on tool calls.
    pub early_tools: bool,
    /// The way in which a typed run requests its output. Default: with a tool.
    pub output_mode: OutputMode,
    /// Maximum number of retries after an invalid output in one typed run. Retries of tools do not count. Default: 2.
    pub output_retries: usize,
    /// The handling of other tool calls in the response with a typed run's output. Default: they run first, and the
    /// output is discarded if one of them fails.
    pub end_strategy: EndStrategy,
    /// Options for model calls with a durable context.
    pub llm_activity: ActivityOptions,
    /// Options for tool calls with a durable context.
    pub tool_activity: ActivityOptions,
}

impl LoopConfig {
    /// Returns `true` if calls wait when the policy asks for an approval. With a durable context, a signal implies it.
    #[must_use]
    pub fn pauses(&self, is_durable: bool) -> bool {
        self.pause_for_approval || (is_durable && self.approval_signal.is_some())
    }

    /// Returns the maximum number of parallel tool calls, at least one.
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
