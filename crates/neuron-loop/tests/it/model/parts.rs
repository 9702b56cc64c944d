//! The parts of an agent, such as provider, tools and hooks, which behave as a test case says. Each part records its
//! actions in the `World`, the state that all parts share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use futures_util::stream;
use neuron_loop::{
    AgentResult, ApprovalSignal, CancelMode, LoopConfig, LoopError, OnLimit, ToolErrorPolicy,
};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, ApprovalDecisions, BoxedHook, BoxedLayer, BufferedDeltas, CompletionRequest,
    CompletionResponse, ContentItem, ContextError, ContextStrategy, DurableContext, DurableError,
    HistoryKey, HookAction, HookError, HookEvent, HookScope, ImageSource, InjectionPoint, Injector,
    Message, ModelCall, ModelLayer, ModelNext, ObservabilityHook, Operation, OperationKind,
    OperationScope, Outcome, PendingApproval, PermissionDecision, PermissionPolicy, Provider,
    ProviderError, RequestRef, StreamEvent, StreamHandle, StreamReceiver, TokenUsage, ToolContext,
    ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolInvocation, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::chat::Chat;
use crate::model::case::*;
use crate::model::generator::said;
use crate::model::reference::written_by_loop;
use crate::model::world::World;

/// Names of the tools.
pub(crate) const TOOLS: [&str; 4] = ["act", "look", "raw", "solo"];

pub(crate) type Agent = Chat<'static>;

/// Builds the agent of a case.
pub(crate) fn agent(case: &Case, world: &World) -> Agent {
    agent_with(case, &[], world)
}

/// Builds the agent of a case. The tools `pure` declare `ToolEffect::Pure`, so their calls may start while the response
/// is streaming.
pub(crate) fn agent_with(case: &Case, pure: &[&'static str], world: &World) -> Agent {
    let config = &case.config;
    let provider = Mock { world: world.clone(), script: case.script.clone().into() };
    let mut tools = ToolRegistry::new();
    let stores = case.stores;
    for name in TOOLS {
        let most = match config.parallel {
            true => config.most_at_once.map_or(usize::MAX, |most| most.max(1)),
            false => 1,
        };
        let effect = match pure.contains(&name) {
            true => ToolEffect::Pure,
            false => ToolEffect::default(),
        };
        tools.register_dyn(Arc::new(Obedient { name, most, effect, stores, world: world.clone() }));
    }
    let strategy = Counting { strategy: config.strategy.clone(), world: world.clone() };
    let mut builder = Chat::builder(provider.clone(), strategy)
        .tools(tools.clone())
        .config(LoopConfig {
            max_turns: config.max_turns,
            usage_limits: config.limits.clone(),
            parallel_tool_execution: config.parallel,
            tool_grace: std::time::Duration::from_millis(config.grace),
            max_parallel_tools: config.most_at_once,
            tool_errors: match config.returns_errors {
                true => ToolErrorPolicy::ReturnToModel,
                false => ToolErrorPolicy::EndRun,
            },
            tool_retry_limit: config.retry_limit,
            on_limit: if config.finalizes { OnLimit::Finalize } else { OnLimit::Fail },
            cancel_mode: match config.cancels_after_turn {
                true => CancelMode::AfterTurn,
                false => CancelMode::Now,
            },
            retries: config.retries,
            pause_for_approval: config.pauses,
            approval_signal: config.engine.as_ref().filter(|engine| engine.signals).map(|_| {
                let timeout = std::time::Duration::from_secs(60);
                ApprovalSignal { name: "decided".into(), timeout }
            }),
            early_tools: !pure.is_empty(),
            ..Default::default()
        })
        .messages(config.history.clone());
    let mut reminders = config.reminders.clone();
    for (index, rules) in config.hooks.iter().enumerate() {
        let rules = rules.clone();
        // The last hook adds the last injector, because the injectors of hooks are called after the others.
        let is_last = index + 1 == config.hooks.len();
        let reminder = if is_last { reminders.pop() } else { None };
        let (waits, world) = (usize::from(config.slow_hooks), world.clone());
        let guard = config.guards.get(index).copied();
        builder =
            builder.hook(BoxedHook::new(Ruled { index, rules, guard, reminder, waits, world }));
    }
    for every in reminders {
        builder = builder.injector(Every(every));
    }
    if config.has_policy {
        builder = builder.permission_policy(Choosy { pauses: config.pauses });
    }
    if let Some(most) = config.stops_after {
        builder = builder.stop_when(move |run| run.tool_calls >= most);
    }
    if let Some(every) = config.hides_every {
        builder = builder.prepare_turn(move |turn| {
            if hides(every, turn.run.turns) {
                turn.retain_tools(|tool| tool.name != "look");
            }
        });
    }
    let mut agent = builder.build();
    if let Some(engine) = &config.engine {
        let engine = engine.clone();
        let (answers, world) = (case.answers.clone(), world.clone());
        let histories = Mutex::default();
        agent.set_durability(InMemory { engine, provider, tools, answers, world, histories });
    } else {
        // A replay would have to send the same messages, so hooks send none with an engine.
        agent.handle = Some(world.handle());
    }
    agent.session = case.stores.then(|| world.session());
    agent
}

/// Returns `true` if the tool `look` is hidden from the model in this turn. It is hidden in the last of every `every`
/// turns.
pub(crate) fn hides(every: usize, turn: usize) -> bool {
    turn % every == every - 1
}

/// A permission policy that decides by the number in the arguments of a tool call.
struct Choosy {
    pauses: bool,
}

impl PermissionPolicy for Choosy {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        match Judgement::of(input, self.pauses) {
            Judgement::Deny => PermissionDecision::Deny("not this one".into()),
            Judgement::Ask => PermissionDecision::Ask("really?".into()),
            Judgement::Panic => panic!("{}", crate::model::world::PLANNED),
            Judgement::Allow => PermissionDecision::Allow,
        }
    }
}

