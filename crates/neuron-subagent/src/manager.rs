//! The registry of sub-agents, and the functions that run them.

use std::future::Future;
use std::sync::Arc;

use futures_util::future::join_all;
use indexmap::IndexMap;
use neuron_loop::{Agent, AgentResult, Conversation, LoopError, Start};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecisions, CompletionRequest, CompletionResponse, Durability, DurableAgent as _,
    PendingApproval, Provider, ProviderError, RegistryError, ResumedApproval, StreamHandle,
    SubAgentError, ToolContext, ToolDyn, WasmCompatSend,
};

use crate::child_context::{child_context, depth_below};
use crate::tool::Team;
use crate::{SubAgentConfig, SubAgentTool};

/// The registered sub-agents, in the order of registration.
///
/// [`into_tools`](Self::into_tools) converts them into tools for a model. [`spawn`](Self::spawn) and similar methods
/// run them from code. Each run has a new conversation: the agent sees the prompt, and nothing of the caller's
/// conversation.
///
/// # Example
///
/// ```
/// use neuron_subagent::{SubAgentConfig, SubAgentManager};
/// # use neuron_testing::ScriptedProvider;
/// # use neuron_tool::ToolRegistry;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut agents = SubAgentManager::new();
/// agents.register("translator", SubAgentConfig {
///     system_prompt: "Translate into French. Answer with the translation alone.".into(),
///     ..Default::default()
/// });
///
/// # let (provider, tools) = (ScriptedProvider::new(["Bonjour", "Au revoir"]), ToolRegistry::new());
/// let tasks = vec![("translator", "Good morning"), ("translator", "Goodbye")];
/// let results = agents.spawn_parallel(tasks, &tools, &provider).await;
/// for result in results {
///     println!("{}", result?.response);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct SubAgentManager {
    configs: IndexMap<String, SubAgentConfig>,
}

impl SubAgentManager {
    /// Creates a manager without agents.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent. Replaces an agent with the same name, at its position.
    ///
    /// The name is also the name of the agent's tool. It must have 1 to 64 ASCII letters, digits, `_` or `-`, which
    /// [`into_tools`](Self::into_tools) checks.
    pub fn register(&mut self, name: impl Into<String>, config: SubAgentConfig) -> &mut Self {
        self.configs.insert(name.into(), config);
        self
    }

