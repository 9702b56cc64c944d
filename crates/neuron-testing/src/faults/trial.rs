//! A run under faults ([`Trial`]), with its state that outlives a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Display;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::future::{Either, select};
use neuron_types::{
    CompletionResponse, DurableContext, Provider, RequestRef, StreamEvent, ToolDyn, ToolEffect,
    ToolError, ToolOutput,
};
use serde_json::Value;
use tokio::sync::Notify;

use super::context::FaultyContext;
use super::plan::{ModelFault, Plan};
use super::promise::{BrokenPromise, changed_effects};
use super::provider::FaultyProvider;
use super::tool::FaultyTool;
use crate::differences::differences;
use crate::queue::lock;

/// Returns all effects of the run so far, such as the charges of a fake payment service.
type Effects = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// A run of a [`FaultTest`](super::FaultTest). It adds faults to the provider, the tools and the durable context of
/// an agent, and starts the agent again after a crash.
///
/// Clones are the same trial.
#[derive(Clone)]
pub struct Trial(Arc<Shared>);

struct Shared {
    seed: u64,
    state: Mutex<State>,
    /// Wakes [`Trial::execute`] when the current execution crashes.
    crash: Notify,
}

struct State {
    plan: Plan,
    /// Number of the current execution, from 0. Each crash ends an execution.
    execution: usize,
    /// Set after a crash of the current execution, until the next execution starts.
    has_crashed: bool,
    is_durable: bool,
    /// Set during the last execution, which replays the run after its end. This execution has no faults.
    is_last_replay: bool,
    /// Number of places with a possible crash that the current execution has reached.
    passed: usize,
    /// Number of places with a possible crash in the longest execution of the run.
    boundaries: usize,
    /// The last place with a possible crash that the run reached. Describes when an effect happened outside of a tool
    /// call.
    place: String,
    faults: Vec<String>,
    /// The requests of the run's model calls, in order, as JSON.
    requests: Vec<Value>,
    /// Number of model calls of the current execution.
    model_calls: usize,
    /// The responses of the model. Each key is the JSON of the request.
    responses: BTreeMap<String, CompletionResponse>,
    /// The events of the model's streams. Each key is the JSON of the request.
    streams: BTreeMap<String, Vec<StreamEvent>>,
    /// The names of the trial's tools, each with the [`ToolEffect`] that the tool declares.
    tools: BTreeMap<String, ToolEffect>,
    /// The running tool calls, as the name of the tool and the [`ToolEffect`] that it declares.
    running: Vec<(String, ToolEffect)>,
    /// Set if a crash interrupted the call of a tool that must not run twice. The effect of this call may then be
    /// missing.
    is_interrupted: bool,
    /// The first result of each idempotent call, as JSON. Each key is the idempotency key of the call.
    results: BTreeMap<String, String>,
    /// The idempotency keys of the calls that succeeded, by tool and effect key.
    keyed: BTreeMap<(String, String), BTreeSet<String>>,
    effects: Option<Effects>,
    seen: Vec<String>,
    broken: Vec<BrokenPromise>,
    outcome: Option<Result<String, String>>,
}

/// The outcome of an ended trial, with its effects, its faults and the promises that it broke.
pub(super) struct Ended {
    pub(super) outcome: Option<Result<String, String>>,
    pub(super) effects: Vec<String>,
    pub(super) is_interrupted: bool,
    pub(super) boundaries: usize,
    pub(super) faults: Vec<String>,
    pub(super) crashes: usize,
    pub(super) broken: Vec<BrokenPromise>,
}

impl Trial {
    pub(super) fn new(seed: u64, plan: Plan) -> Self {
        let state = State {
            plan,
            execution: 0,
            has_crashed: false,
            is_durable: false,
            is_last_replay: false,
            passed: 0,
            boundaries: 0,
            place: "the start of the run".to_owned(),
            faults: Vec::new(),
            requests: Vec::new(),
            model_calls: 0,
            responses: BTreeMap::new(),
            streams: BTreeMap::new(),
            tools: BTreeMap::new(),
            running: Vec::new(),
            is_interrupted: false,
            results: BTreeMap::new(),
            keyed: BTreeMap::new(),
            effects: None,
            seen: Vec::new(),
            broken: Vec::new(),
            outcome: None,
        };
        Self(Arc::new(Shared { seed, state: Mutex::new(state), crash: Notify::new() }))
    }

