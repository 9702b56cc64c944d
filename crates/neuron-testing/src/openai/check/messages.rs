//! The rules for a chat's messages: what each holds, and that every tool call has its result.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::object::{
    Object, check_name, check_short, empty_array, invalid, invalid_type, invalid_value, missing,
};
use super::parts::{check_part, is_empty_list, kind_of_part};

const ROLES: &[&str] = &["system", "assistant", "user", "function", "tool", "developer"];

/// What an answer may have when it comes back. Annotations are not in the SDK's types, but its
/// documentation sends answers back as they came; reasoning is what this server itself may send.
const ANSWER: &[&str] = &[
    "content",
    "name",
    "refusal",
    "tool_calls",
    "audio",
    "function_call",
    "annotations",
    "reasoning_content",
    "reasoning",
];

const PARTS: &[&str] = &["text", "image_url", "input_audio", "refusal", "audio", "file"];

pub(super) fn check_messages(body: &Object<'_>, model: &str) -> Result<(), ApiError> {
    if body.required("messages")?.as_array().is_some_and(Vec::is_empty) {
        return Err(empty_array("messages"));
    }
    let messages = body.objects("messages")?;
    for message in &messages {
        check_message(message, model)?;
    }
    check_calls(&messages)
}

fn check_message(message: &Object<'_>, model: &str) -> Result<(), ApiError> {
    let role = message.text("role")?;
    let allowed: &[&str] = match role {
        "system" | "user" => &["content", "name"],
        "developer" if ["o1-mini", "o1-preview"].iter().any(|old| model.starts_with(old)) => {
            let path = message.path_of("role");
            return Err(ApiError::invalid_request(format!(
                "Unsupported value: '{path}' does not support 'developer' with this model."
            ))
            .param(path)
            .code("unsupported_value"));
        }
        "developer" => &["content", "name"],
        "assistant" => ANSWER,
        "tool" => &["content", "tool_call_id"],
        "function" => &["content", "name"],
        other => return Err(invalid_value(&message.path_of("role"), other, ROLES)),
    };
    message.only(&[&["role"], allowed])?;
    check_content(message, role)?;
    match role {
        "tool" => message.text("tool_call_id").map(drop),
        "assistant" => check_tool_calls(message),
        _ => Ok(()),
    }
}

fn check_content(message: &Object<'_>, role: &str) -> Result<(), ApiError> {
    let path = message.path_of("content");
    let may_be_missing = role == "assistant"
        && ["tool_calls", "function_call", "refusal", "audio"]
            .iter()
            .any(|key| message.get(key).is_some());
    match message.get("content") {
        None if may_be_missing => return Ok(()),
        None if message.has("content") => {
            let text = "Invalid value for 'content': expected a string, got null.";
            return Err(ApiError::invalid_request(text).param(path));
        }
        None => return Err(missing(&path)),
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(_)) => {}
        Some(value) => {
            return Err(invalid_type(&path, "one of a string or array of objects", value));
        }
    }
    if message.get("content").is_some_and(is_empty_list) {
        return Err(empty_array(&path));
    }
    for part in message.objects("content")? {
        let kind = kind_of_part(&part)?;
        let allowed: &[&str] = match role {
            "user" => &["text", "image_url", "input_audio", "file"],
            "assistant" => &["text", "refusal"],
            _ => &["text"],
        };
        if kind == "image_url" && role != "user" {
            let path = message.path();
            let text = format!(
                "Invalid '{path}'. Image URLs are only allowed for messages with role 'user', but \
                 this message with role '{role}' contains an image URL."
            );
            return Err(ApiError::invalid_request(text).param(path).code("invalid_value"));
        }
        if !allowed.contains(&kind) {
            let known = if role == "user" { PARTS } else { allowed };
            return Err(invalid_value(&part.path_of("type"), kind, known));
        }
        check_part(&part, kind)?;
    }
    Ok(())
}

fn check_tool_calls(message: &Object<'_>) -> Result<(), ApiError> {
    if message.get("tool_calls").is_some_and(is_empty_list) {
        return Err(empty_array(&message.path_of("tool_calls")));
    }
    let mut ids = HashSet::new();
    for call in message.objects("tool_calls")? {
        let id = call.text("id")?;
        check_short(&call.path_of("id"), id, 40)?;
        if !ids.insert(id) {
            return Err(invalid(&call.path_of("id"), "ids must be unique.", "invalid_value"));
        }
        let kind = call.text("type")?;
        call.one_of("type", &["function", "custom"])?;
        call.only(&[&["id", "type", kind]])?;
        let Some(called) = call.object(kind)? else {
            return Err(missing(&call.path_of(kind)));
        };
        check_name(&called.path_of("name"), called.text("name")?, 64)?;
        let written = if kind == "function" { "arguments" } else { "input" };
        called.only(&[&["name", written]])?;
        called.text(written)?;
    }
    Ok(())
}

/// Checks that the messages after each with calls are their results, and that no others are.
fn check_calls(messages: &[Object<'_>]) -> Result<(), ApiError> {
    let mut open: Option<Open<'_>> = None;
    for (index, message) in messages.iter().enumerate() {
        if message.text("role")? == "tool" {
            match &mut open {
                Some(open) => open.answer(index, message)?,
                None => return Err(no_preceding_calls(index)),
            }
            continue;
        }
        if let Some(open) = open.take() {
            open.close(index)?;
        }
        let calls = message.objects("tool_calls")?;
        if !calls.is_empty() {
            let ids = calls.iter().map(|call| call.text("id")).collect::<Result<_, _>>()?;
            open = Some(Open::new(ids));
        }
    }
    match open {
        Some(open) => open.close(messages.len().saturating_sub(1)),
        None => Ok(()),
    }
}

/// The calls of a message whose results are being read.
struct Open<'a> {
    ids: Vec<&'a str>,
    /// Those without a result so far.
    left: Vec<&'a str>,
}

impl<'a> Open<'a> {
    fn new(ids: Vec<&'a str>) -> Self {
        Self { left: ids.clone(), ids }
    }

    fn answer(&mut self, index: usize, message: &Object<'_>) -> Result<(), ApiError> {
        let id = message.text("tool_call_id")?;
        if !self.ids.contains(&id) {
            return Err(ApiError::invalid_request(format!(
                "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of \
                 previous message."
            ))
            .param(format!("messages.[{index}].tool_call_id")));
        }
        self.left.retain(|known| *known != id);
        Ok(())
    }

    fn close(self, index: usize) -> Result<(), ApiError> {
        if self.left.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid_request(format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding \
             to each 'tool_call_id'. The following tool_call_ids did not have response messages: \
             {}",
            self.left.join(", ")
        ))
        .param(format!("messages.[{index}].role")))
    }
}

fn no_preceding_calls(index: usize) -> ApiError {
    // The vendor spells it so.
    let text = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                message with 'tool_calls'.";
    ApiError::invalid_request(text).param(format!("messages.[{index}].role"))
}
