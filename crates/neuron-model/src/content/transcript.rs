//! Validation and repair of conversations.
//!
//! Providers reject a history in which a tool call has no result or a result has no call. All code in neuron keeps a
//! valid history valid. Use [`repair`] for histories from other sources.

use std::collections::HashSet;
use std::fmt;

use crate::{ContentBlock, ContentItem, Message, ProviderError, Role};

/// Validates a history.
///
/// In a valid history
///
/// - the first message that is not a system message is a user message.
/// - only assistant messages contain tool calls, and only user messages contain tool results.
/// - the tool calls of a message have non-empty, unique ids.
/// - a message with tool calls is followed by a user message that starts with exactly one result for each call.
/// - there are no other tool results.
///
/// # Errors
///
/// The first [`Violation`] of these rules.
///
/// # Example
///
/// ```
/// use neuron_model::{ContentBlock, Message, Role, transcript};
///
/// let call = Message {
///     role: Role::Assistant,
///     content: vec![ContentBlock::ToolUse { id: "c1".into(), name: "now".into(), input: serde_json::json!({}) }],
/// };
/// let history = vec![Message::user("What time is it?"), call];
/// let violation = transcript::validate(&history).unwrap_err();
/// assert_eq!(violation.to_string(), "message 1: the tool call `c1` has no result in the next message");
/// assert!(transcript::validate(&transcript::repair(history)).is_ok());
/// ```
pub fn validate(messages: &[Message]) -> Result<(), Violation> {
    // Set after the first message that is not a system message.
    let mut started = false;
    // Ids of the preceding message's calls, whose results must be in the current message.
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if !started && message.role == Role::Assistant {
            return Err(Violation { index, kind: ViolationKind::StartsWithAssistant });
        }
        started |= message.role != Role::System;
        check_results(message, &open).map_err(|kind| match kind {
            // Report the preceding message, which has the call. It exists, because `open` is empty at the first
            // message.
            ViolationKind::MissingResult { .. } => Violation { index: index - 1, kind },
            kind => Violation { index, kind },
        })?;
        open.clear();
        let mut seen = HashSet::new();
        for call in message.tool_uses() {
            let kind = if message.role != Role::Assistant {
                ViolationKind::CallOutsideAssistant { id: call.id.to_owned() }
            } else if call.id.is_empty() {
                ViolationKind::EmptyId
            } else if !seen.insert(call.id) {
                ViolationKind::DuplicateId { id: call.id.to_owned() }
            } else {
                open.push(call.id);
                continue;
            };
            return Err(Violation { index, kind });
        }
    }
    match open.first() {
        Some(id) => Err(Violation {
            index: messages.len() - 1,
            kind: ViolationKind::MissingResult { id: (*id).to_owned() },
        }),
        None => Ok(()),
    }
}

/// Returns the index of the user message directly after the last assistant message. This message contains the results
/// of the last tool calls. Returns `None` if there is no such message.
#[must_use]
pub fn place_of_results(messages: &[Message]) -> Option<usize> {
    let answer = messages.iter().rposition(|message| message.role == Role::Assistant)?;
    let place = answer.checked_add(1)?;
    messages.get(place).filter(|message| message.role == Role::User).map(|_| place)
}

/// Returns the concatenated text of the assistant messages at the end of a history. Returns an empty text if the last
/// message is not an assistant message.
#[must_use]
pub fn trailing_answer(messages: &[Message]) -> String {
    let is_other = |message: &Message| message.role != Role::Assistant;
    let start = messages.iter().rposition(is_other).map_or(0, |index| index + 1);
    messages.iter().skip(start).map(Message::text).collect()
}

/// Returns `true` if the model can be called with this history.
///
/// The history must end with a user message. If `is_paused` is set, it may also end with an assistant message, which is
/// an incomplete response that the model continues. System messages at the end are ignored.
#[must_use]
pub fn is_open(messages: &[Message], is_paused: bool) -> bool {
    let last = messages.iter().rfind(|message| message.role != Role::System);
    last.is_some_and(|message| message.role == Role::User || is_paused)
}

