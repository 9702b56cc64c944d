//! The configuration of a sub-agent.

use std::fmt;
use std::sync::Arc;

use neuron_loop::LoopConfig;
use neuron_types::{
    BoxedHook, BoxedStrategy, NoCompaction, PermissionPolicy, SystemPrompt, ToolEffect,
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
    /// Purpose of the agent and when to use it, as the model's description of the tool. By default it says that
    /// the agent takes a task and returns an answer.
    pub description: String,
    /// Instructions for the model. Default: those of [`settings`](Self::settings).
    pub system_prompt: SystemPrompt,
    /// Names of its tools, which are tools of the calling agent or other sub-agents. Default: none.
    pub tools: Vec<String>,
    /// The model, of the provider that it runs with. Default: that of [`settings`](Self::settings).
    pub model: Option<String>,
    /// Maximum number of agents around it. With 1 only an agent that is not a sub-agent may call it. With 2 its
    /// sub-agents may too. With 0 nobody may. Default: 1.
    ///
    /// All of them stand on one stack: more than ten may end the process, if its threads have the usual
    /// two megabytes and it is built without optimisation.
    pub max_depth: usize,
    /// The most calls of the model in one run. Default: that of [`settings`](Self::settings).
    pub max_turns: Option<usize>,
    /// All other settings, such as limits, sampling and parallel tools. The defaults are those of every agent.
    ///
    /// [`pause_for_approval`](LoopConfig::pause_for_approval) holds only for an agent that runs outside
    /// of a tool call; inside one it waits if the run around the call does.
    pub settings: LoopConfig,
    /// The strategy that keeps its conversation within the model's context window. Default: [`NoCompaction`].
    pub context: BoxedStrategy,
    /// The permission policy, in place of the policy of the parent run. By default the policy of the parent
    /// run.
    pub policy: Option<Arc<dyn PermissionPolicy>>,
    /// Its own hooks, after the hooks of the parent run. Default: none.
    pub hooks: Vec<BoxedHook>,
    /// True if the hooks of the parent run, including guardrails, also observe it. Default: `true`.
    pub inherits_hooks: bool,
    /// Effect of running it twice, for hosts that cannot journal the steps of an agent. Durable engines go on with an
    /// interrupted call where it was. Default: [`ToolEffect::AtMostOnce`].
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
    /// Returns the settings of the loop, including the settings with fields of their own.
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
        // Inside a call the run around it waits.
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
            .field("settings", &self.settings)
            .field("policy", &self.policy.is_some())
            .field("hooks", &self.hooks.len())
            .field("inherits_hooks", &self.inherits_hooks)
            .field("effect", &self.effect)
            .finish_non_exhaustive()
    }
}
