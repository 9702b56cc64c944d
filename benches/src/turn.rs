//! Measures a turn of an agent after many other turns. Contains the model, the tools and the cost of the turn.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use neuron_loop::{AgentLoop, TurnResult};
use neuron_tool::ToolRegistry;
use neuron_types::{
    BoxedHook, CompletionRequest, CompletionResponse, ContentBlock, ContextError, ContextStrategy,
    Message, ObservabilityHook, Provider, ProviderError, RequestRef, Role, StopReason, StreamEvent,
    StreamHandle, StreamReceiver, TokenUsage, Tool, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use stats_alloc::Stats;

use crate::ALLOCATOR;

/// The duration and the allocations of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Duration of the turn.
    pub time: Duration,
    /// Number of allocations during the turn. A reallocation is not counted.
    pub allocations: usize,
}

/// Records the time and the allocation counters at each call of the model.
#[derive(Debug, Default)]
pub struct Clock(Mutex<Vec<(Instant, Stats)>>);

impl Clock {
    /// Creates a clock with capacity for `calls` calls, so that recording does not allocate.
    #[must_use]
    pub fn with_capacity(calls: usize) -> Self {
        Self(Mutex::new(Vec::with_capacity(calls)))
    }

    /// Records the time and the allocation counters of a call of the model.
    pub fn tick(&self) {
        let mut ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ticks.push((Instant::now(), ALLOCATOR.stats()));
    }

    /// Returns the cost of each turn. A turn lasts from one call of the model to the next.
    #[must_use]
    pub fn costs(&self) -> Vec<Cost> {
        let ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A tick is recorded at each call of the model, so a turn lies between two ticks.
        let between = |pair: &[(Instant, Stats)]| match pair {
            [(start, before), (end, after)] => {
                Cost { time: *end - *start, allocations: after.allocations - before.allocations }
            }
            _ => Cost { time: Duration::ZERO, allocations: 0 },
        };
        ticks.windows(2).map(between).collect()
    }
}

/// A model without a network. Its first `turns` responses have one tool call each, and the next response is a text.
#[derive(Debug)]
pub struct ToolCaller<'c> {
    /// Number of responses with a tool call.
    pub turns: usize,
    /// Records the time of each call of the model.
    pub clock: &'c Clock,
    /// `true` if the model yields to the runtime once before each response, as a model over a network does.
    pub waits: bool,
}

impl ToolCaller<'_> {
    /// Returns the response to a conversation, and records the call in `clock`.
    #[must_use]
    pub fn answer(&self, messages: &[Message]) -> CompletionResponse {
        self.clock.tick();
        let turn = messages.len() / 2;
        let (message, stop_reason) = if turn < self.turns {
            let input = json!({ "city": "Oslo", "days": 3 });
            let call = ContentBlock::ToolUse { id: "call".into(), name: "forecast".into(), input };
            (Message { role: Role::Assistant, content: vec![call] }, StopReason::ToolUse)
        } else {
            (Message::assistant("done"), StopReason::EndTurn)
        };
        CompletionResponse {
            id: String::new(),
            model: String::new(),
            message,
            usage: TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() },
            stop_reason,
        }
    }
}

impl Provider for ToolCaller<'_> {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        Ok(self.answer(&request.messages))
    }

    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        if self.waits {
            tokio::task::yield_now().await;
        }
        Ok(self.answer(request.messages))
    }

    /// Returns a stream that consists of the whole response, without deltas.
    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let response = self.answer(request.messages);
        let events = [
            StreamEvent::MessageComplete(response.message.clone()),
            StreamEvent::ResponseComplete(Box::new(response)),
        ];
        Ok(StreamHandle::from(StreamReceiver::new(futures_util::stream::iter(events))))
    }
}

/// The arguments of [`Forecast`].
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Place {
    /// Name of the city.
    pub city: String,
    /// Number of days ahead.
    pub days: u8,
}

/// A tool with typed arguments that returns a short text.
#[derive(Debug)]
pub struct Forecast;

