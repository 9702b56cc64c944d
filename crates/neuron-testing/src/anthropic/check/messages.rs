//! The rules for the conversation: who begins, what a message holds, and that every tool call has
//! its result.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::blocks::{Place, check_block, check_not_blank};
use super::object::{Object, expected, invalid};

pub(super) fn check_messages(body: &Object<'_>, betas: &[&str]) -> Result<(), ApiError> {
    body.required("messages")?;
    let messages = body.list("messages")?;
    if messages.is_empty() {
        return Err(invalid("messages: at least one message is required"));
    }
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let is_last = index + 1 == messages.len();
        let place = check_message(index, message, is_last, betas)?;
        let content = message.get("content").and_then(Value::as_array);
        let blocks = content.into_iter().flatten().enumerate();
        let blocks =
            blocks.map(|(position, block)| Block { message: index, position, json: block });
        match turns.last_mut() {
            Some(turn) if turn.place == place => {
                turn.last = index;
                turn.blocks.extend(blocks);
            }
            _ => turns.push(Turn { place, last: index, blocks: blocks.collect() }),
        }
    }
    let first = turns.iter().find(|turn| turn.place != Place::System);
    if first.is_some_and(|turn| turn.place == Place::Assistant) {
        return Err(invalid("messages: first message must use the \"user\" role"));
    }
    check_calls(&turns)
}

/// The messages of one role that follow each other: the vendor reads them as one.
struct Turn<'a> {
    place: Place,
    /// The index of the last of them.
    last: usize,
    blocks: Vec<Block<'a>>,
}

struct Block<'a> {
    message: usize,
    position: usize,
    json: &'a Value,
}

impl<'a> Block<'a> {
    /// The id of a tool call, or the call that a result answers.
    fn id(&self, kind: &str) -> Option<&'a str> {
        let key = match kind {
            "tool_use" => "id",
            _ => "tool_use_id",
        };
        self.json.get("type").filter(|name| *name == kind)?;
        self.json.get(key)?.as_str()
    }

    fn path(&self) -> String {
        format!("messages.{}.content.{}", self.message, self.position)
    }
}

fn check_message(
    index: usize,
    message: &Value,
    is_last: bool,
    betas: &[&str],
) -> Result<Place, ApiError> {
    let path = format!("messages.{index}");
    let message = Object::new(&path, message)?;
    let place = match message.text("role")? {
        "user" => Place::User,
        "assistant" => Place::Assistant,
        "system" => Place::System,
        _ => {
            let roles = ["user", "assistant", "system"];
            return Err(expected(&format!("{path}.role"), &roles));
        }
    };
    let content = message.required("content")?;
    message.only(&[&["role", "content"]])?;
    let path = format!("{path}.content");
    let may_be_empty = is_last && place == Place::Assistant;
    match content {
        Value::String(text) if text.is_empty() && may_be_empty => {}
        Value::Array(blocks) if blocks.is_empty() && may_be_empty => {}
        Value::Array(blocks) if blocks.is_empty() => {
            return Err(invalid(format!(
                "messages.{index}: all messages must have non-empty content except for the \
                 optional final assistant message"
            )));
        }
        Value::String(text) => check_not_blank(&path, text)?,
        Value::Array(blocks) => {
            for (position, block) in blocks.iter().enumerate() {
                check_block(&format!("{path}.{position}"), block, place, betas)?;
            }
        }
        _ => return Err(invalid(format!("{path}: Input should be a valid list"))),
    }
    if may_be_empty && last_text(content).is_some_and(|text| text.ends_with(char::is_whitespace)) {
        return Err(invalid(
            "messages: final assistant content cannot end with trailing whitespace",
        ));
    }
    Ok(place)
}

fn last_text(content: &Value) -> Option<&str> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(blocks) => blocks.last()?.get("text")?.as_str(),
        _ => None,
    }
}

fn check_calls(turns: &[Turn<'_>]) -> Result<(), ApiError> {
    let mut seen = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    // The message to blame for calls without results.
    let mut caller = 0;
    for turn in turns {
        check_results(turn, &open, caller)?;
        open.clear();
        caller = turn.last;
        for block in &turn.blocks {
            let Some(id) = block.id("tool_use") else {
                continue;
            };
            if !seen.insert(id) {
                return Err(invalid(format!("{}: `tool_use` ids must be unique", block.path())));
            }
            open.push(id);
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(without_results(caller, &open)),
    }
}

/// Checks that a turn begins with a result for every open call, and has no other results.
fn check_results(turn: &Turn<'_>, open: &[&str], caller: usize) -> Result<(), ApiError> {
    let at_start: Vec<&str> =
        turn.blocks.iter().map_while(|block| block.id("tool_result")).collect();
    let mut seen = HashSet::new();
    for block in &turn.blocks {
        let Some(id) = block.id("tool_result") else {
            continue;
        };
        if !open.contains(&id) {
            return Err(invalid(format!(
                "{}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
                 `tool_result` block must have a corresponding `tool_use` block in the previous \
                 message.",
                block.path()
            )));
        }
        if !seen.insert(id) {
            return Err(invalid(format!(
                "{}: each tool_use must have a single result. Found multiple `tool_result` blocks \
                 with id: {id}",
                block.path()
            )));
        }
    }
    let missing: Vec<&str> = open.iter().copied().filter(|id| !at_start.contains(id)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(without_results(caller, &missing)),
    }
}

fn without_results(message: usize, ids: &[&str]) -> ApiError {
    invalid(format!(
        "messages.{message}: `tool_use` ids were found without `tool_result` blocks immediately \
         after: {}. Each `tool_use` block must have a corresponding `tool_result` block in the \
         next message.",
        ids.join(", ")
    ))
}
