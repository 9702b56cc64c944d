//! The state machine of a run, without I/O, async code or a clock. A [`Ledger`] is a conversation with the state of its
//! current run. Its [`Phase`] tells the next action of the run. For each kind of event, a method records the outcome.

mod batch;
mod compaction;
mod history;
mod input;
mod limits;
mod output;
mod restore;

use neuron_types::{
    CompletionResponse, ContentBlock, EMPTY_ANSWER, LoopError, Message, Role, StopReason,
    TokenUsage, transcript,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use batch::{Batch, CallState, Calls, PendingDecision};
use compaction::CompactionBackoff;
pub(crate) use compaction::KnownSize;
pub(crate) use history::History;
pub(crate) use input::Reminders;
pub(crate) use limits::{Counters, Limit, RunRecord, Tally};
pub(crate) use output::{OutputRules, is_invalid_json};

/// Number of consecutive times that the loop continues a response that the provider paused. After one more pause, the
/// run ends with the paused response.
const MAX_PAUSES: usize = 16;

/// A conversation with the state of its current run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    version: Version,
    /// The history. It is a valid request for a provider at any time.
    #[serde(default)]
    messages: History,
    #[serde(default)]
    phase: Phase,
    #[serde(default)]
    tally: Tally,
    /// Texts of the system messages that the loop added. In JSON this field keeps its older name `said`.
    #[serde(default, rename = "said")]
    reminders: Reminders,
    #[serde(default)]
    size: Option<KnownSize>,
    // FAULT a new execution tries in vain to compact: add `#[serde(skip)]`
    #[serde(default)]
    compaction: CompactionBackoff,
}

/// The version of a conversation's stored form, a number in JSON. Deserialisation fails for a number above
/// [`NEWEST`](Self::NEWEST).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub(crate) struct Version;

impl Version {
    /// Newest version of the stored conversation that this release can read. It is also the version that this release
    /// writes.
    const NEWEST: u32 = 1;
}

impl From<Version> for u32 {
    fn from(Version: Version) -> Self {
        Version::NEWEST
    }
}

impl TryFrom<u32> for Version {
    type Error = String;

    fn try_from(version: u32) -> Result<Self, String> {
        if version > Self::NEWEST {
            return Err(format!(
                "the conversation has version {version}, and this release reads up to {}: use the release that wrote \
                 it, or a newer one",
                Self::NEWEST
            ));
        }
        Ok(Self)
    }
}

/// The next step of a conversation's run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// No run is active.
    #[default]
    Idle,
    /// The next turn has not begun.
    TurnStart,
    /// The hooks were notified of the turn. The model call is next.
    Calling,
    /// The last response calls tools. Their results are in the message after it.
    Batch(Batch),
    /// A limit was reached. One last model call is next.
    Landing {
        limit: Limit,
        /// Set if the hooks were already notified of the turn of this last call.
        is_open: bool,
    },
    /// The final response of the run is known.
    Ended(Ending),
}

/// The final response of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub(crate) response: String,
    pub(crate) stop_reason: StopReason,
    /// The output of a typed run.
    pub(crate) output: Option<Value>,
    /// Error text of the limit after which the model was called a last time.
    pub(crate) limit: Option<String>,
}

/// Facts about a response that its messages do not contain.
#[derive(Clone, Copy)]
pub(crate) struct AnswerView<'a> {
    /// Set if the response ended before the arguments of one of its tool calls were complete.
    pub(crate) is_cut_off: bool,
    /// Names of registered tools that the request did not offer, and of called tools that the model had not found.
    pub(crate) excluded: &'a [String],
    /// Set if calls of `CALL_TOOL` are calls of the tools that they name.
    pub(crate) has_targets: bool,
    /// Set if the limits allow another model call.
    pub(crate) may_ask_again: bool,
    /// The required output of a typed run.
    pub(crate) output: Option<&'a OutputRules>,
    /// Estimated tokens of the frame, which is the system prompt and the tools. `None` if the strategy does not count
    /// tokens.
    pub(crate) frame: Option<usize>,
}