    /// Returns the seed of this trial. The run without faults has the seed 0.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// Returns a run id that no other trial of the test has, such as `run-17`.
    #[must_use]
    pub fn run_id(&self) -> String {
        format!("run-{}", self.0.seed)
    }

    /// Sets the function that lists the effects of the run so far, for example the charges of a fake payment service.
    ///
    /// Without this function the test does not know any effects. It then does not find an effect that was repeated or
    /// lost, or that happened outside of a tool call.
    ///
    /// The function returns one text for each effect, in the order in which the effects happened. The test compares the
    /// list with the effects of a run without faults. The function must not change anything. It is called often, and
    /// never from two threads at a time.
    pub fn effects(&self, effects: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        lock(&self.0.state).effects = Some(Arc::new(effects));
    }

    /// Adds faults to a provider. The faults are errors, broken streams, slow responses, and simulated crashes of the
    /// process.
    ///
    /// Call this method inside the function `agent` of [`execute`](Self::execute).
    pub fn provider<P: Provider + 'static>(&self, provider: P) -> FaultyProvider<P> {
        FaultyProvider::new(provider, self.execution())
    }

    /// Wraps a tool to observe its effects and to inject simulated crashes. A crash can happen before a call, after it,
    /// and each time that the call waits.
    ///
    /// Call this method inside the function `agent` of [`execute`](Self::execute).
    pub fn tool(&self, tool: impl ToolDyn + 'static) -> Arc<dyn ToolDyn> {
        self.tool_dyn(Arc::new(tool))
    }

    /// Wraps a shared tool in the same way as [`tool`](Self::tool).
    pub fn tool_dyn(&self, tool: Arc<dyn ToolDyn>) -> Arc<dyn ToolDyn> {
        lock(&self.0.state).tools.insert(tool.name().to_owned(), tool.effect());
        Arc::new(FaultyTool { tool, execution: self.execution() })
    }

    /// Wraps a durable context to inject crashes before and after each of its steps, such as a model call. Without a
    /// durable context, a run has no crashes.
    ///
    /// Call this method inside the function `agent` of [`execute`](Self::execute).
    pub fn context<C: DurableContext>(&self, context: C) -> FaultyContext<C> {
        lock(&self.0.state).is_durable = true;
        FaultyContext::new(context, self.execution())
    }

    /// Runs the agent until it ends, and stores the outcome for the comparison with a run without faults.
    ///
    /// A crash drops the future of `agent`, and calls `agent` again. Everything that `agent` creates is then lost, like
    /// the memory of a process. Values outside of `agent` survive the crash, such as the journal of the durable engine
    /// or a fake of a payment service.
    ///
    /// `agent` returns the response of the run. A durable run that ends without an error is then replayed, and must
    /// have the same outcome again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the run.
    pub async fn execute<E: Display>(&self, agent: impl AsyncFn() -> Result<String, E>) {
        let outcome = loop {
            let ended = {
                let (run, crash) = (pin!(agent()), pin!(self.0.crash.notified()));
                match select(run, crash).await {
                    Either::Left((outcome, _)) => Some(outcome.map_err(|error| error.to_string())),
                    Either::Right(_) => None,
                }
            };
            self.observe();
            match ended {
                Some(outcome) => break outcome,
                None => self.start_execution(false),
            }
        };
        let is_durable = {
            let mut state = lock(&self.0.state);
            state.outcome = Some(outcome.clone());
            state.is_durable
        };
        if let (true, Ok(_)) = (is_durable, &outcome) {
            self.start_execution(true);
            let replayed = agent().await.map_err(|error| error.to_string());
            self.observe();
            if replayed != outcome {
                self.report(BrokenPromise::ReplayChanged { ended: outcome, replayed });
            }
        }
    }

    fn execution(&self) -> Execution {
        Execution { trial: self.clone(), number: lock(&self.0.state).execution }
    }

    fn start_execution(&self, is_last_replay: bool) {
        let mut state = lock(&self.0.state);
        state.execution += 1;
        state.has_crashed = false;
        state.passed = 0;
        state.model_calls = 0;
        state.running.clear();
        state.is_last_replay = is_last_replay;
    }

    pub(super) fn report(&self, broken: BrokenPromise) {
        let mut state = lock(&self.0.state);
        if !state.broken.contains(&broken) {
            state.broken.push(broken);
        }
    }

    /// Reads the list of effects. Adds a [`BrokenPromise`] to the report for each new effect that happened outside of
    /// a tool call or during a pure tool call.
    fn observe(&self) {
        self.observe_poll(None);
    }

    /// Reads the list of effects. Adds a [`BrokenPromise`] to the report for each new effect that happened outside of
    /// a tool call or during a pure tool call.
    ///
    /// `polled` is the tool call whose future was just polled, and which caused the new effects. With `None`, any
    /// running call may have caused them, for example in another thread.
    fn observe_poll(&self, polled: Option<&(String, ToolEffect)>) {
        // The function is called without the lock, because it is code of the user.
        let Some(effects) = lock(&self.0.state).effects.clone() else { return };
        let effects = effects();
        let mut guard = lock(&self.0.state);
        let state = &mut *guard;
        for effect in effects.iter().skip(state.seen.len()) {
            let (effect, place) = (effect.clone(), state.place.clone());
            let running = state.running.iter().filter(|call| polled.is_none_or(|own| own == *call));
            let names: Vec<&str> = running.clone().map(|(name, _)| name.as_str()).collect();
            let broken = match names.as_slice() {
                [] => BrokenPromise::EffectOutsideTool { effect, place },
                names if running.clone().all(|(_, effect)| *effect == ToolEffect::Pure) => {
                    BrokenPromise::PureToolHadEffect { effect, tool: names.join("`, `") }
                }
                _ => continue,
            };
            if !state.broken.contains(&broken) {
                state.broken.push(broken);
            }
        }
        state.seen = effects;
    }

    /// Ends the trial, and returns its outcome, effects, faults and broken promises.
    pub(super) fn end(&self) -> Ended {
        self.observe();
        let state = lock(&self.0.state);
        Ended {
            outcome: state.outcome.clone(),
            effects: state.seen.clone(),
            is_interrupted: state.is_interrupted,
            boundaries: if state.is_durable { state.boundaries } else { 0 },
            faults: state.faults.clone(),
            crashes: state.execution - usize::from(state.is_last_replay),
            broken: state.broken.clone(),
        }
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial").field("seed", &self.0.seed).finish_non_exhaustive()
    }
}

