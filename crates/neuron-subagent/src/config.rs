//! The configuration of a sub-agent.

use std::fmt;
use std::sync::Arc;

use neuron_loop::LoopConfig;
use neuron_types::{
    BoxedHook, BoxedStrategy, CacheControl, NoCompaction, PermissionPolicy, SystemPrompt,
    ToolEffect,
};

/// The configuration of a sub-agent. Build it with `..Default::default()`, because fields may be added.
///
/// # Example
///
/// ```
/// use neuron_subagent::SubAgentConfig;
///
/// let config = SubAgentConfig {
///     description: "Finds facts on the web and says where they are from.".into(),
///     system_prompt: "You are a researcher. Cite your sources.".into(),
///     tools: vec!["search".into(), "read_page".into()],
///     max_turns: Some(10),
///     ..Default::default()
/// };
/// ```
#[derive(Clone)]
pub struct SubAgentConfig {
    /// Purpose of the agent and when to use it. The calling model sees it as the description of the tool. By default
    /// the description says that the agent takes a task and returns an answer.
    pub description: String,
    /// Instructions for the model. Default: the system prompt of [`settings`](Self::settings).
    pub system_prompt: SystemPrompt,
    /// Names of the agent's tools, which are tools of the calling agent or other sub-agents. Default: none.
    pub tools: Vec<String>,
    /// Model name for the provider that runs the agent. Default: the model of [`settings`](Self::settings).
    pub model: Option<String>,
    /// Maximum nesting depth of this agent, which is the number of agents around it. Default: 1.
    ///
    /// - With 0, the agent cannot run.
    /// - With 1, only a top-level agent may call it.
    /// - With 2, the sub-agents of a top-level agent may call it too.
    ///
    /// All nested agents share one stack. In a build without optimisation, more than ten nested agents may overflow the
    /// usual two-megabyte stack of a thread and end the process.
    pub max_depth: usize,
    /// Maximum number of model calls in one run. Default: the turn limit of [`settings`](Self::settings), which has no
    /// limit by default.
    pub max_turns: Option<usize>,
    /// Cache breakpoint at the end of the agent's conversations. Default: a breakpoint with the provider's lifetime. A
    /// breakpoint in [`settings`](Self::settings) replaces it. See
    /// [`RequestRef::cache`](neuron_types::RequestRef::cache).
    pub cache: Option<CacheControl>,
    /// All other settings, such as limits, sampling and parallel tools. Default: [`LoopConfig::default`].
    ///
    /// These defaults differ from the defaults of [`Agent::builder`](neuron_loop::Agent::builder). A sub-agent has no
    /// turn limit, does not retry model calls, and has no timeout for its own tool calls. A failed tool call ends its
    /// run, and the call of the sub-agent fails. The parent's limits still apply to this call, for example the timeout
    /// of tool calls and a shared [`Budget`](neuron_loop::Budget).
    ///
    /// [`pause_for_approval`](LoopConfig::pause_for_approval) applies only if the agent runs outside of a tool call.
    /// Inside a call, the agent pauses if its parent run pauses.
    pub settings: LoopConfig,
    /// Strategy that keeps the agent's conversations within the model's context window. Default: [`NoCompaction`].
    pub context: BoxedStrategy,
    /// Permission policy of the agent, instead of the parent run's policy. `None` uses the parent run's policy.
    pub policy: Option<Arc<dyn PermissionPolicy>>,
    /// Hooks of the agent, which run after the hooks of the parent run. Default: none.
    pub hooks: Vec<BoxedHook>,
    /// Set if the hooks of the parent run, including guardrails, also receive the agent's events. Default: `true`.
    pub inherits_hooks: bool,
    /// Effect of running the agent a second time for the same call, if the first run was interrupted. Default:
    /// [`ToolEffect::AtMostOnce`].
    ///
    /// The effect matters only for hosts that cannot journal the agent's model and tool calls. Such a host repeats the
    /// whole call. A durable engine resumes the interrupted run instead.
    pub effect: ToolEffect,
}

impl Default for SubAgentConfig {
    fn default() -> Self {
        Self {
            description: String::new(),
            system_prompt: SystemPrompt::default(),
            tools: Vec::new(),
            model: None,
            max_depth: 1,
            max_turns: None,
            cache: Some(CacheControl::default()),
            settings: LoopConfig::default(),
            context: BoxedStrategy::new(NoCompaction),
            policy: None,
            hooks: Vec::new(),
            inherits_hooks: true,
            effect: ToolEffect::AtMostOnce,
        }
    }
}

impl SubAgentConfig {
    /// Returns `settings` with this agent's name. `approval_signal` is `None`, because inside a tool call the parent
    /// run waits for approvals.
    ///
    /// The fields `system_prompt`, `model` and `max_turns` replace the values in `settings` if they are set.
    pub(crate) fn loop_config(&self, name: &str) -> LoopConfig {
        let mut settings = self.settings.clone();
        name.clone_into(&mut settings.name);
        if !self.system_prompt.is_empty() {
            settings.system_prompt.clone_from(&self.system_prompt);
        }
        if let Some(model) = &self.model {
            settings.request.model.clone_from(model);
        }
        settings.max_turns = self.max_turns.or(settings.max_turns);
        settings.request.cache = settings.request.cache.or(self.cache);
        // Inside a call, the parent run waits for the approval.
        settings.approval_signal = None;
        settings
    }
}

impl fmt::Debug for SubAgentConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubAgentConfig")
            .field("description", &self.description)
            .field("system_prompt", &self.system_prompt)
            .field("tools", &self.tools)
            .field("model", &self.model)
            .field("max_depth", &self.max_depth)
            .field("max_turns", &self.max_turns)
            .field("cache", &self.cache)
            .field("settings", &self.settings)
            .field("policy", &self.policy.is_some())
            .field("hooks", &self.hooks.len())
            .field("inherits_hooks", &self.inherits_hooks)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}
