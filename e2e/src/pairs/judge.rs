//! The invariants of a request: what the body must contain of a conversation, and what it must not contain.

use neuron_types::{
    ContentBlock, ContentItem, DocumentSource, ImageSource, Message, ModelContent, Role,
};
use serde_json::Value;

use super::exchange;
use super::plan::marks;
use super::restored::Restored;
use super::wires::{File, Wire};

/// Checks the body of a request to `model` for this conversation.
///
/// # Errors
///
/// Returns a description of the first broken invariant.
pub(crate) fn judge(
    wire: &Wire,
    model: &str,
    messages: &[Message],
    body: &Value,
) -> Result<(), String> {
    let list = body.get(wire.list).and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("the body has no list `{}`", wire.list))?;
    let exchanges = (wire.exchanges)(list);
    exchange::check(&exchanges)?;
    let is_call =
        |exchange: &&exchange::Exchange<'_>| matches!(exchange, exchange::Exchange::Call { .. });
    let (sent, expected) = (
        exchanges.iter().filter(is_call).count(),
        messages.iter().flat_map(Message::tool_uses).count(),
    );
    if sent != expected {
        return Err(format!("{sent} calls instead of {expected}"));
    }
    let whole = body.to_string();
    let mut in_order = Order { text: list_text(list), end: 0 };
    let mut is_started = false;
    for message in messages {
        is_started |= message.role != Role::System;
        let mut shown = Vec::new();
        for block in &message.content {
            let own = match (wire.restored)(message, block, model) {
                Restored::Whole(json) if !contains(body, &json) => {
                    return Err(format!("the vendor's own content was not sent back: {json}"));
                }
                Restored::Whole(json) => Some(json.to_string()),
                Restored::Optional => continue,
                Restored::Foreign => None,
            };
            // A part of the vendor's own content may be a secret too, such as the signature of another model.
            let kept = own.as_deref().unwrap_or_default();
            let mut hidden = secrets(block).into_iter().filter(|secret| !kept.contains(secret));
            if let Some(secret) = hidden.find(|secret| whole.contains(secret)) {
                return Err(format!("another vendor's `{secret}` was sent"));
            }
            // A text that is sent in its own form needs no other form.
            if own.is_none() || block.as_text().is_none() {
                shown.extend(visible(wire, block));
            }
        }
        if let Some(lost) = shown.iter().find(|part| !whole.contains(part.as_str())) {
            return Err(format!("`{lost}` was lost"));
        }
        // System messages at the beginning may be a part of the system prompt.
        if is_started {
            in_order.check(&shown)?;
        }
    }
    Ok(())
}

/// The text of the conversation in a body, and the place up to which its messages were found.
struct Order {
    text: String,
    end: usize,
}

impl Order {
    /// Checks that the parts of a message come after the parts of all earlier messages.
    fn check(&mut self, parts: &[String]) -> Result<(), String> {
        let mut end = self.end;
        for part in parts {
            let Some(place) = self.text.find(part.as_str()) else { continue };
            if place < self.end {
                return Err(format!("`{part}` comes before an earlier message"));
            }
            end = end.max(place);
        }
        self.end = end;
        Ok(())
    }
}

