//! Building an [`AgentLoop`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedHook, BoxedLayer, ContextManagement, ContextStrategy, Durability, DurableContext,
    Injector, Message, ModelLayer, ObservabilityHook, PermissionPolicy, Provider, ReasoningEffort,
    ResponseFormat, RunView, SystemPrompt, ThinkingConfig, ToolChoice, ToolContext, UsageLimits,
    WasmCompatSend, WasmCompatSync,
};
use serde_json::Value;

use super::AgentLoop;
use crate::model::PrepareTurn;
use crate::parts::{Definition, EnclosingRun};
use crate::settings::joined;
use crate::{
    ApprovalSignal, Budget, CancelMode, EndStrategy, LoopConfig, OnLimit, OutputMode,
    ToolErrorPolicy, TurnSetup,
};

/// Builds an [`AgentLoop`]; made by [`AgentLoop::builder`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentLoopBuilder<P, C, D = Durability<'static>> {
    provider: P,
    context: C,
    durability: Option<D>,
    pub(crate) definition: Definition,
    messages: Vec<Message>,
    persistent: Vec<SystemPrompt>,
}

impl<P: Provider, C: ContextStrategy> AgentLoopBuilder<P, C> {
    pub(crate) fn new(provider: P, context: C) -> Self {
        Self {
            provider,
            context,
            durability: None,
            definition: Definition::default(),
            messages: Vec::new(),
            persistent: Vec::new(),
        }
    }
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    /// Names the agent, for hooks and telemetry. Default: it has no name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.definition.config.name = name.into();
        self
    }

    /// Sets the tools. Default: none.
    pub fn tools(mut self, tools: ToolRegistry) -> Self {
        self.definition.tools = tools;
        self
    }

    /// Sets the instructions for the model. Default: none.
    pub fn system_prompt(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.definition.config.system_prompt = prompt.into();
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
        self.definition.injectors.push(Arc::new(injector));
        self
    }

    /// Limits the calls of the model in one run. Default: no limit.
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.definition.config.max_turns = Some(turns);
        self
    }

    /// Sets whether the tool calls of one answer run at the same time. Default: `false`.
    pub fn parallel_tool_execution(mut self, parallel: bool) -> Self {
        self.definition.config.parallel_tool_execution = parallel;
        self
    }

    /// Limits what one run may use. Default: no limits.
    pub fn usage_limits(mut self, limits: UsageLimits) -> Self {
        self.definition.config.usage_limits = Some(limits);
        self
    }

    /// Sets who decides which calls may run. It sees the whole call and the tool's definition, after
    /// the hooks and before any middleware. A denied call is an error result for the model. A call on
    /// which a person shall be asked is one as well, unless
    /// [`pause_for_approval`](Self::pause_for_approval) is set. Default: all calls run.
    pub fn permission_policy(mut self, policy: impl PermissionPolicy + 'static) -> Self {
        self.definition.policy = Some(Arc::new(policy));
        self
    }

    /// Sets whether the run stops with [`LoopError::ApprovalRequired`] when the policy wants a person
    /// to be asked; see [`AgentLoop::resume`]. The calls of the same answer that need no approval run
    /// before. Default: `false`.
    ///
    /// [`LoopError::ApprovalRequired`]: crate::LoopError::ApprovalRequired
    pub fn pause_for_approval(mut self, pause: bool) -> Self {
        self.definition.config.pause_for_approval = pause;
        self
    }

    /// Lets a run that waits for an approval under a durable engine go on with the decisions that this
    /// signal brings; see [`ApprovalSignal`]. Default: such a run ends.
    pub fn approval_signal(mut self, name: impl Into<String>, timeout: Duration) -> Self {
        self.definition.config.approval_signal =
            Some(ApprovalSignal { name: name.into(), timeout });
        self
    }

    /// Signs the calls that wait, and decides only on those that are signed: for states that others
    /// keep. Default: calls are not signed.
    #[cfg(feature = "signed-approvals")]
    pub fn approval_key(mut self, key: crate::ApprovalKey) -> Self {
        self.definition.approval_key = Some(key);
        self
    }

    /// Sets what a tool's failure means for the run. Default: it ends the run.
    pub fn tool_errors(mut self, policy: ToolErrorPolicy) -> Self {
        self.definition.config.tool_errors = policy;
        self
    }

    /// Limits how many calls of one answer run at the same time, with
    /// [`parallel_tool_execution`](Self::parallel_tool_execution). Default: all of them.
    pub fn max_parallel_tools(mut self, most: usize) -> Self {
        self.definition.config.max_parallel_tools = Some(most);
        self
    }

    /// Lets all runs of the agent, and those of agents within its tools, keep to one budget, which other
    /// agents may share. Default: the one that a run finds in its context, if any.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.definition.budget = Some(budget);
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
        self.definition.config.on_limit = on_limit;
        self
    }

    /// Sets when a run that is cancelled ends. Default: at once.
    pub fn cancel_mode(mut self, mode: CancelMode) -> Self {
        self.definition.config.cancel_mode = mode;
        self
    }

    /// Sets the model. Default: the provider's.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.definition.config.request.model = name.into();
        self
    }

    /// Limits the tokens of one answer. Default: the provider's.
    pub fn max_tokens(mut self, tokens: usize) -> Self {
        self.definition.config.request.max_tokens = Some(tokens);
        self
    }

    /// Sets the sampling temperature; some models accept none. Default: the provider's.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.definition.config.request.temperature = Some(temperature);
        self
    }

    /// Sets nucleus sampling; some models accept none. Default: the provider's.
    pub fn top_p(mut self, top_p: f32) -> Self {
        self.definition.config.request.top_p = Some(top_p);
        self
    }

    /// Sets the texts at which the model stops. Default: none.
    pub fn stop_sequences<T: Into<String>>(mut self, texts: impl IntoIterator<Item = T>) -> Self {
        self.definition.config.request.stop_sequences = texts.into_iter().map(Into::into).collect();
        self
    }

    /// Sets whether and which tool the model must call, in every answer: one that must call a tool
    /// each time never comes to an end. Default: the model decides.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.definition.config.request.tool_choice = Some(choice);
        self
    }

    /// Sets the form of the answer. Default: free text.
    pub fn response_format(mut self, format: ResponseFormat) -> Self {
        self.definition.config.request.response_format = Some(format);
        self
    }

    /// Sets the reasoning before an answer. Default: the provider's.
    pub fn thinking(mut self, thinking: ThinkingConfig) -> Self {
        self.definition.config.request.thinking = Some(thinking);
        self
    }

    /// Sets how hard the model should try. Default: the provider's.
    pub fn reasoning_effort(mut self, effort: ReasoningEffort) -> Self {
        self.definition.config.request.reasoning_effort = Some(effort);
        self
    }

    /// Sets fields of the provider's own, merged deep into the request's JSON; its `tools` are
    /// appended to ours. Default: none.
    pub fn extra(mut self, fields: Value) -> Self {
        self.definition.config.request.extra = Some(fields);
        self
    }

    /// Lets the provider edit the conversation on its side. Default: it does not.
    pub fn context_management(mut self, management: ContextManagement) -> Self {
        self.definition.config.request.context_management = Some(management);
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
        self.definition.layers.push(BoxedLayer::new(PrepareTurn(callback)));
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
        self.definition.stop_conditions.push(Arc::new(condition));
        self
    }

    /// Sets whether tools that only read start while the answer still streams; see
    /// [`LoopConfig::early_tools`]. Default: `false`.
    pub fn early_tools(mut self, early: bool) -> Self {
        self.definition.config.early_tools = early;
        self
    }

    /// Sets how often a call of the model is made again after an error that may pass; see
    /// [`LoopConfig::retries`]. Default: never.
    pub fn retries(mut self, retries: usize) -> Self {
        self.definition.config.retries = retries;
        self
    }

    /// Sets how typed runs ask for their output. Default: by a tool.
    pub fn output_mode(mut self, mode: OutputMode) -> Self {
        self.definition.config.output_mode = mode;
        self
    }

    /// Sets how often the model may try again when the output of a typed run does not fit.
    /// Default: 2.
    pub fn output_retries(mut self, retries: usize) -> Self {
        self.definition.config.output_retries = retries;
        self
    }

    /// Sets what happens to other tool calls beside the output of a typed run. Default: they run
    /// first.
    pub fn end_strategy(mut self, strategy: EndStrategy) -> Self {
        self.definition.config.end_strategy = strategy;
        self
    }

    /// Adds a hook, after those added before.
    pub fn hook(mut self, hook: impl ObservabilityHook + 'static) -> Self {
        self.definition.hooks.push(BoxedHook::new(hook));
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
        self.definition.config = config;
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
            durability: Some(context),
            definition: self.definition,
            messages: self.messages,
            persistent: self.persistent,
        }
    }

    /// Adds a layer around the calls of the model, inside those added before.
    pub fn layer(mut self, layer: impl ModelLayer + 'static) -> Self {
        self.definition.layers.push(BoxedLayer::new(layer));
        self
    }

    /// Builds the agent.
    #[must_use]
    pub fn build(mut self) -> AgentLoop<P, C, D> {
        for context in self.persistent {
            let config = &mut self.definition.config;
            config.system_prompt = joined(std::mem::take(&mut config.system_prompt), context);
        }
        let Self { provider, context, durability, definition, messages, .. } = self;
        AgentLoop::assemble(provider, context, durability, definition, messages)
    }
}