/// Returns the decisions on the pending calls that `answering` plans. If nothing is planned, all calls are approved.
pub(crate) fn decisions(
    answering: Option<&Answering>,
    pending: &PendingApproval,
) -> ApprovalDecisions {
    match answering {
        Some(answering) => answering.decisions(&pending.calls),
        None => ApprovalDecisions::approve_all(pending),
    }
}

/// Returns the reply to the model call at `index`. After the end of `script`, the reply is a final response.
pub(crate) fn reply(script: &[Reply], index: usize) -> Reply {
    script.get(index).cloned().unwrap_or_else(|| Reply::Answers(said(Message::assistant("done"))))
}

#[derive(Clone)]
pub(crate) struct Mock {
    world: World,
    script: Arc<[Reply]>,
}

impl Mock {
    async fn next(&self, request: &CompletionRequest) -> Result<Answer, ProviderError> {
        self.world.request(&request.messages);
        let index = self.world.count(|counters| {
            counters.replies += 1;
            counters.replies - 1
        });
        self.world.pass(Place::Provider);
        match reply(&self.script, index) {
            Reply::Answers(answer) => {
                self.world.sleep(Place::Provider, answer.sleeps).await;
                self.world.wait(Place::Provider, answer.waits).await;
                Ok(answer)
            }
            Reply::Fails { fault, waits } => {
                self.world.wait(Place::Provider, waits).await;
                Err(fault.error())
            }
        }
    }
}

impl Provider for Mock {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let answer = self.next(&request).await?;
        match answer.breaks {
            Some((_, how)) => Err(how.error()),
            None => Ok(answer.response()),
        }
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let answer = self.next(&request).await?;
        let mut events = answer.pieces();
        self.world.note(|journal| journal.is_streaming = true);
        match answer.breaks {
            Some((_, Break::Ends)) => {}
            Some((_, Break::Fault(fault))) => events.push(StreamEvent::Error(fault.error().into())),
            None => {
                events.push(StreamEvent::Usage(answer.usage.clone()));
                events.push(StreamEvent::MessageComplete(answer.message.clone()));
                if !answer.without_response {
                    events.push(StreamEvent::ResponseComplete(Box::new(answer.response())));
                }
            }
        }
        let (world, waits) = (self.world.clone(), answer.waits);
        let events = stream::unfold(events.into_iter(), move |mut events| {
            let world = world.clone();
            async move {
                world.wait(Place::Stream, waits).await;
                world.pass(Place::Stream);
                let event = events.next();
                let ends =
                    matches!(&event, None | Some(StreamEvent::Usage(_) | StreamEvent::Error(_)));
                world.note(|journal| journal.is_streaming &= !ends);
                Some((event?, events))
            }
        });
        Ok(StreamReceiver::new(events).into())
    }
}

