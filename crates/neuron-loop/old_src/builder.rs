//! Building an agent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedHook, ContextManagement, ContextStrategy, Durability, DurableContext, Injector, Message,
    ObservabilityHook, PermissionPolicy, Provider, ReasoningEffort, ResponseFormat, SystemBlock,
    SystemPrompt, ThinkingConfig, ToolChoice, UsageLimits, WasmCompatSend, WasmCompatSync,
};
use serde_json::Value;

use crate::prepare_turn::PrepareTurn;
use crate::reminders::Reminders;
use crate::stop_when::StopCondition;
use crate::{
    AgentLoop, ApprovalSignal, Budget, CancelMode, EndStrategy, LoopConfig, OnLimit, OutputMode,
    RunView, ToolErrorPolicy, TurnSetup,
};

/// Builds an [`AgentLoop`]; made by [`AgentLoop::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentLoopBuilder<P, C, D = Durability<'static>> {
    provider: P,
    context: C,
    tools: ToolRegistry,
    pub(crate) hooks: Vec<BoxedHook>,
    durability: Option<D>,
    pub(crate) config: LoopConfig,
    messages: Vec<Message>,
    injectors: Vec<Box<dyn Injector>>,
    persistent: Vec<SystemPrompt>,
    pub(crate) policy: Option<Arc<dyn PermissionPolicy>>,
    #[cfg(feature = "signed-approvals")]
    pub(crate) approval_key: Option<crate::ApprovalKey>,
    budget: Option<Budget>,
    prepare: Vec<Box<dyn PrepareTurn>>,
    stop_conditions: Vec<Box<dyn StopCondition>>,
}

impl<P: Provider, C: ContextStrategy> AgentLoopBuilder<P, C> {
    pub(crate) fn new(provider: P, context: C) -> Self {
        Self {
            provider,
            context,
            tools: ToolRegistry::new(),
            hooks: Vec::new(),
            durability: None,
            config: LoopConfig::default(),
            messages: Vec::new(),
            injectors: Vec::new(),
            persistent: Vec::new(),
            policy: None,
            #[cfg(feature = "signed-approvals")]
            approval_key: None,
            budget: None,
            prepare: Vec::new(),
            stop_conditions: Vec::new(),
        }
    }
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    /// Names the agent, for hooks and telemetry. Default: it has no name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// Sets the tools. Default: none.
    pub fn tools(mut self, tools: ToolRegistry) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the instructions for the model. Default: none.
    pub fn system_prompt(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.config.system_prompt = prompt.into();
        self
    }

    /// Adds to the instructions for the model, after [`system_prompt`](Self::system_prompt) and what
    /// was added before: sections from several sources, say. No compaction touches them.
    pub fn persistent_context(mut self, context: impl Into<SystemPrompt>) -> Self {
        self.persistent.push(context.into());
        self
    }

    /// Adds what reminds the model of something while the conversation goes on. It is asked before
    /// each call of the model, and what it says becomes a system message at the end of the
    /// conversation. A compaction keeps the newest of equal ones.
    pub fn injector(mut self, injector: impl Injector + 'static) -> Self {
        self.injectors.push(Box::new(injector));
        self
    }

