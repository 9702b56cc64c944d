//! OpenAI's rules for the content of each role in a chat, and for the result of every tool call.

use std::collections::HashSet;

use super::ApiError;
use super::parts::check_part;
use super::wording::{Object, invalid, invalid_value, refused};
use crate::shape::Problem;

/// Checks all messages of a request to Chat Completions.
pub(super) fn check_messages(body: &Object<'_>, model: &str) -> Result<(), ApiError> {
    body.required("messages")?;
    body.check("messages", "nonempty list of object")?;
    let messages = body.objects("messages");
    messages.iter().try_for_each(|message| check_message(message, model))?;
    check_calls(&messages)
}

/// Checks the role, the fields and the content of one message, and that its tool calls have different ids.
fn check_message(message: &Object<'_>, model: &str) -> Result<(), ApiError> {
    let role = message.text("role")?;
    let is_old = ["o1-mini", "o1-preview"].iter().any(|old| model.starts_with(old));
    if role == "developer" && is_old {
        let path = message.at("role");
        let what = "does not support 'developer' with this model.";
        let text = format!("Unsupported value: '{path}' {what}");
        return Err(refused(&path, text).code("unsupported_value"));
    }
    // `shapes.json` allows the field `annotations`, although OpenAI's SDK types for requests do not have it. Clients
    // send responses back unchanged, as in the SDK's documentation. For the same reason, the fields `reasoning` and
    // `reasoning_content`, which this server sends, are allowed.
    message.tagged("chat_message", "role")?;
    check_content(message, role)?;
    let mut ids = HashSet::new();
    for call in message.objects("tool_calls") {
        if !ids.insert(call.str("id")) {
            return Err(invalid(&call.at("id"), "ids must be unique.", "invalid_value"));
        }
    }
    Ok(())
}

/// Checks the content of a message. Only an assistant message with another field such as `tool_calls` may have no
/// content.
fn check_content(message: &Object<'_>, role: &str) -> Result<(), ApiError> {
    let instead = ["tool_calls", "function_call", "refusal", "audio"];
    let may_be_missing = role == "assistant" && instead.iter().any(|key| message.has(key));
    if !message.has("content") && !may_be_missing {
        if !message.fields.contains_key("content") {
            return Err(message.error("content", Problem::Missing));
        }
        let text = "Invalid value for 'content': expected a string, got null.";
        return Err(refused(&message.at("content"), text));
    }
    message.check("content", "text or nonempty list of object")?;
    let allowed: &[&str] = match role {
        "user" => &["text", "image_url", "input_audio", "file"],
        "assistant" => &["text", "refusal"],
        _ => &["text"],
    };
    for part in message.objects("content") {
        let kind = part.text("type")?;
        if kind == "image_url" && role != "user" {
            let path = &message.path;
            let text = format!(
                "Invalid '{path}'. Image URLs are only allowed for messages with role 'user', but \
                 this message with role '{role}' contains an image URL."
            );
            return Err(refused(path, text).code("invalid_value"));
        }
        if !allowed.contains(&kind) {
            let all: &[&str] = &["text", "image_url", "input_audio", "refusal", "audio", "file"];
            let known = if role == "user" { all } else { allowed };
            return Err(invalid_value(&part.at("type"), kind, known));
        }
        check_part(&part)?;
    }
    Ok(())
}

/// Checks that every message with tool calls is followed by one result for each call, and that no other message has
/// results.
fn check_calls(messages: &[Object<'_>]) -> Result<(), ApiError> {
    let error = |index: usize, key: &str, text: String| {
        Err(refused(&format!("messages.[{index}].{key}"), text))
    };
    let mut calls: Vec<&str> = Vec::new();
    // The calls that have no result yet.
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let id = message.str("tool_call_id").unwrap_or_default();
        if message.str("role") != Some("tool") {
            if !open.is_empty() {
                return error(index, "role", without_results(&open));
            }
            calls = message.objects("tool_calls").iter().filter_map(|it| it.str("id")).collect();
            open.clone_from(&calls);
        } else if calls.is_empty() {
            // The typo is the vendor's.
            let text = "Invalid parameter: messages with role 'tool' must be a response to a \
                        preceeding message with 'tool_calls'.";
            return error(index, "role", text.to_owned());
        } else if !calls.contains(&id) {
            let text = format!(
                "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous \
                 message."
            );
            return error(index, "tool_call_id", text);
        } else {
            open.retain(|known| *known != id);
        }
    }
    match open.is_empty() {
        true => Ok(()),
        false => error(messages.len().saturating_sub(1), "role", without_results(&open)),
    }
}

/// Returns the error text for tool calls without a result.
fn without_results(calls: &[&str]) -> String {
    format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        calls.join(", ")
    )
}
