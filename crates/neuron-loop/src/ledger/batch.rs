//! The tool calls of one response, their states, the approval decisions on them, and their results.
//!
//! A response with tool calls is added to the history together with an empty result for each call. The real result
//! replaces the empty one. When the run stops, the results that are still empty get a text with the reason. Each call
//! therefore always has exactly one result.

use std::borrow::Cow;
use std::mem;

use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalSignature, ContentBlock, ContentItem, LoopError,
    Message, PendingApproval, PendingCall, Role, StopReason, ToolCall, ToolOutput, ToolUseRef,
    transcript,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use smallvec::{SmallVec, smallvec};

use super::history::OpenResults;
use super::{Counters, Ledger, Phase};

/// The reason for a missing result if no other reason is known.
const INTERRUPTED: &str = "the run was interrupted";

/// The states of the tool calls of one response. The history has their names and arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) stop_reason: StopReason,
    pub(crate) calls: SmallVec<[CallState; 1]>,
    /// Names of registered tools that the request did not offer, and of called tools that the model had not found. A
    /// call of such a tool does not run. In JSON this field keeps its older name `hidden`.
    #[serde(default, rename = "hidden", skip_serializing_if = "Vec::is_empty")]
    pub(crate) excluded: Vec<String>,
    /// Set if calls of `CALL_TOOL` are calls of the tools that they name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_targets: bool,
    /// Number of earlier responses of the turn that were discarded after some of their calls had started. `None` until
    /// the first call of this batch begins.
    ///
    /// The number is part of the idempotency keys, so a call never has the key of a discarded call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<usize>,
    /// Position of the call that gave the valid output of a typed run. Set until the other calls have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<usize>,
}

/// The state of one tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallState {
    /// The call has not begun.
    #[default]
    Open,
    /// The call needs an approval. It has not begun, even if the decision is already there.
    #[serde(rename = "asked")]
    AwaitingApproval(Box<PendingDecision>),
    /// The call has begun, and its result is not known.
    Begun {
        /// The arguments to run if an approval may have changed them. `None` if the arguments in the history are used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
    },
    /// The call has ended, and its result is in the history.
    Ended {
        is_error: bool,
        /// Set if the tool ran to its end.
        ran: bool,
    },
}

/// A tool call that needs an approval, with the decision once it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingDecision {
    pub(crate) pending: PendingCall,
    pub(crate) decision: Option<ApprovalDecision>,
}

/// Iterates over the calls of a response. If `has_targets` is `true`, a call of `CALL_TOOL` is the call of the tool that
/// it names.
fn calls_in(answer: &Message, has_targets: bool) -> impl Iterator<Item = ToolUseRef<'_>> + use<'_> {
    answer.tool_uses().map(move |call| if has_targets { call.target() } else { call })
}

impl Batch {
    /// Creates a batch of `calls` tool calls that have not begun.
    pub(crate) fn new(stop_reason: StopReason, calls: usize, excluded: Vec<String>) -> Self {
        Self {
            stop_reason,
            calls: smallvec![CallState::Open; calls],
            excluded,
            has_targets: false,
            attempt: None,
            output: None,
        }
    }

    /// Returns the positions of the calls that can begin.
    pub(crate) fn open_calls(&self) -> SmallVec<[usize; 4]> {
        let open = self.calls.iter().enumerate().filter(|(_, state)| state.can_begin());
        open.map(|(index, _)| index).collect()
    }

    /// Returns the number of calls that will start for the first time when the batch continues. A call whose nested
    /// agent resumes after an approval has started before and is not counted.
    pub(crate) fn count_of_starts(&self) -> usize {
        use ApprovalDecision::{Approve, ApproveEdited};
        let starts = |state: &&CallState| match state {
            CallState::Open => true,
            CallState::AwaitingApproval(asked) => {
                matches!(asked.decision, Some(Approve | ApproveEdited { .. }))
            }
            // FAULT calls that ended need room once more: `false` -> `true`
            _ => false,
        };
        self.calls.iter().filter(starts).count()
    }

    /// Returns `true` if at least one call waits for an approval.
    pub(crate) fn waits(&self) -> bool {
        self.calls.iter().any(|state| state.asked().is_some() && !state.can_begin())
    }
}

impl CallState {
    /// Returns the state of a call that waits for an approval.
    pub(super) fn awaiting(pending: PendingCall) -> Self {
        Self::AwaitingApproval(Box::new(PendingDecision { pending, decision: None }))
    }

    /// Returns `true` if the call has not begun and needs no further decision.
    pub(crate) fn can_begin(&self) -> bool {
        match self {
            Self::Open => true,
            Self::AwaitingApproval(asked) => asked.decision.is_some(),
            _ => false,
        }
    }

    /// Returns the pending call, with its decision if there is one, if the call needs an approval and has not begun.
    pub(crate) fn asked(&self) -> Option<&PendingDecision> {
        if let Self::AwaitingApproval(asked) = self { Some(asked) } else { None }
    }

