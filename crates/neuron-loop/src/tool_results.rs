//! The results of one answer's tool calls, on their way into the history.

use std::borrow::Cow;

use neuron_types::{ContentBlock, ContentItem, LoopError, Message, Role, ToolCall, ToolOutput};

/// The results of one answer's tool calls. Dropping it appends them to the history as one user
/// message, in the order of the calls.
///
/// So however a batch ends (finished, failed, cancelled, its future dropped, a panic), every call
/// has exactly one result: its own, or one that says what became of it.
pub(crate) struct ToolResults<'m> {
    history: &'m mut Vec<Message>,
    calls: &'m [ToolCall],
    states: Vec<State>,
    /// Why calls without a result have none.
    why: Cow<'static, str>,
}

enum State {
    NotStarted,
    Started,
    Interrupted,
    Finished(ToolOutput),
    Failed(String),
}

impl<'m> ToolResults<'m> {
    /// Opens the results of `calls`, which the last message of the history made.
    pub(crate) fn open(history: &'m mut Vec<Message>, calls: &'m [ToolCall]) -> Self {
        let states = calls.iter().map(|_| State::NotStarted).collect();
        Self { history, calls, states, why: Cow::Borrowed("the run was interrupted") }
    }

    pub(crate) fn calls(&self) -> &'m [ToolCall] {
        self.calls
    }

    pub(crate) fn start(&mut self, index: usize) {
        self.set(index, State::Started);
    }

    pub(crate) fn finish(&mut self, index: usize, output: ToolOutput) {
        self.set(index, State::Finished(output));
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
            Some(State::Finished(output)) => Some(output),
            _ => None,
        }
    }

    /// Whether a call has not ended, started or not.
    pub(crate) fn is_open(&self, index: usize) -> bool {
        matches!(self.states.get(index), Some(State::NotStarted | State::Started))
    }

    /// Sets why calls without a result have none.
    pub(crate) fn because(&mut self, why: impl Into<Cow<'static, str>>) {
        self.why = why.into();
    }

    /// Sets the error that ended the batch as the reason why calls have no result.
    pub(crate) fn because_of(&mut self, error: &LoopError) {
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
        let content = self.calls.iter().zip(self.states.drain(..)).map(|(call, state)| {
            let (content, is_error) = match state {
                State::Finished(output) => (output.content, output.is_error),
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
