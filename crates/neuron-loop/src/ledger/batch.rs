//! The tool calls of one response and their results.
//!
//! A response with tool calls is added to the history together with an empty result for each call. The real result
//! replaces the empty one. When the run stops, the results that are still empty get a text with the reason. Each call
//! therefore always has exactly one result.

use std::borrow::Cow;
use std::mem;

use neuron_types::{
    ContentBlock, ContentItem, LoopError, Message, PendingCall, Role, ToolCall, ToolOutput,
    ToolUseRef, transcript,
};

use super::calls::calls_in;
use super::history::OpenResults;
use super::{Batch, CallState, Counters, Ledger, PendingDecision, Phase};

/// The reason for a missing result if no other reason is known.
const INTERRUPTED: &str = "the run was interrupted";

impl Ledger {
    /// Returns the current batch, or `None` if the last response has no calls left to handle.
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

    /// Returns the number of messages, from the start of the history, that will not change any more. While a batch is
    /// open, the last response and its results are not counted.
    pub(crate) fn settled(&self) -> usize {
        let place = transcript::place_of_results(&self.messages).filter(|_| self.batch().is_some());
        // FAULT an open answer is stored as settled: `place.saturating_sub(1)` -> `place`
        place.map_or(self.messages.len(), |place| place.saturating_sub(1))
    }

    /// Borrows the calls of the current batch together with the run's counters. Returns `None` if no batch is open.
    pub(crate) fn open_batch(&mut self) -> Option<(Calls<'_>, Counters<'_>)> {
        let Self { messages, phase: Phase::Batch(batch), tally, .. } = self else {
            return None;
        };
        let (answer, results) = messages.open_results()?;
        Some((Calls { answer, results, batch }, Counters(tally)))
    }

    /// Opens a batch for the tool calls of the last response in the history. Adds a message with an empty result for
    /// each call.
    pub(super) fn begin_batch(&mut self, batch: Batch) {
        self.phase = Phase::Batch(batch);
        let result = |call: ToolUseRef<'_>| ContentBlock::ToolResult {
            tool_use_id: call.id.to_owned(),
            content: Vec::new(),
            is_error: true,
        };
        // FAULT a forgotten result: `.map(result)` -> `.map(result).skip(1)`
        // FAULT results in another order: `.collect()` -> `.collect::<Vec<_>>().into_iter().rev().collect()`
        let content = self.last_calls().map(result).collect();
        // FAULT results in the assistant's message: `User` -> `Assistant`
        self.messages.push(Message { role: Role::User, content });
    }

    /// Writes the reason `why` into the result of each call that has no real result yet.
    ///
    /// Pass `None` if the run may be continued later. The reason then depends on the state of the call, which may, for
    /// example, wait for an approval.
    pub(crate) fn explain_missing(&mut self, why: Option<&str>) {
        if let Some((mut calls, _)) = self.open_batch() {
            calls.explain_missing(why);
        }
    }

    /// Closes the batch, so that no further call of it runs. Writes the reason `why` into the result of each unfinished
    /// call.
    pub(crate) fn close_batch(&mut self, why: &str) {
        if self.batch().is_some() {
            self.explain_missing(Some(why));
            self.phase = Phase::TurnStart;
        }
    }

    /// Ends all calls that can still begin. Their results say that the calls did not run because of `why`. The batch
    /// stays open.
    pub(super) fn close_open_calls(&mut self, why: &str) {
        if let Some((mut calls, _)) = self.open_batch() {
            for index in calls.batch.open_calls() {
                calls.answer(index, ToolOutput::error(not_executed(why)));
            }
        }
    }

    /// Closes the batch, and gives `error` as the reason in the result of each unfinished call.
    pub(crate) fn close_batch_because_of(&mut self, error: &LoopError) {
        self.close_batch(&match error {
            LoopError::Cancelled => Cow::Borrowed("the run was cancelled"),
            // FAULT a call beside a failed one has its error: without the arm
            LoopError::Tool(_) => Cow::Borrowed("another tool call of the same answer failed"),
            other => Cow::Owned(other.to_string()),
        });
    }

    /// Sets the state of each call that had begun when the run was interrupted. The call can begin again if
    /// `may_repeat` returns `true` for the name of its tool.
    ///
    /// Otherwise the call ends with a result that says that its outcome is unknown.
    pub(crate) fn recover(&mut self, may_repeat: impl Fn(&str) -> bool) {
        let Some((calls, _)) = self.open_batch() else {
            return;
        };
        // FAULT an interrupted call has the effect of call_tool: the line -> `let made = calls.answer.tool_uses();`
        //     (deferred_tools::effect_of_the_tool_decides_after_an_interruption)
        let made = calls.batch.calls_in(calls.answer);
        for (made, state) in made.zip(&mut calls.batch.calls) {
            *state = match state {
                // FAULT an interrupted call with edited arguments repeats the old ones: `input: None` -> `..`
                //     (approval::interrupted_call_with_edited_arguments_does_not_repeat_the_old_ones)
                CallState::Begun { input: None } if may_repeat(made.name) => CallState::Open,
                CallState::Begun { .. } => CallState::Ended { is_error: true, ran: false },
                _ => continue,
            };
        }
    }

    /// Ends the call at `index` with `output`, without running it.
    pub(super) fn answer_call(&mut self, index: usize, output: ToolOutput) {
        if let Some((mut calls, _)) = self.open_batch() {
            calls.answer(index, output);
        }
    }

    /// Returns the calls of the last response, in order. While their batch is open, these are the calls that run.
    pub(crate) fn last_calls(&self) -> impl Iterator<Item = ToolUseRef<'_>> {
        let has_targets = self.batch().is_some_and(|batch| batch.has_targets);
        let answer = self.messages.iter().rfind(|message| message.role == Role::Assistant);
        answer.into_iter().flat_map(move |answer| calls_in(answer, has_targets))
    }
}

