//! What is known of a run while it goes on: how calls find the run that they belong to.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use neuron_types::RequestRef;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use web_time::Instant;

use crate::config::Config;
use crate::content::History;
use crate::placement::is_unsampled;

thread_local! {
    /// The run and the operation whose polls are on this thread's stack, the innermost ones.
    static CURRENT: RefCell<Current> =
        const { RefCell::new(Current { run: None, activity: None }) };
}

#[derive(Clone, Default)]
struct Current {
    run: Option<Arc<RunState>>,
    activity: Option<Arc<Activity>>,
}

/// One run of one hook.
pub(crate) struct RunState {
    /// Tells runs of several hooks on one agent apart.
    config: Arc<Config>,
    /// The run around it, of whichever hook. Known from the first poll: the scopes of several hooks are opened
    /// before any of them is entered.
    outer: OnceLock<Option<Arc<RunState>>>,
    /// The agent's name; empty when it has none.
    agent: String,
    /// The session's id; empty when there is none.
    conversation: String,
    /// The span, and when it began.
    span: OnceLock<(Span, Instant)>,
    /// Known once it was asked for.
    unsampled: OnceLock<bool>,
    /// Makes the span of a run that repeats what an earlier attempt did, once it does more.
    begin: Mutex<Option<Box<dyn FnOnce() -> Span + Send>>>,
    /// The turn's span, where the conventions have one.
    turn: Mutex<Option<Span>>,
    /// Whether the conversation was compacted since the last call of the model.
    compacted: AtomicBool,
    inference_calls: AtomicU64,
    tool_calls: AtomicU64,
    /// The conversation as content. Empty unless content is captured.
    history: Mutex<History>,
}

impl RunState {
    /// Returns `gen_ai.input.messages` of a request of this run.
    pub(crate) fn input_messages(&self, request: &RequestRef<'_>) -> String {
        self.history.lock().unwrap_or_else(PoisonError::into_inner).input_messages(request)
    }

    /// A run that has begun.
    pub(crate) fn begun_with(
        config: Arc<Config>,
        agent: &str,
        conversation: &str,
        span: Span,
    ) -> Arc<Self> {
        Self::new(config, agent, conversation, OnceLock::from((span, Instant::now())), None)
    }

    /// A run that begins when something happens in it that is no replay.
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

    /// The run of this hook that is being polled on this thread, the innermost one.
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

