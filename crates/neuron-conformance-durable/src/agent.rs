//! The agent of a scenario, which an engine hosts ([`ScenarioAgent`]).

use std::path::PathBuf;
use std::time::Duration;

use neuron_context::SummarizationStrategy;
use neuron_loop::{Agent, Conversation, Run, RunEvent, RunResult};
use neuron_testing::ScriptedProvider;
use neuron_types::{
    ActivityOptions, AgentResult, Budget, Durability, DurableAgent, DurableContext,
    DurableProvider, LoopError, Message, Money, PermissionDecision, PermissionPolicy, PriceList,
    ProviderError, Start, StopReason, StreamEvent, TokenUsage, ToolContext, UnknownPrice,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::effects::{EffectKind, EffectLog};
use crate::observed::Observed;
use crate::scenario::{Kind, Scenario};
use crate::tools::{self, CallScopes, PAUSE};

/// System prompt of a request for a summary. The model recognises the request by this prompt.
pub(crate) const SUMMARY_INSTRUCTIONS: &str = "Summarize the scenario.";

/// Number of tokens of a prompt above which the conversation is compacted.
pub(crate) const COMPACTS_ABOVE: usize = 100_000;

/// Name of the signal that contains the approval decisions of a person.
pub(crate) const APPROVAL: &str = "approval";

/// The agent of a [`Scenario`]. It is a [`DurableAgent`] for your engine to host. Any process can build it.
#[derive(Debug, Clone)]
pub struct ScenarioAgent {
    scenario: Scenario,
    log: EffectLog,
    ctx: ToolContext,
}

impl ScenarioAgent {
    pub(crate) fn new(scenario: Scenario, log: EffectLog) -> Self {
        // All values are constant, because another process may replay the run.
        let ctx = ToolContext {
            cwd: PathBuf::from("/"),
            session_id: "scenario".into(),
            run_id: "scenario".into(),
            ..ToolContext::default()
        };
        Self { scenario, log, ctx }
    }

    /// Lets the cancellation token of a context cancel the run, for engines that use such a token.
    #[must_use]
    pub fn cancelled_with(mut self, ctx: &ToolContext) -> Self {
        self.ctx.cancellation_token = ctx.cancellation_token.clone();
        self
    }

    fn agent(&self) -> Agent {
        // All model calls must go through the durable context. The loop's own provider fails if it is called.
        let unused = ScriptedProvider::new([] as [&str; 0]);
        Agent::builder(unused)
            .tools(tools::registry(self.scenario.kind, &self.log))
            .config(|config| *config = self.scenario.config())
            .permission_policy(Policy)
            .budget(Budget::priced(Prices))
            .hook(CallScopes(self.log.clone()))
            .build()
    }

    /// Runs the agent's loop, as a stream in the streaming scenario.
    async fn run_loop(
        &self,
        start: Start,
        durability: Durability<'_>,
    ) -> Result<AgentResult, LoopError> {
        let summarizer = DurableProvider::new(durability.clone());
        let strategy = SummarizationStrategy::new(summarizer, 2, COMPACTS_ABOVE)
            .with_instructions(SUMMARY_INSTRUCTIONS);
        let agent = self.agent();
        let mut conversation = Conversation::new();
        let run = agent.run(&mut conversation, start).context(&self.ctx);
        let run = run.strategy(strategy).durable(durability);
        let result = match self.scenario.kind {
            Kind::Streams => self.read_stream(run).await,
            _ => run.await,
        }?;
        Ok(result.with_messages(&conversation))
    }

    /// Reads the run as a stream. Logs how many responses had deltas that add up to the response's text.
    async fn read_stream(&self, run: Run<'_>) -> Result<RunResult, LoopError> {
        let mut events = run.stream();
        let (mut whole, mut silent, mut wrong) = (0, 0, 0);
        let mut text = String::new();
        let broken = || ProviderError::StreamError("the run's stream has no end".into()).into();
        let mut end = Err(broken());
        while let Some(event) = events.next().await {
            match event {
                Ok(RunEvent::Event(StreamEvent::TextDelta(delta))) => text += &delta,
                Ok(RunEvent::Event(StreamEvent::Reset { .. })) => text.clear(),
                Ok(RunEvent::Event(StreamEvent::MessageComplete(message))) => {
                    match std::mem::take(&mut text) {
                        text if text == message.text() => whole += 1,
                        text if text.is_empty() => silent += 1,
                        _ => wrong += 1,
                    }
                }
                Ok(RunEvent::Ended(result)) => end = Ok(result),
                Ok(_) => {}
                Err(error) => end = Err(error),
            }
        }
        self.log.append(EffectKind::Streamed { whole, silent, wrong });
        end
    }

    /// Waits for signals that are sent before the wait, during the wait, and never. Returns the received values.
    async fn wait(&self, durability: &impl DurableContext) -> Result<Vec<String>, LoopError> {
        let ctx = ToolContext {
            call_id: "pause-0".into(),
            idempotency_key: "scenario/pause".into(),
            ..self.ctx.clone()
        };
        self.log.append(EffectKind::Waits { signal: PAUSE.into(), number: 0 });
        durability.execute_tool(PAUSE, json!({}), &ctx, ActivityOptions::default()).await?;
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

    /// Reads the clock before and after three sleeps. Returns the times and `ordered: true` if the clock never went
    /// back.
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

    /// Records values that differ in each execution, and returns the recorded values.
    async fn record_values(
        &self,
        durability: &impl DurableContext,
    ) -> Result<Vec<String>, LoopError> {
        let mut told = Vec::new();
        for name in ["first", "second", "third"] {
            let value = json!({ "entries": self.log.effects().len() });
            told.push(durability.record(name, value).await?.to_string());
            durability.sleep(Duration::from_millis(20)).await;
        }
        Ok(told)
    }
}

impl DurableAgent for ScenarioAgent {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        let observed = Observed::new(durability, &self.scenario, &start, self.log.clone());
        let durability = Durability::new(observed);
        Box::pin(async move {
            let result = match self.scenario.kind {
                Kind::Signals => self.wait(&durability).await.map(result_of),
                Kind::Records => self.record_values(&durability).await.map(result_of),
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

    fn extend_context(&self, ctx: &mut ToolContext) {
        self.agent().extend_context(ctx);
    }
}

/// Returns a text by which errors are compared. For a provider error or tool error, the text ends with the kind of the
/// error. For a provider error, the text also contains the `retry_after` delay.
fn described(error: &LoopError) -> String {
    let cause = match error {
        LoopError::Provider(error) => format!("{}, {:?}", error.kind(), error.retry_after()),
        LoopError::Tool(error) => error.kind().to_owned(),
        _ => return error.to_string(),
    };
    format!("{error} ({cause})")
}

/// Returns the result of an agent that calls no model. Its response is `told`, joined with `; `.
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

/// Requires an approval for the tool `wire`, and denies the tool `steal`.
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

/// A price list in which a token of any model costs a dollar. The costs show whether a replay counts the same usage.
struct Prices;

impl PriceList for Prices {
    fn cost(&self, _: &str, _: &str, usage: &TokenUsage) -> Result<Money, UnknownPrice> {
        Ok(Money::from_dollars(usage.total_tokens() as u64))
    }

    fn reserve(
        &self,
        _: &str,
        _: &str,
        input_tokens: usize,
        output_tokens: usize,
    ) -> Result<Money, UnknownPrice> {
        Ok(Money::from_dollars(input_tokens.saturating_add(output_tokens) as u64))
    }
}
