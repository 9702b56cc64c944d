//! A history as the strategies see it: what belongs together, and what none of them may lose.

use std::collections::BTreeSet;
use std::ops::Range;

use neuron_types::{Message, Role, transcript};

/// What a summary of this crate begins with.
pub(crate) const SUMMARY_PREFIX: &str = "[Summary of earlier conversation]";

/// Whether the message is a summary that this crate wrote.
pub(crate) fn is_summary(message: &Message) -> bool {
    let first = message.content.first().and_then(|block| block.as_text());
    message.role == Role::User && first.is_some_and(|text| text.starts_with(SUMMARY_PREFIX))
}

/// Whether the message is what a user said: no results, and no summary.
pub(crate) fn is_plain_user(message: &Message) -> bool {
    may_begin(message) && !is_summary(message)
}

/// Whether a history may begin with the message: with what the user said, or with a summary.
pub(crate) fn may_begin(message: &Message) -> bool {
    message.role == Role::User && !has_result(message)
}

pub(crate) fn has_result(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_tool_result_id().is_some())
}

/// Splits what is no system message into exchanges: messages that stay or go together, a single one
/// or calls with their results. Each is the range from its first message to its last; system
/// messages that stand between do not belong to it.
pub(crate) fn exchanges(messages: &[Message]) -> Vec<Range<usize>> {
    let mut exchanges: Vec<Range<usize>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if message.role == Role::System {
            continue;
        }
        match exchanges.last_mut() {
            Some(last) if has_result(message) => last.end = index + 1,
            _ => exchanges.push(index..index + 1),
        }
    }
    exchanges
}

/// What no strategy may lose, by index, besides system messages:
///
/// - what is pinned, with the calls or results that belong to it, and what the assistant itself went
///   on to: without that, a turn that the provider paused would look like an answer;
/// - the user message that started the run;
/// - the newest message of the user, if it came in the middle of the run, and the results before it:
///   they show that it did.
pub(crate) fn protected(messages: &[Message], exchanges: &[Range<usize>]) -> BTreeSet<usize> {
    let mut protected = goal(messages);
    let mut paused = false;
    for exchange in exchanges {
        let messages = messages.get(exchange.clone()).unwrap_or_default();
        let by_assistant = messages.first().is_some_and(|first| first.role == Role::Assistant);
        let is_pinned =
            messages.iter().any(|message| message.role != Role::System && message.is_pinned());
        let stays = is_pinned || (paused && by_assistant);
        if stays {
            protected.extend(exchange.clone());
        }
        if !messages.first().is_some_and(is_summary) {
            paused = stays && by_assistant && !messages.iter().any(has_result);
        }
    }
    protected
}

/// The user message that started the run: the first since the last answer. Without results in
/// between nothing tells a run's start from a message that nobody answered; then it is the newest.
fn goal(messages: &[Message]) -> BTreeSet<usize> {
    let Some(newest) = messages.iter().rposition(is_plain_user) else {
        return BTreeSet::new();
    };
    let mut goal = BTreeSet::from([newest]);
    let start = last_answer(messages).map_or(0, |answer| answer + 1);
    let run = messages.get(start..newest).unwrap_or_default();
    let first = run.iter().position(is_plain_user);
    let results = run.iter().rposition(has_result);
    if let (Some(first), Some(results)) = (first, results)
        && first < results
    {
        // The calls stand right before their results.
        goal.extend([start + first, start + results - 1, start + results]);
    }
    goal
}

/// The last answer before the newest message of the user. What the assistant itself went on from is
/// none: there the provider paused the turn.
fn last_answer(messages: &[Message]) -> Option<usize> {
    let newest = messages.iter().rposition(is_plain_user)?;
    let mut next = Role::User;
    for (index, message) in messages.get(..newest)?.iter().enumerate().rev() {
        let is_assistant = message.role == Role::Assistant;
        if is_assistant && next == Role::User && message.tool_uses().next().is_none() {
            return Some(index);
        }
        if message.role != Role::System && !is_summary(message) {
            next = message.role;
        }
    }
    None
}

/// Adds to a selection what makes it a valid history in which the same is protected:
///
/// - it begins with the user. A pinned answer may be the first that is kept; the question that it
///   answers then stays as well;
/// - if something before the run is kept, so is the answer between them, where the results that are
///   kept would make them look like one run.
pub(crate) fn complete(messages: &[Message], keep: &mut [bool]) {
    let first_kept = |keep: &[bool]| {
        let is_kept = |(message, keep): (&Message, &bool)| *keep && message.role != Role::System;
        messages.iter().zip(keep).position(is_kept)
    };
    let add = |index: Option<usize>, keep: &mut [bool]| {
        if let Some(keep) = index.and_then(|index| keep.get_mut(index)) {
            *keep = true;
        }
    };
    let is_assistant =
        |index: &usize| messages.get(*index).is_some_and(|m| m.role == Role::Assistant);
    if let Some(first) = first_kept(keep).filter(is_assistant) {
        let earlier = messages.get(..first).unwrap_or_default();
        add(earlier.iter().rposition(may_begin), keep);
    }
    let Some(answer) = last_answer(messages) else {
        return;
    };
    let newest = messages.iter().rposition(is_plain_user).unwrap_or_default();
    let mut before_newest = messages.iter().zip(keep.iter()).take(newest);
    let shows_a_run = before_newest.any(|(message, keep)| *keep && has_result(message));
    if shows_a_run && first_kept(keep).is_some_and(|first| first < answer) {
        add(Some(answer), keep);
    }
}

/// Repairs what no provider would accept, so that an old fault does not stand in the way of every
/// compaction. Calls at the end that still wait for their results are left as they are, and so is a
/// conversation that begins with the assistant.
pub(crate) fn repaired(mut messages: Vec<Message>) -> Vec<Message> {
    if transcript::validate(&messages).is_ok() {
        return messages;
    }
    let is_pending = messages
        .last()
        .is_some_and(|last| last.role == Role::Assistant && last.tool_uses().next().is_some());
    let pending = if is_pending { messages.pop() } else { None };
    let begins_with_assistant = messages
        .iter()
        .find(|message| message.role != Role::System)
        .is_some_and(|message| message.role == Role::Assistant);
    if begins_with_assistant {
        messages.insert(0, Message::user(String::new()));
    }
    messages = transcript::repair(messages);
    if begins_with_assistant {
        messages.remove(0);
    }
    messages.extend(pending);
    messages
}

#[cfg(test)]
mod tests;
