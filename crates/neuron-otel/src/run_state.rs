//! The state of runs and operations. Also finds the current run and the current operation of a thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use neuron_types::RequestRef;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use web_time::Instant;

use crate::config::Config;
use crate::content::History;
use crate::span_parent::is_unsampled;

thread_local! {
    /// The innermost run and the innermost operation that are being polled on this thread.
    static CURRENT: RefCell<Current> =
        const { RefCell::new(Current { run: None, activity: None }) };
}

#[derive(Clone, Default)]
struct Current {
    run: Option<Arc<RunState>>,
    activity: Option<Arc<Activity>>,
}

/// The state of one run, for one hook.
pub(crate) struct RunState {
    /// Configuration of the hook. Its address also identifies the hook, because an agent may have several hooks.
    config: Arc<Config>,
    /// The enclosing run. If the agent has several hooks, this may be the state of the same run for another hook. Set
    /// at the first poll, because the outer hooks set the thread's current run only while they poll.
    outer: OnceLock<Option<Arc<RunState>>>,
    /// Name of the agent. Empty if the agent has no name.
    agent: String,
    /// Session id. Empty if there is none.
    conversation: String,
    /// Span of the run and its start time. Not set while a durable run replays, that is, while it reads earlier results
    /// from its journal.
    span: OnceLock<(Span, Instant)>,
    /// `true` if the trace is not sampled. Empty until the value is first needed.
    unsampled: OnceLock<bool>,
    /// Function that creates the span of a replaying run. It is called when new work begins.
    begin: Mutex<Option<Box<dyn FnOnce() -> Span + Send>>>,
    /// Span of the current turn. Only [`SemanticConventions::Book`](crate::SemanticConventions::Book) has such spans.
    turn: Mutex<Option<Span>>,
    /// `true` if the conversation was compacted since the last model call.
    compacted: AtomicBool,
    inference_calls: AtomicU64,
    tool_calls: AtomicU64,
    /// Serialised conversation. Empty if content is not captured.
    history: Mutex<History>,
}

impl RunState {
    /// Returns the value of `gen_ai.input.messages` for a request of this run.
    pub(crate) fn input_messages(&self, request: &RequestRef<'_>) -> String {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).input_messages(request)
    }

    /// Creates the state of a run whose span has begun.
    pub(crate) fn begun_with(
        config: Arc<Config>,
        agent: &str,
        conversation: &str,
        span: Span,
    ) -> Arc<Self> {
        Self::new(config, agent, conversation, OnceLock::from((span, Instant::now())), None)
    }

    /// Creates the state of a durable run that replays, that is, reads earlier results from its journal. When new work
    /// begins, `begin` is called to create the run's span.
    pub(crate) fn replaying(
        config: Arc<Config>,
        agent: &str,
        conversation: &str,
        begin: impl FnOnce() -> Span + Send + 'static,
    ) -> Arc<Self> {
        Self::new(config, agent, conversation, OnceLock::new(), Some(Box::new(begin)))
    }

