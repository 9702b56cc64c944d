//! The rules for input items: what each holds, and which need another beside them.

use std::collections::HashSet;

use serde_json::Value;

use super::ApiError;
use super::object::{Object, check_name, check_short, invalid, invalid_type, invalid_value};
use super::parts::{check_part, kind_of_part};

/// Kinds whose fields are checked.
const CHECKED: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "item_reference",
    "compaction",
];

/// Kinds whose fields are not.
const OTHERS: &[&str] = &[
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "web_search_call",
    "tool_search_call",
    "tool_search_output",
    "additional_tools",
    "configuration_update",
    "image_generation_call",
    "code_interpreter_call",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "custom_tool_call_output",
    "custom_tool_call",
    "compaction_trigger",
    "program",
    "program_output",
];

/// Checks the items; `continues` says that there are more before them.
pub(super) fn check_items(body: &Object<'_>, continues: bool) -> Result<(), ApiError> {
    let items = body.objects("input")?;
    let stored = body.boolean("store")? != Some(false);
    for item in &items {
        check_item(item, stored)?;
    }
    check_followers(&items)?;
    check_calls(&items, continues)
}

/// An item's kind: a message needs none.
fn kind_of<'a>(item: &Object<'a>) -> Result<&'a str, ApiError> {
    match item.optional_text("type")? {
        Some(kind) => Ok(kind),
        None if item.has("role") => Ok("message"),
        None if item.has("id") => Ok("item_reference"),
        None => item.text("type"),
    }
}

fn check_item(item: &Object<'_>, stored: bool) -> Result<(), ApiError> {
    match kind_of(item)? {
        "message" => check_message(item),
        "function_call" => {
            item.only(&[&[
                "type",
                "id",
                "call_id",
                "name",
                "arguments",
                "status",
                "namespace",
                "caller",
                "async",
            ]])?;
            check_id(item, "fc")?;
            check_short(&item.path_of("call_id"), item.text("call_id")?, 64)?;
            check_name(&item.path_of("name"), item.text("name")?, 128)?;
            item.text("arguments").map(drop)
        }
        "function_call_output" => check_output(item),
        "reasoning" => check_reasoning(item, stored),
        "compaction" => item.text("encrypted_content").map(drop),
        "item_reference" => item.text("id").map(drop),
        kind if OTHERS.contains(&kind) => Ok(()),
        kind => {
            let all = [CHECKED, OTHERS].concat();
            Err(invalid_value(&item.path_of("type"), kind, &all))
        }
    }
}

fn check_message(item: &Object<'_>) -> Result<(), ApiError> {
    let role = item.text("role")?;
    item.one_of("role", &["assistant", "system", "developer", "user"])?;
    item.only(&[&["type", "role", "content", "id", "status", "phase"]])?;
    check_id(item, "msg")?;
    let allowed: &[&str] = match role {
        "assistant" => &["output_text", "refusal"],
        _ => &["input_text", "input_image", "input_file", "input_audio"],
    };
    check_content(item, "content", allowed)
}

fn check_output(item: &Object<'_>) -> Result<(), ApiError> {
    item.only(&[&["type", "id", "call_id", "output", "status", "caller", "name", "namespace"]])?;
    check_short(&item.path_of("call_id"), item.text("call_id")?, 64)?;
    check_content(item, "output", &["input_text", "input_image", "input_file"])
}

fn check_content(item: &Object<'_>, key: &str, allowed: &[&str]) -> Result<(), ApiError> {
    match item.required(key)? {
        Value::String(_) => return Ok(()),
        Value::Array(_) => {}
        other => {
            let expected = "one of an array of objects or string";
            return Err(invalid_type(&item.path_of(key), expected, other));
        }
    }
    for part in item.objects(key)? {
        let kind = kind_of_part(&part)?;
        if !allowed.contains(&kind) {
            // The vendor blames the part, not its type.
            return Err(invalid_value(part.path(), kind, allowed));
        }
        check_part(&part, kind)?;
    }
    Ok(())
}

/// Reasoning that is not kept by the vendor has to come with its encrypted form.
fn check_reasoning(item: &Object<'_>, stored: bool) -> Result<(), ApiError> {
    item.only(&[&["type", "id", "summary", "content", "encrypted_content", "status"]])?;
    check_id(item, "rs")?;
    item.required("summary")?;
    for key in ["summary", "content"] {
        for part in item.objects(key)? {
            check_part(&part, kind_of_part(&part)?)?;
        }
    }
    match (item.optional_text("encrypted_content")?, item.optional_text("id")?) {
        (None, Some(id)) if !stored => Err(ApiError::new(
            404,
            "invalid_request_error",
            format!(
                "Item with id '{id}' not found. Items are not persisted when `store` is set to \
                 false. Try again with `store` set to true, or remove this item from your input."
            ),
        )
        .param("input")),
        _ => Ok(()),
    }
}

fn check_id(item: &Object<'_>, prefix: &str) -> Result<(), ApiError> {
    match item.optional_text("id")? {
        Some(id) if !id.starts_with(prefix) => {
            let what = format!("'{id}'. Expected an ID that begins with '{prefix}'.");
            Err(invalid(&item.path_of("id"), &what, "invalid_value"))
        }
        _ => Ok(()),
    }
}

/// Reasoning stands before what came of it.
fn check_followers(items: &[Object<'_>]) -> Result<(), ApiError> {
    for (index, item) in items.iter().enumerate() {
        if kind_of(item)? != "reasoning" {
            continue;
        }
        let follows = match items.get(index + 1) {
            Some(next) => {
                let by_the_user = matches!(kind_of(next)?, "message")
                    && next.optional_text("role")? != Some("assistant");
                !by_the_user && !kind_of(next)?.ends_with("_output")
            }
            None => false,
        };
        if !follows {
            let id = item.optional_text("id")?.unwrap_or_default();
            return Err(ApiError::invalid_request(format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            ))
            .param("input"));
        }
    }
    Ok(())
}

/// Checks that calls and outputs belong together, each output after its call.
fn check_calls(items: &[Object<'_>], continues: bool) -> Result<(), ApiError> {
    let mut open = Vec::new();
    let mut seen = HashSet::new();
    for item in items {
        let (kind, call_id) = (kind_of(item)?, item.optional_text("call_id")?);
        match (kind, call_id) {
            ("function_call", Some(id)) => {
                seen.insert(id);
                open.push(id);
            }
            ("function_call_output", Some(id)) => {
                if !continues && !seen.contains(id) {
                    return Err(ApiError::invalid_request(format!(
                        "No tool call found for function call output with call_id {id}."
                    ))
                    .param("input"));
                }
                open.retain(|known| *known != id);
            }
            _ => {}
        }
    }
    match open.first() {
        Some(id) => {
            Err(ApiError::invalid_request(format!("No tool output found for function call {id}."))
                .param("input"))
        }
        None => Ok(()),
    }
}