/// A tool that acts as its arguments say.
struct Obedient {
    name: &'static str,
    /// Maximum number of tool calls that may run concurrently. More calls are a fault.
    most: usize,
    effect: ToolEffect,
    /// Set if the runs of the case store the conversation in a session.
    stores: bool,
    world: World,
}

impl ToolDyn for Obedient {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        let input_schema = match self.name {
            "raw" => json!({ "type": "object", "properties": { "invalid_json": {} } }),
            _ => json!({ "type": "object" }),
        };
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: String::new(),
            input_schema,
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn runs_alone(&self) -> bool {
        self.name == "solo"
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        if fits(input) { Ok(()) } else { Err(ToolError::InvalidInput("too large".into())) }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let order = Order::read(&input);
            self.check_stored(&order);
            self.world.note(|journal| {
                journal.begun.push(order.number);
                journal.keys.push(ctx.idempotency_key.clone());
                journal.contexts.push(context_line(order.number, &ctx.call_id, ctx.turn));
                if ctx.cancellation_token.is_cancelled() && journal.when_cancelled.is_none() {
                    journal.faults.push(format!("call {} is cancelled already", order.number));
                }
                if journal.is_streaming {
                    journal.early.push(order.number);
                    if self.effect != ToolEffect::Pure || self.runs_alone() {
                        journal.faults.push(format!("call {} began early", order.number));
                    }
                }
            });
            ctx.usage.add(&taken());
            let _running = Running::new(self);
            self.world.pass(Place::Tool);
            if order.deed == "patient" {
                let slept = self.world.sleep(Place::Tool, order.delay);
                if ctx.cancellation_token.run_until_cancelled(slept).await.is_none() {
                    return Err(ToolError::Cancelled);
                }
            } else {
                self.world.sleep(Place::Tool, order.delay).await;
            }
            // A call that reports a cancellation did not end by itself.
            if order.deed != "cancelled" {
                self.world.note(|journal| journal.finished.push(order.number));
            }
            // Each call must have its own cancellation token.
            ctx.cancellation_token.cancel();
            done(&order)
        })
    }
}

impl Obedient {
    /// Checks that the storage contains the running call, with a result that says that its outcome is unknown.
    fn check_stored(&self, order: &Order) {
        if !self.stores
            || order.number == u64::MAX
            || self.world.note(|journal| journal.is_streaming)
        {
            return;
        }
        let stored = self.world.stored().unwrap_or_default();
        let is_told = stored.messages().windows(2).rev().any(|pair| {
            let mut results = pair[0].tool_uses().zip(&pair[1].content);
            results.any(|(call, result)| {
                let made = Order::read(call.input);
                (made.number == order.number || made.edits().contains(&order.number))
                    && written_by_loop(result)
                        .is_some_and(|text| text.starts_with("[interrupted: "))
            })
        });
        if !is_told {
            let number = order.number;
            let messages = stored.messages();
            self.world.note(|journal| {
                journal.faults.push(format!("call {number} runs, but stored is {messages:#?}"));
            });
        }
    }
}

/// Returns the line that a tool records when a call begins. `number` comes from the arguments. The id and the turn come
/// from the context of the call.
pub(crate) fn context_line(number: u64, id: &str, turn: Option<usize>) -> String {
    format!("call {number} has the id {id} in turn {turn:?}")
}

/// Returns the tokens that each tool call reports as used.
pub(crate) fn taken() -> TokenUsage {
    TokenUsage { input_tokens: 1, cache_read_tokens: Some(1), ..TokenUsage::default() }
}