impl Ended {
    /// Returns the promises that the trial broke. `expected` is the trial without faults, whose effects and outcome are
    /// compared.
    pub(super) fn broken_promises(self, expected: &Ended) -> Vec<BrokenPromise> {
        let mut broken = self.broken;
        match (&self.outcome, &expected.outcome) {
            (Some(Err(error)), Some(Ok(_))) => {
                broken.push(BrokenPromise::RunFailed { error: error.clone() });
            }
            // The effects of a failed run are incomplete, so only a run with a response is compared.
            (Some(Ok(_)), Some(Ok(_))) => broken.extend(changed_effects(
                &expected.effects,
                &self.effects,
                self.is_interrupted || expected.is_interrupted,
            )),
            _ => {}
        }
        broken
    }
}

/// One execution of the agent in a trial, from its start to a crash or to the end of the run.
#[derive(Clone)]
pub(super) struct Execution {
    trial: Trial,
    number: usize,
}

impl Execution {
    /// Marks a place at which the simulated process can crash. The future never ends if the process crashes here or has
    /// crashed before. `place` describes the place in the report.
    pub(super) async fn boundary(&self, place: &str) {
        if !self.pass(place) {
            pending::<()>().await;
        }
    }

    /// Marks a place at which the simulated process can crash. Returns `false` if the process crashes here or has
    /// crashed before. `place` describes the place in the report.
    pub(super) fn pass(&self, place: &str) -> bool {
        if !self.is_alive() {
            return false;
        }
        self.trial.observe();
        let mut guard = lock(&self.trial.0.state);
        let state = &mut *guard;
        state.place.clear();
        state.place.push_str(place);
        if !state.is_durable || state.is_last_replay {
            return true;
        }
        state.passed += 1;
        state.boundaries = state.boundaries.max(state.passed);
        if !state.plan.crashes_at(state.execution, state.passed) {
            return true;
        }
        let fault = format!("a crash at boundary {}, {place}", state.passed);
        state.faults.push(fault);
        // The next execution begins only after the future of this one is dropped. Until then, no part of this execution
        // may go on.
        state.has_crashed = true;
        self.trial.0.crash.notify_one();
        false
    }

