//! [`Kept`], the state of a running tool call that the server keeps as a task.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use rmcp::model::{DetailedTask, InputRequests, InputResponses, Task, TaskPayload};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::wire;

/// A tool call that is or may become a task.
pub(crate) struct Kept {
    /// The authenticated caller of the tool. `None` if the server does not authenticate.
    principal: Option<String>,
    created_at: SystemTime,
    ttl: Duration,
    poll_interval_ms: u64,
    /// Cancelled when the client cancels the call or the task.
    pub(super) cancelled: CancellationToken,
    state: Mutex<State>,
    /// Notified when the client has sent all responses.
    answered: Notify,
}

/// The state of a [`Kept`], which changes while the tool runs.
struct State {
    phase: Phase,
    changed_at: SystemTime,
    message: Option<String>,
}

/// The phase of a tool call.
pub(super) enum Phase {
    /// The call is no task, because the grace time has not passed.
    Call,
    /// The tool runs as a task.
    Working,
    /// The task waits for responses of the client.
    Waiting {
        /// The requests without a response.
        asked: InputRequests,
        responses: InputResponses,
    },
    /// The call or the task has ended.
    Ended {
        payload: TaskPayload,
        /// Time until which the result is kept. `None` for no limit.
        until: Option<Instant>,
    },
    /// The task continues as a task of the source.
    Stored {
        /// Id of the task at the source.
        id: String,
        /// Time until which the id is kept. Each request of the client extends the time.
        until: Option<Instant>,
    },
}

impl Kept {
    pub(super) fn new(principal: Option<String>, ttl: Duration, poll_interval_ms: u64) -> Self {
        let now = SystemTime::now();
        let state = State { phase: Phase::Call, changed_at: now, message: None };
        Self {
            principal,
            created_at: now,
            ttl,
            poll_interval_ms,
            cancelled: CancellationToken::new(),
            state: Mutex::new(state),
            answered: Notify::new(),
        }
    }

    pub(super) fn principal(&self) -> Option<&str> {
        self.principal.as_deref()
    }

    pub(super) fn belongs_to(&self, principal: Option<&str>) -> bool {
        self.principal() == principal
    }

    /// Returns `true` if the task is no longer kept.
    pub(super) fn has_expired(&self, now: Instant) -> bool {
        match &self.lock().phase {
            Phase::Ended { until, .. } | Phase::Stored { until, .. } => {
                until.is_some_and(|until| until <= now)
            }
            _ => false,
        }
    }

    /// Returns the order in which tasks are removed if there are too many. A result that expires first is removed first,
    /// and the id of a stored task, which still runs, last. Returns `None` for a tool that runs.
    pub(super) fn removal_order(&self) -> Option<impl Ord> {
        match &self.lock().phase {
            Phase::Ended { until, .. } => Some((false, until.is_none(), *until)),
            Phase::Stored { until, .. } => Some((true, until.is_none(), *until)),
            _ => None,
        }
    }

    /// Returns the id of the source's task with which this task continues, if any.
    pub(crate) fn stored(&self) -> Option<String> {
        match &mut self.lock().phase {
            Phase::Stored { id, until } => {
                *until = self.later();
                Some(id.clone())
            }
            _ => None,
        }
    }

    /// Returns the time until which a task is kept that ends now. Returns `None` for no limit.
    fn later(&self) -> Option<Instant> {
        Instant::now().checked_add(self.ttl)
    }

    /// Makes the call a task with the id that `keep` returns. Returns `None` if the call has ended, if it is a task
    /// already, or if `keep` returns `None`.
    pub(super) fn promote(&self, keep: impl FnOnce() -> Option<String>) -> Option<String> {
        let is_call = matches!(self.lock().phase, Phase::Call);
        // `keep` locks all tasks and then each task, so this task must not be locked meanwhile.
        let id = is_call.then(keep).flatten()?;
        let mut state = self.lock();
        match state.phase {
            Phase::Call => {
                state.enter(Phase::Working);
                Some(id)
            }
            // The call has ended meanwhile. Its result is sent as usual, and the kept entry expires.
            _ => None,
        }
    }

