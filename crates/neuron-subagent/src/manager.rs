//! The sub-agents that there are, and running them.

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

/// The sub-agents that there are, in the order in which they were registered.
///
/// [`into_tools`](Self::into_tools) makes tools of them, which a model calls; [`spawn`](Self::spawn) and
/// its like run them from code. Each run is an agent of its own: it sees the prompt, and nothing of the
/// conversation around it.
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
    /// Starts without an agent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an agent. One with the same name is replaced in its place.
    ///
    /// The name is that of its tool: 1 to 64 ASCII letters, digits, `_` or `-`.
    pub fn register(&mut self, name: impl Into<String>, config: SubAgentConfig) -> &mut Self {
        self.configs.insert(name.into(), config);
        self
    }

    /// Returns what an agent is made of.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&SubAgentConfig> {
        self.configs.get(name)
    }

    /// Iterates over the names of the agents, in the order in which they were registered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.configs.keys().map(String::as_str)
    }

    /// Converts every agent into a tool, in their order. The tool has the agent's name and takes a `prompt`.
    /// Its result is the agent's response.
    ///
    /// `parent_tools` are the tools that the agents may have, by the names in their configurations,
    /// together with the agents themselves; what of middleware is around them then stays around them.
    /// What is added to the registry later the agents do not have: middleware and the sandbox belong in
    /// it before.
    ///
    /// The provider is shared by all: hand over a clone, an `Arc`, or a
    /// [`BoxedProvider`](neuron_types::BoxedProvider).
    ///
    /// # Errors
    ///
    /// [`SubAgentError::UnknownTool`] for the first tool of an agent that is neither in `parent_tools`
    /// nor an agent, and [`SubAgentError::Registry`] for a name that no tool may have.
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

    /// [`into_tools`](Self::into_tools) of the tools in a registry, added to it.
    ///
    /// # Errors
    ///
    /// As [`into_tools`](Self::into_tools), and [`SubAgentError::Registry`] also if a tool has the name of
    /// an agent; the registry is as before.
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

    /// Runs an agent with a prompt, to its answer. What it takes and does is seen by nobody else.
    ///
    /// It can call other agents if they are among the `parent_tools`, where [`add_to`](Self::add_to) puts
    /// them.
    ///
    /// # Errors
    ///
    /// [`SubAgentError::UnknownAgent`], [`SubAgentError::UnknownTool`],
    /// [`SubAgentError::DepthExceeded`] if its `max_depth` is zero, and [`SubAgentError::Run`] for what
    /// ends its run, [`LoopError::ApprovalRequired`] too.
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

    /// Runs an agent inside a tool call, or with another context. It uses the budget of the context and is
    /// cancelled with it. The agent runs as a child of the calling run. Inside a call whose agent waited for an
    /// approval, it continues that run.
    ///
    /// Several runs of one agent inside one call need [`spawn_parallel_in`](Self::spawn_parallel_in), or
    /// contexts with different idempotency keys: the keys of their calls are made from it.
    ///
    /// # Errors
    ///
    /// As [`spawn`](Self::spawn); a tool returns it as its
    /// [`ToolError`](neuron_types::ToolError).
    ///
    /// # Cancel safety
    ///
    /// As [`spawn`](Self::spawn).
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

    /// Runs agents at the same time, each with its prompt. The results are in the order of the tasks;
    /// one that fails takes nothing from the others.
    ///
    /// Nothing is spawned: they run as one task.
    ///
    /// # Errors
    ///
    /// Each as [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops all of them.
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

    /// Runs agents as [`spawn_parallel`](Self::spawn_parallel) does, with a context. The agents share its
    /// budget and are cancelled with it.
    ///
    /// One that waits for an approval ends with it, and goes on with [`resume`](Self::resume): a call
    /// with several agents inside cannot hand on the pauses of all. Where models should call several
    /// agents at a time, give them [tools](Self::into_tools).
    ///
    /// # Errors
    ///
    /// Each as [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// As [`spawn_parallel`](Self::spawn_parallel).
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

    /// Continues an agent that ended with [`LoopError::ApprovalRequired`], with the decisions on its pending
    /// calls.
    ///
    /// # Errors
    ///
    /// As a [run](Agent::run) that starts with decisions, inside [`SubAgentError::Run`], and as [`spawn`](Self::spawn).
    ///
    /// # Cancel safety
    ///
    /// As [`spawn`](Self::spawn).
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

    /// Runs an agent with a context that is its own. `agent_tool` makes the tools of other agents.
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

    /// Hands the hooks and permissions of an agent on to a call of its tools.
    pub(crate) fn hand_on(&self, name: &str, ctx: &mut ToolContext) {
        if let Some(config) = self.configs.get(name) {
            agent(name, config, ToolRegistry::new(), ctx).hand_on(ctx);
        }
    }

    /// The tools of an agent, at any depth.
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

    /// Returns the tools of an agent. They are the tools of the registry that it names, with their middleware,
    /// and the agents that it names and that may run below it.
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

/// Returns `true` if every vendor accepts a name for a tool.
fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn unknown_tool(agent: &str, tool: &str) -> SubAgentError {
    SubAgentError::UnknownTool { agent: agent.to_owned(), tool: tool.to_owned() }
}

/// Puts an agent together, whose provider each run gets.
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

/// The executor of an agent's steps.
pub(crate) enum Steps<'a, P> {
    /// This provider, and its tools in this process.
    Here(&'a P),
    /// A durable context.
    In(Durability<'a>),
}

/// The provider of an agent that borrows another for each run.
struct NoProvider;

impl Provider for NoProvider {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(ProviderError::InvalidRequest("no provider was given".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(ProviderError::InvalidRequest("no provider was given".into()))
    }
}
