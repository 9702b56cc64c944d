//! How an agent runs.

use std::time::Duration;

use neuron_types::{ActivityOptions, SystemPrompt, UsageLimits};

/// How an agent runs. Build it with `..Default::default()`: fields may be added.
///
/// # Example
///
/// ```
/// use neuron_loop::LoopConfig;
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
    /// Instructions for the model. Default: none.
    pub system_prompt: SystemPrompt,
    /// The most calls of the model in one run. Default: no limit.
    pub max_turns: Option<usize>,
    /// Whether the tool calls of one answer run at the same time. Default: one after another.
    pub parallel_tool_execution: bool,
    /// What one run may use. Default: no limits.
    pub usage_limits: Option<UsageLimits>,
    /// With parallel tools: how long the other calls of an answer may take to finish after one has
    /// failed for good and their cancellation tokens are triggered. Default: 5 seconds. Without a
    /// tokio runtime (in a browser, for one) or with zero they are dropped at once; a tokio runtime
    /// must have its timer enabled.
    pub tool_grace: Duration,
    /// With a durable context: the options for calls of the model.
    pub llm_activity: ActivityOptions,
    /// With a durable context: the options for tool calls.
    pub tool_activity: ActivityOptions,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            system_prompt: SystemPrompt::default(),
            max_turns: None,
            parallel_tool_execution: false,
            usage_limits: None,
            tool_grace: Duration::from_secs(5),
            llm_activity: ActivityOptions::default(),
            tool_activity: ActivityOptions::default(),
        }
    }
}