/// Checks that a model's response can be added to a history.
///
/// The tool calls of the response must have non-empty, unique ids. The response must not contain tool results.
///
/// # Errors
///
/// [`ProviderError::Other`] if the response violates one of these rules. The text names the violation.
pub fn check_answer(answer: &Message) -> Result<(), ProviderError> {
    let malformed = |fault: String| {
        let text = format!("the model's answer is malformed: {fault}; its tools do not run");
        ProviderError::Other(text.into())
    };
    if answer.content.iter().any(|block| block.as_tool_result_id().is_some()) {
        return Err(malformed("it holds a tool result".into()));
    }
    if let Some(call) = answer.tool_uses().find(|call| call.id.is_empty()) {
        return Err(malformed(format!("a call of the tool `{}` has no id", call.name)));
    }
    // With fewer than two calls there cannot be a duplicate id.
    if answer.tool_uses().nth(1).is_none() {
        return Ok(());
    }
    let mut ids: Vec<&str> = answer.tool_uses().map(|call| call.id).collect();
    ids.sort_unstable();
    match ids.windows(2).find(|pair| pair.first() == pair.last()) {
        Some([id, ..]) => Err(malformed(format!("two tool calls have the id `{id}`"))),
        _ => Ok(()),
    }
}

/// Checks that a message starts with exactly one result for each tool call of the preceding message. `open` contains
/// the ids of these calls.
fn check_results(message: &Message, open: &[&str]) -> Result<(), ViolationKind> {
    let calls: HashSet<&str> = open.iter().copied().collect();
    let mut answered: HashSet<&str> = HashSet::new();
    let mut other = false;
    for block in &message.content {
        let Some(id) = block.as_tool_result_id() else {
            other = true;
            continue;
        };
        let owned = || id.to_owned();
        if message.role != Role::User {
            return Err(ViolationKind::ResultOutsideUser { id: owned() });
        }
        if !calls.contains(id) {
            return Err(ViolationKind::UnknownResult { id: owned() });
        }
        if !answered.insert(id) {
            return Err(ViolationKind::DuplicateResult { id: owned() });
        }
        if other {
            return Err(ViolationKind::ResultAfterContent { id: owned() });
        }
    }
    match open.iter().find(|id| !answered.contains(*id)) {
        Some(id) => Err(ViolationKind::MissingResult { id: (*id).to_owned() }),
        None => Ok(()),
    }
}

/// Returns a valid form of a history. As little content as possible is removed.
///
/// - A tool result that is in a later message is moved to the message directly after its call, if no other assistant
///   message is between them.
/// - A tool call without a result gets an error result, which states that the call was interrupted.
/// - Results without a call, duplicate results, and calls with an empty or a duplicate id are removed. Messages that
///   become empty are removed too.
/// - If the history starts with an assistant message, a user message is inserted before it. Its text states that the
///   beginning of the conversation is missing.
///
/// The result is deterministic. A valid history is returned unchanged.
#[must_use]
pub fn repair(mut messages: Vec<Message>) -> Vec<Message> {
    if validate(&messages).is_ok() {
        return messages;
    }
    let mut repaired: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut started = false;
    // The results of the preceding message's calls. The next message must start with them.
    let mut results: Vec<ContentBlock> = Vec::new();
    // Messages that were empty before are kept. Compute them first, because moving results also leaves empty messages.
    let empty: Vec<bool> = messages.iter().map(|message| !message.has_content()).collect();
    let mut empty = empty.into_iter();
    let mut following = messages.as_mut_slice();
    // Split the slice, because results are taken out of the messages after the current message.
    while let Some((message, rest)) = std::mem::take(&mut following).split_first_mut() {
        following = rest;
        let (role, mut content) = (message.role, std::mem::take(&mut message.content));
        let was_empty = empty.next().unwrap_or_default();
        content.retain(|block| block.as_tool_result_id().is_none());
        remove_misplaced_calls(role, &mut content);
        if !results.is_empty() {
            let results = std::mem::take(&mut results);
            match role {
                Role::User => drop(content.splice(..0, results)),
                // Results must be in a user message, so insert a user message.
                _ => repaired.push(Message { role: Role::User, content: results }),
            }
        }
        // Remove a message that became empty. Marker blocks are not content.
        if !was_empty && content.iter().all(ContentBlock::is_mark) {
            continue;
        }
        if !started && role == Role::Assistant {
            repaired.push(Message::user(MISSING_BEGINNING));
        }
        started |= role != Role::System;
        let message = Message { role, content };
        results = results_of(&message, following);
        repaired.push(message);
    }
    if !results.is_empty() {
        repaired.push(Message { role: Role::User, content: results });
    }
    repaired
}