/// A guard that exists while a tool call runs. Its creation checks the maximum number of concurrent calls.
struct Running<'a>(&'a Obedient);

impl<'a> Running<'a> {
    fn new(tool: &'a Obedient) -> Self {
        tool.world.note(|journal| {
            journal.running.push(tool.name);
            let running = &journal.running;
            let is_crowded = running.len() > 1 && running.contains(&"solo");
            if running.len() > tool.most || is_crowded {
                journal.faults.push(format!("these ran at the same time: {running:?}"));
            }
        });
        Self(tool)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.world.note(|journal| {
            let at = journal.running.iter().position(|name| *name == self.0.name);
            at.map(|at| journal.running.remove(at));
        });
    }
}

/// Returns the result that the arguments of a call select. Not used for a call that was cancelled while it waited.
pub(crate) fn done(order: &Order) -> Result<ToolOutput, ToolError> {
    let number = order.number;
    match order.deed.as_str() {
        "error" => Ok(ToolOutput::error(format!("bad {number}"))),
        "retry" => Err(ToolError::ModelRetry(format!("hint {number}"))),
        "panic" => panic!("{}", crate::model::world::PLANNED),
        "empty" => Ok(ToolOutput::default()),
        "image" => {
            let source = ImageSource::Url { url: format!("https://example.com/{number}") };
            Ok(ToolOutput { content: vec![ContentItem::Image { source }], ..Default::default() })
        }
        "fail" => Err(ToolError::ExecutionFailed(format!("broken {number}").into())),
        "invalid" => Err(ToolError::InvalidInput(format!("wrong {number}"))),
        "denied" => Err(ToolError::PermissionDenied(format!("no {number}"))),
        "lost" => Err(ToolError::NotFound(format!("inner {number}"))),
        "cancelled" => Err(ToolError::Cancelled),
        _ => Ok(ToolOutput {
            structured_content: Some(json!({ "number": number })),
            ..ToolOutput::text(format!("out {number}"))
        }),
    }
}

/// A hook that records every event and performs the actions of its rules. If it has a guard, it is also a model layer
/// that checks texts.
#[derive(Clone)]
struct Ruled {
    index: usize,
    rules: Vec<Rule>,
    /// The guard, which checks texts. Set for every hook or for none.
    guard: Option<Guard>,
    /// The interval of the injector that the hook adds. `None` if it adds none.
    reminder: Option<usize>,
    waits: usize,
    world: World,
}

impl ObservabilityHook for Ruled {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        unreachable!("the loop calls on_event_in")
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        scope: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        let line = line(&event, scope);
        let kind = kind(&line);
        self.world.note(|journal| journal.events[self.index].push(line));
        let (nth, deed) = self.deed(kind).await;
        match deed {
            Some(Deed::Skip) => Ok(HookAction::Skip { reason: reason(self.index, kind, nth) }),
            Some(Deed::Terminate) => {
                Ok(HookAction::Terminate { reason: reason(self.index, kind, nth) })
            }
            Some(Deed::Fail) => Err(HookError::Failed("no connection".into())),
            Some(Deed::Steer) => {
                self.world.steer(Message::user(reason(self.index, kind, nth)));
                Ok(HookAction::Continue)
            }
            None => Ok(HookAction::Continue),
        }
    }

    fn layer(&self) -> Option<BoxedLayer> {
        self.guard.map(|_| BoxedLayer::new(self.clone()))
    }

    fn injector(&self) -> Option<Arc<dyn Injector>> {
        self.reminder.map(|every| Arc::new(Every(every)) as Arc<dyn Injector>)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        // The scopes of one hook are enough to observe all.
        if self.index > 0 {
            return None;
        }
        let name = match operation.kind {
            OperationKind::Run { session_id, .. } => format!("run {session_id}"),
            OperationKind::ModelCall { request, .. } => {
                self.world.sent(request.messages.len());
                format!("model call {}", request.messages.len())
            }
            OperationKind::ToolCall { call, .. } => format!("tool call {}", call.id),
            OperationKind::Compaction { old_tokens } => format!("compaction {old_tokens}"),
            _ => unreachable!("a new operation"),
        };
        self.world.note(|journal| journal.open_scopes += 1);
        Some(Box::new(Watched { name, world: self.world.clone(), ended: false }))
    }
}

