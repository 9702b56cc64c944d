//! Anthropic's rules for the order of roles, the content of messages, and the results of tool calls.

use std::collections::HashSet;

use super::ApiError;
use super::blocks::{check_block, check_not_blank};
use super::wording::{Object, invalid};

/// Checks each message of a request, then the order of the roles, and then that every tool call has a result.
pub(super) fn check_messages(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    let messages = body.objects("messages");
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = message.text("role")?;
        check_message(message, role, index + 1 == messages.len(), betas)?;
        if turns.last().is_none_or(|turn| turn.role != role) {
            turns.push(Turn { role, last: index, blocks: Vec::new() });
        }
        if let Some(turn) = turns.last_mut() {
            turn.last = index;
            turn.blocks.extend(message.objects("content"));
        }
    }
    let first = turns.iter().find(|turn| turn.role != "system");
    if first.is_some_and(|turn| turn.role == "assistant") {
        return Err(invalid("messages: first message must use the \"user\" role"));
    }
    check_calls(&turns)?;
    check_server_calls(&turns)?;
    let thinking = body.object("thinking").and_then(|thinking| thinking.str("type"));
    if thinking == Some("enabled") { check_thinking(&turns) } else { Ok(()) }
}

/// Consecutive messages of one role. Anthropic treats such messages as one message.
struct Turn<'a> {
    role: &'a str,
    /// The index, in the request, of the last message of the turn.
    last: usize,
    blocks: Vec<Object<'a>>,
}

impl<'a> Turn<'a> {
    /// Returns the blocks whose type is `kind`, each with the call id in its field `key`.
    fn ids(&self, kind: &str, key: &str) -> impl Iterator<Item = (&Object<'a>, &'a str)> {
        let of_kind = self.blocks.iter().filter(move |block| block.str("type") == Some(kind));
        of_kind.filter_map(move |block| Some((block, block.str(key)?)))
    }
}

/// Checks the fields and the content of one message. Only the last message may be empty, and only if its role is
/// `assistant`.
fn check_message(
    message: &Object<'_>,
    role: &str,
    is_last: bool,
    betas: &[&str],
) -> Result<(), ApiError> {
    message.fits("message")?;
    let may_be_empty = is_last && role == "assistant";
    let (text, blocks) = (message.str("content"), message.objects("content"));
    if let Some(text) = text.filter(|text| !text.is_empty() || !may_be_empty) {
        check_not_blank(&message.at("content"), text)?;
    }
    if text.is_none() && blocks.is_empty() && !may_be_empty {
        return Err(invalid(format!(
            "{}: all messages must have non-empty content except for the optional final assistant \
             message",
            message.path
        )));
    }
    blocks.iter().try_for_each(|block| check_block(block, role, betas))?;
    // Source: https://github.com/tailcallhq/forgecode/issues/2107.
    if blocks.last().is_some_and(is_thinking) {
        return Err(invalid(format!(
            "{}: The final block in an assistant message cannot be `thinking`.",
            message.path
        )));
    }
    let last_text = text.or_else(|| blocks.last()?.str("text"));
    if may_be_empty && last_text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
        return Err(invalid(
            "messages: final assistant content cannot end with trailing whitespace",
        ));
    }
    Ok(())
}

/// Checks that every tool call has its result in the next turn, and that call ids are unique. A turn is all consecutive
/// messages of one role.
fn check_calls(turns: &[Turn<'_>]) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    // The index of the message whose calls have no result yet, for the error text.
    let mut caller = 0;
    for turn in turns {
        check_results(turn, &open, caller)?;
        open.clear();
        caller = turn.last;
        for (block, id) in turn.ids("tool_use", "id") {
            if !seen.insert(id) {
                return Err(invalid(format!("{}: `tool_use` ids must be unique", block.path)));
            }
            open.push(id);
        }
    }
    check_open(caller, &open)
}

/// Returns `true` if a block is the model's reasoning.
fn is_thinking(block: &Object<'_>) -> bool {
    matches!(block.str("type"), Some("thinking" | "redacted_thinking"))
}

/// Checks that the current turn begins with thinking, which the API requires if thinking has a budget. The current turn
/// is everything after the last message of the user that has more than results of tools.
///
/// Source: <https://github.com/n8n-io/n8n/issues/22550>.
fn check_thinking(turns: &[Turn<'_>]) -> Result<(), ApiError> {
    let is_prompt = |turn: &Turn<'_>| {
        let is_said = |block: &Object<'_>| block.str("type") != Some("tool_result");
        turn.role != "assistant" && (turn.blocks.is_empty() || turn.blocks.iter().any(is_said))
    };
    let start = turns.iter().rposition(is_prompt).map_or(0, |last| last + 1);
    let current = turns.get(start..).unwrap_or_default();
    let is_open = current.last().is_some_and(|turn| turn.role == "user");
    let first = current.iter().find(|turn| turn.role == "assistant");
    match first.and_then(|turn| turn.blocks.first()).filter(|_| is_open) {
        Some(block) if !is_thinking(block) => Err(invalid(format!(
            "{}: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` is enabled, a final \
             `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and \
             `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this \
             requirement, disable `thinking`.",
            block.at("type"),
            block.str("type").unwrap_or_default(),
        ))),
        _ => Ok(()),
    }
}

/// Checks that every call of a server's tool has its result in the same turn. The last turn may end between a call and
/// its result, because the request continues it.
///
/// Source: <https://github.com/gsd-build/gsd-2/issues/2869>.
fn check_server_calls(turns: &[Turn<'_>]) -> Result<(), ApiError> {
    let over = turns.split_last().map_or(&[][..], |(_, over)| over);
    for turn in over.iter().filter(|turn| turn.role == "assistant") {
        let answered = |id: &str| turn.blocks.iter().any(|it| it.str("tool_use_id") == Some(id));
        let mut calls = turn.ids("server_tool_use", "id");
        if let Some((call, id)) = calls.find(|(_, id)| !answered(id)) {
            let (name, index) = (call.str("name").unwrap_or_default(), turn.last);
            return Err(invalid(format!(
                "messages.{index}: `{name}` tool use with id `{id}` was found without a corresponding \
                 `{name}_tool_result` block"
            )));
        }
    }
    Ok(())
}

/// Checks that a turn begins with a result for every call id in `open`, and has no results of other calls.
///
/// `caller` is the index of the message with the calls, for the error text.
fn check_results(turn: &Turn<'_>, open: &[&str], caller: usize) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    for (block, id) in turn.ids("tool_result", "tool_use_id") {
        let what = match open.contains(&id) {
            false => format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` \
                 block must have a corresponding `tool_use` block in the previous message."
            ),
            true if !seen.insert(id) => format!(
                "each tool_use must have a single result. Found multiple `tool_result` blocks with \
                 id: {id}"
            ),
            true => continue,
        };
        return Err(invalid(format!("{}: {what}", block.path)));
    }
    let is_result = |block: &&Object<'_>| block.str("type") == Some("tool_result");
    let at_start = turn.blocks.iter().take_while(is_result);
    let at_start: Vec<_> = at_start.filter_map(|block| block.str("tool_use_id")).collect();
    let missing: Vec<&str> = open.iter().copied().filter(|id| !at_start.contains(id)).collect();
    check_open(caller, &missing)
}

/// Returns an error if `ids`, the ids of the tool calls without a result, is not empty. `message` is the index of the
/// message with these calls.
fn check_open(message: usize, ids: &[&str]) -> Result<(), ApiError> {
    if ids.is_empty() {
        return Ok(());
    }
    Err(invalid(format!(
        "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately \
         after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the \
         next message.",
        ids.join(", ")
    )))
}
