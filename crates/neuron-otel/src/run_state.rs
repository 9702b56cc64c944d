//! What is known of a run while it goes on: how calls find the run that they belong to.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tracing::Span;
use web_time::Instant;

use crate::config::Config;

thread_local! {
    /// The run whose poll is on this thread's stack, and the model call in it.
    static CURRENT: RefCell<Current> = const { RefCell::new(Current { run: None, call: None }) };
}

#[derive(Clone, Default)]
struct Current {
    run: Option<Arc<RunState>>,
    call: Option<Arc<ModelCall>>,
}

/// One run of one hook.
pub(crate) struct RunState {
    /// Tells runs of several hooks on one agent apart.
    config: Arc<Config>,
    /// The run around it, of whichever hook.
    outer: Option<Arc<RunState>>,
    /// The agent's name; empty when it has none.
    agent: String,
    /// The session's id; empty when there is none.
    conversation: String,
    /// The span, and when it began.
    span: OnceLock<(Span, Instant)>,
    /// Makes the span of a run that repeats what an earlier attempt did, once it does more.
    begin: Mutex<Option<Box<dyn FnOnce() -> Span + Send>>>,
    /// The turn's span, where the conventions have one.
    turn: Mutex<Option<Span>>,
    /// Whether the conversation was compacted since the last call of the model.
    compacted: AtomicBool,
    inference_calls: AtomicU64,
    tool_calls: AtomicU64,
}

impl RunState {
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
        let outer = CURRENT.with_borrow(|current| current.run.clone());
        Arc::new(Self {
            config,
            outer,
            agent: agent.to_owned(),
            conversation: conversation.to_owned(),
            span,
            begin: Mutex::new(begin),
            turn: Mutex::default(),
            compacted: AtomicBool::new(false),
            inference_calls: AtomicU64::new(0),
            tool_calls: AtomicU64::new(0),
        })
    }

    /// The run of this hook that is being polled on this thread, the innermost one.
    pub(crate) fn current(config: &Arc<Config>) -> Option<Arc<Self>> {
        let mut next = CURRENT.with_borrow(|current| current.run.clone());
        while let Some(run) = next {
            if Arc::ptr_eq(&run.config, config) {
                return Some(run);
            }
            next = run.outer.clone();
        }
        None
    }

    /// Polls the run: what is asked for on this thread meanwhile belongs to it.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let inner = Current { run: Some(self.clone()), call: None };
        let _outer = Restore(CURRENT.replace(inner));
        poll();
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

    /// What a call of the run stands below: the turn, else the run. `None`: whatever is current does, because
    /// the run's span is.
    pub(crate) fn parent(&self) -> Option<Span> {
        if let Some(turn) = &*lock(&self.turn) {
            return Some(turn.clone());
        }
        self.span.get().is_none().then(|| self.span())
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

/// One call of a model, of one hook.
pub(crate) struct ModelCall {
    config: Arc<Config>,
    /// The same call, as another hook of the agent sees it.
    outer: Option<Arc<ModelCall>>,
    /// When the first part of the answer came.
    first_chunk: OnceLock<Instant>,
}

impl ModelCall {
    pub(crate) fn new(config: Arc<Config>) -> Arc<Self> {
        let outer = CURRENT.with_borrow(|current| current.call.clone());
        Arc::new(Self { config, outer, first_chunk: OnceLock::new() })
    }

    /// Whether a model call of this hook is being polled on this thread: a tool that starts now starts before
    /// the answer is whole.
    pub(crate) fn is_current(config: &Arc<Config>) -> bool {
        let mut next = CURRENT.with_borrow(|current| current.call.clone());
        while let Some(call) = next {
            if Arc::ptr_eq(&call.config, config) {
                return true;
            }
            next = call.outer.clone();
        }
        false
    }

    /// Polls the call: the first chunk of which hooks hear meanwhile is its.
    pub(crate) fn around(self: &Arc<Self>, poll: &mut dyn FnMut()) {
        let run = CURRENT.with_borrow(|current| current.run.clone());
        let inner = Current { run, call: Some(self.clone()) };
        let _outer = Restore(CURRENT.replace(inner));
        poll();
    }

    /// Notes that the first part of the answer came to the call that is being polled.
    pub(crate) fn first_chunk_came() {
        let mut next = CURRENT.with_borrow(|current| current.call.clone());
        while let Some(call) = next {
            let _ = call.first_chunk.set(Instant::now());
            next = call.outer.clone();
        }
    }

    pub(crate) fn first_chunk(&self) -> Option<Instant> {
        self.first_chunk.get().copied()
    }
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
