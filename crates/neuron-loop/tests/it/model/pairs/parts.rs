//! The provider, the tools, the policy and the layer of a [`Plan`].

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures_util::stream;
use neuron_loop::{Agent, LoopError, RunHandle};
use neuron_router::{Route, Router};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    ApprovalDecisions, BoxedProvider, CompletionRequest, CompletionResponse, Message, ModelCall,
    ModelLayer, ModelNext, PendingApproval, PermissionDecision, PermissionPolicy, Provider,
    ProviderError, ResumedApproval, StreamEvent, StreamHandle, StreamReceiver, TokenUsage,
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, UsageLimits,
    WasmBoxedFuture, message_events, transcript,
};
use serde_json::{Value, json};

use super::plan::{Feature, INNER, Plan, Steered, changed, number, steered_text};
use crate::support::Act;

/// What the parts of an agent saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// The messages of each request of the agent itself.
    pub(crate) requests: Vec<Vec<Message>>,
    /// Number of requests of the agent and its sub-agents.
    pub(crate) count: usize,
    /// Numbers of the calls that began.
    pub(crate) begun: Vec<u64>,
    /// The model's ids of the calls of the agent itself.
    ids: Vec<String>,
    /// Set while a response is streaming.
    pub(crate) is_streaming: bool,
    pub(crate) keys: Vec<String>,
    /// Runs to which a message was sent and accepted.
    pub(crate) steered: Vec<usize>,
    /// Features that had an effect.
    pub(crate) features: BTreeSet<Feature>,
    pub(crate) faults: Vec<String>,
    pub(crate) handle: Option<RunHandle>,
    pub(crate) run: usize,
}

/// The plan of a case, and what its parts saw. Clones share both.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) plan: Arc<Plan>,
    seen: Arc<Mutex<Seen>>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), seen: Arc::default() }
    }

    pub(crate) fn seen<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap())
    }

    pub(crate) fn note(&self, feature: Feature) {
        self.seen(|seen| seen.features.insert(feature));
    }

    /// Sends the message of the current run, once.
    pub(crate) fn steer(&self) {
        let (run, handle) = self.seen(|seen| (seen.run, seen.handle.clone()));
        if self.seen(|seen| seen.steered.contains(&run)) {
            return;
        }
        if let Some(handle) = handle
            && handle.steer(steered_text(run)).is_ok()
        {
            self.seen(|seen| seen.steered.push(run));
            self.note(Feature::Steering);
        }
    }

    fn answer(&self, messages: &[Message]) -> CompletionResponse {
        let answer = self.plan.answer(messages);
        if let Err(violation) = transcript::validate(messages) {
            self.seen(|seen| seen.faults.push(format!("an invalid request: {violation}")));
        }
        self.seen(|seen| {
            seen.count += 1;
            if answer.place.is_some() {
                seen.requests.push(messages.to_vec());
            }
        });
        let steers = |(run, _): (usize, usize)| {
            answer.is_final && self.plan.runs[run].steered == Some(Steered::Last)
        };
        if answer.place.is_some_and(steers) {
            self.steer();
        }
        CompletionResponse {
            id: "r".into(),
            model: "m".into(),
            message: answer.message,
            usage: TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() },
            stop_reason: answer.stop_reason,
        }
    }

    /// Returns the provider of the plan, which may be a router whose first route always fails.
    pub(crate) fn provider(&self) -> BoxedProvider {
        let model = BoxedProvider::new(Model(self.clone()));
        if !self.plan.has(Feature::Router) {
            return model;
        }
        let down = Route::new("down", Down(self.clone())).model("m");
        let up = Route::new("up", model).model("m");
        BoxedProvider::new(Router::builder().route(down).route(up).build().expect("two routes"))
    }

    pub(crate) fn tools(&self) -> ToolRegistry {
        let mut tools = ToolRegistry::new();
        for name in ["act", "rare"] {
            tools.register_dyn(Arc::new(Numbered { name, world: self.clone() }));
        }
        let mut agents = SubAgentManager::new();
        let config = SubAgentConfig { tools: vec!["act".into()], ..SubAgentConfig::default() };
        agents.register("team", config);
        agents.add_to(&mut tools, self.provider()).expect("the tools exist");
        if self.plan.has(Feature::DeferredTools) {
            let search = ToolSearch::new().visible(["act", "team"]);
            tools.defer_tools(search).expect("no name is taken");
        }
        tools
    }

    pub(crate) fn agent(&self) -> Agent {
        let plan = &self.plan;
        let limits = plan
            .most_calls
            .map(|most| UsageLimits { tool_calls_limit: Some(most), ..UsageLimits::default() });
        let builder = Agent::builder(self.provider())
            .tools(self.tools())
            .permission_policy(Asks(self.clone()))
            .layer(Layer(self.clone()))
            .config(|config| {
                config.parallel_tool_execution = plan.parallel;
                config.early_tools = plan.has(Feature::EarlyTools);
                config.max_turns = plan.max_turns;
                config.usage_limits = limits;
                config.pause_for_approval = true;
                config.output_mode = plan.output.unwrap_or_default();
            });
        builder.build()
    }
}