    fn new(
        config: Arc<Config>,
        agent: &str,
        conversation: &str,
        span: OnceLock<(Span, Instant)>,
        begin: Option<Box<dyn FnOnce() -> Span + Send>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            config,
            outer: OnceLock::new(),
            agent: agent.to_owned(),
            conversation: conversation.to_owned(),
            span,
            unsampled: OnceLock::new(),
            begin: Mutex::new(begin),
            turn: Mutex::default(),
            compacted: AtomicBool::new(false),
            inference_calls: AtomicU64::new(0),
            tool_calls: AtomicU64::new(0),
            history: Mutex::default(),
        })
    }

    /// Returns the innermost run of this hook that is being polled on this thread, or `None` if there is none.
    pub(crate) fn current(config: &Arc<Config>) -> Option<Arc<Self>> {
        let mut next = CURRENT.with_borrow(|current| current.run.clone());
        while let Some(run) = next {
            if Arc::ptr_eq(&run.config, config) {
                return Some(run);
            }
            next = run.outer.get().cloned().flatten();
        }
        None
    }

    /// Calls `poll`, which polls the run. During the call, this run is the thread's current run and its span is the
    /// current span.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let mut poll = || {
            let Current { run, activity } = CURRENT.with_borrow(Clone::clone);
            self.outer.get_or_init(|| run);
            let inner = Current { run: Some(self.clone()), activity };
            let outer = Restore(CURRENT.replace(inner));
            poll();
            drop(outer);
            self.extend_turn();
        };
        match self.span.get() {
            Some((span, _)) => span.in_scope(poll),
            None => {
                poll();
                // The span may have begun during this poll. The layer exports as its end the time when the span was
                // last entered.
                if let Some((span, _)) = self.span.get() {
                    extend_to_now(span);
                }
            }
        }
    }

    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    pub(crate) fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Returns the run's span. Creates the span if the run was replaying until now.
    pub(crate) fn span(&self) -> Span {
        if let Some((span, _)) = self.span.get() {
            return span.clone();
        }
        // The lock is held until the span is set, so that two concurrent calls create only one span.
        let mut begin = lock(&self.begin);
        if let Some(begin) = begin.take() {
            let _ = self.span.set((begin(), Instant::now()));
        }
        self.span.get().map_or_else(Span::none, |(span, _)| span.clone())
    }

    /// Returns the run's span and its start time, or `None` while the run replays.
    pub(crate) fn begun(&self) -> Option<(&Span, Instant)> {
        self.span.get().map(|(span, began)| (span, *began))
    }

    /// Returns `true` if the run's span has begun in an unsampled trace.
    pub(crate) fn is_unsampled(&self) -> bool {
        let Some((span, _)) = self.span.get() else {
            return false;
        };
        *self.unsampled.get_or_init(|| !span.is_disabled() && is_unsampled(&span.context()))
    }

    /// Returns the parent span for a new operation of the run. Returns `None` if the current span is the parent.
    pub(crate) fn parent(self: &Arc<Self>) -> Option<Span> {
        match Activity::innermost(&self.config, Some(self)).map(|activity| activity.kind) {
            // The current span is the span of the enclosing tool or compaction, which is the parent.
            Some(Kind::Other) => return None,
            // A tool may start before the model's response is complete. It is a sibling of the model call and not its
            // child.
            Some(Kind::ModelCall) => return Some(self.turn().unwrap_or_else(|| self.span())),
            None => {}
        }
        if let Some(turn) = self.turn() {
            return Some(turn);
        }
        // The run's span is not the current span if it began in this poll, or if another hook's span is inside it.
        let span = self.span();
        (span.id() != Span::current().id()).then_some(span)
    }

    /// Returns the span of the current turn, or `None` if the conventions have no such spans.
    fn turn(&self) -> Option<Span> {
        self.config.conventions.is_book().then(|| lock(&self.turn).clone()).flatten()
    }

    /// Extends the span of the current turn to now. The layer of `tracing_opentelemetry` ends a span at the time when
    /// it was last entered, and the operations of a turn do not enter the turn's span.
    pub(crate) fn extend_turn(&self) {
        if let Some(turn) = self.turn() {
            extend_to_now(&turn);
        }
    }

    pub(crate) fn begin_turn(&self, span: Span) {
        *lock(&self.turn) = Some(span);
    }

    pub(crate) fn end_turn(&self) {
        lock(&self.turn).take();
    }

    pub(crate) fn set_compacted(&self) {
        self.compacted.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the conversation was compacted since the previous call of this method.
    pub(crate) fn take_compacted(&self) -> bool {
        self.compacted.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn count_inference_call(&self) {
        self.inference_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_tool_call(&self) {
        self.tool_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of model calls and the number of tool calls, both without replayed calls.
    pub(crate) fn calls(&self) -> (u64, u64) {
        (self.inference_calls.load(Ordering::Relaxed), self.tool_calls.load(Ordering::Relaxed))
    }
}

/// The kind of an operation. It determines the parent span of operations inside this operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ModelCall,
    Other,
}

/// The state of one operation in progress (such as a model call or a tool call), for one hook.
pub(crate) struct Activity {
    config: Arc<Config>,
    run: Option<Arc<RunState>>,
    kind: Kind,
    /// The enclosing operation, which may be the same operation as recorded by another hook. Set at the first poll.
    outer: OnceLock<Option<Arc<Activity>>>,
    started: Instant,
    /// Time when the first chunk of a model's response arrived.
    first_chunk: OnceLock<Instant>,
}

impl Activity {
    pub(crate) fn new(config: &Arc<Config>, run: Option<&Arc<RunState>>, kind: Kind) -> Arc<Self> {
        let (config, run) = (config.clone(), run.cloned());
        let (outer, first_chunk) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { config, run, kind, outer, started: Instant::now(), first_chunk })
    }

    /// Returns the innermost operation of this hook that is being polled on this thread. Returns `None` if there is
    /// none, or if the operation does not belong to `run`.
    fn innermost(config: &Arc<Config>, run: Option<&Arc<RunState>>) -> Option<Arc<Self>> {
        let mut next = CURRENT.with_borrow(|current| current.activity.clone());
        while let Some(activity) = next {
            if Arc::ptr_eq(&activity.config, config) {
                // An operation of another run of this hook does not enclose the operations of `run`.
                let is_of_run = match (&activity.run, run) {
                    (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                    (one, other) => one.is_none() && other.is_none(),
                };
                return is_of_run.then_some(activity);
            }
            next = activity.outer.get().cloned().flatten();
        }
        None
    }

    /// Returns `true` if the current operation is a model call that this hook records already.
    pub(crate) fn is_model_call(config: &Arc<Config>) -> bool {
        let run = RunState::current(config);
        Self::innermost(config, run.as_ref())
            .is_some_and(|activity| activity.kind == Kind::ModelCall)
    }

    /// Calls `poll`, which polls the operation. Meanwhile this operation is the current operation of the thread.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let Current { run, activity } = CURRENT.with_borrow(Clone::clone);
        self.outer.get_or_init(|| activity);
        let inner = Current { run, activity: Some(self.clone()) };
        let _outer = Restore(CURRENT.replace(inner));
        poll();
    }

    /// Records the arrival of the first chunk for the current model call, in all hooks that record this call. Later
    /// chunks do not change the time.
    pub(crate) fn record_first_chunk() {
        let mut next = CURRENT.with_borrow(|current| current.activity.clone());
        // Each hook has a separate activity for the call, and these activities are directly nested.
        while let Some(call) = next.filter(|activity| activity.kind == Kind::ModelCall) {
            let _ = call.first_chunk.set(Instant::now());
            next = call.outer.get().cloned().flatten();
        }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Returns the time from the start of the operation to the first chunk of a model's response, in seconds. Returns
    /// `None` if no chunk has arrived.
    pub(crate) fn first_chunk_after(&self) -> Option<f64> {
        let came = self.first_chunk.get()?;
        Some(came.saturating_duration_since(self.started).as_secs_f64())
    }

    pub(crate) fn run(&self) -> Option<&Arc<RunState>> {
        self.run.as_ref()
    }
}

/// Extends a span to now by entering it once. The layer of `tracing_opentelemetry` exports the time of the last entry
/// as the end of the span.
pub(crate) fn extend_to_now(span: &Span) {
    span.in_scope(|| ());
}

/// A guard that restores this thread's previous run and operation when it is dropped, even after a panic.
struct Restore(Current);

impl Drop for Restore {
    fn drop(&mut self) {
        // The old value must be dropped after the borrow ends. Dropping it may end a span, and the span's exporter may
        // access `CURRENT`.
        drop(CURRENT.replace(std::mem::take(&mut self.0)));
    }
}

/// Locks a mutex, even if an earlier holder of the lock panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