impl<P, C, D> fmt::Debug for AgentLoopBuilder<P, C, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentLoopBuilder")
            .field("tools", &self.definition.tools)
            .field("hooks", &self.definition.hooks.len())
            .field("config", &self.definition.config)
            .finish_non_exhaustive()
    }
}

impl<P, C, D> AgentLoopBuilder<P, C, D> {
    /// Lets the hooks of the run around a tool call watch an agent inside it too: before its own, and
    /// with all that they may do. [`HookScope::within`](neuron_types::HookScope::within) tells them whose
    /// events they see. `ctx` is the tool's. Default: an agent has only its own hooks.
    pub fn inherit_hooks(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            self.definition.hooks.splice(..0, run.hooks.iter().cloned());
        }
        self
    }

    /// Lets who decides on the calls of the run around a tool call decide on those of an agent inside
    /// it too, in place of its own [policy](Self::permission_policy), which stays where nobody decides on
    /// those; it waits for approvals, and signs them, as that run does. `ctx` is the tool's. Without a run
    /// around the call nothing changes.
    pub fn inherit_permissions(mut self, ctx: &ToolContext) -> Self {
        let run = ctx.extensions.get::<EnclosingRun>();
        if let Some(policy) = run.and_then(|run| run.policy.as_ref()) {
            self.definition.policy = Some(policy.clone());
        }
        self.inherit_pauses(ctx)
    }

    /// Lets an agent inside a tool call wait for approvals, and sign them, if the run around the call
    /// does: one that waits where the run around it does not is denied. Its
    /// [policy](Self::permission_policy) is its own. `ctx` is the tool's. Without a run around the call
    /// nothing changes.
    pub fn inherit_pauses(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            self.definition.config.pause_for_approval = run.pauses;
            #[cfg(feature = "signed-approvals")]
            self.definition.approval_key.clone_from(&run.approval_key);
        }
        self
    }
}