impl Forecast {
    /// Returns the result of the tool.
    #[must_use]
    pub fn run(&self, place: Place) -> String {
        place.city
    }
}

impl Tool for Forecast {
    const NAME: &'static str = "forecast";
    type Args = Place;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Tells the weather".into(),
            input_schema: schemars::schema_for!(Place).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, place: Place, _: &ToolContext) -> Result<String, ToolError> {
        Ok(self.run(place))
    }
}

/// A tool without arguments that returns a short text.
#[derive(Debug)]
pub struct Echo;

impl Echo {
    /// Returns the result of the tool.
    #[must_use]
    pub fn run(&self) -> ToolOutput {
        ToolOutput::text("echo")
    }
}

impl ToolDyn for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: "echo".into(),
            title: None,
            description: "Returns a text".into(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(self.run()) })
    }
}

/// A context strategy that never compacts, and estimates every conversation at 0 tokens.
#[derive(Debug)]
pub struct Unlimited;

impl ContextStrategy for Unlimited {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, _: &[Message]) -> usize {
        0
    }
}

/// Runs an agent for `turns` turns, and returns the cost of each turn.
///
/// # Errors
///
/// Returns the error of the run.
pub fn run_agent(
    turns: usize,
    strategy: impl ContextStrategy,
) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
    run_with(turns, strategy, false, None::<BoxedHook>)
}

/// Runs an agent like [`run_agent`], with an optional hook. The model yields once to the runtime before each response.
///
/// # Errors
///
/// Returns the error of the run.
pub fn run_watched(
    turns: usize,
    strategy: impl ContextStrategy,
    hook: Option<impl ObservabilityHook + 'static>,
) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
    run_with(turns, strategy, true, hook)
}

/// Runs an agent for `turns` turns without streaming, and returns the cost of each turn. If `waits` is `true`, the
/// model yields to the runtime before each response.
fn run_with(
    turns: usize,
    strategy: impl ContextStrategy,
    waits: bool,
    hook: Option<impl ObservabilityHook + 'static>,
) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
    run_way(Way::Whole, turns, strategy, waits, hook)
}

/// A way to run an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Calls `run_text`, which requests whole responses.
    Whole,
    /// Calls `run_stream`, which requests streamed responses.
    Streamed,
    /// Calls `run_step`, which returns after each turn.
    Stepped,
}

/// Runs an agent for `turns` turns, and returns the cost of each turn. `way` selects the method that runs the agent. If
/// `waits` is `true`, the model yields to the runtime before each response.
///
/// # Errors
///
/// Returns the error of the run.
pub fn run_way(
    way: Way,
    turns: usize,
    strategy: impl ContextStrategy,
    waits: bool,
    hook: Option<impl ObservabilityHook + 'static>,
) -> Result<Vec<Cost>, Box<dyn std::error::Error>> {
    let clock = Clock::with_capacity(turns + 1);
    let mut tools = ToolRegistry::new();
    tools.register(Forecast);
    let provider = ToolCaller { turns, clock: &clock, waits };
    let builder = AgentLoop::builder(provider, strategy).tools(tools);
    let mut agent = match hook {
        Some(hook) => builder.hook(hook).build(),
        None => builder.build(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let ctx = ToolContext::default();
    runtime.block_on(async {
        match way {
            Way::Whole => drop(agent.run_text("go", &ctx).await?),
            Way::Streamed => {
                let mut stream = agent.run_stream(Message::user("go"), &ctx).await;
                while let Some(event) = stream.recv().await {
                    if let StreamEvent::Error(error) = event {
                        return Err(error.into());
                    }
                }
            }
            Way::Stepped => {
                let mut steps = agent.run_step(Message::user("go"), &ctx);
                while let Some(turn) = steps.next().await {
                    if let TurnResult::Error(error) = turn {
                        return Err(error.into());
                    }
                }
            }
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let costs = clock.costs();
    match costs.len() {
        calls if calls == turns => Ok(costs),
        calls => Err(format!("{calls} turns instead of {turns}").into()),
    }
}
