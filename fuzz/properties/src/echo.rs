//! What was read goes back in the next request: without an error, as JSON, and with nothing lost.

use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, ContentItem, Message, Role,
};
use serde_json::Value;

use crate::vendor::Vendor;

/// Sends an answer back, followed by the results of its calls.
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
    let body = (vendor.write_request)(&request, false).expect("an answer can be sent back");
    let again = (vendor.write_request)(&request, false).expect("and again");
    assert_eq!(body, again, "the same request has the same bytes");
    let json = match serde_json::from_slice::<Value>(&body) {
        Ok(json) => json,
        // The vendor's own JSON, as deep as a parser goes, and deeper in the request.
        Err(error) if error.to_string().starts_with("recursion limit") => return,
        Err(error) => panic!("a request that is no JSON: {error}"),
    };
    for block in &message.content {
        if !is_kept(block, &json) {
            panic!("{block:?} is lost in {json}");
        }
    }
}

/// Whether a block's text, or the names of its call, are in a request. Vendors take few characters in
/// ids and names, and not many of them: others become `_`.
fn is_kept(block: &ContentBlock, body: &Value) -> bool {
    if let ContentBlock::Raw { json, .. } = block {
        // Speech goes back by its id.
        if holds(body, &|value| value == json) || json.get("audio").is_some() {
            return true;
        }
    }
    let has = |text: &str| {
        let has_it = |string: &str| string.contains(text) || allowed(string).contains(text);
        holds(body, &|value| value.as_str().is_some_and(has_it))
    };
    match (block.as_text(), block.as_tool_use()) {
        // Blank texts are refused by vendors.
        (Some(text), _) => text.trim().is_empty() || has(text),
        (_, Some(call)) => has(&allowed(call.id)) && has(&allowed(call.name)),
        _ => true,
    }
}

fn allowed(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).take(64).collect()
}

/// Whether a value, or one within it, is as wanted.
fn holds(value: &Value, is_wanted: &dyn Fn(&Value) -> bool) -> bool {
    is_wanted(value)
        || match value {
            Value::Array(items) => items.iter().any(|item| holds(item, is_wanted)),
            Value::Object(fields) => fields.values().any(|field| holds(field, is_wanted)),
            _ => false,
        }
}
