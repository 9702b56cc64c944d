//! The definition of an agent, and building it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalSigner, BoxedHook, BoxedLayer, Budget, CacheControl, ContextStrategy,
    ContextStrategyDyn, Injector, LoopConfig, ModelLayer, NoCompaction, ObservabilityHook,
    PermissionPolicy, PrepareTurn, Provider, ProviderDyn, RegistryError, RequestSettings, RunView,
    SystemPrompt, ToolContext, ToolErrorPolicy, TurnSetup, UsageLimits, WasmCompatSend,
    WasmCompatSync,
};

use crate::parts::{Definition, EnclosingRun};

/// Default limit of turns in one run.
const MAX_TURNS: usize = 50;

/// Default number of retries of one model call.
const RETRIES: usize = 2;

/// Default timeout of a tool call.
const TOOL_TIMEOUT: Duration = Duration::from_secs(600);

/// The definition of an agent, with its model, tools and settings. Any number of
/// [conversations](crate::Conversation) can share it. Cloning is cheap.
///
/// # Example
///
/// ```
/// # use neuron_loop::{Agent, Conversation, LoopError};
/// # use neuron_testing::ScriptedProvider;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LoopError> {
/// # let provider = ScriptedProvider::new(["4", "5"]);
/// let agent = Agent::builder(provider).system_prompt("You are a calculator.").build();
///
/// let mut chat = Conversation::new();
/// let result = agent.run(&mut chat, "What is 2 + 2?").await?;
/// assert_eq!(result.response, "4");
/// agent.run(&mut chat, "And one more?").await?;
/// assert_eq!(chat.messages().len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Agent(pub(crate) Arc<Inner>);

/// The state that all clones of an [`Agent`] share.
#[derive(Clone)]
pub(crate) struct Inner {
    pub(crate) model: Arc<dyn ProviderDyn>,
    pub(crate) strategy: Arc<dyn ContextStrategyDyn>,
    pub(crate) definition: Definition,
}

impl Agent {
    /// Starts building an agent.
    pub fn builder(provider: impl Provider + 'static) -> AgentBuilder {
        let mut inner = Inner {
            model: Arc::new(provider),
            strategy: Arc::new(NoCompaction),
            definition: Default::default(),
        };
        let config = &mut inner.definition.config;
        config.max_turns = Some(MAX_TURNS);
        config.retries = RETRIES;
        config.tool_errors = ToolErrorPolicy::ReturnToModel;
        config.tool_timeout = Some(TOOL_TIMEOUT);
        config.request.cache = Some(CacheControl::default());
        AgentBuilder { inner }
    }

    /// Returns a builder with a copy of this agent's settings, tools, hooks and layers.
    pub fn to_builder(&self) -> AgentBuilder {
        let mut inner = Inner::clone(&self.0);
        inner.definition.changed();
        AgentBuilder { inner }
    }

    /// Returns the agent's tools.
    #[must_use]
    pub fn tools(&self) -> &ToolRegistry {
        &self.0.definition.tools
    }

    /// Returns the agent's settings.
    #[must_use]
    pub fn config(&self) -> &LoopConfig {
        &self.0.definition.config
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Definition { tools, hooks, config, .. } = &self.definition;
        f.debug_struct("Agent")
            .field("tools", tools)
            .field("hooks", &hooks.len())
            .field("config", config)
            .finish_non_exhaustive()
    }
}

