//! The agent of a scenario, as an engine hosts it.

use std::path::PathBuf;
use std::time::Duration;

use neuron_context::SummarizationStrategy;
use neuron_loop::AgentLoop;
use neuron_types::{
    ActivityOptions, AgentResult, CompletionRequest, CompletionResponse, ContextStrategy,
    Durability, DurableAgent, DurableContext, DurableProvider, LoopError, Message,
    PermissionDecision, PermissionPolicy, Provider, ProviderError, RunStart, StopReason,
    StreamEvent, StreamHandle, TokenUsage, ToolContext, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::effects::{EffectKind, EffectLog};
use crate::observed::Observed;
use crate::scenario::{Kind, Scenario};
use crate::scopes::CallScopes;
use crate::tools;

/// What the model that summarises is told, by which it is known.
pub(crate) const SUMMARY_INSTRUCTIONS: &str = "Summarize the scenario.";

/// The tokens of a prompt above which the conversation is compacted.
pub(crate) const COMPACTS_ABOVE: usize = 100_000;

/// The signal with which an approval comes.
pub(crate) const APPROVAL: &str = "approval";

/// The agent of a [`Scenario`]: a [`DurableAgent`] for your engine to host. It can be built in any process.
#[derive(Debug, Clone)]
pub struct ScenarioAgent {
    scenario: Scenario,
    log: EffectLog,
    ctx: ToolContext,
}

impl ScenarioAgent {
    pub(crate) fn new(scenario: Scenario, log: EffectLog) -> Self {
        Self { scenario, log, ctx: context() }
    }

    /// Lets the run be cancelled by the token of this context, for engines that cancel so.
    #[must_use]
    pub fn cancelled_with(mut self, ctx: &ToolContext) -> Self {
        self.ctx.cancellation_token = ctx.cancellation_token.clone();
        self
    }

    async fn run_loop(
        &self,
        start: RunStart,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let summarizer = DurableProvider::new(durability.clone());
        let strategy = SummarizationStrategy::new(summarizer, 2, COMPACTS_ABOVE)
            .with_instructions(SUMMARY_INSTRUCTIONS);
        let mut agent = AgentLoop::builder(NoProvider, strategy)
            .tools(tools::registry(&self.log))
            .config(self.scenario.config())
            .permission_policy(Policy)
            .hook(CallScopes(self.log.clone()))
            .durability_typed(durability)
            .build();
        match self.scenario.kind {
            Kind::Streams => self.read_stream(&mut agent, start).await,
            _ => agent.run_from(start, &self.ctx).await,
        }
    }

    async fn read_stream<C: ContextStrategy>(
        &self,
        agent: &mut AgentLoop<NoProvider, C, Durability<'_>>,
        start: RunStart,
    ) -> Result<AgentResult, LoopError> {
        let mut events = agent.run_from_stream(start, &self.ctx).await;
        let (mut whole, mut silent, mut wrong) = (0, 0, 0);
        let mut text = String::new();
        let mut result = None;
        while let Some(event) = events.recv().await {
            match event {
                StreamEvent::TextDelta(delta) => text += &delta,
                StreamEvent::Reset { .. } => text.clear(),
                StreamEvent::MessageComplete(message) => match std::mem::take(&mut text) {
                    text if text == message.text() => whole += 1,
                    text if text.is_empty() => silent += 1,
                    _ => wrong += 1,
                },
                StreamEvent::RunComplete(complete) => result = Some(*complete),
                _ => {}
            }
        }
        self.log.append(EffectKind::Streamed { whole, silent, wrong });
        let broken = || ProviderError::StreamError("the run's stream has no end".into()).into();
        result.ok_or_else(broken)
    }

    /// Waits for signals that came before, that come, and that do not.
    async fn wait(&self, durability: &impl DurableContext) -> Result<Vec<String>, LoopError> {
        let ctx = ToolContext { call_id: tools::PAUSE_CALL.into(), ..self.ctx.clone() };
        let ctx = ToolContext { idempotency_key: "scenario/pause".into(), ..ctx };
        let options = ActivityOptions::default();
        durability.execute_tool("pause", json!({}), &ctx, options).await?;
        let mut told = Vec::new();
        let [soon, late] = [5, 10].map(Duration::from_secs);
        let never = Duration::from_millis(150);
        let waits = [
            ("twice", soon),
            ("late", late),
            ("never", never),
            ("early", soon),
            ("twice", soon),
            ("never", never),
        ];
        for (name, timeout) in waits {
            let value: Option<Value> = durability.wait_for_signal(name, timeout).await?;
            told.push(format!("{name}: {value:?}"));
        }
        Ok(told)
    }

    /// Looks at the clock.
    async fn look_at_clock(&self, durability: &impl DurableContext) -> Vec<String> {
        let mut times = Vec::new();
        for _ in 0..3 {
            times.push(durability.now());
            durability.sleep(Duration::from_millis(20)).await;
            times.push(durability.now());
        }
        let is_ordered = times.is_sorted();
        let mut told: Vec<_> = times.iter().map(ToString::to_string).collect();
        told.push(format!("ordered: {is_ordered}"));
        told
    }
}

impl DurableAgent for ScenarioAgent {
    fn run<'d>(
        &'d self,
        start: RunStart,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        let observed = Observed::new(durability, &self.scenario, &start, self.log.clone());
        let durability = Durability::new(observed);
        Box::pin(async move {
            let result = match self.scenario.kind {
                Kind::Signals => self.wait(&durability).await.map(result_of),
                Kind::Clock => Ok(result_of(self.look_at_clock(&durability).await)),
                _ => self.run_loop(start, durability).await,
            };
            let (kind, text) = match &result {
                Ok(result) => ("Ok", result.response.clone()),
                Err(error) => (error.kind(), described(error)),
            };
            self.log.append(EffectKind::Ended { kind: kind.to_owned(), text });
            result
        })
    }
}

/// What the loop's users can tell of an error.
fn described(error: &LoopError) -> String {
    let cause = match error {
        LoopError::Provider(error) => format!("{}, {:?}", error.kind(), error.retry_after()),
        LoopError::Tool(error) => error.kind().to_owned(),
        _ => return error.to_string(),
    };
    format!("{error} ({cause})")
}

/// The result of an agent that calls no model.
fn result_of(told: Vec<String>) -> AgentResult {
    let response = told.join("; ");
    AgentResult {
        messages: vec![Message::assistant(&response)],
        response,
        usage: TokenUsage::default(),
        turns: 0,
        stop_reason: StopReason::EndTurn,
        limit_reached: None,
    }
}

/// Nothing in it comes from the process.
fn context() -> ToolContext {
    ToolContext {
        cwd: PathBuf::from("/"),
        session_id: "scenario".into(),
        environment: Default::default(),
        cancellation_token: Default::default(),
        progress_reporter: None,
        call_id: String::new(),
        run_id: "scenario".into(),
        idempotency_key: String::new(),
        turn: None,
        usage: Default::default(),
        extensions: Default::default(),
    }
}

/// Money is wired when a person agrees.
struct Policy;

impl PermissionPolicy for Policy {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        match tool_name {
            "wire" => PermissionDecision::Ask("may it be wired?".into()),
            "steal" => PermissionDecision::Deny("that is not allowed".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// The loop's own provider: under a durable context nothing calls it.
struct NoProvider;

impl Provider for NoProvider {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        Err(past_the_engine())
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        Err(past_the_engine())
    }
}

fn past_the_engine() -> ProviderError {
    ProviderError::InvalidRequest("the model was called past the durable context".into())
}
