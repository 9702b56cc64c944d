//! State that the parts of an agent share. It has the log of the current run, counters, and the planned interruption.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use neuron_loop::{Conversation, RunHandle, SessionHandle};
use neuron_runtime::InMemorySessionStorage;
use neuron_types::{Message, PendingApproval, SessionStorage, transcript};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::model::case::Place;

/// The message of a planned panic.
pub(crate) const PLANNED: &str = "a planned panic";

/// Id of the session in which a case stores its conversation.
const SESSION: &str = "model";

/// Number of times that each part of the agent was used. The reference model counts the same uses, and the test
/// compares both counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counters {
    /// Number of model calls that the provider received.
    pub(crate) replies: usize,
    pub(crate) compactions: usize,
    /// Number of finished compactions.
    pub(crate) compacted: usize,
    /// Number of events of each kind, by hook.
    pub(crate) events: Vec<BTreeMap<&'static str, usize>>,
    pub(crate) engine_calls: usize,
    pub(crate) engine_batches: usize,
    pub(crate) engine_asked: usize,
    /// Number of valid decisions that arrived through a signal. The flag is `true` if invalid decisions arrived since
    /// then.
    pub(crate) signals: (usize, bool),
}

/// The log of one run, with the requests, events, tool calls and results that the test has seen.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Events that each hook received.
    pub(crate) events: Vec<Vec<String>>,
    /// A line for each ended scope that a hook had opened around an operation, with the operation's outcome.
    pub(crate) scopes: Vec<String>,
    /// Number of scopes around operations that hooks have opened and that have not ended.
    pub(crate) open_scopes: usize,
    /// The conversation of each request.
    pub(crate) requests: Vec<Vec<Message>>,
    /// Numbers of the tool calls that began. `finished` contains the numbers of the calls that ended by themselves,
    /// without a cancellation.
    pub(crate) begun: Vec<u64>,
    pub(crate) finished: Vec<u64>,
    /// Set while an incomplete response is streaming. `early` has the numbers of the tool calls that began during a
    /// stream.
    pub(crate) is_streaming: bool,
    pub(crate) early: Vec<u64>,
    /// Names of the running tools.
    pub(crate) running: Vec<&'static str>,
    /// Lines that describe the contexts of the tool calls that began.
    pub(crate) contexts: Vec<String>,
    /// Idempotency keys of the calls that began.
    pub(crate) keys: Vec<String>,
    /// Lines that the reader of the stream or the caller of the steps received.
    pub(crate) lines: Vec<String>,
    /// The pending calls with which the run ended. `None` if the run does not wait for an approval.
    pub(crate) pending: Option<PendingApproval>,
    /// Outcomes of the run that were reported to the durable engine.
    pub(crate) ends: Vec<String>,
    /// The state that the run passed to the durable engine to continue as a new execution.
    pub(crate) state: Option<Value>,
    /// Pending approvals that the run reported to the durable engine, once for each wait.
    pub(crate) asked: Vec<PendingApproval>,
    /// Violated invariants.
    pub(crate) faults: Vec<String>,
    /// The place at which the run waited last.
    pub(crate) place: Option<Place>,
    /// The place at which the run waited when a step was dropped.
    pub(crate) dropped_in: Option<Place>,
    /// Texts that the guards checked. A guard is a hook that may reject a text.
    pub(crate) guards: Vec<String>,
    /// Number of times that the run passed each place. A place is a part of the agent that can wait or be interrupted.
    pub(crate) passed: BTreeMap<Place, usize>,
    pub(crate) when_cancelled: Option<Cancelled>,
}

/// The state of the run at the time of its cancellation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancelled {
    pub(crate) at: Instant,
    pub(crate) place: Option<Place>,
    /// Number of requests before the cancellation. `begun` is the number of tool calls that began before it.
    pub(crate) requests: usize,
    pub(crate) begun: usize,
}

/// The planned action of an agent's part at a place that the run passes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    Panic,
    Cancel,
}

#[derive(Default)]
struct State {
    journal: Journal,
    /// Number of messages in the last request that was sent to the model.
    passed: usize,
    counters: Counters,
    plan: Option<(Place, usize, Plan)>,
    token: CancellationToken,
    handle: Arc<Mutex<Option<RunHandle>>>,
    storage: Arc<InMemorySessionStorage>,
    session: Option<SessionHandle<'static>>,
}

/// The state that the parts of an agent share. Clones refer to the same state.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

impl World {
    pub(crate) fn new(hooks: usize) -> Self {
        let world = Self::default();
        world.state().counters.events = vec![BTreeMap::new(); hooks];
        world.begin(CancellationToken::new(), None);
        world
    }