    /// Returns the configuration of an agent, or `None` if there is no agent with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SubAgentConfig> {
        self.configs.get(name)
    }

    /// Iterates over the names of the agents, in the order of registration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.configs.keys().map(String::as_str)
    }

    /// Converts every agent into a tool, in the order of registration. The tool has the agent's name and takes a
    /// `prompt`. Its result is the agent's response.
    ///
    /// An agent may use the tools that its configuration names. Each name is a tool in `parent_tools` or another agent.
    /// Tools from `parent_tools` keep their middleware. The registry is copied, so agents do not see tools and
    /// middleware that are added to it later. Add middleware and the sandbox first.
    ///
    /// All agents share the provider. To keep using it yourself, pass a clone, an `Arc`, or a
    /// [`BoxedProvider`](neuron_types::BoxedProvider).
    ///
    /// # Errors
    ///
    /// [`SubAgentError::UnknownTool`] if an agent names a tool that is neither in `parent_tools` nor an agent.
    /// [`SubAgentError::Registry`] if an agent has a name that is not valid for a tool.
    pub fn into_tools<P: Provider + 'static>(
        self,
        parent_tools: &ToolRegistry,
        provider: P,
    ) -> Result<Vec<SubAgentTool<P>>, SubAgentError> {
        for (agent, config) in &self.configs {
            if !is_tool_name(agent) {
                return Err(RegistryError::InvalidName { name: agent.clone() }.into());
            }
            let is_known =
                |tool: &str| parent_tools.get(tool).is_some() || self.configs.contains_key(tool);
            if let Some(tool) = config.tools.iter().find(|tool| !is_known(tool)) {
                return Err(unknown_tool(agent, tool));
            }
        }
        let names: Vec<String> = self.configs.keys().cloned().collect();
        let team = Arc::new(Team {
            agents: self,
            provider: Arc::new(provider),
            tools: parent_tools.clone(),
        });
        Ok(names.into_iter().map(|name| SubAgentTool::new(team.clone(), name)).collect())
    }

    /// Converts the agents into tools and adds them to `registry`. The agents may use the tools of `registry`, as
    /// described at [`into_tools`](Self::into_tools).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`into_tools`](Self::into_tools). Also returns [`SubAgentError::Registry`] if `registry`
    /// already has a tool with the name of an agent. After an error the registry is unchanged.
    pub fn add_to<P: Provider + 'static>(
        self,
        registry: &mut ToolRegistry,
        provider: P,
    ) -> Result<(), SubAgentError> {
        let mut with_agents = registry.clone();
        for tool in self.into_tools(registry, provider)? {
            with_agents.try_register_dyn(Arc::new(tool))?;
        }
        *registry = with_agents;
        Ok(())
    }

    /// Runs an agent with a prompt, and returns its answer. The run shares no budget, hooks or usage with another run.
    ///
    /// The agent can call other agents if they are in `parent_tools`, where [`add_to`](Self::add_to) puts them.
    ///
    /// # Errors
    ///
    /// - [`SubAgentError::UnknownAgent`] if no agent has this name.
    /// - [`SubAgentError::UnknownTool`] if the agent's configuration names a tool that is not in `parent_tools`.
    /// - [`SubAgentError::DepthExceeded`] if the agent's `max_depth` is zero.
    /// - [`SubAgentError::Run`] if the run ends with an error, including [`LoopError::ApprovalRequired`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the agent.
    pub fn spawn<P: Provider>(
        &self,
        name: &str,
        prompt: &str,
        parent_tools: &ToolRegistry,
        provider: &P,
    ) -> impl Future<Output = Result<AgentResult, SubAgentError>> + WasmCompatSend {
        async move {
            let ctx = ToolContext::default();
            self.spawn_in(name, prompt, parent_tools, provider, &ctx).await
        }
    }

    /// Runs an agent with the context `ctx`, usually the context of the tool call that starts the agent. The agent runs
    /// as a child of the calling run. It uses the budget of the context and is cancelled with the context. If the
    /// context has a [`ResumedApproval`], the agent's paused run continues.
    ///
    /// To run one agent several times inside one call, use [`spawn_parallel_in`](Self::spawn_parallel_in), or contexts
    /// with different idempotency keys. Otherwise the tool calls of these runs have the same idempotency keys.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Self::spawn). A tool can return such an error as its
    /// [`ToolError`](neuron_types::ToolError).
    ///
    /// # Cancel safety
    ///
    /// Same as [`spawn`](Self::spawn).
    pub fn spawn_in<P: Provider>(
        &self,
        name: &str,
        prompt: &str,
        parent_tools: &ToolRegistry,
        provider: &P,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, SubAgentError>> + WasmCompatSend {
        async move {
            let child = child_context(ctx, name, None);
            self.run(name, prompt, parent_tools, Steps::Here(provider), &child, |_| None).await
        }
    }

    /// Runs agents concurrently, each with its prompt. The results are in the order of the tasks. A failed agent does
    /// not affect the others.
    ///
    /// The agents run within the calling task. No tasks are spawned.
    ///
    /// # Errors
    ///
    /// Each result has the errors of [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all agents.
    pub fn spawn_parallel<P: Provider>(
        &self,
        tasks: Vec<(&str, &str)>,
        parent_tools: &ToolRegistry,
        provider: &P,
    ) -> impl Future<Output = Vec<Result<AgentResult, SubAgentError>>> + WasmCompatSend {
        async move {
            let ctx = ToolContext::default();
            self.spawn_parallel_in(tasks, parent_tools, provider, &ctx).await
        }
    }

    /// Runs agents concurrently with the context `ctx`, as [`spawn_parallel`](Self::spawn_parallel) does without a
    /// context. The agents share the budget of the context and are cancelled with it.
    ///
    /// An agent that needs an approval ends with [`LoopError::ApprovalRequired`]. Continue it with
    /// [`resume`](Self::resume). A tool call with several agents inside cannot pause for all of them. If a model should
    /// call several agents concurrently, give it [tools](Self::into_tools).
    ///
    /// # Errors
    ///
    /// Each result has the errors of [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// Same as [`spawn_parallel`](Self::spawn_parallel).
    pub fn spawn_parallel_in<P: Provider>(
        &self,
        tasks: Vec<(&str, &str)>,
        parent_tools: &ToolRegistry,
        provider: &P,
        ctx: &ToolContext,
    ) -> impl Future<Output = Vec<Result<AgentResult, SubAgentError>>> + WasmCompatSend {
        async move {
            let run = |(place, (name, prompt))| async move {
                let child = child_context(ctx, name, Some(place));
                self.run(name, prompt, parent_tools, Steps::Here(provider), &child, |_| None).await
            };
            join_all(tasks.into_iter().enumerate().map(run)).await
        }
    }

    /// Continues an agent that ended with [`LoopError::ApprovalRequired`]. `decisions` contains the decisions on the
    /// agent's pending calls.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`spawn`](Self::spawn). [`SubAgentError::Run`] also contains the errors of a
    /// [run](Agent::run) that starts with decisions, for example if a decision does not match a pending call.
    ///
    /// # Cancel safety
    ///
    /// Same as [`spawn`](Self::spawn).
    pub fn resume<P: Provider>(
        &self,
        name: &str,
        pending: PendingApproval,
        decisions: ApprovalDecisions,
        parent_tools: &ToolRegistry,
        provider: &P,
        ctx: &ToolContext,
    ) -> impl Future<Output = Result<AgentResult, SubAgentError>> + WasmCompatSend {
        async move {
            let mut child = child_context(ctx, name, None);
            child.extensions.insert(ResumedApproval::new(pending, decisions));
            self.run(name, "", parent_tools, Steps::Here(provider), &child, |_| None).await
        }
    }

    /// Runs the agent `name` in the context `ctx`, which [`child_context`] has already derived for this agent.
    ///
    /// `agent_tool` returns the tool for the sub-agent with the given name, or `None` if no such tool is available.
    pub(crate) async fn run<P: Provider>(
        &self,
        name: &str,
        prompt: &str,
        parent_tools: &ToolRegistry,
        steps: Steps<'_, P>,
        ctx: &ToolContext,
        agent_tool: impl Fn(&str) -> Option<Arc<dyn ToolDyn>> + WasmCompatSend,
    ) -> Result<AgentResult, SubAgentError> {
        let config = self.configs.get(name).ok_or_else(|| SubAgentError::UnknownAgent {
            name: name.to_owned(),
            known: self.configs.keys().cloned().collect(),
        })?;
        let (below, max_depth) = (depth_below(ctx), config.max_depth);
        let depth = below.saturating_sub(1);
        if depth > max_depth {
            return Err(SubAgentError::DepthExceeded { agent: name.to_owned(), depth, max_depth });
        }
        let tools = self.tools_of(name, config, parent_tools, below, agent_tool)?;
        let (mut conversation, start) = match ctx.extensions.get::<ResumedApproval>() {
            Some(resumed) => (resumed.pending.clone().try_into(), resumed.decisions.clone().into()),
            None => (Ok(Conversation::new()), Start::from(prompt)),
        };
        let result = match &mut conversation {
            Ok(conversation) => {
                let run = agent(name, config, tools, ctx).run(conversation, start).context(ctx);
                let run = match steps {
                    Steps::Here(provider) => run.provider(provider),
                    Steps::In(durability) => run.durable(durability),
                };
                run.await.map(|result| result.with_messages(conversation))
            }
            Err(error) => Err(LoopError::Approval(error.clone())),
        };
        result.map_err(|error: LoopError| {
            let (agent, source) = (name.to_owned(), Box::new(error));
            SubAgentError::Run { agent, source }
        })
    }

    /// Adds the hooks and the permission policy of the agent `name` to `ctx`, the context of a tool call that this
    /// agent makes.
    pub(crate) fn extend_context(&self, name: &str, ctx: &mut ToolContext) {
        if let Some(config) = self.configs.get(name) {
            agent(name, config, ToolRegistry::new(), ctx).extend_context(ctx);
        }
    }

    /// Returns the tools of an agent, without the check of the maximum depth. Returns an empty registry if the agent or
    /// one of its tools is unknown.
    pub(crate) fn all_tools_of(
        &self,
        name: &str,
        parent_tools: &ToolRegistry,
        agent_tool: impl Fn(&str) -> Option<Arc<dyn ToolDyn>>,
    ) -> ToolRegistry {
        let config = self.configs.get(name);
        let tools = config.map(|config| self.tools_of(name, config, parent_tools, 0, agent_tool));
        tools.and_then(Result::ok).unwrap_or_default()
    }

    /// Returns the tools that `config` lists for the agent `name`. `agent_tool` supplies the listed sub-agents that are
    /// not in `parent_tools`.
    ///
    /// A sub-agent is left out if `below`, the depth at which it would run, exceeds its maximum depth. Tools from
    /// `parent_tools` keep their middleware.
    fn tools_of(
        &self,
        name: &str,
        config: &SubAgentConfig,
        parent_tools: &ToolRegistry,
        below: usize,
        agent_tool: impl Fn(&str) -> Option<Arc<dyn ToolDyn>>,
    ) -> Result<ToolRegistry, SubAgentError> {
        let may_have = |tool: &str| {
            let is_named = config.tools.iter().any(|named| named == tool);
            is_named && self.configs.get(tool).is_none_or(|agent| below <= agent.max_depth)
        };
        let mut tools = parent_tools.clone();
        for tool in parent_tools.names().filter(|tool| !may_have(tool)) {
            tools.remove(tool);
        }
        for tool in &config.tools {
            if parent_tools.get(tool).is_some() {
                continue;
            }
            let known = agent_tool(tool).ok_or_else(|| unknown_tool(name, tool))?;
            if may_have(tool) {
                tools.try_register_dyn(known).ok();
            }
        }
        Ok(tools)
    }
}