impl Ruled {
    /// Counts an event of this kind. Returns the number of earlier events of the kind, and the action of the hook.
    async fn deed(&self, kind: &'static str) -> (usize, Option<Deed>) {
        let nth = self.world.count(|counters| {
            let count = counters.events[self.index].entry(kind).or_default();
            *count += 1;
            *count - 1
        });
        self.world.pass(Place::Hook);
        self.world.wait(Place::Hook, self.waits).await;
        (nth, deed(&self.rules, kind, nth))
    }

    /// Performs the check that `line` describes, of an input or a response. Returns the reason if the text is rejected.
    async fn judge(&self, line: String) -> Option<String> {
        let kind = kind(&line);
        self.world.note(|journal| journal.guards.push(format!("{}: {line}", self.index)));
        let (nth, deed) = self.deed(kind).await;
        (deed == Some(Deed::Terminate)).then(|| reason(self.index, kind, nth))
    }
}

impl ModelLayer for Ruled {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let Guard { rejects_text, rejects_results, holds_back } = self.guard.unwrap_or_default();
        let error = |reason: String, are_results_removed| match rejects_text {
            true => call.rejected(reason, are_results_removed),
            false => LoopError::HookTerminated(reason),
        };
        if let Some(reason) = self.judge(format!("GuardIn {}", call.new_messages.len())).await {
            if rejects_text {
                next.take_back_input(rejects_results);
            }
            return Err(error(reason, rejects_results));
        }
        let held = next.sink().filter(|_| holds_back).map(BufferedDeltas::new);
        let inner = held.as_ref().map_or(next, |held| next.with_sink(held));
        let response = inner.run(call).await?;
        let line = format!("GuardOut {:?} after {:?}", response.stop_reason, call.said_before);
        if let Some(reason) = self.judge(line).await {
            if rejects_text {
                next.take_back_paused_answer();
            }
            return Err(error(reason, false));
        }
        if let Some(held) = &held {
            held.release().await;
        }
        Ok(response)
    }
}

/// Returns the action that the rules define for the n-th event of a kind.
pub(crate) fn deed(rules: &[Rule], kind: &str, nth: usize) -> Option<Deed> {
    rules.iter().find(|rule| (rule.event, rule.nth) == (kind, nth)).map(|rule| rule.deed)
}

pub(crate) fn reason(hook: usize, kind: &str, nth: usize) -> String {
    format!("hook {hook} at {kind} {nth}")
}

/// Returns the kind of an event, which is the first word of its line.
pub(crate) fn kind(line: &str) -> &'static str {
    let word = line.split(' ').next().unwrap_or_default();
    EVENTS.into_iter().find(|event| *event == word).expect("every line begins with its event")
}

fn line(event: &HookEvent<'_>, scope: &HookScope<'_>) -> String {
    let call = scope.call_id.unwrap_or("?");
    match event {
        HookEvent::SessionStart { session_id } => format!("SessionStart {session_id}"),
        HookEvent::SessionEnd { session_id } => format!("SessionEnd {session_id}"),
        HookEvent::RunStart { run_id } => format!("RunStart {}", *run_id == scope.run_id),
        HookEvent::RunEnd { result: Ok(result) } => {
            format!("RunEnd {:?} {}", result.stop_reason, result.turns)
        }
        HookEvent::RunEnd { result: Err(error) } => format!("RunEnd {error}"),
        HookEvent::LoopIteration { turn } => format!("Turn {turn} {}", scope.turn),
        HookEvent::PreLlmCall { request } => format!("PreLlm {}", request.messages.len()),
        HookEvent::PostLlmCall { response } => {
            format!("PostLlm {:?}", response.stop_reason)
        }
        HookEvent::LlmError { error } => format!("LlmError {error}"),
        HookEvent::FirstChunk => "FirstChunk".into(),
        HookEvent::PreToolExecution { tool_name, input } => {
            format!("PreTool {call} {tool_name} {input}")
        }
        HookEvent::PostToolExecution { tool_name, output } => {
            format!("PostTool {call} {tool_name} {}", brief(output))
        }
        HookEvent::ToolError { tool_name, error } => {
            format!("ToolError {call} {tool_name} {error}")
        }
        HookEvent::ContextCompaction { old_tokens, new_tokens } => {
            format!("Compacted {old_tokens} {new_tokens}")
        }
        _ => unreachable!("a new event"),
    }
}