    /// Returns the slot in which the agent stores the handle of its run.
    pub(crate) fn handle(&self) -> Arc<Mutex<Option<RunHandle>>> {
        self.state().handle.clone()
    }

    /// Returns the session of all runs that store their conversation.
    pub(crate) fn session(&self) -> SessionHandle<'static> {
        let mut state = self.state();
        let storage = state.storage.clone();
        state.session.get_or_insert_with(|| SessionHandle::new(storage, SESSION)).clone()
    }

    /// Returns the conversation in the storage, as another process would read it. Returns `None` before the first
    /// write.
    pub(crate) fn stored(&self) -> Option<Conversation> {
        let storage = self.state().storage.clone();
        let session = storage.load(SESSION).now_or_never().expect("memory is never busy");
        session.ok().map(Conversation::from_session)
    }

    /// Sends a message to the run.
    pub(crate) fn steer(&self, message: Message) {
        let handle = self.handle();
        if let Some(handle) = &*handle.lock().unwrap() {
            handle.steer(message).ok();
        }
    }

    /// Starts the journal of a run. `token` cancels the run. `plan` is an interruption: the place, the number of times
    /// that the run passes the place before, and the action.
    pub(crate) fn begin(&self, token: CancellationToken, plan: Option<(Place, usize, Plan)>) {
        let mut state = self.state();
        let events = vec![Vec::new(); state.counters.events.len()];
        state.journal = Journal { events, ..Journal::default() };
        state.token = token;
        state.plan = plan;
    }

    pub(crate) fn note<T>(&self, note: impl FnOnce(&mut Journal) -> T) -> T {
        note(&mut self.state().journal)
    }

    pub(crate) fn count<T>(&self, count: impl FnOnce(&mut Counters) -> T) -> T {
        count(&mut self.state().counters)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.state().counters.clone()
    }

    /// Records the number of messages in a request that is sent to the model.
    pub(crate) fn sent(&self, messages: usize) {
        self.state().passed = messages;
    }

    /// Returns the number of messages in the last request that was sent to the model.
    pub(crate) fn passed(&self) -> usize {
        self.state().passed
    }

    /// Resets the number of sent messages, because a restored agent does not know it.
    pub(crate) fn forget_passed(&self) {
        self.state().passed = 0;
    }

    pub(crate) fn cancel(&self) {
        let token = {
            let mut state = self.state();
            let journal = &mut state.journal;
            journal.when_cancelled.get_or_insert(Cancelled {
                at: Instant::now(),
                place: journal.place,
                requests: journal.requests.len(),
                begun: journal.begun.len(),
            });
            state.token.clone()
        };
        token.cancel();
    }

    /// Records that the run passes a place, and performs the action that is planned for this pass.
    pub(crate) fn pass(&self, place: Place) {
        let plan = {
            let mut state = self.state();
            state.journal.place = Some(place);
            let passed = state.journal.passed.entry(place).or_default();
            let nth = *passed;
            *passed += 1;
            state.plan.filter(|plan| (plan.0, plan.1) == (place, nth)).map(|plan| plan.2)
        };
        match plan {
            Some(Plan::Panic) => panic!("{PLANNED}"),
            Some(Plan::Cancel) => self.cancel(),
            None => {}
        }
    }

    /// Records a request. An invalid conversation is a fault, because no provider would accept it.
    pub(crate) fn request(&self, messages: &[Message]) {
        self.note(|journal| {
            if let Err(violation) = transcript::validate(messages) {
                journal.faults.push(format!("a request was not valid: {violation}"));
            }
            if messages.iter().any(|message| message.content.is_empty()) {
                journal.faults.push("a request had an empty message".into());
            }
            journal.requests.push(messages.to_vec());
        });
    }

    /// Returns a future that returns `Poll::Pending` the given number of times. Records that the run waits at this
    /// place.
    pub(crate) fn wait(&self, place: Place, times: usize) -> Wait {
        Wait { world: self.clone(), place, times }
    }

    /// Waits a number of milliseconds at a place.
    pub(crate) async fn sleep(&self, place: Place, milliseconds: u64) {
        if milliseconds > 0 {
            self.note(|journal| journal.place = Some(place));
            tokio::time::sleep(std::time::Duration::from_millis(milliseconds)).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A future that returns `Poll::Pending` a number of times before it is ready.
pub(crate) struct Wait {
    world: World,
    place: Place,
    times: usize,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.times == 0 {
            return Poll::Ready(());
        }
        self.times -= 1;
        self.world.note(|journal| journal.place = Some(self.place));
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