/// The model. It yields once before it answers, and before each event of a stream.
struct Model(World);

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let response = self.0.answer(&request.messages);
        tokio::task::yield_now().await;
        Ok(response)
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let response = self.complete(request).await?;
        let mut events: Vec<StreamEvent> = message_events(&response.message).collect();
        events.push(StreamEvent::Usage(response.usage.clone()));
        events.push(StreamEvent::MessageComplete(response.message.clone()));
        events.push(StreamEvent::ResponseComplete(Box::new(response)));
        self.0.seen(|seen| seen.is_streaming = true);
        let world = self.0.clone();
        let events = stream::unfold(events.into_iter(), move |mut events| {
            let world = world.clone();
            async move {
                tokio::task::yield_now().await;
                let event = events.next();
                if matches!(event, None | Some(StreamEvent::Usage(_))) {
                    world.seen(|seen| seen.is_streaming = false);
                }
                Some((event?, events))
            }
        });
        Ok(StreamReceiver::new(events).into())
    }
}

/// A provider that is not available.
struct Down(World);

impl Provider for Down {
    async fn complete(&self, _: CompletionRequest) -> Result<CompletionResponse, ProviderError> {
        self.0.note(Feature::Router);
        Err(ProviderError::ServiceUnavailable("down".into()))
    }

    async fn complete_stream(&self, _: CompletionRequest) -> Result<StreamHandle, ProviderError> {
        self.0.note(Feature::Router);
        Err(ProviderError::ServiceUnavailable("down".into()))
    }
}

/// A tool whose calls have numbers.
struct Numbered {
    name: &'static str,
    world: World,
}

impl ToolDyn for Numbered {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        let schema = json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
        ToolDefinition { input_schema: schema, ..Act::definition_of(self.name) }
    }

    fn effect(&self) -> ToolEffect {
        match self.world.plan.has(Feature::EarlyTools) {
            true => ToolEffect::Pure,
            false => ToolEffect::AtMostOnce,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let number = number(&input);
            let run = self.world.seen(|seen| {
                seen.begun.push(number);
                seen.keys.push(ctx.idempotency_key.clone());
                if number < INNER {
                    if seen.ids.contains(&ctx.call_id) {
                        seen.features.insert(Feature::RepeatedIds);
                    }
                    seen.ids.push(ctx.call_id.clone());
                }
                if seen.is_streaming {
                    seen.features.insert(Feature::EarlyTools);
                }
                if number > INNER {
                    seen.features.insert(Feature::SubAgent);
                }
                if ctx.extensions.get::<ResumedApproval>().is_some() {
                    seen.faults.push(format!("call {number} gets the decisions of another call"));
                }
                if self.name == "rare" {
                    seen.features.insert(Feature::DeferredTools);
                }
                seen.run
            });
            if self.world.plan.runs[run].steered == Some(Steered::Call(number)) {
                self.world.steer();
            }
            tokio::task::yield_now().await;
            Ok(ToolOutput::text(format!("out {number}")))
        })
    }
}

/// A policy that asks a person about some calls.
struct Asks(World);

impl PermissionPolicy for Asks {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        let has_number = matches!(tool_name, "act" | "rare");
        match has_number && self.0.plan.asks(number(input)) {
            true => PermissionDecision::Ask("may it?".into()),
            false => PermissionDecision::Allow,
        }
    }
}

/// Returns the decisions of the person on all calls that wait, in the agent and its sub-agents.
pub(crate) fn decisions(pending: &PendingApproval) -> ApprovalDecisions {
    pending.calls.iter().fold(ApprovalDecisions::new(), |decided, call| {
        let id = &call.approval_id;
        match &call.nested {
            Some(nested) => decided.nested(id, decisions(nested)),
            None if Plan::denies(number(&call.call.input)) => decided.deny(id, "no"),
            None => decided.approve(id),
        }
    })
}

/// The outermost layer. It answers some model calls itself, and changes some responses.
struct Layer(World);

impl ModelLayer for Layer {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let plan = &self.0.plan;
        let answer = plan.answer(call.request.messages);
        let Some((run, turn)) = answer.place else { return next.run(call).await };
        let mut response = match plan.runs[run].answered == Some(turn) {
            true => {
                self.0.note(Feature::LayerAnswers);
                CompletionResponse {
                    id: String::new(),
                    model: String::new(),
                    message: answer.message,
                    usage: TokenUsage::default(),
                    stop_reason: answer.stop_reason,
                }
            }
            false => next.run(call).await?,
        };
        if plan.runs[run].changed == Some(turn) {
            self.0.note(Feature::LayerChanges);
            response.message.content.push(changed());
        }
        Ok(response)
    }
}