    /// Limits the calls of the model in one run. Default: no limit.
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.config.max_turns = Some(turns);
        self
    }

    /// Sets whether the tool calls of one answer run at the same time. Default: `false`.
    pub fn parallel_tool_execution(mut self, parallel: bool) -> Self {
        self.config.parallel_tool_execution = parallel;
        self
    }

    /// Limits what one run may use. Default: no limits.
    pub fn usage_limits(mut self, limits: UsageLimits) -> Self {
        self.config.usage_limits = Some(limits);
        self
    }

    /// Sets who decides which calls may run. It sees the whole call and the tool's definition, after
    /// the hooks and before any middleware. A denied call is an error result for the model. A call on
    /// which a person shall be asked is one as well, unless
    /// [`pause_for_approval`](Self::pause_for_approval) is set. Default: all calls run.
    pub fn permission_policy(mut self, policy: impl PermissionPolicy + 'static) -> Self {
        self.policy = Some(Arc::new(policy));
        self
    }

    /// Sets whether the run stops with [`LoopError::ApprovalRequired`] when the policy wants a person
    /// to be asked; see [`AgentLoop::resume`]. The calls of the same answer that need no approval run
    /// before. Default: `false`.
    ///
    /// [`LoopError::ApprovalRequired`]: crate::LoopError::ApprovalRequired
    pub fn pause_for_approval(mut self, pause: bool) -> Self {
        self.config.pause_for_approval = pause;
        self
    }

    /// Lets a run that waits for an approval under a durable engine go on with the decisions that this
    /// signal brings; see [`ApprovalSignal`]. Default: such a run ends.
    pub fn approval_signal(mut self, name: impl Into<String>, timeout: Duration) -> Self {
        self.config.approval_signal = Some(ApprovalSignal { name: name.into(), timeout });
        self
    }

    /// Signs the calls that wait, and decides only on those that are signed: for states that others
    /// keep. Default: calls are not signed.
    #[cfg(feature = "signed-approvals")]
    pub fn approval_key(mut self, key: crate::ApprovalKey) -> Self {
        self.approval_key = Some(key);
        self
    }

    /// Sets what a tool's failure means for the run. Default: it ends the run.
    pub fn tool_errors(mut self, policy: ToolErrorPolicy) -> Self {
        self.config.tool_errors = policy;
        self
    }

    /// Limits how many calls of one answer run at the same time, with
    /// [`parallel_tool_execution`](Self::parallel_tool_execution). Default: all of them.
    pub fn max_parallel_tools(mut self, most: usize) -> Self {
        self.config.max_parallel_tools = Some(most);
        self
    }

    /// Lets all runs of the agent, and those of agents within its tools, keep to one budget, which other
    /// agents may share. Default: the one that a run finds in its context, if any.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Sets what happens when a run reaches a limit. Default: it ends with the limit's error.
    ///
    /// # Example: an answer rather than an error
    ///
    /// ```
    /// use neuron_loop::{AgentLoop, OnLimit};
    /// use neuron_types::{ContextStrategy, Provider};
    ///
    /// fn agent<P: Provider, C: ContextStrategy>(provider: P, context: C) -> AgentLoop<P, C> {
    ///     // Ten calls with tools at the most, and one without for the answer.
    ///     AgentLoop::builder(provider, context).max_turns(10).on_limit(OnLimit::Finalize).build()
    /// }
    /// ```
    pub fn on_limit(mut self, on_limit: OnLimit) -> Self {
        self.config.on_limit = on_limit;
        self
    }

    /// Sets when a run that is cancelled ends. Default: at once.
    pub fn cancel_mode(mut self, mode: CancelMode) -> Self {
        self.config.cancel_mode = mode;
        self
    }

    /// Sets the model. Default: the provider's.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.config.request.model = name.into();
        self
    }

    /// Limits the tokens of one answer. Default: the provider's.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.config.request.max_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature; some models accept none. Default: the provider's.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.config.request.temperature = Some(temperature);
        self
    }

    /// Sets nucleus sampling; some models accept none. Default: the provider's.
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.config.request.top_p = Some(top_p);
        self
    }

    /// Sets the texts at which the model stops. Default: none.
    pub fn stop_sequences<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.config.request.stop_sequences = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether and which tool the model must call, in every answer: one that must call a tool
    /// each time never comes to an end. Default: the model decides.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.config.request.tool_choice = Some(choice);
        self
    }

    /// Sets the form of the answer. Default: free text.
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.config.request.response_format = Some(format);
        self
    }

    /// Sets the reasoning before an answer. Default: the provider's.
    pub fn thinking(mut self, thinking: ThinkingConfig) -> Self {
        self.config.request.thinking = Some(thinking);
        self
    }

    /// Sets how hard the model should try. Default: the provider's.
    pub fn reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.config.request.reasoning_effort = Some(effort);
        self
    }

    /// Sets fields of the provider's own, merged deep into the request's JSON; its `tools` are
    /// appended to ours. Default: none.
    pub fn extra(mut self, fields: Value) -> Self {
        self.config.request.extra = Some(fields);
        self
    }

    /// Lets the provider edit the conversation on its side. Default: it does not.
    pub fn context_management(mut self, management: ContextManagement) -> Self {
        self.config.request.context_management = Some(management);
        self
    }

    /// Adds a callback that is asked before each call of the model, after those added before. What it
    /// changes holds for that call alone, however it ends; hooks see the request as it is sent.
    ///
    /// Another model, system prompt or choice of tools costs the provider's cache of the conversation
    /// for that call.
    ///
    /// Under a durable engine it is asked again on replay: what it does must follow from what it is
    /// given, and not from a clock, from chance or from a count of its own.
    ///
    /// # Example: search first, then come to an end
    ///
    /// ```
    /// use neuron_loop::AgentLoop;
    /// use neuron_types::{ContextStrategy, Provider, ToolChoice};
    ///
    /// fn researcher<P: Provider, C: ContextStrategy>(provider: P, context: C) -> AgentLoop<P, C> {
    ///     AgentLoop::builder(provider, context)
    ///         .prepare_turn(|turn| {
    ///             if turn.run.turns == 0 {
    ///                 turn.settings.tool_choice = Some(ToolChoice::Required);
    ///                 turn.retain_tools(|tool| tool.name == "search");
    ///             } else if turn.run.usage.total_tokens() > 50_000 {
    ///                 turn.retain_tools(|_| false);
    ///             }
    ///         })
    ///         .build()
    /// }
    /// ```
    pub fn prepare_turn(
        mut self,
        callback: impl Fn(&mut TurnSetup<'_>) + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        self.prepare.push(Box::new(callback));
        self
    }

    /// Adds a condition on which a run ends after the tools of an answer ran: one of several is
    /// enough. The run's result is then that answer: its text, and its stop reason, mostly
    /// [`StopReason::ToolUse`](neuron_types::StopReason::ToolUse). Batches of tools that fail end the
    /// run with their error as always.
    ///
    /// Under a durable engine the condition is asked again on replay: it must follow from what it is
    /// given.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_loop::AgentLoop;
    /// use neuron_types::{ContextStrategy, Provider};
    ///
    /// fn agent<P: Provider, C: ContextStrategy>(provider: P, context: C) -> AgentLoop<P, C> {
    ///     AgentLoop::builder(provider, context)
    ///         .stop_when(|run| run.called("submit_report"))
    ///         .stop_when(|run| run.tool_calls >= 100)
    ///         .build()
    /// }
    /// ```
    pub fn stop_when(
        mut self,
        condition: impl Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        self.stop_conditions.push(Box::new(condition));
        self
    }

    /// Sets whether tools that only read start while the answer still streams; see
    /// [`LoopConfig::early_tools`]. Default: `false`.
    pub fn early_tools(mut self, early: bool) -> Self {
        self.config.early_tools = early;
        self
    }

    /// Sets how often a stream that breaks is tried again; see [`LoopConfig::stream_retries`].
    /// Default: never.
    pub fn stream_retries(mut self, retries: usize) -> Self {
        self.config.stream_retries = retries;
        self
    }

    /// Sets how typed runs ask for their output. Default: by a tool.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.config.output_mode = mode;
        self
    }

    /// Sets how often the model may try again when the output of a typed run does not fit.
    /// Default: 2.
    pub fn output_retries(mut self, retries: usize) -> Self {
        self.config.output_retries = retries;
        self
    }

    /// Sets what happens to other tool calls beside the output of a typed run. Default: they run
    /// first.
    pub fn end_strategy(mut self, strategy: EndStrategy) -> Self {
        self.config.end_strategy = strategy;
        self
    }

    /// Adds a hook, after those added before.
    pub fn hook(mut self, hook: impl ObservabilityHook + 'static) -> Self {
        self.hooks.push(BoxedHook::new(hook));
        self
    }

    /// Starts from an earlier conversation. What in it no provider would accept is
    /// [repaired](neuron_types::transcript::repair).
    pub fn messages(mut self, history: Vec<Message>) -> Self {
        self.messages = history;
        self
    }

    /// Replaces the whole configuration.
    pub fn config(mut self, config: LoopConfig) -> Self {
        self.config = config;
        self
    }

    /// Lets a durable engine carry out all calls of the model and of tools. The context may borrow
    /// from the engine.
    pub fn durability<'d>(
        self,
        context: impl DurableContext + 'd,
    ) -> AgentLoopBuilder<P, C, Durability<'d>> {
        self.durability_typed(Durability::new(context))
    }

    /// [`durability`](Self::durability) without the pointer in between: the agent's type names the
    /// context's.
    pub fn durability_typed<D2: DurableContext>(self, context: D2) -> AgentLoopBuilder<P, C, D2> {
        AgentLoopBuilder {
            provider: self.provider,
            context: self.context,
            tools: self.tools,
            hooks: self.hooks,
            durability: Some(context),
            config: self.config,
            messages: self.messages,
            injectors: self.injectors,
            persistent: self.persistent,
            policy: self.policy,
            #[cfg(feature = "signed-approvals")]
            approval_key: self.approval_key,
            budget: self.budget,
            prepare: self.prepare,
            stop_conditions: self.stop_conditions,
        }
    }

    /// Builds the agent.
    #[must_use]
    pub fn build(mut self) -> AgentLoop<P, C, D> {
        for context in self.persistent {
            self.config.system_prompt = joined(self.config.system_prompt, context);
        }
        let mut agent =
            AgentLoop::assemble(self.provider, self.context, self.tools, self.config, self.hooks);
        agent.durability = self.durability;
        agent.policy = self.policy;
        #[cfg(feature = "signed-approvals")]
        {
            agent.approval_key = self.approval_key;
        }
        agent.set_messages(self.messages);
        agent.reminders = Reminders::new(self.injectors);
        agent.budget = self.budget;
        agent.prepare = self.prepare;
        agent.stop_conditions = self.stop_conditions;
        agent
    }
}

/// One prompt after another. A prompt in blocks keeps them: they may end cached prefixes.
pub(crate) fn joined(first: SystemPrompt, second: SystemPrompt) -> SystemPrompt {
    let blocks = |prompt| match prompt {
        SystemPrompt::Text(text) => vec![SystemBlock { text, cache_control: None }],
        SystemPrompt::Blocks(blocks) => blocks,
    };
    match (first, second) {
        (first, second) if second.is_empty() => first,
        (first, second) if first.is_empty() => second,
        (SystemPrompt::Text(first), SystemPrompt::Text(second)) => {
            SystemPrompt::Text(format!("{first}\n\n{second}"))
        }
        (first, second) => {
            let mut joined = blocks(first);
            joined.extend(blocks(second));
            SystemPrompt::Blocks(joined)
        }
    }
}

impl<P, C, D> fmt::Debug for AgentLoopBuilder<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoopBuilder")
            .field("tools", &self.tools)
            .field("hooks", &self.hooks.len())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