    fn is_alive(&self) -> bool {
        let state = lock(&self.trial.0.state);
        state.execution == self.number && !state.has_crashed
    }

    /// Polls `future` until it ends. If the process crashes before that, the returned future never ends.
    pub(super) async fn alive<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| match self.is_alive() {
            true => future.as_mut().poll(context),
            false => Poll::Pending,
        })
        .await
    }

    pub(super) fn next_model_fault(&self) -> Option<ModelFault> {
        let mut guard = lock(&self.trial.0.state);
        let state = &mut *guard;
        if state.is_last_replay {
            return None;
        }
        let fault = state.plan.next_model_fault()?;
        state.faults.push(format!("{fault:?} at a model call"));
        Some(fault)
    }

    pub(super) fn known_response(&self, request: RequestRef<'_>) -> Option<CompletionResponse> {
        lock(&self.trial.0.state).responses.get(&json(request).to_string()).cloned()
    }

    pub(super) fn keep_response(&self, request: RequestRef<'_>, response: &CompletionResponse) {
        let responses = &mut lock(&self.trial.0.state).responses;
        responses.insert(json(request).to_string(), response.clone());
    }

    pub(super) fn known_events(&self, request: RequestRef<'_>) -> Option<Vec<StreamEvent>> {
        lock(&self.trial.0.state).streams.get(&json(request).to_string()).cloned()
    }

    pub(super) fn keep_events(&self, request: RequestRef<'_>, events: &[StreamEvent]) {
        let streams = &mut lock(&self.trial.0.state).streams;
        streams.insert(json(request).to_string(), events.to_vec());
    }

    /// Records the request of a model call. Adds a [`BrokenPromise::RequestChanged`] to the report if a replayed call
    /// has a request that no earlier execution sent.
    pub(super) fn check_request(&self, request: RequestRef<'_>, is_replay: bool) {
        let request = json(request);
        let mut guard = lock(&self.trial.0.state);
        let state = &mut *guard;
        let call = state.model_calls;
        state.model_calls += 1;
        if state.requests.contains(&request) {
            return;
        }
        let earlier = match state.requests.get(call) {
            Some(earlier) if is_replay => earlier,
            _ => return state.requests.push(request),
        };
        let difference = differences(earlier, &request).into_iter().next().unwrap_or_default();
        let broken = BrokenPromise::RequestChanged { call: call + 1, difference };
        if !state.broken.contains(&broken) {
            state.broken.push(broken);
        }
    }

    /// Marks a tool call as running until the returned guard is dropped.
    pub(super) fn start_tool(&self, name: &str, effect: ToolEffect) -> RunningTool {
        self.trial.observe();
        let running = (name.to_owned(), effect);
        lock(&self.trial.0.state).running.push(running.clone());
        RunningTool { execution: self.clone(), running }
    }

    /// Compares the result of an idempotent call with the first result for the same idempotency key `key`. Adds a
    /// [`BrokenPromise::ResultChanged`] to the report if the results differ.
    pub(super) fn compare_result(
        &self,
        tool: &str,
        key: &str,
        result: &Result<ToolOutput, ToolError>,
    ) {
        let text = match result {
            Ok(output) => serde_json::to_string(output).unwrap_or_default(),
            Err(error) => format!("error: {error}"),
        };
        let mut guard = lock(&self.trial.0.state);
        let state = &mut *guard;
        match state.results.get(key) {
            Some(first) if *first != text => {
                let (tool, first, second) = (tool.to_owned(), first.clone(), text);
                let broken = BrokenPromise::ResultChanged { tool, first, second };
                if !state.broken.contains(&broken) {
                    state.broken.push(broken);
                }
            }
            Some(_) => {}
            // A failed call may succeed later, so only a result is compared.
            None if result.is_ok() => drop(state.results.insert(key.to_owned(), text)),
            None => {}
        }
    }

    /// Records that a call with an effect key succeeded. `call` is the idempotency key of the call. Adds a
    /// [`BrokenPromise::EffectKeyRepeated`] to the report if another call with the effect key has succeeded.
    pub(super) fn note_effect_key(&self, tool: &str, key: String, call: &str) {
        let mut guard = lock(&self.trial.0.state);
        let state = &mut *guard;
        if !state.is_durable {
            // Without a durable engine, nothing compares the keys.
            return;
        }
        let calls = state.keyed.entry((tool.to_owned(), key.clone())).or_default();
        calls.insert(call.to_owned());
        let broken = BrokenPromise::EffectKeyRepeated { tool: tool.to_owned(), key };
        if calls.len() > 1 && !state.broken.contains(&broken) {
            state.broken.push(broken);
        }
    }

    /// Starts a batch of tool calls that the engine journals together. Call `end` on the returned guard when the batch
    /// ends. If the guard is dropped before, a crash has interrupted the batch.
    pub(super) fn start_batch<'a>(&self, tools: impl Iterator<Item = &'a str>) -> Batch {
        let state = lock(&self.trial.0.state);
        let effect = |name| state.tools.get(name).copied().unwrap_or_default();
        let must_not_repeat = { tools }.any(|name| effect(name) == ToolEffect::AtMostOnce);
        drop(state);
        Batch { execution: self.clone(), is_open: must_not_repeat }
    }
}