/// Returns `true` if every vendor accepts the name for a tool.
fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn unknown_tool(agent: &str, tool: &str) -> SubAgentError {
    SubAgentError::UnknownTool { agent: agent.to_owned(), tool: tool.to_owned() }
}

/// Builds an agent from its configuration, with a placeholder provider. Each run sets the real provider.
fn agent(name: &str, config: &SubAgentConfig, tools: ToolRegistry, ctx: &ToolContext) -> Agent {
    let settings = config.loop_config(name);
    let mut builder = Agent::builder(NoProvider)
        .context(config.context.clone())
        .config(|config| *config = settings)
        .tools(tools);
    if let Some(policy) = &config.policy {
        builder = builder.permission_policy(policy.clone());
    }
    builder = builder.inherit_permissions(ctx);
    if config.inherits_hooks {
        builder = builder.inherit_hooks(ctx);
    }
    config.hooks.iter().cloned().fold(builder, |builder, hook| builder.hook(hook)).build()
}

/// The executor of an agent's model calls and tool calls.
pub(crate) enum Steps<'a, P> {
    /// Calls this provider, and runs the tools in this process without a journal.
    Here(&'a P),
    /// Passes the model calls and tool calls to a durable engine, which journals them.
    In(Durability<'a>),
}

/// A placeholder provider that always fails. Each run sets its real provider.
struct NoProvider;

impl Provider for NoProvider {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("no provider was given".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("no provider was given".into()))
    }
}
