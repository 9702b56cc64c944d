//! Checks that a parsed response can be sent back in the next request, as valid JSON and without loss.

use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, Message, Role,
};
use serde_json::Value;

use crate::vendor::Vendor;

/// Sends a response back, followed by the results of its calls.
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
        // The vendor's own JSON may be as deep as the parser allows. In the request it is deeper.
        Err(error) if error.to_string().starts_with("recursion limit") => return,
        Err(error) => panic!("a request that is no JSON: {error}"),
    };
    for block in &message.content {
        if !is_kept(block, &json) {
            panic!("{block:?} is lost in {json}");
        }
    }
}

/// Returns `true` if a block's text, or the id and the name of its call, are in a request. Vendors limit the characters
/// and the length of ids and names. Other characters become `_`.
fn is_kept(block: &ContentBlock, body: &Value) -> bool {
    if let ContentBlock::Raw { json, .. } = block {
        // Audio is sent back by its id.
        if holds(body, &|value| value == json) || json.get("audio").is_some() {
            return true;
        }
    }
    let has = |text: &str| {
        let has_it = |string: &str| string.contains(text) || allowed(string).contains(text);
        holds(body, &|value| value.as_str().is_some_and(has_it))
    };
    match (block.as_text(), block.as_tool_use()) {
        // Vendors reject blank texts.
        (Some(text), _) => text.trim().is_empty() || has(text),
        (_, Some(call)) => has(&allowed(call.id)) && has(&allowed(call.name)),
        _ => true,
    }
}

fn allowed(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(64).collect()
}

/// Returns `true` if `is_wanted` does so for a value or for a value inside it.
fn holds(value: &Value, is_wanted: &dyn Fn(&Value) -> bool) -> bool {
    is_wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| holds(item, is_wanted)),
            Value::Object(fields) => fields.values().any(|field| holds(field, is_wanted)),
            _ => false,
        }
}
