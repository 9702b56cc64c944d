//! The structure of a history, with messages that belong together and protected messages.

use std::collections::BTreeSet;
use std::ops::Range;

use neuron_types::{Message, Role, transcript};

/// The prefix of this crate's summaries.
pub(crate) const SUMMARY_PREFIX: &str = "[Summary of earlier conversation]";

/// Returns `true` if the message is a summary of this crate.
pub(crate) fn is_summary(message: &Message) -> bool {
    let first = message.content.first().and_then(|block| block.as_text());
    message.role == Role::User && first.is_some_and(|text| text.starts_with(SUMMARY_PREFIX))
}

/// Returns `true` for a user message that is neither a tool result nor a summary.
pub(crate) fn is_plain_user(message: &Message) -> bool {
    may_begin(message) && !is_summary(message)
}

/// Returns `true` if a history may start with the message.
pub(crate) fn may_begin(message: &Message) -> bool {
    message.role == Role::User && !has_result(message)
}

pub(crate) fn has_result(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_tool_result_id().is_some())
}

/// Splits the history into exchanges, which are kept or dropped as a whole. An exchange is a single message, or calls
/// with their results. Its range may contain system messages, which do not belong to it.
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

/// Returns the indices of messages that no strategy may drop, besides system messages:
///
/// - Pinned messages, with the calls or results that belong to them. If the assistant continued its own pinned message,
///   the continuation is included. Without it, a paused turn would look like a final response.
/// - The user message that started the run.
/// - The newest user message, if it was added during the run, and the results before it, which show that the run had
///   started.
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

/// Returns the user message that started the run, which is the first after the last final response. Without results
/// after it, it could also be a message without a response. Then the newest message counts.
fn goal(messages: &[Message]) -> BTreeSet<usize> {
    let Some(newest) = messages.iter().rposition(is_plain_user) else {
        return BTreeSet::new();
    };
    let mut goal = BTreeSet::from([newest]);
    let start = last_final_response(messages).map_or(0, |answer| answer + 1);
    let run = messages.get(start..newest).unwrap_or_default();
    let first = run.iter().position(is_plain_user);
    let results = run.iter().rposition(has_result);
    if let (Some(first), Some(results)) = (first, results)
        && first < results
    {
        // The calls directly precede their results.
        goal.extend([start + first, start + results - 1, start + results]);
    }
    goal
}

/// Returns the last final response before the newest user message. A message that the assistant itself continued is not
/// final, because the provider paused the turn.
fn last_final_response(messages: &[Message]) -> Option<usize> {
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

/// Extends a selection to a valid history with the same protected messages:
///
/// - It starts with the user. If the first kept message is a pinned response, its question is kept too.
/// - If a message before the run is kept, the response before the run is kept too. Otherwise the kept results would
///   make both look like one run.
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
    let Some(answer) = last_final_response(messages) else {
        return;
    };
    let newest = messages.iter().rposition(is_plain_user).unwrap_or_default();
    let mut before_newest = messages.iter().zip(keep.iter()).take(newest);
    let shows_a_run = before_newest.any(|(message, keep)| *keep && has_result(message));
    if shows_a_run && first_kept(keep).is_some_and(|first| first < answer) {
        add(Some(answer), keep);
    }
}

/// Repairs an invalid history, so that an old fault does not block every compaction. Pending calls at the end and a
/// conversation that starts with the assistant are left unchanged.
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
    // `transcript::repair` would add a text about a missing beginning. A placeholder prevents it.
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