/// Implements the setters of a builder. Each has its documentation, its name, its argument, and a closure that changes
/// the definition of the agent.
macro_rules! setters {
    ($builder:ident $(<$($generic:ident),*>)?: $(
        $(#[$doc:meta])* $name:ident($value:ident: $type:ty) => $change:expr;
    )*) => {
        impl $(<$($generic),*>)? $builder $(<$($generic),*>)? {$(
            $(#[$doc])*
            pub fn $name(self, $value: $type) -> Self {
                self.change($change)
            }
        )*}
    };
}

pub(crate) use setters;

/// Builds an [`Agent`]. Made by [`Agent::builder`].
///
/// The defaults are meant for production:
///
/// - After a mistake of the model, such as invalid arguments, an unknown tool or a failing tool, the model gets the
///   error as the result.
/// - A run has at most 50 turns.
/// - A model call is retried twice after a transient error.
/// - A tool call may take ten minutes.
/// - Requests ask the provider to cache the conversation.
///
/// [`LoopConfig::default`] has none of these defaults. There, a failing tool ends the run, and there is no limit of
/// turns, no retry, no timeout of tool calls and no cache.
#[derive(Debug)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct AgentBuilder {
    inner: Inner,
}

setters! { AgentBuilder:
    /// Sets the name of the agent for hooks and telemetry. Default: no name.
    name(name: impl Into<String>) => |it| it.config.name = name.into();

    /// Sets the model. Default: the provider's default model.
    model(name: impl Into<String>) => |it| it.config.request.model = name.into();

    /// Sets the instructions for the model. Default: none.
    system_prompt(prompt: impl Into<SystemPrompt>) => |it| it.config.system_prompt = prompt.into();

    /// Sets the tools. Default: none.
    tools(tools: ToolRegistry) => |it| it.tools = tools;

    /// Limits the model calls of one run. `None` means no limit. Default: 50.
    max_turns(turns: impl Into<Option<usize>>) => |it| it.config.max_turns = turns.into();

    /// Limits the tokens, requests and tool calls of one run. Default: no limits.
    usage_limits(limits: UsageLimits) => |it| it.config.usage_limits = Some(limits);

    /// Limits the time of each tool call, including its middleware. `None` means no limit. Default: ten minutes.
    ///
    /// The middleware [`TimeoutMiddleware`](neuron_tool::builtin::TimeoutMiddleware) sets the timeouts of single tools.
    /// If a call has both timeouts, the shorter timeout applies. A durable engine ignores this limit, and uses the
    /// timeout in [`LoopConfig::tool_activity`].
    tool_timeout(timeout: impl Into<Option<Duration>>) =>
        |it| it.config.tool_timeout = timeout.into();

    /// Sets a budget that all runs of this agent share, including the agents inside their tools. By default, the budget
    /// in the [`ToolContext`] of the run applies, if there is one.
    budget(budget: Budget) => |it| it.budget = Some(budget);

    /// Sets the policy that decides which tool calls may run. It decides after the hooks and before any middleware.
    /// Default: all calls run.
    permission_policy(policy: impl PermissionPolicy + 'static) =>
        |it| it.policy = Some(Arc::new(policy));

    /// Sets the signer of tool calls that wait for an approval. With a signer, decisions on unsigned calls are
    /// rejected. Default: calls are not signed.
    approval_signer(signer: impl ApprovalSigner + 'static) =>
        |it| it.signer = Some(Arc::new(signer));

    /// Adds a hook after the existing hooks, together with its [layer](ObservabilityHook::layer).
    hook(hook: impl ObservabilityHook + 'static) => |it| it.hooks.push(BoxedHook::new(hook));

    /// Adds a layer around the model calls, inside the existing layers.
    layer(layer: impl ModelLayer + 'static) => |it| it.layers.push(BoxedLayer::new(layer));

    /// Adds a condition that is checked after the tools of a response have run. If the condition returns `true`, the
    /// run ends with this response.
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
    stop_when(condition: impl Fn(&RunView<'_>) -> bool + WasmCompatSend + WasmCompatSync + 'static) =>
        |it| it.stop_conditions.push(Arc::new(condition));

    /// Adds an injector that is called before each model call. Its texts become system messages at the end of the
    /// conversation.
    injector(injector: impl Injector + 'static) => |it| it.injectors.push(Arc::new(injector));
}

impl AgentBuilder {
    /// Sets the strategy that keeps conversations within the model's context window. Default: no compaction.
    pub fn context(mut self, strategy: impl ContextStrategy + 'static) -> Self {
        self.inner.strategy = Arc::new(strategy);
        self
    }

    /// Adds a callback that runs before each model call, and may change its settings, system prompt and tools. It is
    /// added as a [layer](Self::layer), and runs again on replay but not before a [retry](LoopConfig::retries).
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

    /// Changes the settings of each request, such as sampling, thinking and tool choice.
    pub fn request(self, change: impl FnOnce(&mut RequestSettings)) -> Self {
        self.config(|config| change(&mut config.request))
    }

    /// Changes any setting of [`LoopConfig`].
    ///
    /// The callback receives the defaults of the builder. If it replaces the whole value with a `LoopConfig` that was
    /// made by `LoopConfig::default()`, the defaults of the builder are lost.
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
    pub fn config(self, change: impl FnOnce(&mut LoopConfig)) -> Self {
        self.change(|definition| change(&mut definition.config))
    }

    /// Adds the hooks of the parent run before the hooks of this agent. The parent run made the tool call that runs
    /// this agent, and `ctx` is the context of this call.
    pub fn inherit_hooks(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            self.inner.definition.hooks.splice(..0, run.hooks.iter().cloned());
        }
        self
    }

    /// Uses the permission policy of the parent run, unless this agent has its own. Also uses the parent's approval
    /// signer. Calls that need an approval wait if they wait in the parent run, and are denied otherwise.
    ///
    /// The parent run made the tool call that runs this agent, and `ctx` is the context of this call.
    pub fn inherit_permissions(mut self, ctx: &ToolContext) -> Self {
        if let Some(run) = ctx.extensions.get::<EnclosingRun>() {
            let definition = &mut self.inner.definition;
            definition.policy = definition.policy.take().or_else(|| run.policy.clone());
            definition.config.pause_for_approval = run.pauses;
            definition.signer.clone_from(&run.signer);
        }
        self
    }

    fn change(mut self, change: impl FnOnce(&mut Definition)) -> Self {
        change(&mut self.inner.definition);
        self
    }

    /// Builds the agent. A tool that cannot run fails only when it is called. Use [`try_build`](Self::try_build) to
    /// detect such tools earlier.
    #[must_use]
    pub fn build(self) -> Agent {
        Agent(Arc::new(self.inner))
    }

    /// Builds the agent, and checks that all its tools can run.
    ///
    /// # Errors
    ///
    /// [`RegistryError::CannotRun`] if a tool runs a program without a sandbox, or if the sandbox refuses the tool.
    pub fn try_build(self) -> Result<Agent, RegistryError> {
        self.inner.definition.tools.check_runnable()?;
        Ok(self.build())
    }
}
