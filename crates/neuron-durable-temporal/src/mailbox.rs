//! The state that a workflow keeps for its run ([`Mailbox`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use chrono::{DateTime, Utc};
use neuron_types::{DurableError, PendingApproval};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effects::{self, EffectRegister};
use crate::json::Json;
use crate::signal_input::SignalInput;
use crate::wait::{Wait, Waits};

/// A signal to a run. The workflow's signal `neuron_signal` takes this type.
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

/// Formats the signal without the value, which may be secret.
impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Maximum size in bytes of an execution's input without its state and its signals.
const FIELDS: usize = 256;

/// The signals that the run has not received yet, by name. In each queue the oldest signal is first.
pub(crate) type Queues = BTreeMap<String, VecDeque<Value>>;

/// The signals that a run had not received when it ended.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Untaken(pub(crate) Queues);

impl Untaken {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Formats only the names of the signals, because the values may be secret.
impl fmt::Debug for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// The state that a workflow keeps for its run. It contains the queued signals, the current wait and the state of the
/// next execution.
///
/// A custom workflow has a mailbox in its own state, and gives access to it by [`HasMailbox`].
#[derive(Default)]
pub struct Mailbox {
    signals: Queues,
    waits: Waits,
    next_state: Option<Value>,
    /// `true` if a local activity returned a result that the server has not received. The server receives it when the
    /// current workflow task ends.
    has_unkept_answer: bool,
    /// Reason why this worker cannot continue the run, for example a changed agent. The workflow task fails with this
    /// text. `None` if the worker can continue the run.
    stalled: Option<String>,
    /// Text of the engine's error that ended the run of an agent inside a tool call. `None` if the run has not ended,
    /// or did not end with an error of the engine.
    failure: Option<String>,
    /// The effects of this run and of the agents inside its tool calls, if this is the outermost run.
    effects: EffectRegister,
}

impl Mailbox {
    /// Creates an empty mailbox.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a signal to the queue of its name. Agents inside tool calls use signals whose names begin with
    /// `neuron/effect` for their effect keys.
    pub fn deliver(&mut self, signal: Signal) {
        if signal.name == effects::SIGNAL {
            match serde_json::from_value(signal.value) {
                Ok(message) => self.effects.apply(message),
                Err(error) => {
                    tracing::warn!(%error, "a claim of an effect cannot be read; it is dropped")
                }
            }
            return;
        }
        self.signals.entry(signal.name).or_default().push_back(signal.value);
    }

    /// Delivers the input of the signal `neuron_signal`. An input that cannot be parsed is dropped.
    pub(crate) fn receive(&mut self, input: &SignalInput) {
        match input.read() {
            Ok(signal) => self.deliver(signal),
            Err(error) => tracing::warn!(%error, "a signal cannot be read; it is dropped"),
        }
    }

    /// Returns the calls that wait for a decision, without the conversation. Returns `None` if the run does not wait
    /// for decisions.
    #[must_use]
    pub fn pending(&self) -> Option<&PendingApproval> {
        self.waits.now.as_ref()?.pending.as_ref()
    }

    /// Removes and returns the state for the next execution. Returns `None` if the run left no state.
    ///
    /// Call this method after the run ended with
    /// [`DurableError::ContinueAsNew`](neuron_types::DurableError::ContinueAsNew).
    pub fn take_next_state(&mut self) -> Option<Value> {
        self.next_state.take()
    }

    pub(crate) fn set_stalled(&mut self, reason: String) {
        self.stalled = Some(reason);
    }

    /// Returns the reason why this worker cannot continue the run. Returns `None` if there is no such reason.
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

    /// Sets the current wait. If an earlier wait for the same signal was stored as missed, this entry is removed.
    pub(crate) fn begin_wait(&mut self, wait: Wait) {
        self.waits.ended.retain(|name, _| Some(name) != wait.signal.as_ref());
        self.waits.now = Some(wait);
    }

    /// Ends the current wait. `missed_at` is the time at which a wait ended without its signal, and otherwise `None`.
    ///
    /// This time is stored only for a wait for decisions, so that late decisions are refused. After any other missed
    /// wait, the run may wait for the same signal again.
    pub(crate) fn end_wait(&mut self, missed_at: Option<DateTime<Utc>>) {
        let decisions = self.waits.now.take().filter(|wait| wait.pending.is_some());
        if let (Some(name), Some(time)) = (decisions.and_then(|wait| wait.signal), missed_at) {
            self.waits.ended.insert(name, time);
        }
    }

    pub(crate) fn effects(&self) -> &EffectRegister {
        &self.effects
    }

    pub(crate) fn effects_mut(&mut self) -> &mut EffectRegister {
        &mut self.effects
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

    /// Removes and returns the oldest signal with this name. Returns `None` if there is none.
    pub(crate) fn take_signal(&mut self, name: &str) -> Option<Value> {
        self.signals.get_mut(name)?.pop_front()
    }

    /// Removes and returns all signals that the run has not received, for the next execution.
    pub(crate) fn take_signals(&mut self) -> Queues {
        let mut signals = std::mem::take(&mut self.signals);
        signals.retain(|_, queue| !queue.is_empty());
        signals
    }

    /// Returns the size in bytes of the queued signals in the input of the next execution. Returns 0 if no signal is
    /// queued.
    pub(crate) fn length_of_signals(&self) -> Result<usize, DurableError> {
        match self.signals.values().all(VecDeque::is_empty) {
            true => Ok(0),
            false => Ok(Json::new(&self.signals)?.len() + FIELDS),
        }
    }

    /// Inserts the signals of an earlier execution before the signals of this execution.
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

/// A workflow whose state has a [`Mailbox`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no mailbox for a run",
    note = "implement `HasMailbox` for the workflow, or use `AgentWorkflow`"
)]
pub trait HasMailbox: 'static {
    /// Returns the mailbox.
    fn mailbox(&self) -> &Mailbox;

    /// Returns the mailbox for changes.
    fn mailbox_mut(&mut self) -> &mut Mailbox;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Mailbox, Signal};

    #[test]
    fn signals_keep_their_order_by_name_across_executions() {
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
