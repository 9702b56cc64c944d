//! The rules for input items: the content of each, and the items that need others.

use std::collections::HashSet;

use super::ApiError;
use super::parts::check_part;
use super::wording::{Object, invalid, invalid_value};

/// Checks the items. The conversation may continue one that the vendor keeps.
pub(super) fn check_items(body: &Object<'_>) -> Result<(), ApiError> {
    let earlier = ["previous_response_id", "conversation", "prompt"];
    let continues = earlier.iter().any(|key| body.fields.contains_key(*key));
    if !continues {
        body.required("input")?;
    }
    body.check("input", "text or list of object")?;
    let items = body.objects("input");
    let is_stored = body.get("store").is_none_or(|store| *store == true);
    for item in &items {
        check_item(item, is_stored)?;
    }
    check_followers(&items)?;
    check_calls(&items, continues)
}

/// Returns an item's kind. A message needs none.
fn kind_of<'a>(item: &Object<'a>) -> Result<&'a str, ApiError> {
    match item.get("type") {
        None if item.fields.contains_key("role") => Ok("message"),
        None if item.fields.contains_key("id") => Ok("item_reference"),
        _ => item.text("type"),
    }
}

fn check_item(item: &Object<'_>, is_stored: bool) -> Result<(), ApiError> {
    let kind = kind_of(item)?;
    item.with_tag("item", "type", kind)?;
    match kind {
        "message" => {
            check_id(item, "msg")?;
            let allowed: &[&str] = match item.str("role") {
                Some("assistant") => &["output_text", "refusal"],
                _ => &["input_text", "input_image", "input_file", "input_audio"],
            };
            check_content(item, "content", allowed)
        }
        "function_call" => check_id(item, "fc"),
        "function_call_output" => {
            check_content(item, "output", &["input_text", "input_image", "input_file"])
        }
        "reasoning" => check_reasoning(item, is_stored),
        _ => Ok(()),
    }
}

fn check_content(item: &Object<'_>, key: &str, allowed: &[&str]) -> Result<(), ApiError> {
    for part in item.objects(key) {
        let kind = part.text("type")?;
        if !allowed.contains(&kind) {
            // The vendor blames the part, not its type.
            return Err(invalid_value(&part.path, kind, allowed));
        }
        check_part(&part)?;
    }
    Ok(())
}

/// Checks that reasoning which the vendor does not keep has its encrypted form.
fn check_reasoning(item: &Object<'_>, is_stored: bool) -> Result<(), ApiError> {
    check_id(item, "rs")?;
    match item.str("id") {
        Some(id) if !is_stored && item.get("encrypted_content").is_none() => Err(ApiError::new(
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
    match item.str("id") {
        Some(id) if !id.starts_with(prefix) => {
            let what = format!("'{id}'. Expected an ID that begins with '{prefix}'.");
            Err(invalid(&item.at("id"), &what, "invalid_value"))
        }
        _ => Ok(()),
    }
}

/// Checks that each reasoning item has the item that it led to after it.
fn check_followers(items: &[Object<'_>]) -> Result<(), ApiError> {
    for (index, item) in items.iter().enumerate() {
        let follows = match items.get(index + 1) {
            Some(next) => match kind_of(next)? {
                "message" => next.str("role") == Some("assistant"),
                kind => !kind.ends_with("_output"),
            },
            None => false,
        };
        if kind_of(item)? == "reasoning" && !follows {
            let id = item.str("id").unwrap_or_default();
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
    let refused = |text: String| Err(ApiError::invalid_request(text).param("input"));
    let mut open = Vec::new();
    let mut seen = HashSet::new();
    for item in items {
        let id = item.str("call_id").unwrap_or_default();
        match kind_of(item)? {
            "function_call" => {
                seen.insert(id);
                open.push(id);
            }
            "function_call_output" if !continues && !seen.contains(id) => {
                return refused(format!(
                    "No tool call found for function call output with call_id {id}."
                ));
            }
            "function_call_output" => open.retain(|known| *known != id),
            _ => {}
        }
    }
    match open.first() {
        Some(id) => refused(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}
