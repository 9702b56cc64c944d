//! OpenAI's rules for the input items of the Responses API. Some rules apply to the content of an item. Others require
//! a second item, for example an output for each call.

use std::collections::HashSet;

use super::ApiError;
use super::parts::check_part;
use super::wording::{Object, invalid, invalid_value, refused};

/// Checks the input items of a request to the Responses API.
///
/// A request may continue a conversation that OpenAI stores. Its input may then be missing, and an output may belong to
/// a stored call.
pub(super) fn check_items(body: &Object<'_>) -> Result<(), ApiError> {
    let earlier = ["previous_response_id", "conversation", "prompt"];
    let continues = earlier.iter().any(|key| body.fields.contains_key(*key));
    if !continues {
        body.required("input")?;
    }
    body.check("input", "text or list of object")?;
    let is_stored = body.get("store").is_none_or(|store| *store == true);
    let items = body.objects("input");
    let items = items.iter().map(|item| Ok((check_item(item, is_stored)?, item)));
    let items = items.collect::<Result<Vec<_>, ApiError>>()?;
    check_namespaces(body, &items)?;
    check_followers(&items)?;
    check_calls(&items, continues)
}

/// The kind of an input item, and the item.
type Item<'a> = (&'a str, &'a Object<'a>);

/// Checks an input item and returns its kind. An item may leave out `type` if it has a role or only an id. If
/// `is_stored` is `false`, the request has `"store": false`, and a reference to stored reasoning is an error.
fn check_item<'a>(item: &Object<'a>, is_stored: bool) -> Result<&'a str, ApiError> {
    let kind = match item.get("type") {
        None if item.fields.contains_key("role") => "message",
        None if item.fields.contains_key("id") => "item_reference",
        _ => item.text("type")?,
    };
    item.with_tag("item", "type", kind)?;
    let (prefix, content, parts): (_, _, &[_]) = match kind {
        "message" if item.str("role") == Some("assistant") => {
            ("msg", "content", &["output_text", "refusal"])
        }
        "message" => {
            ("msg", "content", &["input_text", "input_image", "input_file", "input_audio"])
        }
        "function_call" => ("fc", "", &[]),
        "function_call_output" => ("", "output", &["input_text", "input_image", "input_file"]),
        "reasoning" => ("rs", "", &[]),
        _ => ("", "", &[]),
    };
    let id = item.str("id").unwrap_or(prefix);
    if !id.starts_with(prefix) {
        let what = format!("'{id}'. Expected an ID that begins with '{prefix}'.");
        return Err(invalid(&item.at("id"), &what, "invalid_value"));
    }
    if kind == "reasoning" && !is_stored && item.has("id") && !item.has("encrypted_content") {
        let text = format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false. \
             Try again with `store` set to true, or remove this item from your input."
        );
        return Err(ApiError { status: 404, ..refused("input", text) });
    }
    for part in item.objects(content) {
        let kind = part.text("type")?;
        if !parts.contains(&kind) {
            // OpenAI's error has the path of the part, not the path of its `type` field.
            return Err(invalid_value(&part.path, kind, parts));
        }
        check_part(&part)?;
    }
    Ok(kind)
}

/// Checks that each call of a deferred function has a namespace. A deferred function, and a function that a search has
/// found, is in a namespace with its own name. A function that the request has without `defer_loading` needs none.
///
/// Source: <https://github.com/vercel/ai/pull/15193>
fn check_namespaces(body: &Object<'_>, items: &[Item<'_>]) -> Result<(), ApiError> {
    let tools = body.objects("tools");
    let is_deferred = |tool: &&Object<'_>| tool.is_true("defer_loading");
    let (deferred, loaded): (Vec<_>, Vec<_>) = tools.iter().partition(is_deferred);
    let found = items.iter().filter(|(kind, _)| *kind == "tool_search_output");
    let found: Vec<Object<'_>> = found.flat_map(|(_, item)| item.objects("tools")).collect();
    for (kind, item) in items {
        let name = item.str("name");
        let has_name = |tool: &Object<'_>| tool.str("name") == name;
        let is_bare = *kind == "function_call" && !item.has("namespace");
        let is_in_namespace =
            deferred.iter().any(|tool| has_name(tool)) || found.iter().any(has_name);
        if is_bare && is_in_namespace && !loaded.iter().any(|tool| has_name(tool)) {
            let name = name.unwrap_or_default();
            let text = format!(
                "Missing namespace for function_call '{name}'. It does not exist in the default \
                 namespace. Round-trip the model's function_call item with its namespace field \
                 included."
            );
            return Err(refused(&item.at("namespace"), text));
        }
    }
    Ok(())
}

/// Checks that each reasoning item is followed by the assistant message or the call that the reasoning produced.
fn check_followers(items: &[Item<'_>]) -> Result<(), ApiError> {
    for (index, (kind, item)) in items.iter().enumerate() {
        let follows = items.get(index + 1).is_some_and(|(kind, next)| match *kind {
            "message" => next.str("role") == Some("assistant"),
            kind => !kind.ends_with("_output"),
        });
        if *kind == "reasoning" && !follows {
            let id = item.str("id").unwrap_or_default();
            let text = format!(
                "Item '{id}' of type 'reasoning' was provided without its required following item."
            );
            return Err(refused("input", text));
        }
    }
    Ok(())
}

/// Checks that each function call has an output, and that each output comes after its call.
///
/// If `continues` is `true`, an output may belong to a call that OpenAI stores.
fn check_calls(items: &[Item<'_>], continues: bool) -> Result<(), ApiError> {
    let mut open = Vec::new();
    let mut seen = HashSet::new();
    for (kind, item) in items {
        let id = item.str("call_id").unwrap_or_default();
        match *kind {
            "function_call" => {
                seen.insert(id);
                open.push(id);
            }
            "function_call_output" if !continues && !seen.contains(id) => {
                let text =
                    format!("No tool call found for function call output with call_id {id}.");
                return Err(refused("input", text));
            }
            "function_call_output" => open.retain(|known| *known != id),
            _ => {}
        }
    }
    let error = |id| refused("input", format!("No tool output found for function call {id}."));
    open.first().map_or(Ok(()), |id| Err(error(id)))
}
