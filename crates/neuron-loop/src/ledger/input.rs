//! Messages that enter a conversation from outside, and messages that are removed because a layer around the model call
//! rejected them.

use std::collections::{BTreeSet, HashSet};

use neuron_types::{
    ContentBlock, ContentItem, LoopError, Message, ProviderError, Role, TakeBack, transcript,
};
use serde::{Deserialize, Serialize};

use super::{Ledger, Phase, RunRecord};

/// Text that replaces a rejected tool result. Guardrails and other layers around the model call can reject results.
const REJECTED_RESULT: &str = "[removed: a guardrail rejected the result]";

/// Texts of the system messages that the loop added to the conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Reminders(BTreeSet<String>);

impl Reminders {
    /// Records the text of a system message that the loop adds to the conversation.
    pub(crate) fn note(&mut self, text: String) {
        self.0.insert(text);
    }

    /// Returns `true` if the loop added this message to the conversation.
    pub(crate) fn contains(&self, message: &Message) -> bool {
        message.role == Role::System && !message.is_pinned() && self.0.contains(&message.text())
    }

    /// Removes each message that the loop added earlier and added again later. Strategies keep all system messages, so
    /// repeated reminders would displace other messages of a long conversation.
    pub(crate) fn newest_only(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut seen = HashSet::new();
        let mut is_newest =
            |message: &Message| !self.contains(message) || seen.insert(message.text());
        // FAULT of equal reminders the oldest stays: without `.rev()`, without `.rev()`
        let keep: Vec<bool> = messages.iter().rev().map(&mut is_newest).collect();
        let kept = messages.into_iter().zip(keep.into_iter().rev());
        kept.filter_map(|(message, keep)| keep.then_some(message)).collect()
    }
}

impl Ledger {
    /// Creates a conversation from an earlier history. The history is repaired if providers would reject it.
    pub(crate) fn from_messages(messages: Vec<Message>) -> Self {
        let mut ledger = Self { messages: messages.into(), ..Self::default() };
        // FAULT an earlier conversation is not repaired: without the line
        ledger.repair();
        ledger
    }

    /// Continues an interrupted run. If no run was interrupted, begins a new run without a new message.
    ///
    /// # Errors
    ///
    /// [`LoopError::ApprovalRequired`] if calls wait for an approval. [`LoopError::Provider`] if the history gives the
    /// model nothing to answer.
    pub(crate) fn begin_continued(&mut self, run_id: String) -> Result<(), LoopError> {
        if let Some(pending) = self.pending().filter(|_| self.waits()) {
            return Err(LoopError::ApprovalRequired(Box::new(pending)));
        }
        if self.phase != Phase::Idle {
            if self.tally.run.id.is_empty() {
                self.tally.run.id = run_id;
            }
            return Ok(());
        }
        let is_paused = self.tally.run.pauses > 0 && self.is_paused();
        if !transcript::is_open(&self.messages, is_paused) {
            let text = "the conversation does not end with something that the model can answer";
            return Err(ProviderError::InvalidRequest(text.into()).into());
        }
        self.begin(run_id);
        // FAULT a paused answer that goes on has not paused: without the line
        //     (pauses::run_continues_a_turn_that_the_provider_paused)
        self.tally.run.pauses = usize::from(is_paused);
        Ok(())
    }

    /// Begins a new run with this id.
    pub(crate) fn begin(&mut self, id: String) {
        // FAULT runs are counted from one: after the next
        // FAULT another run begins with the usage of the last: `number: self.tally.runs,` -> `number: self.tally.runs,
        //     usage: self.tally.run.usage.clone(),`
        self.tally.run = RunRecord { id, number: self.tally.runs, ..RunRecord::default() };
        self.tally.runs = self.tally.runs.saturating_add(1);
        // FAULT a compaction is put off in the next run too: without the line
        self.compaction.begin_run();
        // FAULT another run leaves calls waiting: the line -> `if self.pending_calls().is_empty() { self.phase =
        //     Phase::TurnStart; }`
        self.phase = Phase::TurnStart;
    }

    /// Adds a message from outside the loop. Repairs the history if the message makes it invalid.
    pub(crate) fn add_message(&mut self, message: Message) {
        // A plain user message is always valid. All other messages may break the rules for calls and results.
        let is_plain = |block: &ContentBlock| {
            block.as_tool_use().is_none() && block.as_tool_result_id().is_none()
        };
        // FAULT a conversation may begin with the assistant: without `message.role == Role::User &&`
        let is_safe = message.role == Role::User && message.content.iter().all(is_plain);
        if message.role == Role::Assistant {
            self.close_batch("the conversation went on without it");
        }
        self.messages.push(message);
        if !is_safe {
            self.repair();
        }
    }