/// The calls of a batch. Names and arguments can be read while states and results are changed.
pub(crate) struct Calls<'l> {
    pub(super) answer: &'l Message,
    results: OpenResults<'l>,
    pub(super) batch: &'l mut Batch,
}

impl<'l> Calls<'l> {
    /// Returns the call at `index` with the arguments that the model sent to the tool that runs.
    pub(crate) fn made(&self, index: usize) -> Option<ToolUseRef<'l>> {
        self.batch.calls_in(self.answer).nth(index)
    }

    /// Returns all calls with the arguments to run. An approval may have changed these arguments.
    pub(crate) fn to_calls(&self) -> Vec<ToolCall> {
        let call = |(made, state): (ToolUseRef<'_>, &CallState)| {
            ToolUseRef { input: state.edited().unwrap_or(made.input), ..made }.to_call()
        };
        self.iter().map(call).collect()
    }

    pub(crate) fn batch(&self) -> &Batch {
        self.batch
    }

    /// Returns the number of earlier responses of the turn that were discarded after calls had started. It stays what it
    /// is at the first call, so that a call that runs again has the same idempotency key.
    pub(crate) fn keep_attempt(&mut self, attempt: usize) -> usize {
        // FAULT a call that runs again has another key: the line -> `*self.batch.attempt.insert(attempt)`
        //     (early_tools::repeated_call_keeps_its_key_after_early_calls)
        *self.batch.attempt.get_or_insert(attempt)
    }

    /// Iterates over the calls and their states, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ToolUseRef<'l>, &CallState)> {
        self.batch.calls_in(self.answer).zip(&self.batch.calls)
    }

    /// Returns the state of the call at `index`.
    pub(crate) fn state(&self, index: usize) -> Option<&CallState> {
        self.batch.calls.get(index)
    }

    /// Marks a call as begun. Its outcome counts as unknown until its result is recorded.
    pub(crate) fn begin(&mut self, index: usize) {
        // FAULT what was carried out can be decided again: add `if self.state(index).is_some_and(|state|
        //     state.asked().is_some()) { return self.write(index, ToolOutput::error(interrupted(INTERRUPTED))); }`
        let input = self.state(index).and_then(CallState::edited).cloned();
        self.set_state(index, CallState::Begun { input });
    }

    /// Changes the state of a call back from begun to open, because it was cancelled before its tool ran.
    pub(crate) fn never_began(&mut self, index: usize) {
        // FAULT a call whose turn did not come counts as begun: `Open` -> `Begun { input: None }`
        self.set_state(index, CallState::Open);
    }

    /// Records the result of a call. A call that had begun counts as run.
    pub(crate) fn finish(&mut self, index: usize, mut output: ToolOutput) {
        let Some(CallState::Begun { input }) = self.state_mut(index).map(mem::take) else {
            return self.answer(index, output);
        };
        // The model sees its own arguments in the history, so the result names the arguments that really ran.
        if let Some(input) = input
            // FAULT arguments that a person approved count as changed: `is_some_and(|made| *made.input != input)` ->
            //     `is_some()`
            && self.made(index).is_some_and(|made| *made.input != input)
        {
            let note = format!("[approved with other arguments: {input}]");
            // FAULT the model is not told of changed arguments: without the line
            // FAULT the note on changed arguments stands behind the result: `insert(0,` -> `push(`
            output.content.insert(0, ContentItem::Text(note));
        }
        // FAULT a call that ran counts as one that did not: `true` -> `false`
        self.end(index, output, true);
    }

    /// Records the error of a call as its result. A cancelled call gets no result, because its outcome stays unknown.
    pub(crate) fn fail(&mut self, index: usize, error: &LoopError) {
        let text = match error {
            // FAULT a call that was cancelled has that as its result: without the line
            LoopError::Cancelled => return,
            LoopError::Tool(error) => error.to_string(),
            other => other.to_string(),
        };
        // FAULT a failure that is no error for the model: `error(text)` -> `text(text)`
        self.answer(index, ToolOutput::error(text));
    }

    /// Makes a call wait for an approval.
    pub(crate) fn hold(&mut self, index: usize, pending: PendingCall) {
        self.set_state(
            index,
            CallState::AwaitingApproval(Box::new(PendingDecision { pending, decision: None })),
        );
    }

    /// Returns the result of a call as it is in the history, or `None` if there is no such call.
    pub(crate) fn result(&self, index: usize) -> Option<ToolOutput> {
        let id = self.made(index)?.id;
        self.results.message()?.content.iter().find_map(|block| match block {
            ContentBlock::ToolResult { tool_use_id, content, is_error } if tool_use_id == id => {
                let (content, is_error) = (content.clone(), *is_error);
                Some(ToolOutput { content, structured_content: None, is_error })
            }
            _ => None,
        })
    }

    /// Writes a reason into the result of each call that has not ended. See [`Ledger::explain_missing`].
    fn explain_missing(&mut self, why: Option<&str>) {
        for index in 0..self.batch.calls.len() {
            let (text, otherwise): (fn(&str) -> _, _) = match self.state(index) {
                Some(CallState::Open) => (not_executed, INTERRUPTED),
                // FAULT a call that outlived the grace period says that it did not run: `interrupted` -> `not_executed`
                Some(CallState::Begun { .. }) => (interrupted, INTERRUPTED),
                Some(CallState::AwaitingApproval(asked)) => match asked.pending.nested {
                    // FAULT an agent that waits inside a call counts as not begun: `interrupted` -> `not_executed`
                    //     (approval::nested_approval_pauses_the_parent_and_resumes_the_child)
                    Some(_) => (interrupted, "an agent inside the call awaits an approval"),
                    // FAULT a call that waits counts as one that was interrupted: `not_executed` -> `interrupted`
                    None => (not_executed, "the call awaits an approval"),
                },
                // FAULT the error of a call gives way to the reason of the batch: `Ended { .. }) | None => continue` ->
                //     `Ended { ran: true, .. }) | None => continue, Some(_) => (not_executed, INTERRUPTED)`
                Some(CallState::Ended { .. }) | None => continue,
            };
            // FAULT the result of a call that has not begun is no error: `error(` -> `text(`
            self.write(index, ToolOutput::error(text(why.unwrap_or(otherwise))));
        }
    }

    /// Ends a call with `output`, without running it.
    pub(super) fn answer(&mut self, index: usize, output: ToolOutput) {
        self.end(index, output, false);
    }

    /// Ends a call with `output`. `ran` is `true` if the tool ran to its end.
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

    /// Replaces the result of a call in the history.
    fn write(&mut self, index: usize, output: ToolOutput) {
        let id = self.made(index).map(|made| made.id);
        let results =
            self.results.change().map_or(&mut [][..], |message| message.content.as_mut_slice());
        // In a history from elsewhere, the results may have another order than the calls.
        for block in results {
            if let ContentBlock::ToolResult { tool_use_id, content, is_error } = block
                && Some(&**tool_use_id) == id
            {
                (*content, *is_error) = (output.content, output.is_error);
                return;
            }
        }
    }
}

fn not_executed(why: &str) -> String {
    // FAULT a result for a call that never began says that it failed: `not executed` -> `interrupted`
    format!("[not executed: {why}]")
}

fn interrupted(why: &str) -> String {
    format!("[interrupted: {why}; whether the call took effect is unknown]")
}