    /// Ends a call that is no task. Returns `false` for a task.
    pub(super) fn end_call(&self) -> bool {
        let mut state = self.lock();
        let is_call = matches!(state.phase, Phase::Call);
        if is_call {
            let until = Some(Instant::now());
            state.enter(Phase::Ended { payload: TaskPayload::Cancelled, until });
        }
        is_call
    }

    /// Ends the task.
    pub(super) fn end(&self, payload: TaskPayload, message: Option<String>) {
        let mut state = self.lock();
        state.enter(Phase::Ended { payload, until: self.later() });
        state.message = message;
    }

    /// Lets the task continue as a task of the source.
    pub(super) fn store(&self, id: String) {
        self.lock().enter(Phase::Stored { id, until: self.later() });
    }

    /// Sets the text that describes the current work.
    pub(super) fn set_message(&self, message: &str) {
        let mut state = self.lock();
        state.message = Some(message.to_owned());
        state.changed_at = SystemTime::now();
    }

    /// Waits for the responses of the client to the requests. `round` distinguishes requests of the same key, because a
    /// task must not use a key twice (tasks extension, "Task Update Requests").
    pub(super) async fn ask(&self, round: u32, asked: InputRequests) -> InputResponses {
        let asked: BTreeMap<_, _> =
            asked.into_iter().map(|(key, request)| (format!("{round}:{key}"), request)).collect();
        self.lock().enter(Phase::Waiting { asked, responses: BTreeMap::new() });
        loop {
            {
                let mut state = self.lock();
                match &mut state.phase {
                    Phase::Waiting { asked, responses } if asked.is_empty() => {
                        let responses = std::mem::take(responses);
                        state.enter(Phase::Working);
                        return responses;
                    }
                    Phase::Waiting { .. } => {}
                    _ => return BTreeMap::new(),
                }
            }
            // May complete without a response, because the last update of an earlier round may have notified twice.
            self.answered.notified().await;
        }
    }

    /// Takes responses of the client. Ignores responses to requests that are not open.
    pub(crate) fn answer(&self, given: InputResponses) {
        let mut state = self.lock();
        let Phase::Waiting { asked, responses } = &mut state.phase else { return };
        for (key, response) in given {
            if asked.remove(&key).is_some()
                && let Some((_, key)) = key.split_once(':')
            {
                responses.insert(key.to_owned(), response);
            }
        }
        if asked.is_empty() {
            self.answered.notify_one();
        }
        state.changed_at = SystemTime::now();
    }

    /// Cancels the task. Does nothing if the task has ended.
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Returns the task with this id as the client receives it.
    pub(crate) fn report(&self, id: &str) -> DetailedTask {
        let state = self.lock();
        let payload = match &state.phase {
            Phase::Waiting { asked, .. } if !asked.is_empty() => {
                TaskPayload::InputRequired { input_requests: asked.clone() }
            }
            Phase::Ended { payload, .. } => payload.clone(),
            _ => TaskPayload::Working,
        };
        let created_at = wire::task::timestamp(self.created_at);
        let changed_at = wire::task::timestamp(state.changed_at);
        let mut task = Task::new(id, payload.status(), created_at, changed_at);
        // The result is kept for this time after the end.
        let age = match state.phase {
            Phase::Ended { .. } => state.changed_at.duration_since(self.created_at),
            _ => Ok(Duration::ZERO),
        };
        task.ttl_ms = wire::task::ttl_ms(age.unwrap_or_default().saturating_add(self.ttl));
        task.poll_interval_ms = Some(self.poll_interval_ms);
        task.status_message.clone_from(&state.message);
        DetailedTask::new(task, payload)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.changed_at = SystemTime::now();
    }
}