impl Ledger {
    /// Returns a copy of the state with other messages.
    pub(crate) fn with_messages(&self, messages: Vec<Message>) -> Self {
        let Self { phase, tally, reminders, size, compaction, .. } = self;
        let (phase, tally, reminders) = (phase.clone(), tally.clone(), reminders.clone());
        let (size, compaction, messages) = (*size, compaction.clone(), messages.into());
        Self { version: Version, messages, phase, tally, reminders, size, compaction }
    }

    pub(crate) fn messages(&self) -> &History {
        &self.messages
    }

    pub(crate) fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn size(&self) -> Option<KnownSize> {
        self.size
    }

    /// Borrows the messages, and the counters for model calls.
    pub(crate) fn counters(&mut self) -> (&History, Counters<'_>) {
        // FAULT what is rejected counts as passed: add `self.tally.passed_messages = self.messages.len();`
        (&self.messages, Counters(&mut self.tally))
    }

    /// Returns `true` if the run cannot continue before pending calls are decided.
    pub(crate) fn waits(&self) -> bool {
        let has_work = |batch: &Batch| batch.calls.iter().any(CallState::can_begin);
        // FAULT a run waits before it does what was decided: without `&& !has_work(batch)`
        self.batch().is_some_and(|batch| batch.waits() && !has_work(batch))
    }

    /// Marks the beginning of a turn. The model call is next.
    pub(crate) fn begin_turn(&mut self) {
        self.tally.run.turn = self.tally.run.turns;
        if let Phase::Landing { is_open, .. } = &mut self.phase {
            *is_open = true;
        }
    }

    /// Opens the model call of the turn.
    pub(crate) fn open_call(&mut self) {
        self.phase = Phase::Calling;
    }

    /// Makes the model call again after the history was compacted, because the call did not fit into the context window.
    /// A response that was cut off `is_answered` and counts as a turn, so a new turn begins. A request that the provider
    /// rejected does not count, so the same turn continues.
    pub(crate) fn repeat_call(&mut self, is_answered: bool) {
        // FAULT an answer that the window cut off was no turn: `is_answered` -> `false`
        self.phase = if is_answered { Phase::TurnStart } else { Phase::Calling };
    }

    /// Adds the notice that the last model call of a run sent. It is no new message for layers.
    pub(crate) fn add_notice(&mut self, notice: Message) {
        self.reminders.note(notice.text());
        self.messages.push(notice);
        self.tally.passed_messages = self.messages.len();
    }

    /// Adds the tokens that tools used.
    pub(crate) fn add_tool_usage(&mut self, usage: &TokenUsage) {
        Counters(&mut self.tally).add_usage(usage);
        self.tally.run.usage.tools += usage;
    }

    /// Ends the run. Returns its ending, or `None` if the run has no final response. Pending calls still wait for their
    /// approval.
    pub(crate) fn end_run(&mut self) -> Option<Ending> {
        match std::mem::take(&mut self.phase) {
            Phase::Ended(ending) => Some(ending),
            // FAULT a run that waits is over at its end: without the arm
            waiting @ Phase::Batch(_) => {
                self.phase = waiting;
                self.explain_missing(None);
                None
            }
            _ => None,
        }
    }