    /// Adds a message from outside of a run. A run that has its response is then over, and the next run answers the
    /// message.
    pub(crate) fn push(&mut self, message: Message) {
        self.add_message(message);
        if let Phase::Ended(_) = &self.phase {
            // FAULT a message behind an answer is not answered: without the line
            //     (ends::message_behind_a_stored_answer_begins_another_run)
            self.phase = Phase::Idle;
        }
    }

    /// Returns `true` if the run can take messages now. A response that the provider paused must be continued first.
    pub(crate) fn takes_messages(&self) -> bool {
        match &self.phase {
            // FAULT a message comes between two parts of an answer: `!self.is_paused()` -> `true`
            Phase::TurnStart => !self.is_paused(),
            // FAULT a message after the last call of a limit goes on: `ending.limit.is_none()` -> `true`
            Phase::Ended(ending) => ending.limit.is_none(),
            _ => false,
        }
    }

    /// Adds messages that were sent to a live run, and continues the run even if it was about to end. Returns `false`
    /// if there are no messages.
    pub(crate) fn steer(&mut self, messages: Vec<Message>) -> bool {
        let is_steered = !messages.is_empty();
        for message in messages {
            self.add_message(message);
        }
        // FAULT a message after the last answer is not answered: without the statement
        if is_steered {
            self.phase = Phase::TurnStart;
        }
        is_steered
    }

    /// Repairs the history if providers would reject it.
    fn repair(&mut self) {
        if let Err(violation) = transcript::validate(&self.messages) {
            tracing::warn!(%violation, "providers would reject the history; it is repaired");
            self.messages.rewrite(|messages| {
                *messages = transcript::repair(std::mem::take(messages));
            });
            self.tally.passed_messages = 0;
        }
    }

    /// Adds a system message for the next model call, unless the same message was already added after the last
    /// response.
    pub(crate) fn remind(&mut self, text: String) {
        let message = Message::system(text.as_str());
        // FAULT a reminder is said once and never again: without `.take_while(|other| other.role !=
        //     Role::Assistant)`
        let mut unanswered =
            self.messages.iter().rev().take_while(|other| other.role != Role::Assistant);
        // A failed call is repeated with the reminders of its first attempt.
        // FAULT reminders pile up: `*other == message` -> `false`
        if !unanswered.any(|other| *other == message) {
            self.messages.push(message);
            // FAULT a reminder is not known as one: without the line
            self.reminders.note(text);
        }
    }

    /// Returns the position of the first message that comes after the last response and that no request has sent yet.
    fn first_new_message(&self) -> usize {
        let answer = self.messages.iter().rposition(|message| message.role == Role::Assistant);
        let start = answer.map_or(0, |index| index + 1).max(self.tally.passed_messages);
        start.min(self.messages.len())
    }

    /// Returns the messages after the last response that no request has sent yet.
    pub(crate) fn new_messages(&self) -> &[Message] {
        self.messages.get(self.first_new_message()..).unwrap_or_default()
    }

    /// Removes messages that a layer around the model call rejected. These are either a response that the provider
    /// paused, or the new user messages with the reminders after them.
    ///
    /// A tool result stays, or is replaced by a text, because each call needs a result.
    pub(crate) fn take_back(&mut self, rejected: TakeBack) {
        let TakeBack::Input { with_tool_results } = rejected else {
            // FAULT a paused answer stays although its end is rejected: without the statement
            self.messages.rewrite(|messages| {
                while messages.pop_if(|last| last.role == Role::Assistant).is_some() {}
            });
            (self.size, self.tally.run.pauses) = (None, 0);
            // FAULT a message behind a rejected answer has passed: without the line
            self.tally.passed_messages = self.tally.passed_messages.min(self.messages.len());
            return;
        };
        let start = self.first_new_message();
        let mut is_taken_back = false;
        for mut message in self.messages.rewrite(|messages| messages.split_off(start)) {
            if message.role == Role::User {
                // FAULT results go with rejected input: `retain(|block| block.as_tool_result_id().is_some())` ->
                //     `clear()`
                message.content.retain(|block| block.as_tool_result_id().is_some());
                // FAULT rejected results stay: `with_tool_results` -> `false`
                if with_tool_results {
                    message.content.iter_mut().for_each(remove_result);
                }
                if !message.has_content() {
                    is_taken_back = true;
                    continue;
                }
                // FAULT a reminder stays without what it stood behind: `is_taken_back` -> `false`
            } else if is_taken_back && self.reminders.contains(&message) {
                continue;
            }
            self.messages.push(message);
        }
        // The reported size may include removed messages.
        self.size = self.size.filter(|size| size.messages <= start);
    }
}

/// Replaces the content of a tool result.
fn remove_result(block: &mut ContentBlock) {
    if let ContentBlock::ToolResult { content, is_error, .. } = block {
        *content = vec![ContentItem::Text(REJECTED_RESULT.into())];
        // FAULT a result that a guard removed is no error: without the line
        *is_error = true;
    }
}