/// Returns a short text of a tool output for a log line.
pub(crate) fn brief(output: &ToolOutput) -> String {
    let text: Vec<String> = output.content.iter().map(ToString::to_string).collect();
    format!("{} {}", if output.is_error { "error" } else { "ok" }, text.join("|"))
}

/// A scope around an operation. It records the outcome of the operation.
struct Watched {
    name: String,
    world: World,
    ended: bool,
}

impl OperationScope for Watched {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        poll();
    }

    fn end(mut self: Box<Self>, outcome: Outcome<'_>) {
        self.ended = true;
        let how = match outcome {
            Outcome::Run(result) => format!("answer {}", result.turns),
            Outcome::Response(response) => format!("response {:?}", response.stop_reason),
            Outcome::ToolOutput(output) => brief(output),
            Outcome::Compacted { new_tokens } => format!("compacted {new_tokens}"),
            Outcome::Error(error) => format!("failed {error}"),
            _ => unreachable!("a new outcome"),
        };
        self.world.note(|journal| journal.scopes.push(format!("{}: {how}", self.name)));
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.world.note(|journal| {
            journal.open_scopes -= 1;
            if !self.ended {
                journal.scopes.push(format!("{}: dropped", self.name));
            }
        });
    }
}

/// A context strategy that waits, and counts its compactions.
pub(crate) struct Counting {
    strategy: Strategy,
    world: World,
}

impl ContextStrategy for Counting {
    fn should_compact(&self, messages: &[Message], _: usize) -> bool {
        messages.len() > self.strategy.above
    }

    async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        unreachable!("the loop asks for the usage too")
    }

    async fn compact_with_usage(
        &self,
        messages: Vec<Message>,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        let nth = self.world.count(|counters| {
            counters.compactions += 1;
            counters.compactions - 1
        });
        self.world.pass(Place::Strategy);
        self.world.wait(Place::Strategy, 2).await;
        match self.strategy.failure {
            Some((at, fault)) if at == nth => Err(fault.error()),
            _ => {
                self.world.count(|counters| counters.compacted += 1);
                Ok((self.strategy.compacted(messages), self.strategy.usage.clone()))
            }
        }
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        Strategy::estimate(messages)
    }
}

/// An injector that adds a text in every n-th turn.
struct Every(usize);

impl Injector for Every {
    fn injections(&self, point: &InjectionPoint<'_>) -> Vec<String> {
        reminders(self.0, point.turn)
    }
}

/// Returns the texts that an injector with the interval `every` adds in this turn.
pub(crate) fn reminders(every: usize, turn: usize) -> Vec<String> {
    if turn.is_multiple_of(every) { vec![format!("every {every}")] } else { Vec::new() }
}

/// A durable context without a journal. These tests cover the engine's place in the loop, and not replay.
struct InMemory {
    engine: Engine,
    provider: Mock,
    tools: ToolRegistry,
    answers: Vec<Answering>,
    world: World,
    /// The messages of the last request for each history key.
    histories: Mutex<HashMap<HistoryKey, Vec<Message>>>,
}

impl InMemory {
    /// Checks that the request starts with the messages of the previous request with the same history key.
    fn check_history(&self, request: RequestRef<'_>) {
        let Some(key) = request.history_key() else {
            return;
        };
        let mut histories = self.histories.lock().unwrap();
        let known = histories.entry(key).or_default();
        assert!(request.messages.starts_with(known), "{known:#?} became {:#?}", request.messages);
        *known = request.messages.to_vec();
    }
}