    /// Adds a response of the model to the history, and chooses the next phase.
    ///
    /// # Errors
    ///
    /// [`LoopError::InvalidOutput`] if a typed run has no valid output and no attempt is left. The error of a limit if
    /// this was the last response, and it has calls that may not run.
    pub(crate) fn take_answer(
        &mut self,
        response: CompletionResponse,
        view: AnswerView<'_>,
    ) -> Result<(), LoopError> {
        let AnswerView { is_cut_off, excluded, has_targets, may_ask_again, output, frame } = view;
        let CompletionResponse { mut message, stop_reason, usage, .. } = response;
        let lack = Lack::of(&message, &stop_reason);
        // A custom provider may have set another role.
        // FAULT an answer keeps the role that the provider gives it: without the line
        message.role = Role::Assistant;
        let calls = message.tool_uses().count();
        // Providers reject a message without content.
        // FAULT an empty message stays in the history: `message.has_content()` -> `true`
        if message.has_content() {
            self.messages.push(message);
        }
        self.note_size(&usage, frame);
        if calls == 0 {
            // FAULT an answer without content repeats the one before: `said_before` -> `answer_text`
            let text = self.said_before();
            // A typed run judges the text itself. The parts of an answer before a pause are an answer.
            let is_last = self.landing_limit().is_some();
            let counts = |lack: &Lack| *lack == Lack::Malformed || text.trim().is_empty();
            return match lack.filter(counts).filter(|_| output.is_none() && !is_last) {
                // FAULT an empty answer is asked for again and again: `may_ask_again` -> `true`
                Some(lack) if may_ask_again => {
                    // FAULT an empty answer is asked for again without a count: without the line
                    self.tally.run.count_output_attempt();
                    self.tally.run.pauses = 0;
                    self.ask_again(lack.complaint());
                    Ok(())
                }
                Some(Lack::Empty) => {
                    self.end_with_answer(text, StopReason::Other(EMPTY_ANSWER.into()), None)
                }
                _ => self.end_with_answer(text, stop_reason, output),
            };
        }
        // FAULT pauses are counted over the whole run: without the line
        self.tally.run.pauses = 0;
        let limit = self.landing_limit();
        let mut batch = Batch::new(stop_reason.clone(), calls, excluded.to_vec());
        batch.has_targets = has_targets;
        self.begin_batch(batch);
        if let Some(why) = calls_must_not_run(&stop_reason, is_cut_off) {
            self.close_batch(why);
            return self.finish(self.answer_text(), stop_reason, limit, output);
        }
        self.take_output_calls(limit, output)
    }

    /// Asks the model for another response, because of a complaint about the last one.
    fn ask_again(&mut self, complaint: impl Into<String>) {
        self.messages.push(Message::user(complaint));
        self.phase = Phase::TurnStart;
    }

    /// Ends the run with a response without calls, or calls the model again if the provider paused the response.
    fn end_with_answer(
        &mut self,
        text: String,
        stop_reason: StopReason,
        output: Option<&OutputRules>,
    ) -> Result<(), LoopError> {
        let limit = self.landing_limit();
        // Then the model must be called again to continue the response.
        let is_pause = matches!(stop_reason, StopReason::PauseTurn | StopReason::Compaction);
        let pauses = if is_pause { self.tally.run.pauses.saturating_add(1) } else { 0 };
        self.tally.run.pauses = pauses;
        // FAULT a paused turn is the end: `1..` -> `2..`
        // FAULT a last answer that is paused goes on: without `limit.is_none() &&`
        // FAULT a pause too few: `..=MAX_PAUSES` -> `..MAX_PAUSES`
        if limit.is_none() && (1..=MAX_PAUSES).contains(&pauses) {
            self.phase = Phase::TurnStart;
            return Ok(());
        }
        self.finish(text, stop_reason, limit, output)
    }

    /// Ends the run with a final response. If a typed run has no valid output and the model may try again, adds a
    /// complaint for the model instead, and the run continues.
    fn finish(
        &mut self,
        response: String,
        stop_reason: StopReason,
        limit: Option<Limit>,
        output: Option<&OutputRules>,
    ) -> Result<(), LoopError> {
        let mut value = None;
        if let Some(rules) = output {
            value = self.read_output(rules, &response, &stop_reason, limit.is_some())?;
            if value.is_none() {
                return Ok(());
            }
        }
        let limit = limit.map(|limit| limit.error().to_string());
        self.phase = Phase::Ended(Ending { response, stop_reason, output: value, limit });
        Ok(())
    }

