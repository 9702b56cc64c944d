//! Building an [`Agent`].

use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalSigner, BoxedHook, BoxedLayer, Budget, CacheControl, ContextStrategy, Injector,
    KeepAll, LoopConfig, ModelLayer, ObservabilityHook, PermissionPolicy, PrepareTurn, Provider,
    RegistryError, RequestSettings, RunView, SystemPrompt, ToolContext, ToolErrorPolicy, TurnSetup,
    UsageLimits, WasmCompatSend, WasmCompatSync,
};

use crate::agent::{Agent, Inner};
use crate::parts::EnclosingRun;

/// The turn limit of an agent that sets no other.
const MAX_TURNS: usize = 50;

/// The retries of an agent that sets no others.
const RETRIES: usize = 2;

/// The time limit for tools of an agent that sets no other.
const TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// Builds an [`Agent`]. Made by [`Agent::builder`].
///
/// Its defaults are for production: mistakes of the model (arguments that do not fit, unknown tools, tools that fail)
/// go back to the model, a run has at most 50 turns, a call of the model is made again twice after an error that may
/// pass, and a tool may take ten minutes. Providers that cache on request are asked to cache the conversation.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentBuilder {
    pub(crate) inner: Inner,
}

impl AgentBuilder {
    pub(crate) fn new(provider: impl Provider + 'static) -> Self {
        let mut inner = Inner {
            model: Arc::new(provider),
            strategy: Arc::new(KeepAll),
            definition: Default::default(),
        };
        let config = &mut inner.definition.config;
        config.max_turns = Some(MAX_TURNS);
        config.retries = RETRIES;
        config.tool_errors = ToolErrorPolicy::ReturnToModel;
        config.tool_timeout = Some(TOOL_TIMEOUT);
        config.request.cache = Some(CacheControl::default());
        Self { inner }
    }