    /// Returns the arguments of a call that needed an approval. The approval may have changed them. Returns `None` for
    /// any other call, whose arguments are in the history.
    pub(crate) fn edited(&self) -> Option<&Value> {
        match self {
            Self::AwaitingApproval(asked) => match &asked.decision {
                // FAULT the arguments that a person changed are ignored: `Some(input)` ->
                //     `Some(&asked.pending.call.input)`
                Some(ApprovalDecision::ApproveEdited { input }) => Some(input),
                _ => Some(&asked.pending.call.input),
            },
            Self::Begun { input } => input.as_ref(),
            Self::Open | Self::Ended { .. } => None,
        }
    }
}

impl Ledger {
    /// Returns the current batch, or `None` if the last response has no calls left to handle.
    pub(crate) fn batch(&self) -> Option<&Batch> {
        if let Phase::Batch(batch) = &self.phase { Some(batch) } else { None }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut Batch> {
        if let Phase::Batch(batch) = &mut self.phase { Some(batch) } else { None }
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
        let made = calls_in(calls.answer, calls.batch.has_targets);
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

    /// Returns the calls that need an approval and have not begun, including calls with a decision.
    pub(crate) fn pending_calls(&self) -> Vec<PendingCall> {
        self.asked().map(|(_, pending)| pending).collect()
    }

    /// Returns the calls that have a decision and have not begun.
    pub(crate) fn decided_calls(&self) -> Vec<PendingCall> {
        let decided = self.asked().filter(|(asked, _)| asked.decision.is_some());
        decided.map(|(_, pending)| pending).collect()
    }

    /// Iterates over the calls that need an approval and have not begun, and their form for others. Only this form has
    /// the approval id, because the place of the call defines it.
    fn asked(&self) -> impl Iterator<Item = (&PendingDecision, PendingCall)> {
        let run = &self.tally.run;
        let states = self.batch().map_or(&[][..], |batch| &batch.calls).iter().enumerate();
        states.filter_map(move |(position, state)| {
            let asked = state.asked()?;
            let pending = asked.pending.clone();
            // FAULT a request for an approval does not name its turn: `run.turn` -> `0`
            // FAULT a request for an approval does not name its position: `position)` -> `0)`
            // FAULT a request for an approval does not name its run: `run.number` -> `0`
            Some((asked, pending.at(&run.id, run.number, run.turn, position)))
        })
    }

    /// Returns the state of the waiting run in its stored form. Returns `None` if no call needs an approval.
    pub(crate) fn pending(&self) -> Option<PendingApproval> {
        let calls = self.pending_calls();
        if calls.is_empty() {
            return None;
        }
        let mut pending = PendingApproval::new(&*self.tally.run.id, calls);
        pending.run_number = self.tally.run.number;
        // FAULT a run that waits names the next turn: `run.turn` -> `run.turns`
        pending.turn = self.tally.run.turn;
        pending.turns = self.tally.run.turns;
        pending.requests = self.tally.run.requests;
        pending.tool_calls = self.tally.run.tool_calls;
        pending.usage = self.tally.run.usage.total.clone();
        pending.tool_usage = self.tally.run.usage.tools.clone();
        pending.messages = self.messages.to_vec();
        Some(pending)
    }

    /// Records decisions on the pending calls. Replaces earlier decisions that were not carried out.
    pub(crate) fn decide(&mut self, decisions: &ApprovalDecisions) {
        let pending = self.pending_calls();
        for (asked, pending) in self.asked_calls().zip(&pending) {
            // FAULT an approval is not needed to go on: `.cloned()` -> `.cloned().or(Some(ApprovalDecision::Approve))`
            asked.decision = decisions.of(pending).cloned();
        }
    }

    /// Removes the decisions of calls that have not begun, so that the calls wait for an approval again. Returns `true`
    /// if a decision was removed.
    pub(crate) fn undecide(&mut self) -> bool {
        self.asked_calls().filter_map(|asked| asked.decision.take()).count() > 0
    }

    /// Iterates over the calls that need an approval and have not begun.
    fn asked_calls(&mut self) -> impl Iterator<Item = &mut PendingDecision> {
        let states = self.batch_mut().map_or(&mut [][..], |batch| &mut batch.calls);
        states.iter_mut().filter_map(|state| match state {
            CallState::AwaitingApproval(asked) => Some(&mut **asked),
            _ => None,
        })
    }

    /// Signs the calls that have no decision yet.
    pub(crate) fn sign_waiting(&mut self, sign: impl Fn(&str, &PendingCall) -> ApprovalSignature) {
        let run_id = self.tally.run.id.clone();
        let pending = self.pending_calls();
        for (asked, pending) in self.asked_calls().zip(&pending) {
            if asked.decision.is_none() {
                asked.pending.signature = Some(sign(&run_id, pending));
            }
        }
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
        calls_in(self.answer, self.batch.has_targets).nth(index)
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
        calls_in(self.answer, self.batch.has_targets).zip(&self.batch.calls)
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
        let Some(CallState::Begun { input }) = self.set_state(index, CallState::Open) else {
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
        self.set_state(index, CallState::awaiting(pending));
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

    /// Sets the state of a call, and returns its former state. Returns `None` if there is no such call.
    fn set_state(&mut self, index: usize, state: CallState) -> Option<CallState> {
        self.batch.calls.get_mut(index).map(|place| mem::replace(place, state))
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
