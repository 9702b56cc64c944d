//! The state that a workflow keeps for its run between messages of the server ([`Mailbox`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use chrono::{DateTime, Utc};
use neuron_types::{DurableError, PendingApproval};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::Json;
use crate::wait::{Wait, Waits};

/// A signal on its way to a run, as the workflow's signal `neuron_signal` takes it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Signal {
    /// Name of the signal.
    pub name: String,
    /// Value of the signal.
    pub value: Value,
}

impl Signal {
    /// Creates a signal.
    pub fn new(name: impl Into<String>, value: Value) -> Self {
        Self { name: name.into(), value }
    }
}

/// Without the value, which may be secret.
impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The most bytes of the fields around state and signals.
const FIELDS: usize = 256;

/// Signals that no one has taken yet, by name, the oldest first.
pub(crate) type Queues = BTreeMap<String, VecDeque<Value>>;

/// Signals that no one has taken when a run ends.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Untaken(pub(crate) Queues);

impl Untaken {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Without the values.
impl fmt::Debug for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The state that a workflow keeps for the run that it drives. It has the signals, the wait of the run and the
/// state of the next execution. A workflow of your own has a mailbox in its state, and returns it by
/// [`HasMailbox`].
#[derive(Default)]
pub struct Mailbox {
    signals: Queues,
    waits: Waits,
    next_state: Option<Value>,
    /// True if a response of the model arrived in the current task of the workflow, so that it is not in the
    /// history yet.
    has_unkept_answer: bool,
    /// Why the run does not fit its history, so that the workflow's task fails.
    stalled: Option<String>,
    /// The failure of the engine that ended the run of an agent inside a tool call.
    failure: Option<String>,
}

impl Mailbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a signal to the queue of its name.
    pub fn deliver(&mut self, signal: Signal) {
        self.signals.entry(signal.name).or_default().push_back(signal.value);
    }

    /// Returns the calls that wait for a decision, without the conversation.
    #[must_use]
    pub fn pending(&self) -> Option<&PendingApproval> {
        self.waits.now.as_ref()?.pending.as_ref()
    }

    /// Takes the state with which the next execution goes on, after the run ended with
    /// [`DurableError::ContinueAsNew`](neuron_types::DurableError::ContinueAsNew).
    pub fn take_next_state(&mut self) -> Option<Value> {
        self.next_state.take()
    }

    pub(crate) fn set_stalled(&mut self, reason: String) {
        self.stalled = Some(reason);
    }

    /// Why the run does not fit its history.
    pub(crate) fn stalled(&self) -> Option<&str> {
        self.stalled.as_deref()
    }

    pub(crate) fn set_failure(&mut self, failure: String) {
        self.failure = Some(failure);
    }

    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    pub(crate) fn set_next_state(&mut self, state: Value) {
        self.next_state = Some(state);
    }

    pub(crate) fn waits(&self) -> &Waits {
        &self.waits
    }

    pub(crate) fn begin_wait(&mut self, wait: Wait) {
        self.waits.ended.retain(|name, _| Some(name) != wait.signal.as_ref());
        self.waits.now = Some(wait);
    }

    /// Ends the wait. `missed_at` is the time at which it ended without its signal. After a wait for decisions the run
    /// ends. After any other wait it goes on, and may wait for the signal again.
    pub(crate) fn end_wait(&mut self, missed_at: Option<DateTime<Utc>>) {
        let decisions = self.waits.now.take().filter(|wait| wait.pending.is_some());
        if let (Some(name), Some(time)) = (decisions.and_then(|wait| wait.signal), missed_at) {
            self.waits.ended.insert(name, time);
        }
    }

    pub(crate) fn has_unkept_answer(&self) -> bool {
        self.has_unkept_answer
    }

    pub(crate) fn set_unkept_answer(&mut self, is_unkept: bool) {
        self.has_unkept_answer = is_unkept;
    }

    pub(crate) fn has_signal(&self, name: &str) -> bool {
        self.signals.get(name).is_some_and(|queue| !queue.is_empty())
    }

    pub(crate) fn take_signal(&mut self, name: &str) -> Option<Value> {
        self.signals.get_mut(name)?.pop_front()
    }

    /// The signals that nobody took, for the next execution.
    pub(crate) fn take_signals(&mut self) -> Queues {
        let mut signals = std::mem::take(&mut self.signals);
        signals.retain(|_, queue| !queue.is_empty());
        signals
    }

    /// Returns the bytes that the signals which nobody took need in the input of the next execution.
    pub(crate) fn length_of_signals(&self) -> Result<usize, DurableError> {
        match self.signals.values().all(VecDeque::is_empty) {
            true => Ok(0),
            false => Ok(Json::new(&self.signals)?.len() + FIELDS),
        }
    }

    /// Inserts the signals of an earlier execution before the later ones.
    pub(crate) fn put_first(&mut self, earlier: Queues) {
        for (name, mut queue) in earlier {
            let since = self.signals.remove(&name).unwrap_or_default();
            queue.extend(since);
            self.signals.insert(name, queue);
        }
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting: BTreeMap<_, _> =
            self.signals.iter().map(|(name, queue)| (name, queue.len())).collect();
        f.debug_struct("Mailbox")
            .field("signals", &waiting)
            .field("waits", &self.waits)
            .finish_non_exhaustive()
    }
}

/// A workflow's state that has a [`Mailbox`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no mailbox for a run",
    note = "implement `HasMailbox` for the workflow, or use `AgentWorkflow`"
)]
pub trait HasMailbox: 'static {
    /// The mailbox.
    fn mailbox(&self) -> &Mailbox;

    /// The mailbox, to change.
    fn mailbox_mut(&mut self) -> &mut Mailbox;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Mailbox, Signal};

    #[test]
    fn signals_wait_by_name_in_order_also_over_executions() {
        let mut first = Mailbox::new();
        assert!(!first.has_signal("a"));
        for (name, value) in [("a", 1), ("b", 2), ("a", 3)] {
            first.deliver(Signal::new(name, json!(value)));
        }
        assert_eq!(first.take_signal("a"), Some(json!(1)));
        assert_eq!(first.take_signal("b"), Some(json!(2)));
        assert_eq!(first.take_signal("b"), None);

        let mut second = Mailbox::new();
        second.deliver(Signal::new("a", json!(4)));
        let left = first.take_signals();
        assert_eq!(left.len(), 1, "an empty queue is not carried on");
        second.put_first(left);
        assert_eq!(second.take_signal("a"), Some(json!(3)));
        assert_eq!(second.take_signal("a"), Some(json!(4)));
        assert!(!second.has_signal("a"));
    }

    #[test]
    fn debug_shows_no_values() {
        let mut mailbox = Mailbox::new();
        let signal = Signal::new("approve", json!("secret"));
        assert!(!format!("{signal:?}").contains("secret"));
        mailbox.deliver(signal);
        mailbox.set_next_state(json!("secret"));
        let shown = format!("{mailbox:?}");
        assert!(shown.contains("approve") && !shown.contains("secret"), "{shown}");
    }
}
