//! The responses of a run that call tools, newest first, and their comparison.

use std::collections::BTreeSet;

use neuron_types::{ContentBlock, ContentItem, Message, Role, RunTools};
use serde_json::Value;

/// A tool call and its result.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) input: &'a Value,
    /// The content of the result, and `true` if it is an error. `None` if the call has not run yet.
    result: Option<(&'a [ContentItem], bool)>,
}

impl Call<'_> {
    /// Returns `true` if both calls have the same tool and arguments. The order of keys does not matter.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.input == other.input
    }

    /// Returns `true` if the call has run and its result is no error.
    pub(super) fn succeeded(&self) -> bool {
        self.result.is_some_and(|(_, is_error)| !is_error)
    }

    fn has_result_of(&self, other: &Self) -> bool {
        let results = self.result.zip(other.result);
        results.is_none_or(|(one, other)| one == other)
    }
}

/// A response of the model with its tool calls. Calls of exempt tools are left out.
pub(super) struct Step<'a>(pub(super) Vec<Call<'a>>);

impl<'a> Step<'a> {
    /// Reads a response and the messages after it, which contain the results of its calls.
    fn new(
        response: &'a Message,
        after: &'a [Message],
        tools: RunTools<'_>,
        exempt: &BTreeSet<String>,
    ) -> Self {
        let calls = tools.calls_in(response).filter(|call| !exempt.contains(call.name));
        let calls = calls.map(|call| {
            let mut blocks = after.iter().flat_map(|message| &message.content);
            let result = blocks.find_map(|block| match block.portable()? {
                ContentBlock::ToolResult { tool_use_id, content, is_error }
                    if tool_use_id == call.id =>
                {
                    Some((&**content, *is_error))
                }
                _ => None,
            });
            Call { name: call.name, input: call.input, result }
        });
        Self(calls.collect())
    }

    /// Returns `true` if both responses make the same calls.
    pub(super) fn has_calls_of(&self, other: &Self) -> bool {
        self.is_like(other, |one, other| one.is_same(other))
    }

    /// Returns `true` if both responses make the same calls with the same results. A call that has not run yet equals a
    /// call with any result.
    pub(super) fn has_calls_and_results_of(&self, other: &Self) -> bool {
        self.is_like(other, |one, other| one.is_same(other) && one.has_result_of(other))
    }

    /// Returns `true` if both responses call the same tools, and get the same results.
    pub(super) fn has_results_of(&self, other: &Self) -> bool {
        self.is_like(other, |one, other| one.name == other.name && one.has_result_of(other))
    }

    /// Returns `true` if each call failed, or called a tool for which `only_reads` returns `true`.
    pub(super) fn changes_nothing(&self, only_reads: impl Fn(&str) -> bool) -> bool {
        let changes_nothing = |call: &Call<'_>| {
            call.result.is_some_and(|(_, is_error)| is_error || only_reads(call.name))
        };
        self.0.iter().all(changes_nothing)
    }

    /// Returns `true` if each call of one response equals a call of the other response. The order does not matter, and
    /// equal calls of a response count once.
    fn is_like(&self, other: &Self, is_same: impl Fn(&Call<'_>, &Call<'_>) -> bool) -> bool {
        let is_in = |call: &Call<'_>, step: &Self| step.0.iter().any(|other| is_same(call, other));
        self.0.iter().all(|call| is_in(call, other)) && other.0.iter().all(|call| is_in(call, self))
    }
}

/// The responses of a run that call tools. The conversation is only read as far back as needed.
pub(super) struct Steps<'a> {
    /// The responses that were read, newest first.
    pub(super) read: Vec<Step<'a>>,
    /// The messages that were not read yet.
    rest: &'a [Message],
    /// Maximum number of responses in `rest` that belong to the run.
    turns: usize,
    tools: RunTools<'a>,
    exempt: &'a BTreeSet<String>,
    /// Set if a newer response than the first in `read` was left out, because it makes no calls that count.
    is_behind: bool,
}

impl<'a> Steps<'a> {
    /// Creates the responses of a run from its conversation. `turns` is the number of the run's responses.
    pub(super) fn new(
        messages: &'a [Message],
        turns: usize,
        tools: RunTools<'a>,
        exempt: &'a BTreeSet<String>,
    ) -> Self {
        Self { read: Vec::new(), rest: messages, turns, tools, exempt, is_behind: false }
    }

    /// Adds the newest response, whose calls have not run yet. Returns `None` if it makes no calls, or only calls of
    /// exempt tools.
    pub(super) fn with_response(mut self, response: &'a Message) -> Option<Self> {
        let step = Step::new(response, &[], self.tools, self.exempt);
        if step.0.is_empty() {
            return None;
        }
        self.read.insert(0, step);
        Some(self)
    }

    /// Returns the response at `index`, counted from the newest. Returns `None` if the run has fewer responses with
    /// calls.
    pub(super) fn get(&mut self, index: usize) -> Option<&Step<'a>> {
        while self.read.len() <= index {
            let step = self.read_next()?;
            self.read.push(step);
        }
        self.read.get(index)
    }

    /// Returns `true` if the newest response of the run makes calls that are not exempt. Reads only this response.
    pub(super) fn is_current(&mut self) -> bool {
        if self.read.is_empty() && !self.is_behind {
            match self.read_response() {
                Some(step) if !step.0.is_empty() => self.read.push(step),
                _ => self.is_behind = true,
            }
        }
        !self.is_behind
    }

    /// Returns the number of consecutive responses, from the newest, that are the same as the response `distance`
    /// before them.
    pub(super) fn repeated(
        &mut self,
        distance: usize,
        is_same: impl Fn(&Step<'a>, &Step<'a>) -> bool,
    ) -> usize {
        let mut newer = 0_usize;
        while self.get(newer.saturating_add(distance)).is_some()
            && let Some(one) = self.read.get(newer)
            && let Some(other) = self.read.get(newer.saturating_add(distance))
            && is_same(one, other)
        {
            newer = newer.saturating_add(1);
        }
        newer
    }

    /// Returns the number of messages that were not read.
    #[cfg(test)]
    pub(super) fn unread(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next older response with calls. Returns `None` at the beginning of the run.
    fn read_next(&mut self) -> Option<Step<'a>> {
        loop {
            let step = self.read_response()?;
            if !step.0.is_empty() {
                return Some(step);
            }
            self.is_behind |= self.read.is_empty();
        }
    }

    /// Reads the next older response. Returns `None` at the beginning of the run.
    fn read_response(&mut self) -> Option<Step<'a>> {
        if self.turns == 0 {
            return None;
        }
        let is_end = |message: &Message| message.role == Role::Assistant || is_input(message);
        let index = self.rest.iter().rposition(is_end)?;
        let (before, found) = self.rest.split_at_checked(index)?;
        let (response, after) = found.split_first()?;
        if is_input(response) {
            self.turns = 0;
            return None;
        }
        (self.rest, self.turns) = (before, self.turns.saturating_sub(1));
        Some(Step::new(response, after, self.tools, self.exempt))
    }
}

/// Returns `true` for a message of the user. The loop starts to count there, because the user may ask for the same call
/// again.
fn is_input(message: &Message) -> bool {
    let has_results = || message.content.iter().any(|block| block.as_tool_result_id().is_some());
    message.role == Role::User && !has_results()
}
