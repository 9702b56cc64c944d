//! Checks that a parsed response can be sent back in the next request. The request must be valid JSON, and the
//! response's content must not be lost.

use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, Message, Role,
};
use serde_json::Value;

use crate::vendor::Vendor;

/// Creates a request from a response and the results of its tool calls. Panics if the request is not valid JSON, if its
/// bytes are not deterministic, or if a content block is lost.
#[track_caller]
pub(crate) fn check(vendor: &Vendor, response: &CompletionResponse) {
    let message = &response.message;
    let results = message.tool_uses().map(|call| ContentBlock::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: vec![ContentItem::Text("done".into())],
        is_error: false,
    });
    let results = Message { role: Role::User, content: results.collect() };
    let request = CompletionRequest {
        messages: vec![Message::user("hi"), message.clone(), results],
        ..Default::default()
    };
    let body = (vendor.write_request)(request.view(), false).expect("an answer can be sent back");
    let again = (vendor.write_request)(request.view(), false).expect("and again");
    assert_eq!(body, again, "the same request has the same bytes");
    let json = match serde_json::from_slice::<Value>(&body) {
        Ok(json) => json,
        // The response's JSON may be nested as deep as the parser allows. In the request it is nested deeper, which the
        // parser rejects.
        Err(error) if error.to_string().starts_with("recursion limit") => return,
        Err(error) => panic!("a request that is no JSON: {error}"),
    };
    for block in &message.content {
        if !is_kept(block, &json) {
            panic!("{block:?} is lost in {json}");
        }
    }
}

/// Returns `true` if a request body contains the text of a content block, or the id and the name of its tool call.
///
/// Vendors limit the length of ids and names and the characters in them. Characters that are not allowed are replaced
/// by `_`.
fn is_kept(block: &ContentBlock, body: &Value) -> bool {
    if let ContentBlock::Raw { json, .. } = block {
        // The provider's own field is not in the request.
        let mut json = json.clone();
        json.as_object_mut().map(|fields| fields.remove("neuron:origin"));
        // Audio is sent back as a reference by id, so its data is not in the request.
        if holds(body, &|value| *value == json) || json.get("audio").is_some() {
            return true;
        }
    }
    let has = |text: &str| {
        let has_it = |string: &str| string.contains(text) || allowed(string).contains(text);
        holds(body, &|value| value.as_str().is_some_and(has_it))
    };
    match (block.as_text(), block.as_tool_use()) {
        // Vendors reject blank texts, so the providers leave them out.
        (Some(text), _) => text.trim().is_empty() || has(text),
        (_, Some(call)) => has(&allowed(call.id)) && has(&allowed(call.name)),
        _ => true,
    }
}

/// Returns an id or name as vendors allow it, with `_` for other characters and at most 64 characters.
fn allowed(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(64).collect()
}

/// Returns `true` if `is_wanted` returns `true` for a JSON value or for any value inside it.
fn holds(value: &Value, is_wanted: &dyn Fn(&Value) -> bool) -> bool {
    is_wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| holds(item, is_wanted)),
            Value::Object(fields) => fields.values().any(|field| holds(field, is_wanted)),
            _ => false,
        }
}
