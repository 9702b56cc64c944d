//! Settings of an agent.

use std::time::Duration;

use crate::{
    ActivityOptions, ApprovalSignal, CancelMode, EndStrategy, OnLimit, OutputMode, RequestSettings,
    SystemPrompt, ToolErrorPolicy, UsageLimits,
};

/// How an agent runs. Build it with `..Default::default()`: fields may be added.
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
    /// The agent's name, for hooks and telemetry. Default: none.
    pub name: String,
    /// Instructions for the model. Default: none.
    pub system_prompt: SystemPrompt,
    /// Model, sampling, thinking and all else that a call of the model can be asked for. Default:
    /// the provider decides.
    pub request: RequestSettings,
    /// The most calls of the model in one run. Default: no limit.
    pub max_turns: Option<usize>,
    /// Whether the tool calls of one answer run at the same time. Default: one after another.
    pub parallel_tool_execution: bool,
    /// What one run may use. Default: no limits.
    pub usage_limits: Option<UsageLimits>,
    /// What happens when the run reaches its limit on turns or a usage limit. Default: it ends with
    /// the error.
    pub on_limit: OnLimit,
    /// When a run that is cancelled ends. Default: at once.
    pub cancel_mode: CancelMode,
    /// With parallel tools: how long the other calls of an answer may take to finish after one has
    /// failed for good and their cancellation tokens are triggered. Default: 5 seconds. Without a
    /// tokio runtime (in a browser, for one) or with zero they are dropped at once; a tokio runtime
    /// must have its timer enabled.
    pub tool_grace: Duration,
    /// With parallel tools: how many calls of an answer run at the same time; zero is as one.
    /// Default: all of them.
    pub max_parallel_tools: Option<usize>,
    /// How long one tool call may take, where there is a tokio runtime. A durable engine has limits of its own. Default: no
    /// limit.
    pub tool_timeout: Option<Duration>,
    /// What a tool's failure means for the run. Default: it ends the run.
    pub tool_errors: ToolErrorPolicy,
    /// In how many turns in a row the calls of a tool may fail with something that the model sees,
    /// and be tried again. One more ends the run with [`LoopError::Tool`](crate::LoopError::Tool). A
    /// success starts the count anew; names that no tool has count together. Default: no limit.
    pub tool_retry_limit: Option<usize>,
    /// Whether the run stops with [`LoopError::ApprovalRequired`](crate::LoopError) when the
    /// permission policy wants a person to be asked, until
    /// a run that starts with the decisions. Default: such a call is denied, and the model
    /// sees why.
    pub pause_for_approval: bool,
    /// With a durable context: the signal by which a person's decisions reach a run that waits for an
    /// approval, which then goes on instead of ending; see [`ApprovalSignal`]. Naming one is asking for
    /// the wait: calls wait as with `pause_for_approval`. Without a durable context it has no effect.
    /// Default: none.
    pub approval_signal: Option<ApprovalSignal>,
    /// How often a call of the model is made again after an error that may pass. Not with a durable context, which has its own retries. Default: never.
    pub retries: usize,
    /// Whether tools that declare [`ToolEffect::Pure`](crate::ToolEffect::Pure) start as soon as
    /// their call is complete, while the rest of the answer still streams. Default: `false`.
    ///
    /// Only where a run streams, and not with a durable context. A call
    /// starts early if all calls before it in the answer did, so that none overtakes one that changes
    /// something; if the policy allows it, no limit forbids it, and it need not run alone. Of calls
    /// that may not run at the same time, one starts early. The hooks are asked about such a call
    /// before the answer is whole; its result comes after it, in order, as always. If the answer breaks
    /// off, or its calls must not run, what was read is discarded: it may have run although the
    /// conversation says otherwise, and counts for the limits on tool calls.
    pub early_tools: bool,
    /// How a typed run asks for its output. Default: by a tool.
    pub output_mode: OutputMode,
    /// How often in one typed run the model may try again after an output that does not fit; the
    /// tools' own retries do not count. Default: 2.
    pub output_retries: usize,
    /// What a typed run does with the other tool calls of the answer that gives its output. Default:
    /// they run first, and the output does not count if one of them fails.
    pub end_strategy: EndStrategy,
    /// With a durable context: the options for calls of the model.
    pub llm_activity: ActivityOptions,
    /// With a durable context: the options for tool calls.
    pub tool_activity: ActivityOptions,
}

impl LoopConfig {
    /// Whether calls wait for a person when the policy asks. A signal under a durable context implies it.
    #[must_use]
    pub fn pauses(&self, is_durable: bool) -> bool {
        self.pause_for_approval || (is_durable && self.approval_signal.is_some())
    }

    /// Returns how many tool calls may run at the same time, at least one.
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