fn list_text(list: &[Value]) -> String {
    list.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

/// Returns `true` if a value, or any value inside of it, has all fields of `expected`.
fn contains(value: &Value, expected: &Value) -> bool {
    let is_match = match (value, expected) {
        (Value::Object(value), Value::Object(expected)) => {
            expected.iter().all(|(key, expected)| value.get(key) == Some(expected))
        }
        _ => value == expected,
    };
    is_match
        || match value {
            Value::Array(items) => items.iter().any(|item| contains(item, expected)),
            Value::Object(fields) => fields.values().any(|field| contains(field, expected)),
            _ => false,
        }
}

/// Returns the texts of a block that only its vendor may receive: signatures, encrypted content and ids.
fn secrets(block: &ContentBlock) -> Vec<String> {
    let mut found = Vec::new();
    match block {
        ContentBlock::Thinking { signature, .. } => found.push(signature.clone()),
        ContentBlock::RedactedThinking { data } => found.push(data.clone()),
        ContentBlock::Raw { json, .. } if !block.is_mark() => {
            collect(json, &mut found);
            // The id of a call is the same for every vendor.
            if let Some(call) = block.as_tool_use() {
                found.retain(|secret| !call.id.starts_with(secret.as_str()));
            }
        }
        _ => {}
    }
    found.retain(|secret| !secret.is_empty());
    found
}

fn collect(json: &Value, found: &mut Vec<String>) {
    const KEYS: [&str; 8] = [
        "thoughtSignature",
        "signature",
        "redactedContent",
        "toolUseId",
        "encrypted_content",
        "encrypted_index",
        "id",
        "tool_use_id",
    ];
    match json {
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if KEYS.contains(&key.as_str()) => found.push(text.clone()),
                    value => collect(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Returns the texts that a request must contain for a block.
fn visible(wire: &Wire, block: &ContentBlock) -> Vec<String> {
    let of_text = |text: &str| marks(text).map(str::to_owned).collect::<Vec<_>>();
    match block.portable() {
        Some(ContentBlock::Text(text) | ContentBlock::Compaction { content: text }) => {
            of_text(text)
        }
        Some(ContentBlock::ToolUse { input, .. }) => of_text(&input.to_string()),
        Some(ContentBlock::Image { source }) => vec![image(source)],
        Some(ContentBlock::Document { source }) => match source {
            DocumentSource::PlainText { data } => of_text(data),
            DocumentSource::Base64Pdf { data } => vec![data.clone()],
            DocumentSource::Url { url } => vec![url.clone()],
            _ => Vec::new(),
        },
        Some(ContentBlock::ToolResult { content, is_error, .. }) => {
            let kept = if *is_error { wire.in_failed_results } else { wire.in_results };
            content.iter().flat_map(|item| of_item(item, kept)).collect()
        }
        _ => Vec::new(),
    }
}

fn image(source: &ImageSource) -> String {
    match source {
        ImageSource::Base64 { data, .. } => data.clone(),
        ImageSource::Url { url } => url.clone(),
        _ => String::new(),
    }
}

/// Returns the texts that a request must contain for an item of a tool result. `kept` are the files that it contains.
fn of_item(item: &ContentItem, kept: &[File]) -> Vec<String> {
    let (file, content) = match item.for_model() {
        ModelContent::Text(text) => return marks(text).map(str::to_owned).collect(),
        ModelContent::Image { media_type: "image/gif", data } => (File::Gif, data),
        ModelContent::Image { data, .. } => (File::Image, data),
        ModelContent::ImageUrl { url } => (File::ImageUrl, url),
        ModelContent::Pdf { data } => (File::Pdf, data),
        _ => return marks(&item.to_string()).map(str::to_owned).collect(),
    };
    match kept.contains(&file) {
        true => vec![content.to_owned()],
        false => marks(&item.to_string()).map(str::to_owned).collect(),
    }
}

/// Returns `true` if the provider must reject the conversation, because a message of the user has a file that the API
/// does not accept.
pub(crate) fn is_rejected(wire: &Wire, messages: &[Message]) -> bool {
    let file = |block: &ContentBlock| match block.portable()? {
        ContentBlock::Image { source: ImageSource::Url { .. } } => Some(File::ImageUrl),
        ContentBlock::Image { source: ImageSource::Base64 { media_type, .. } } => {
            Some(if media_type == "image/gif" { File::Gif } else { File::Image })
        }
        ContentBlock::Document { source: DocumentSource::Base64Pdf { .. } } => Some(File::Pdf),
        ContentBlock::Document { source: DocumentSource::Url { .. } } => Some(File::DocumentUrl),
        _ => None,
    };
    let files = messages.iter().flat_map(|message| &message.content).filter_map(file);
    files.into_iter().any(|file| wire.rejected.contains(&file))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pairs::wires::WIRES;

    fn wire(name: &str) -> &'static Wire {
        WIRES.iter().find(|wire| wire.name == name).unwrap()
    }

    #[track_caller]
    fn check(message: Message, body: Value, expected: Result<(), &str>) {
        let found = judge(wire("chat"), "m", &[Message::user("q1z"), message], &body);
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    fn body(texts: [&str; 2]) -> Value {
        let message = |text: &str| json!({"role": "user", "content": text});
        json!({"messages": texts.map(message)})
    }

    #[test]
    fn lost_and_exchanged_texts_are_found() {
        let answer = || Message::assistant("q2z");
        check(answer(), body(["q1z", "q2z"]), Ok(()));
        check(answer(), body(["q1z", "q3z"]), Err("`q2z` was lost"));
        check(answer(), body(["q2z", "q1z"]), Err("`q2z` comes before an earlier message"));
        check(answer(), json!({}), Err("the body has no list `messages`"));
    }

    #[test]
    fn lost_call_is_found() {
        let call = ContentBlock::ToolUse { id: "a".into(), name: "look".into(), input: json!({}) };
        let message = Message { role: Role::Assistant, content: vec![call] };
        check(message, body(["q1z", ""]), Err("0 calls instead of 1"));
    }

    #[test]
    fn foreign_secret_is_found() {
        let raw = |provider: &str, json: Value| Message {
            role: Role::Assistant,
            content: vec![ContentBlock::Raw { provider: provider.into(), json, portable: None }],
        };
        let reasoning = || raw("openai", json!({"type": "reasoning", "encrypted_content": "deep"}));
        check(reasoning(), body(["q1z", ""]), Ok(()));
        check(reasoning(), body(["q1z", "deep"]), Err("another vendor's `deep` was sent"));
        let custom = raw("openai", json!({"type": "custom", "custom": {"name": "a"}}));
        let lost = r#"the vendor's own content was not sent back: {"type":"custom","custom":{"name":"a"}}"#;
        check(custom, body(["q1z", ""]), Err(lost));
    }
}