/// A guard that marks a tool call as running until the guard is dropped.
pub(super) struct RunningTool {
    execution: Execution,
    running: (String, ToolEffect),
}

impl RunningTool {
    /// Calls `poll`, which polls the future of this tool call. Effects that happen during the poll are attributed to
    /// this call, even if other calls are running.
    pub(super) fn poll<T>(&self, poll: impl FnOnce() -> T) -> T {
        let trial = &self.execution.trial;
        trial.observe();
        let result = poll();
        trial.observe_poll(Some(&self.running));
        result
    }
}

impl Drop for RunningTool {
    fn drop(&mut self) {
        let trial = &self.execution.trial;
        trial.observe();
        let running = &mut lock(&trial.0.state).running;
        if let Some(index) = running.iter().position(|call| *call == self.running) {
            running.swap_remove(index);
        }
    }
}

/// A guard of a batch of tool calls that the engine journals together. If the guard is dropped before
/// [`end`](Self::end) is called, a crash has interrupted the batch.
pub(super) struct Batch {
    execution: Execution,
    /// `true` until the batch ends, if one of its tools must not run twice. `false` for all other batches.
    is_open: bool,
}

impl Batch {
    /// Marks the batch as ended, so that dropping the guard does not count as an interruption.
    pub(super) fn end(mut self) {
        self.is_open = false;
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if self.is_open {
            lock(&self.execution.trial.0.state).is_interrupted = true;
        }
    }
}

fn json(request: RequestRef<'_>) -> Value {
    serde_json::to_value(request.to_request()).unwrap_or_default()
}
