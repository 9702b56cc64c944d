//! The results of one answer's tool calls, on their way into the history.

use std::borrow::Cow;

use neuron_types::{
    ContentBlock, ContentItem, LoopError, Message, PendingCall, Role, ToolCall, ToolOutput,
};

/// The results of one answer's tool calls. Dropping it appends them to the history as one user
/// message, in the order of the calls.
///
/// So however a batch ends (finished, failed, cancelled, its future dropped, a panic), every call
/// has exactly one result: its own, or one that says what became of it.
pub(crate) struct ToolResults<'m> {
    history: &'m mut Vec<Message>,
    calls: &'m [ToolCall],
    states: Vec<State>,
    /// What the model is told of a result beside it, by the position of the call.
    notes: Vec<(usize, String)>,
    /// Why calls without a result have none.
    why: Cow<'static, str>,
}

enum State {
    NotStarted,
    Started,
    Interrupted,
    Finished {
        output: ToolOutput,
        /// Whether it ran to have it.
        ran: bool,
    },
    Failed(String),
    /// It waits for a person.
    Held(PendingCall),
}

impl<'m> ToolResults<'m> {
    /// Opens the results of `calls`, which the last message of the history made.
    pub(crate) fn open(history: &'m mut Vec<Message>, calls: &'m [ToolCall]) -> Self {
        let states = calls.iter().map(|_| State::NotStarted).collect();
        let why = Cow::Borrowed("the run was interrupted");
        Self { history, calls, states, notes: Vec::new(), why }
    }

    /// Opens results that were closed with some calls still pending: takes the message with them
    /// off the history again.
    pub(crate) fn reopen(
        history: &'m mut Vec<Message>,
        calls: &'m [ToolCall],
        is_pending: impl Fn(&str) -> bool,
    ) -> Self {
        let message = history.pop();
        let mut results = Self::open(history, calls);
        for block in message.into_iter().flat_map(|message| message.content) {
            let ContentBlock::ToolResult { tool_use_id, content, is_error } = block else {
                continue;
            };
            let index = calls.iter().position(|call| call.id == tool_use_id);
            if let Some(index) = index.filter(|_| !is_pending(&tool_use_id)) {
                let output = ToolOutput { content, structured_content: None, is_error };
                results.set(index, State::Finished { output, ran: false });
            }
        }
        results
    }

    pub(crate) fn calls(&self) -> &'m [ToolCall] {
        self.calls
    }

    /// Takes back that a call started: it had not come to its turn.
    pub(crate) fn never_began(&mut self, index: usize) {
        self.set(index, State::NotStarted);
    }

    pub(crate) fn start(&mut self, index: usize) {
        self.set(index, State::Started);
    }

    pub(crate) fn finish(&mut self, index: usize, output: ToolOutput) {
        let ran = matches!(self.states.get(index), Some(State::Started));
        self.set(index, State::Finished { output, ran });
    }

    /// Lets a call wait for a person.
    pub(crate) fn hold(&mut self, index: usize, pending: PendingCall) {
        self.set(index, State::Held(pending));
    }

    /// Returns the calls that wait for a person.
    pub(crate) fn held(&self) -> Vec<PendingCall> {
        let held = self.states.iter().filter_map(|state| match state {
            State::Held(pending) => Some(pending.clone()),
            _ => None,
        });
        held.collect()
    }

    /// Tells the model something beside a call's result.
    pub(crate) fn note(&mut self, index: usize, text: String) {
        self.notes.push((index, text));
    }

    /// Returns the calls that ran to a result, and whether that is an error.
    pub(crate) fn ran(&self) -> impl Iterator<Item = (&'m ToolCall, bool)> {
        self.calls.iter().zip(&self.states).filter_map(|(call, state)| match state {
            State::Finished { output, ran: true } => Some((call, output.is_error)),
            _ => None,
        })
    }

    /// Records why a call failed; a cancelled one was interrupted.
    pub(crate) fn fail(&mut self, index: usize, error: &LoopError) {
        let state = match error {
            LoopError::Cancelled => State::Interrupted,
            LoopError::Tool(error) => State::Failed(error.to_string()),
            other => State::Failed(other.to_string()),
        };
        self.set(index, state);
    }

    /// Returns a finished call's output.
    pub(crate) fn output(&self, index: usize) -> Option<&ToolOutput> {
        match self.states.get(index) {
            Some(State::Finished { output, .. }) => Some(output),
            _ => None,
        }
    }

    /// Whether a call has not ended, started or not.
    pub(crate) fn is_open(&self, index: usize) -> bool {
        matches!(self.states.get(index), Some(State::NotStarted | State::Started))
    }

    /// The calls that have not ended, in their order.
    pub(crate) fn open_calls(&self) -> Vec<usize> {
        (0..self.states.len()).filter(|&index| self.is_open(index)).collect()
    }

    /// Sets why calls without a result have none.
    pub(crate) fn because(&mut self, why: impl Into<Cow<'static, str>>) {
        self.why = why.into();
    }

    /// Sets the error that ended the batch as the reason why calls have no result. None waits any
    /// longer.
    pub(crate) fn because_of(&mut self, error: &LoopError) {
        for state in &mut self.states {
            if let State::Held(_) = state {
                *state = State::NotStarted;
            }
        }
        self.why = match error {
            LoopError::Cancelled => Cow::Borrowed("the run was cancelled"),
            LoopError::Tool(_) => Cow::Borrowed("another tool call of the same answer failed"),
            other => Cow::Owned(other.to_string()),
        };
    }

    fn set(&mut self, index: usize, state: State) {
        if let Some(place) = self.states.get_mut(index) {
            *place = state;
        }
    }
}

impl Drop for ToolResults<'_> {
    fn drop(&mut self) {
        let error = |text: String| (vec![ContentItem::Text(text)], true);
        let states = std::mem::take(&mut self.states);
        let content = self.calls.iter().zip(states).enumerate().map(|(index, (call, state))| {
            let (content, is_error) = match state {
                State::Finished { output, ran: true } => {
                    let notes = self.notes.iter().filter(|(of, _)| *of == index);
                    let mut content: Vec<_> =
                        notes.map(|(_, note)| ContentItem::Text(note.clone())).collect();
                    content.extend(output.content);
                    (content, output.is_error)
                }
                State::Finished { output, .. } => (output.content, output.is_error),
                State::Held(_) => error("[not executed: the call awaits an approval]".into()),
                State::Failed(text) => error(text),
                State::NotStarted => error(format!("[not executed: {}]", self.why)),
                State::Started | State::Interrupted => error(format!(
                    "[interrupted: {}; whether the call took effect is unknown]",
                    self.why
                )),
            };
            ContentBlock::ToolResult { tool_use_id: call.id.clone(), content, is_error }
        });
        let message = Message { role: Role::User, content: content.collect() };
        self.history.push(message);
    }
}