    /// Closes the batch after all its calls have ended. Ends the run with its last response if `stops` returns `true`.
    /// `stops` receives the names of the tools that the response could not call.
    pub(crate) fn end_batch(&mut self, stops: impl FnOnce(&Self, &[String]) -> bool) {
        let Some(batch) = self.batch_mut() else { return };
        let excluded = std::mem::take(&mut batch.excluded);
        let stop_reason = batch.stop_reason.clone();
        self.phase = Phase::TurnStart;
        if stops(self, &excluded) {
            // FAULT a run that a condition stops says nothing: `answer_text` -> `said_before`
            let response = self.answer_text();
            self.phase = Phase::Ended(Ending { response, stop_reason, output: None, limit: None });
        }
    }

    /// Returns the text of the last response. If the provider paused the response, the text includes its earlier parts.
    pub(crate) fn answer_text(&self) -> String {
        let end = self.messages.iter().rposition(|message| message.role == Role::Assistant);
        // FAULT the parts of an answer before a pause are lost: the statement -> `end.and_then(|index|
        //     self.messages.get(index)).map(Message::text).unwrap_or_default()`
        transcript::trailing_answer(
            end.and_then(|index| self.messages.get(..=index)).unwrap_or_default(),
        )
    }

    /// Returns the text of a response that the provider paused. Empty if the history does not end with a paused
    /// response.
    pub(crate) fn said_before(&self) -> String {
        transcript::trailing_answer(&self.messages)
    }

    /// Returns `true` if the history ends with a response that the model will continue.
    pub(crate) fn is_paused(&self) -> bool {
        self.messages.last().is_some_and(|last| last.role == Role::Assistant)
    }

    /// Returns the limit because of which the current model call is the last one of the run. Returns `None` if no limit
    /// was reached.
    pub(crate) fn landing_limit(&self) -> Option<Limit> {
        if let Phase::Landing { limit, .. } = &self.phase { Some(limit.clone()) } else { None }
    }
}

/// What a response without calls lacks.
#[derive(Clone, Copy, PartialEq)]
enum Lack {
    /// It has no content. Reasoning alone is no answer.
    Empty,
    /// The provider could not read it.
    Malformed,
}

impl Lack {
    fn of(message: &Message, stop_reason: &StopReason) -> Option<Self> {
        let is_blank = |block: &ContentBlock| match block.portable() {
            Some(ContentBlock::Text(text)) => text.trim().is_empty(),
            Some(ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }) => true,
            Some(_) => false,
            None => block.is_mark(),
        };
        if stop_reason.is_malformed_call() {
            return Some(Self::Malformed);
        }
        // FAULT an empty answer is the end: `StopReason::EndTurn` -> `StopReason::ToolUse`
        let is_empty = *stop_reason == StopReason::EndTurn && message.content.iter().all(is_blank);
        is_empty.then_some(Self::Empty)
    }

    /// Returns the message to the model.
    fn complaint(self) -> &'static str {
        match self {
            Self::Empty => "Your last answer was empty. Answer, or go on with the task.",
            Self::Malformed => {
                "Your last answer could not be read, and its tool calls did not run. Answer again."
            }
        }
    }
}

/// Returns `true` if the arguments of the last call of a response may be incomplete.
pub(crate) fn may_be_cut_off(stop_reason: &StopReason) -> bool {
    use StopReason::{ContentFilter, ContextWindowExceeded, MaxTokens};
    // FAULT an answer that a filter cut off counts as whole: without `ContentFilter |`
    matches!(stop_reason, MaxTokens | ContentFilter | ContextWindowExceeded)
}

/// Returns the reason why the calls of a response must not run, or `None` if they may run.
fn calls_must_not_run(stop_reason: &StopReason, is_cut_off: bool) -> Option<&'static str> {
    // FAULT calls of a refused answer run: without the statement
    if *stop_reason == StopReason::Refusal {
        return Some("the model refused to go on");
    }
    is_cut_off.then_some("the model's answer was cut off within the arguments of a tool call")
}