/// The text of the error result that [`repair`] adds for a call without a result.
const MISSING_RESULT: &str =
    "[no result: the tool call was interrupted, and whether it took effect is unknown]";

/// The text of the user message that [`repair`] inserts before a first assistant message.
const MISSING_BEGINNING: &str = "[the beginning of this conversation is missing]";

/// Returns one result for each tool call in `message`. Takes the results out of the messages in `following` before the
/// next assistant message. A call without a result gets an error result.
fn results_of(message: &Message, following: &mut [Message]) -> Vec<ContentBlock> {
    let ids: Vec<&str> = message.tool_uses().map(|call| call.id).collect();
    let mut missing: HashSet<&str> = ids.iter().copied().collect();
    let mut results = Vec::with_capacity(ids.len());
    for next in following.iter_mut().take_while(|next| next.role != Role::Assistant) {
        if missing.is_empty() {
            break;
        }
        next.content.retain_mut(|block| {
            let is_ours = block.as_tool_result_id().is_some_and(|id| missing.remove(id));
            if is_ours {
                // The closure returns `false` for this block, so `retain_mut` removes the placeholder.
                results.push(std::mem::replace(block, ContentBlock::Text(String::new())));
            }
            !is_ours
        });
    }
    for id in ids.into_iter().filter(|id| missing.contains(id)) {
        results.push(ContentBlock::ToolResult {
            tool_use_id: id.to_owned(),
            content: vec![ContentItem::Text(MISSING_RESULT.to_owned())],
            is_error: true,
        });
    }
    results
}

/// Removes calls outside of an assistant message, and calls with an empty or a duplicate id.
fn remove_misplaced_calls(role: Role, content: &mut Vec<ContentBlock>) {
    let mut seen: HashSet<String> = HashSet::new();
    content.retain(|block| match block.as_tool_use() {
        Some(call) => {
            role == Role::Assistant && !call.id.is_empty() && seen.insert(call.id.to_owned())
        }
        None => true,
    });
}

/// The first problem of an invalid history. Returned by [`validate`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Index of the invalid message in the history, from zero.
    pub index: usize,
    /// The violated rule.
    pub kind: ViolationKind,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}: {}", self.index, self.kind)
    }
}

impl std::error::Error for Violation {}

/// The rule that a history violates.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViolationKind {
    /// The first message that is not a system message is an assistant message.
    #[error("the conversation begins with the assistant")]
    StartsWithAssistant,
    /// A message that is not an assistant message contains a tool call.
    #[error("the tool call `{id}` stands outside an assistant message")]
    CallOutsideAssistant {
        /// Id of the tool call.
        id: String,
    },
    /// A call has an empty id.
    #[error("a tool call has an empty id")]
    EmptyId,
    /// Two calls of one message have the same id.
    #[error("two tool calls have the id `{id}`")]
    DuplicateId {
        /// The id of both calls.
        id: String,
    },
    /// A tool call has no result in the next message.
    #[error("the tool call `{id}` has no result in the next message")]
    MissingResult {
        /// Id of the tool call.
        id: String,
    },
    /// A message that is not a user message contains a tool result.
    #[error("the tool result `{id}` stands outside a user message")]
    ResultOutsideUser {
        /// Call id of the tool result.
        id: String,
    },
    /// A tool result has no matching call in the preceding message.
    #[error("the tool result `{id}` has no call in the message before")]
    UnknownResult {
        /// Call id of the tool result.
        id: String,
    },
    /// A tool call has two results.
    #[error("the tool call `{id}` has two results")]
    DuplicateResult {
        /// Id of the tool call.
        id: String,
    },
    /// A tool result follows other content of its message. Results must come first.
    #[error("the tool result `{id}` stands after other content")]
    ResultAfterContent {
        /// Call id of the tool result.
        id: String,
    },
}

#[cfg(test)]
mod tests;
