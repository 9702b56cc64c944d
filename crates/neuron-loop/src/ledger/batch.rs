//! The tool calls of one answer and their results.
//!
//! An answer with calls enters the history together with a place for the result of each call. Where a run is left, each
//! place without a result gets a text that says why. So each call has exactly one result, however a run ends.

use std::borrow::Cow;
use std::mem;

use neuron_types::{
    ContentBlock, ContentItem, LoopError, Message, PendingCall, Role, ToolCall, ToolOutput,
    ToolUseRef, transcript,
};

use super::{Asked, Batch, CallState, Ledger, Phase, Tally};

/// Why a call has no result when nothing else is known.
const INTERRUPTED: &str = "the run was interrupted";

impl Ledger {
    pub(crate) fn batch(&self) -> Option<&Batch> {
        match &self.phase {
            Phase::Batch(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        match &mut self.phase {
            Phase::Batch(batch) => Some(batch),
            _ => None,
        }
    }

    /// Number of messages, from the start, that change no more.
    pub(crate) fn settled(&self) -> usize {
        let place = transcript::place_of_results(&self.messages).filter(|_| self.batch().is_some());
        place.map_or(self.messages.len(), |place| place.saturating_sub(1))
    }

    /// The calls of the batch, with the counts of the run.
    pub(crate) fn open(&mut self) -> Option<(Calls<'_>, &mut Tally)> {
        let Self { messages, phase: Phase::Batch(batch), tally, .. } = self else {
            return None;
        };
        let is_answer = |message: &Message| message.role == Role::Assistant;
        let end = messages.iter().rposition(is_answer)?.checked_add(1)?;
        let (before, after) = messages.split_at_mut(end);
        Some((Calls { answer: before.last()?, after, batch }, tally))
    }

    /// Adds the places for the results of an answer that stands at the end of the history.
    pub(super) fn open_batch(&mut self, batch: Batch) {
        self.phase = Phase::Batch(batch);
        let result = |call: ToolUseRef<'_>| ContentBlock::ToolResult {
            tool_use_id: call.id.to_owned(),
            content: Vec::new(),
            is_error: true,
        };
        let content = self.last_calls().map(result).collect();
        self.messages.push(Message { role: Role::User, content });
    }

    /// Writes `why` into the placeholder of each call without a result. `None` writes the reason of the call's
    /// own state, for a run that is left and may be continued.
    pub(crate) fn explain_missing(&mut self, why: Option<&str>) {
        if let Some((mut calls, _)) = self.open() {
            calls.explain_missing(why);
        }
    }

    /// Says of all calls without a result why they have none. No call of the batch runs any more.
    pub(crate) fn close_batch(&mut self, why: &str) {
        if self.batch().is_some() {
            self.explain_missing(Some(why));
            self.phase = Phase::TurnStart;
        }
    }

    /// Says of all calls that have not begun why they do not run. The batch stays open.
    pub(super) fn close_open_calls(&mut self, why: &str) {
        if let Some((mut calls, _)) = self.open() {
            for index in calls.batch.open_calls() {
                calls.answer(index, ToolOutput::error(not_executed(why)));
            }
        }
    }

    /// Closes the batch with an error as the reason.
    pub(crate) fn close_batch_because_of(&mut self, error: &LoopError) {
        self.close_batch(&match error {
            LoopError::Cancelled => Cow::Borrowed("the run was cancelled"),
            LoopError::Tool(_) => Cow::Borrowed("another tool call of the same answer failed"),
            other => Cow::Owned(other.to_string()),
        });
    }

    /// Decides about calls that began in a run that was interrupted. `may_repeat` says by the tool's name whether a
    /// call can run again. For the others the result is that the outcome is unknown.
    pub(crate) fn recover(&mut self, may_repeat: impl Fn(&str) -> bool) {
        let Some((calls, _)) = self.open() else {
            return;
        };
        for (made, state) in calls.answer.tool_uses().zip(&mut calls.batch.calls) {
            *state = match state {
                CallState::Begun { input: None } if may_repeat(made.name) => CallState::Open,
                CallState::Begun { .. } => CallState::Ended { is_error: true, ran: false },
                _ => continue,
            };
        }
    }

    /// Ends a call without running it.
    pub(super) fn answer_call(&mut self, index: usize, output: ToolOutput) {
        if let Some((mut calls, _)) = self.open() {
            calls.answer(index, output);
        }
    }

    /// The calls of the last answer.
    pub(crate) fn last_calls(&self) -> impl Iterator<Item = ToolUseRef<'_>> {
        let answer = self.messages.iter().rfind(|message| message.role == Role::Assistant);
        answer.into_iter().flat_map(Message::tool_uses)
    }
}

/// The calls of a batch. Names and arguments can be read while states and results change.
pub(crate) struct Calls<'l> {
    pub(super) answer: &'l Message,
    /// Messages after the answer. The first has the results.
    after: &'l mut [Message],
    pub(crate) batch: &'l mut Batch,
}