    /// Names the agent, for hooks and telemetry. Default: it has no name.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.inner.definition.config.name = name.into();
        self
    }

    /// Sets the model. Default: the provider's.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.inner.definition.config.request.model = name.into();
        self
    }

    /// Sets the instructions for the model. Default: none.
    pub fn system_prompt(mut self, prompt: impl Into<SystemPrompt>) -> Self {
        self.inner.definition.config.system_prompt = prompt.into();
        self
    }

    /// Sets the tools. Default: none.
    pub fn tools(mut self, tools: ToolRegistry) -> Self {
        self.inner.definition.tools = tools;
        self
    }

    /// Sets the strategy that keeps conversations inside the model's context window. Default: none.
    pub fn context(mut self, strategy: impl ContextStrategy + 'static) -> Self {
        self.inner.strategy = Arc::new(strategy);
        self
    }

    /// Limits the calls of the model in one run. Default: 50.
    pub fn max_turns(mut self, turns: impl Into<Option<usize>>) -> Self {
        self.inner.definition.config.max_turns = turns.into();
        self
    }

    /// Limits the tokens, requests and tool calls of one run. Default: no limits.
    pub fn usage_limits(mut self, limits: UsageLimits) -> Self {
        self.inner.definition.config.usage_limits = Some(limits);
        self
    }

    /// Limits the time of each tool call. `None` means no limit. Default: ten minutes.
    pub fn tool_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.inner.definition.config.tool_timeout = timeout.into();
        self
    }

    /// Lets all runs, and agents within their tools, keep to one budget. Default: the budget in the context of the run.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.inner.definition.budget = Some(budget);
        self
    }

    /// Sets the policy that decides which calls may run. It is asked after the hooks and before any middleware.
    /// Default: all calls run.
    pub fn permission_policy(mut self, policy: impl PermissionPolicy + 'static) -> Self {
        self.inner.definition.policy = Some(Arc::new(policy));
        self
    }

    /// Signs the calls that wait for an approval, and decides only on signed ones. Default: calls are not signed.
    pub fn approval_signer(mut self, signer: impl ApprovalSigner + 'static) -> Self {
        self.inner.definition.signer = Some(Arc::new(signer));
        self
    }

    /// Adds a hook, after those added before, and the [layer](ObservabilityHook::layer) that it brings.
    pub fn hook(mut self, hook: impl ObservabilityHook + 'static) -> Self {
        self.inner.definition.hooks.push(BoxedHook::new(hook));
        self
    }

    /// Adds a layer around the calls of the model, inside those added before.
    pub fn layer(mut self, layer: impl ModelLayer + 'static) -> Self {
        self.inner.definition.layers.push(BoxedLayer::new(layer));
        self
    }

    /// Adds a callback that may change the settings, the system prompt and the tools of the next request. It is
    /// a layer, and is asked again on replay.
    ///
    /// # Example: search first
    ///
    /// ```
    /// use neuron_loop::{Agent, AgentBuilder};
    /// use neuron_types::ToolChoice;
    ///
    /// fn researcher(builder: AgentBuilder) -> Agent {
    ///     let builder = builder.prepare_turn(|turn| {
    ///         if turn.run.turns == 0 {
    ///             turn.settings.tool_choice = Some(ToolChoice::Required);
    ///             turn.retain_tools(|tool| tool.name == "search");
    ///         }
    ///     });
    ///     builder.build()
    /// }
    /// ```
    pub fn prepare_turn(
        self,
        callback: impl Fn(&mut TurnSetup<'_>) + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        self.layer(PrepareTurn::new(callback))
    }

    /// Adds a condition on which a run ends after the tools of an answer ran. The result of the run is that answer.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_loop::{Agent, AgentBuilder};
    ///
    /// fn reporter(builder: AgentBuilder) -> Agent {
    ///     builder.stop_when(|run| run.called("submit_report")).build()
    /// }
    /// ```
    pub fn stop_when(
        mut self,
        condition: impl Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync + 'static,
    ) -> Self {
        self.inner.definition.stop_conditions.push(Arc::new(condition));
        self
    }

    /// Adds an injector. It is asked before each call of the model, and its texts become system messages at the end of
    /// the conversation.
    pub fn injector(mut self, injector: impl Injector + 'static) -> Self {
        self.inner.definition.injectors.push(Arc::new(injector));
        self
    }

    /// Changes settings of the requests, such as sampling, thinking and tool choice.
    pub fn request(mut self, change: impl FnOnce(&mut RequestSettings)) -> Self {
        change(&mut self.inner.definition.config.request);
        self
    }

    /// Changes any other setting.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_loop::{Agent, AgentBuilder, OnLimit};
    ///
    /// fn agent(builder: AgentBuilder) -> Agent {
    ///     builder.config(|config| config.on_limit = OnLimit::Finalize).build()
    /// }
    /// ```
    pub fn config(mut self, change: impl FnOnce(&mut LoopConfig)) -> Self {
        change(&mut self.inner.definition.config);
        self
    }

    /// Takes over the hooks of the run around a tool call. They watch this agent too, before its own hooks. `ctx` is
    /// the context of the call.
    pub fn inherit_hooks(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = EnclosingRun::around(ctx) {
            self.inner.definition.hooks.splice(..0, run.hooks.iter().cloned());
        }
        self
    }

    /// Takes over the policy of the run around a tool call, unless the agent has one of its own, and whether it waits
    /// for approvals and signs them. `ctx` is the context of the call.
    pub fn inherit_permissions(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = EnclosingRun::around(ctx) {
            let definition = &mut self.inner.definition;
            definition.policy = definition.policy.take().or_else(|| run.policy.clone());
            definition.config.pause_for_approval = run.pauses;
            definition.signer.clone_from(&run.signer);
        }
        self
    }

    /// Builds the agent. Calls of a tool that cannot run fail. [`try_build`](Self::try_build) finds such tools before.
    #[must_use]
    pub fn build(self) -> Agent {
        Agent(Arc::new(self.inner))
    }

    /// Builds the agent, and checks that all its tools can run.
    ///
    /// # Errors
    ///
    /// [`RegistryError::CannotRun`] for a tool that runs a program without a sandbox, or that the sandbox refuses.
    pub fn try_build(self) -> Result<Agent, RegistryError> {
        self.inner.definition.tools.check_runnable()?;
        Ok(self.build())
    }
}