    /// Polls the run: what is asked for on this thread meanwhile belongs to it.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let mut poll = || {
            let Current { run, activity } = CURRENT.with_borrow(Clone::clone);
            self.outer.get_or_init(|| run);
            let inner = Current { run: Some(self.clone()), activity };
            let outer = Restore(CURRENT.replace(inner));
            poll();
            drop(outer);
            self.touch_turn();
        };
        match self.span.get() {
            Some((span, _)) => span.in_scope(poll),
            None => {
                poll();
                // It ends where it was current last.
                if let Some((span, _)) = self.span.get() {
                    touch(span);
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

    /// The run's span; begins it.
    pub(crate) fn span(&self) -> Span {
        if let Some((span, _)) = self.span.get() {
            return span.clone();
        }
        // Held until the span is there: of two calls that begin at the same time one makes it.
        let mut begin = lock(&self.begin);
        if let Some(begin) = begin.take() {
            let _ = self.span.set((begin(), Instant::now()));
        }
        self.span.get().map_or_else(Span::none, |(span, _)| span.clone())
    }

    /// The run's span and when it began, if it has.
    pub(crate) fn begun(&self) -> Option<(&Span, Instant)> {
        self.span.get().map(|(span, began)| (span, *began))
    }

    /// Whether the run has begun in a trace that is not sampled.
    pub(crate) fn is_unsampled(&self) -> bool {
        let Some((span, _)) = self.span.get() else {
            return false;
        };
        *self.unsampled.get_or_init(|| !span.is_disabled() && is_unsampled(&span.context()))
    }

    /// What an operation of the run that begins now stands below. `None`: whatever is current.
    pub(crate) fn parent(self: &Arc<Self>) -> Option<Span> {
        match Activity::innermost(&self.config, Some(self)).map(|activity| activity.kind) {
            // What a tool or a compaction asks for is a part of it.
            Some(Kind::Other) => return None,
            // A tool that starts before the answer is whole is no part of the model's call.
            Some(Kind::ModelCall) => return Some(self.turn().unwrap_or_else(|| self.span())),
            None => {}
        }
        if let Some(turn) = self.turn() {
            return Some(turn);
        }
        // It is not current where it began in this very poll, and where another hook's span is inside of it.
        let span = self.span();
        (span.id() != Span::current().id()).then_some(span)
    }

    fn turn(&self) -> Option<Span> {
        self.config.conventions.is_book().then(|| lock(&self.turn).clone()).flatten()
    }

    /// Lets the turn last until now: it is never current while it is polled.
    pub(crate) fn touch_turn(&self) {
        if let Some(turn) = self.turn() {
            touch(&turn);
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

    pub(crate) fn take_compacted(&self) -> bool {
        self.compacted.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn count_inference_call(&self) {
        self.inference_calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_tool_call(&self) {
        self.tool_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls of the model and of tools there were that are no replay.
    pub(crate) fn calls(&self) -> (u64, u64) {
        (self.inference_calls.load(Ordering::Relaxed), self.tool_calls.load(Ordering::Relaxed))
    }
}

/// What an operation is, for those inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ModelCall,
    Other,
}

/// One operation that is under way, of one hook.
pub(crate) struct Activity {
    config: Arc<Config>,
    run: Option<Arc<RunState>>,
    kind: Kind,
    /// The operation around it, of whichever hook: the same one, as another hook of the agent sees it, or one of
    /// which this one is a part. Known from the first poll.
    outer: OnceLock<Option<Arc<Activity>>>,
    started: Instant,
    /// When the first part of a model's answer came.
    first_chunk: OnceLock<Instant>,
}

impl Activity {
    pub(crate) fn new(config: &Arc<Config>, run: Option<&Arc<RunState>>, kind: Kind) -> Arc<Self> {
        let (config, run) = (config.clone(), run.cloned());
        let (outer, first_chunk) = (OnceLock::new(), OnceLock::new());
        Arc::new(Self { config, run, kind, outer, started: Instant::now(), first_chunk })
    }

    /// The operation of a hook that is being polled on this thread, the innermost one, if it belongs to this run.
    fn innermost(config: &Arc<Config>, run: Option<&Arc<RunState>>) -> Option<Arc<Self>> {
        let mut next = CURRENT.with_borrow(|current| current.activity.clone());
        while let Some(activity) = next {
            if Arc::ptr_eq(&activity.config, config) {
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

    /// Whether what is asked for now is a part of a model call that this hook tells of already.
    pub(crate) fn is_model_call(config: &Arc<Config>) -> bool {
        let run = RunState::current(config);
        Self::innermost(config, run.as_ref())
            .is_some_and(|activity| activity.kind == Kind::ModelCall)
    }

    /// Polls the operation: what is asked for on this thread meanwhile is a part of it.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let Current { run, activity } = CURRENT.with_borrow(Clone::clone);
        self.outer.get_or_init(|| activity);
        let inner = Current { run, activity: Some(self.clone()) };
        let _outer = Restore(CURRENT.replace(inner));
        poll();
    }

    /// Notes that the first part of the answer came to the model call that is being polled, for every hook that
    /// tells of it.
    pub(crate) fn first_chunk_came() {
        let mut next = CURRENT.with_borrow(|current| current.activity.clone());
        while let Some(call) = next.filter(|activity| activity.kind == Kind::ModelCall) {
            let _ = call.first_chunk.set(Instant::now());
            next = call.outer.get().cloned().flatten();
        }
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// After how many seconds the first part of a model's answer came.
    pub(crate) fn first_chunk_after(&self) -> Option<f64> {
        let came = self.first_chunk.get()?;
        Some(came.saturating_duration_since(self.started).as_secs_f64())
    }

    pub(crate) fn run(&self) -> Option<&Arc<RunState>> {
        self.run.as_ref()
    }
}

/// Lets a span last until now: it ends in traces where it was current last.
pub(crate) fn touch(span: &Span) {
    span.in_scope(|| ());
}

/// Puts back what was current, also after a panic.
struct Restore(Current);

impl Drop for Restore {
    fn drop(&mut self) {
        // Not dropped while it is borrowed: a span may end with it, and whoever exports it may come here.
        drop(CURRENT.replace(std::mem::take(&mut self.0)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
