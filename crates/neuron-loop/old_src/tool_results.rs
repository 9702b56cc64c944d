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
    /// The calls that began before, and in which an agent waits.
    suspended: Vec<usize>,
    /// What stands in the same message after the results.
    beside: Vec<ContentBlock>,
    /// What was added to the history while calls waited.
    later: Vec<Message>,
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
        Self {
            history,
            calls,
            states,
            suspended: Vec::new(),
            beside: Vec::new(),
            later: Vec::new(),
            notes: Vec::new(),
            why,
        }
    }

    /// Opens results that were closed with some calls still pending: takes the message with them, and
    /// those after it, off the history again.
    pub(crate) fn reopen(
        history: &'m mut Vec<Message>,
        calls: &'m [ToolCall],
        pending: &[PendingCall],
    ) -> Self {
        let place = place_of_results(history).unwrap_or(history.len());
        let mut messages = history.drain(place..).collect::<Vec<_>>().into_iter();
        let message = messages.next();
        let mut results = Self::open(history, calls);
        results.later = messages.collect();
        for block in message.into_iter().flat_map(|message| message.content) {
            let ContentBlock::ToolResult { tool_use_id, content, is_error } = block else {
                results.beside.push(block);
                continue;
            };
            let Some(index) = calls.iter().position(|call| call.id == tool_use_id) else {
                continue;
            };
            match pending.iter().find(|pending| pending.call.id == tool_use_id) {
                Some(pending) if pending.nested.is_some() => results.suspended.push(index),
                Some(_) => {}
                None => {
                    let output = ToolOutput { content, structured_content: None, is_error };
                    results.set(index, State::Finished { output, ran: false });
                }
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
        if pending.nested.is_some() {
            self.suspended.push(index);
        }
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
        let has_begun = |index: usize| self.suspended.contains(&index);
        let unknown = "whether the call took effect is unknown";
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
                State::Held(_) if has_begun(index) => error(format!(
                    "[interrupted: an agent inside the call awaits an approval; {unknown}]"
                )),
                State::Held(_) => error("[not executed: the call awaits an approval]".into()),
                State::Failed(text) => error(text),
                State::NotStarted if !has_begun(index) => {
                    error(format!("[not executed: {}]", self.why))
                }
                State::NotStarted | State::Started | State::Interrupted => {
                    error(format!("[interrupted: {}; {unknown}]", self.why))
                }
            };
            ContentBlock::ToolResult { tool_use_id: call.id.clone(), content, is_error }
        });
        let mut content: Vec<_> = content.collect();
        content.append(&mut self.beside);
        self.history.push(Message { role: Role::User, content });
        self.history.append(&mut self.later);
    }
}

/// Where the results of the last answer's calls stand in a history, if it ends with them or with what
/// was added after them.
pub(crate) fn place_of_results(history: &[Message]) -> Option<usize> {
    let answer = history.iter().rposition(|message| message.role == Role::Assistant)?;
    let place = answer.checked_add(1)?;
    history.get(place).filter(|message| message.role == Role::User).map(|_| place)
}
