//! Agents with scripted providers.

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, AgentBuilder, Conversation, LoopConfig, Run, Start};
use neuron_otel::{OtelHook, SemanticConventions};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{HookAction, HookError, HookEvent, ObservabilityHook, Provider, ToolContext};
use serde_json::{Value, json};

use crate::support::memory::Memory;
use crate::support::tools::{Act, registry};

pub(crate) const MODES: [SemanticConventions; 3] =
    [SemanticConventions::V1_41, SemanticConventions::Latest, SemanticConventions::Book];

/// Returns a sliding window that is so large that it omits no message.
pub(crate) fn window() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(1_000, 1_000_000)
}

/// Returns a hook that records metrics in `memory`.
pub(crate) fn hook(memory: &Memory) -> OtelHook {
    OtelHook::new().with_meter_provider(&memory.meter)
}

/// Returns a builder of an agent with a large context window and the default [`LoopConfig`], which `Agent::builder`
/// alone does not use.
pub(crate) fn bare(provider: impl Provider + 'static) -> AgentBuilder {
    Agent::builder(provider).context(window()).config(|config| *config = LoopConfig::default())
}

/// Sets the agent loop to run all tool calls of one response in parallel.
pub(crate) fn parallel(config: &mut LoopConfig) {
    config.parallel_tool_execution = true;
}

/// An agent and its conversation.
pub(crate) struct Chat {
    agent: Agent,
    pub(crate) conversation: Conversation,
}

impl Chat {
    pub(crate) fn new(builder: AgentBuilder) -> Self {
        Self { agent: builder.build(), conversation: Conversation::new() }
    }

    pub(crate) fn run<'a>(&'a mut self, start: impl Into<Start>, ctx: &'a ToolContext) -> Run<'a> {
        self.agent.run(&mut self.conversation, start).context(ctx)
    }
}

/// Returns a builder of an agent `scout` with the tool `look` and a hook.
pub(crate) fn scout<R: Into<Reply>>(
    memory: &Memory,
    replies: impl IntoIterator<Item = R>,
) -> AgentBuilder {
    scout_of(ScriptedProvider::new(replies)).hook(hook(memory))
}

/// Returns a builder of an agent `scout` with the tool `look` and no hook.
pub(crate) fn scout_of(provider: impl Provider + 'static) -> AgentBuilder {
    bare(provider).name("scout").tools(registry([Act::new("look")]))
}

/// Returns a response that calls `look` once for each input. The call ids are `c0`, `c1`, and so on.
pub(crate) fn looks(inputs: impl IntoIterator<Item = Value>) -> Reply {
    let name = |(index, input)| (format!("c{index}"), "look", input);
    Reply::tool_calls(inputs.into_iter().enumerate().map(name))
}

/// Returns a response that calls `look` once.
pub(crate) fn look() -> Reply {
    looks([json!({})])
}

/// The ways to run an agent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Run,
    Stream,
    Step,
}

pub(crate) const WAYS: [Way; 3] = [Way::Run, Way::Stream, Way::Step];

/// Runs an agent to its end and ignores the result. `way` selects whether the run is awaited, read as a stream, or
/// executed in steps.
pub(crate) async fn run(way: Way, agent: &mut Chat, ctx: &ToolContext) {
    let run = agent.run("go", ctx);
    match way {
        Way::Run => drop(run.await),
        Way::Stream => {
            let mut events = run.stream();
            while events.next().await.is_some() {}
        }
        Way::Step => {
            let mut steps = run.steps();
            while steps.next().await.is_some() {}
        }
    }
}

/// A hook that waits and then ends the run when it receives the event with the number `index`.
pub(crate) struct EndsAt {
    pub(crate) index: usize,
    pub(crate) seen: std::sync::atomic::AtomicUsize,
    pub(crate) reason: &'static str,
}

impl EndsAt {
    pub(crate) fn new(index: usize, reason: &'static str) -> Self {
        Self { index, seen: Default::default(), reason }
    }
}

impl ObservabilityHook for EndsAt {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        let index = self.seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(match index == self.index {
            true => HookAction::Terminate { reason: self.reason.to_owned() },
            false => HookAction::Continue,
        })
    }
}