impl<'l> Calls<'l> {
    /// A call as the model made it.
    pub(crate) fn made(&self, index: usize) -> Option<ToolUseRef<'l>> {
        self.answer.tool_uses().nth(index)
    }

    /// The calls as they run, with the arguments that a person changed.
    pub(crate) fn to_calls(&self) -> Vec<ToolCall> {
        let call = |(made, state): (ToolUseRef<'_>, &CallState)| {
            ToolUseRef { input: state.edited().unwrap_or(made.input), ..made }.to_call()
        };
        self.iter().map(call).collect()
    }

    /// The calls with their states, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ToolUseRef<'l>, &CallState)> {
        self.answer.tool_uses().zip(&self.batch.calls)
    }

    pub(crate) fn state(&self, index: usize) -> Option<&CallState> {
        self.batch.calls.get(index)
    }

    /// Notes that a call begins. From here on its outcome is unknown until its result is there.
    pub(crate) fn begin(&mut self, index: usize) {
        let input = self.state(index).and_then(CallState::edited).cloned();
        self.set_state(index, CallState::Begun { input });
    }

    /// Takes back that a call began, because its turn had not come.
    pub(crate) fn never_began(&mut self, index: usize) {
        self.set_state(index, CallState::Open);
    }

    /// Takes the result of a call. One that began ran to it.
    pub(crate) fn finish(&mut self, index: usize, mut output: ToolOutput) {
        let Some(CallState::Begun { input }) = self.state_mut(index).map(mem::take) else {
            return self.answer(index, output);
        };
        if let Some(input) = input
            && self.made(index).is_some_and(|made| *made.input != input)
        {
            let note = format!("[approved with other arguments: {input}]");
            output.content.insert(0, ContentItem::Text(note));
        }
        self.end(index, output, true);
    }

    /// Takes the error of a call. A call that was cancelled stays one whose outcome is unknown.
    pub(crate) fn fail(&mut self, index: usize, error: &LoopError) {
        let text = match error {
            LoopError::Cancelled => return,
            LoopError::Tool(error) => error.to_string(),
            other => other.to_string(),
        };
        self.answer(index, ToolOutput::error(text));
    }

    /// Lets a call wait for a person.
    pub(crate) fn hold(&mut self, index: usize, pending: PendingCall) {
        self.set_state(index, CallState::Asked(Box::new(Asked { pending, decision: None })));
    }

    /// The result of a call as the model sees it.
    pub(crate) fn result(&mut self, index: usize) -> Option<ToolOutput> {
        let (content, is_error) = self.result_mut(index)?;
        let (content, is_error) = (content.clone(), *is_error);
        Some(ToolOutput { content, structured_content: None, is_error })
    }

    fn explain_missing(&mut self, why: Option<&str>) {
        for index in 0..self.batch.calls.len() {
            let (text, otherwise): (fn(&str) -> _, _) = match self.state(index) {
                Some(CallState::Open) => (not_executed, INTERRUPTED),
                Some(CallState::Begun { .. }) => (interrupted, INTERRUPTED),
                Some(CallState::Asked(asked)) => match asked.pending.nested {
                    Some(_) => (interrupted, "an agent inside the call awaits an approval"),
                    None => (not_executed, "the call awaits an approval"),
                },
                Some(CallState::Ended { .. }) | None => continue,
            };
            self.write(index, ToolOutput::error(text(why.unwrap_or(otherwise))));
        }
    }

    /// Ends a call without running it.
    pub(super) fn answer(&mut self, index: usize, output: ToolOutput) {
        self.end(index, output, false);
    }

    fn end(&mut self, index: usize, output: ToolOutput, ran: bool) {
        self.set_state(index, CallState::Ended { is_error: output.is_error, ran });
        self.write(index, output);
    }

    fn state_mut(&mut self, index: usize) -> Option<&mut CallState> {
        self.batch.calls.get_mut(index)
    }

    fn set_state(&mut self, index: usize, state: CallState) {
        if let Some(place) = self.state_mut(index) {
            *place = state;
        }
    }

    fn write(&mut self, index: usize, output: ToolOutput) {
        if let Some((content, is_error)) = self.result_mut(index) {
            (*content, *is_error) = (output.content, output.is_error);
        }
    }

    fn result_mut(&mut self, index: usize) -> Option<(&mut Vec<ContentItem>, &mut bool)> {
        let id = self.made(index)?.id;
        // Results of an older history may stand in another order.
        self.after.first_mut()?.content.iter_mut().find_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, content, is_error } if tool_use_id == id => {
                Some((content, is_error))
            }
            _ => None,
        })
    }
}

fn not_executed(why: &str) -> String {
    format!("[not executed: {why}]")
}

fn interrupted(why: &str) -> String {
    format!("[interrupted: {why}; whether the call took effect is unknown]")
}
