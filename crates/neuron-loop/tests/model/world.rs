//! What the parts of an agent share: what happened so far, and what is planned to happen.

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

use crate::case::Place;

/// What a planned panic says.
pub(crate) const PLANNED: &str = "a planned panic";

/// The id of the session in which a case stores its conversation.
const SESSION: &str = "model";

/// How often the parts of an agent were used. The reference counts the same way.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counters {
    /// Calls of the provider.
    pub(crate) replies: usize,
    pub(crate) compactions: usize,
    /// Compactions that came to their end.
    pub(crate) compacted: usize,
    /// Events that each hook saw, by kind.
    pub(crate) events: Vec<BTreeMap<&'static str, usize>>,
    pub(crate) engine_calls: usize,
    pub(crate) engine_batches: usize,
    pub(crate) engine_asked: usize,
    /// The decisions that were brought by a signal, and whether wrong ones were before the next.
    pub(crate) signals: (usize, bool),
}

/// What happened during one run.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// What each hook saw.
    pub(crate) events: Vec<Vec<String>>,
    /// How each scope ended.
    pub(crate) scopes: Vec<String>,
    /// How many scopes are open.
    pub(crate) open_scopes: usize,
    /// The conversation with each request.
    pub(crate) requests: Vec<Vec<Message>>,
    /// The calls that began, and those that ended by themselves, by number.
    pub(crate) begun: Vec<u64>,
    pub(crate) finished: Vec<u64>,
    /// Whether an answer streams that is not whole yet, and the calls that began meanwhile.
    pub(crate) is_streaming: bool,
    pub(crate) early: Vec<u64>,
    /// The tools that run now, by name.
    pub(crate) running: Vec<&'static str>,
    /// The contexts of those that began.
    pub(crate) contexts: Vec<String>,
    /// The idempotency keys of those that began.
    pub(crate) keys: Vec<String>,
    /// What the reader of the stream, or the caller of the steps, got.
    pub(crate) lines: Vec<String>,
    /// What the run waits for at its end.
    pub(crate) pending: Option<PendingApproval>,
    /// How the run ended, as the engine hears it.
    pub(crate) ends: Vec<String>,
    /// What a new execution starts from.
    pub(crate) state: Option<Value>,
    /// What persons were asked.
    pub(crate) asked: Vec<PendingApproval>,
    /// What must never be.
    pub(crate) faults: Vec<String>,
    /// Where the run waited last.
    pub(crate) place: Option<Place>,
    /// Where a step was dropped.
    pub(crate) dropped_in: Option<Place>,
    /// What the guards judged.
    pub(crate) guards: Vec<String>,
    /// How often each place was passed.
    pub(crate) passed: BTreeMap<Place, usize>,
    pub(crate) when_cancelled: Option<Cancelled>,
}

/// How things stood when the run was cancelled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cancelled {
    pub(crate) at: Instant,
    pub(crate) place: Option<Place>,
    /// How many requests there had been, and how many calls had begun.
    pub(crate) requests: usize,
    pub(crate) begun: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Plan {
    Panic,
    Cancel,
}

#[derive(Default)]
struct State {
    journal: Journal,
    /// How many messages all hooks let pass when they were asked last.
    passed: usize,
    counters: Counters,
    plan: Option<(Place, usize, Plan)>,
    token: CancellationToken,
    handle: Arc<Mutex<Option<RunHandle>>>,
    storage: Arc<InMemorySessionStorage>,
    session: Option<SessionHandle<'static>>,
}

#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<State>>);

impl World {
    pub(crate) fn new(hooks: usize) -> Self {
        let world = Self::default();
        world.state().counters.events = vec![BTreeMap::new(); hooks];
        world.begin(CancellationToken::new(), None);
        world
    }

    /// Where the handle of the run is.
    pub(crate) fn handle(&self) -> Arc<Mutex<Option<RunHandle>>> {
        self.state().handle.clone()
    }

    /// The session of all runs, as those store it.
    pub(crate) fn session(&self) -> SessionHandle<'static> {
        let mut state = self.state();
        let storage = state.storage.clone();
        state.session.get_or_insert_with(|| SessionHandle::new(storage, SESSION)).clone()
    }

    /// The conversation in the storage, as another process finds it. `None` before one is stored.
    pub(crate) fn stored(&self) -> Option<Conversation> {
        let storage = self.state().storage.clone();
        let session = storage.load(SESSION).now_or_never().expect("memory is never busy");
        session.ok().map(Conversation::from_session)
    }

    /// Sends the run a message.
    pub(crate) fn steer(&self, message: Message) {
        let handle = self.handle();
        if let Some(handle) = &*handle.lock().unwrap() {
            handle.steer(message);
        }
    }

    /// Starts the journal of a run.
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

    /// Notes that so many messages go to the model.
    pub(crate) fn sent(&self, messages: usize) {
        self.state().passed = messages;
    }

    /// How many messages the hooks let pass.
    pub(crate) fn passed(&self) -> usize {
        self.state().passed
    }

    /// Forgets that, for another agent.
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

    /// Something happens here: what is planned for it happens too.
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

    /// Takes a request: no provider would accept one whose conversation is not valid.
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

    /// Waits so often, at a place.
    pub(crate) fn wait(&self, place: Place, times: usize) -> Wait {
        Wait { world: self.clone(), place, times }
    }

    /// Waits so many milliseconds, at a place.
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

/// Pending so often.
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