impl DurableContext for InMemory {
    async fn execute_llm_call_ref(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.check_history(request);
        self.execute_llm_call(request.to_request(), options).await
    }

    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let nth = self.world.count(|counters| {
            counters.engine_calls += 1;
            counters.engine_calls - 1
        });
        self.world.pass(Place::Engine);
        self.world.wait(Place::Engine, 1).await;
        match self.engine.failing_call {
            Some((at, fault)) if at == nth => Err(fault.error()),
            _ => self.provider.complete(request).await.map_err(DurableError::Provider),
        }
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.world.pass(Place::Engine);
        self.world.wait(Place::Engine, 1).await;
        self.tools.execute(tool_name, input, ctx).await.map_err(DurableError::Tool)
    }

    async fn execute_tools(
        &self,
        batch: Vec<ToolInvocation>,
        options: ActivityOptions,
    ) -> Vec<Result<ToolOutput, DurableError>> {
        let nth = self.world.count(|counters| {
            counters.engine_batches += 1;
            counters.engine_batches - 1
        });
        let run = |tool: ToolInvocation| {
            let options = options.clone();
            async move {
                let work = self.execute_tool(&tool.call.name, tool.call.input, &tool.ctx, options);
                tool.scope.run(work).await
            }
        };
        let mut results = Vec::new();
        if self.engine.joins {
            results = join_all(batch.into_iter().map(run)).await;
        } else {
            for tool in batch {
                results.push(run(tool).await);
            }
        }
        if self.engine.short_batch == Some(nth) {
            results.pop();
        }
        results
    }

    async fn wait_for_signal<T: serde::de::DeserializeOwned>(
        &self,
        _: &str,
        _: std::time::Duration,
    ) -> Result<Option<T>, DurableError> {
        Ok(None)
    }

    fn should_continue_as_new(&self) -> bool {
        let nth = self.world.count(|counters| {
            counters.engine_asked += 1;
            counters.engine_asked - 1
        });
        // A new execution asks once more before its first turn.
        let is_due = |turns: usize| nth % (turns + 1) == turns;
        self.engine.continues.is_some_and(|(at, _)| at == nth)
            || self.engine.every.is_some_and(is_due)
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.world.wait(Place::Engine, 1).await;
        if self.engine.every.is_some() {
            self.world.note(|journal| journal.state = Some(state));
            return Err(DurableError::ContinueAsNew("the journal is long".into()));
        }
        match self.engine.continues {
            Some((_, true)) => Err(DurableError::ContinueAsNew("the journal is long".into())),
            _ => Ok(()),
        }
    }

    async fn wait_for_approval(
        &self,
        pending: &PendingApproval,
        _: &str,
        _: std::time::Duration,
    ) -> Result<Option<ApprovalDecisions>, DurableError> {
        self.world.wait(Place::Engine, 1).await;
        // After invalid decisions, the same pending calls are reported again.
        if !self.world.counters().signals.1 {
            self.world.note(|journal| journal.asked.push(pending.clone()));
        }
        Ok(self.world.count(|counters| {
            let (asked, wrong_was_first) = &mut counters.signals;
            let answering = self.answers.get(*asked);
            if answering.is_some_and(|answering| answering.route == Route::AnotherRun) {
                return None;
            }
            match answering.and_then(|answering| answering.wrong) {
                Some(wrong) if !std::mem::replace(wrong_was_first, true) => {
                    return Some(wrong.decisions(&pending.calls));
                }
                _ => {}
            }
            *asked += 1;
            *wrong_was_first = false;
            Some(decisions(answering, pending))
        }))
    }

    async fn run_ended(&self, result: Result<&AgentResult, &LoopError>) {
        let event = HookEvent::RunEnd { result };
        let line = line(&event, &HookScope::default());
        self.world.note(|journal| journal.ends.push(line));
    }

    async fn sleep(&self, _: std::time::Duration) {}

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        chrono::DateTime::UNIX_EPOCH
    }
}
