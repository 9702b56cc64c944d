//! Functions that find out which messages of a history a compaction must keep, and which must be kept together.

use std::collections::BTreeSet;
use std::ops::Range;

use neuron_types::{Message, Role, transcript};

/// The prefix of the summaries that [`SummarizationStrategy`](crate::SummarizationStrategy) writes.
pub(crate) const SUMMARY_PREFIX: &str = "[Summary of earlier conversation]";

/// Returns `true` if the message is a summary, which is a user message that starts with [`SUMMARY_PREFIX`].
pub(crate) fn is_summary(message: &Message) -> bool {
    let first = message.content.first().and_then(|block| block.as_text());
    message.role == Role::User && first.is_some_and(|text| text.starts_with(SUMMARY_PREFIX))
}

/// Returns `true` for a user message that has no tool results and is not a summary.
pub(crate) fn is_plain_user(message: &Message) -> bool {
    may_begin(message) && !is_summary(message)
}

/// Returns `true` if a history may start with the message, which is a user message without tool results.
pub(crate) fn may_begin(message: &Message) -> bool {
    message.role == Role::User && !has_result(message)
}

/// Returns `true` if the message has tool results.
pub(crate) fn has_result(message: &Message) -> bool {
    message.content.iter().any(|block| block.as_tool_result_id().is_some())
}

/// Splits a history into exchanges, each of which is kept or dropped as a whole.
///
/// An exchange is a single message, or a message with tool calls and the message with their results. System messages
/// belong to no exchange, but the returned ranges of indices may include them.
pub(crate) fn exchanges(messages: &[Message]) -> Vec<Range<usize>> {
    let mut exchanges: Vec<Range<usize>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        // System messages belong to no exchange and are always kept.
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

/// Returns the indices of the messages that no strategy may drop. System messages are not included.
///
/// - Pinned messages, with the messages of the matching tool calls or results. If the provider paused a pinned
///   response, the next assistant message continues this response and is included too.
/// - The user message that started the run.
/// - The newest user message. If this message was added during the run, the last tool results before it are included
///   too, with their calls. They show that the run had already started.
pub(crate) fn protected(messages: &[Message], exchanges: &[Range<usize>]) -> BTreeSet<usize> {
    let mut protected = goal(messages);
    // Set while the last exchange is a protected assistant message, which the next assistant message continues.
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
        // A summary may be between a paused response and its continuation.
        if !messages.first().is_some_and(is_summary) {
            paused = stays && by_assistant && !messages.iter().any(has_result);
        }
    }
    protected
}

/// Returns the indices of the messages that show the goal of the run, which a compaction must keep.
///
/// The newest user message is always included. If it was added during the run, these messages are included too:
///
/// - The user message that started the run. This is the first user message after the last [final
///   response](last_final_response).
/// - The last tool results before the newest user message, and the message with their calls.
///
/// A user message was added during the run if tool results are between it and the message that started the run.
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
        // The message with the calls directly precedes the message with their results.
        goal.extend([start + first, start + results - 1, start + results]);
    }
    goal
}

/// Returns the index of the last final response before the newest user message. Returns `None` if there is no such
/// response.
///
/// An assistant message is final if it has no tool calls and the next message is a user message. If the next message is
/// an assistant message, the provider paused the response.
fn last_final_response(messages: &[Message]) -> Option<usize> {
    let newest = messages.iter().rposition(is_plain_user)?;
    // Role of the message after the current one, without system messages and summaries.
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

/// Sets further flags in `keep`, so that the kept messages form a valid history that shows which message started the
/// run. `keep` has one flag per message.
///
/// - The history must start with a user message. If the first kept message is a pinned response, the preceding user
///   message is kept too.
/// - If a message from before the run is kept, the [last final response](last_final_response) before the run is kept
///   too. Without this response, the kept message would look like a part of the run.
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

/// Repairs an invalid history, for example if a tool call has no result. Without the repair, every later compaction
/// would fail.
///
/// Tool calls at the end without results are kept, because they may be pending. An assistant message at the start of
/// the history is kept too.
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
    // `transcript::repair` would insert a user message about a missing beginning. A placeholder prevents the insertion.
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
