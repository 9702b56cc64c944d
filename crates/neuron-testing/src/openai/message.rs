//! Converts the content of a response to a message of Chat Completions.

use neuron_types::{CompletionResponse, ContentBlock, StopReason, ToolCall};
use serde_json::{Map, Value, json};

use super::dialect::Dialect;

/// The content of a message in the format of Chat Completions. The format has one field for each kind of content, so
/// the order of the content blocks is lost.
#[derive(Default)]
pub(super) struct ChatMessage {
    pub(super) reasoning: String,
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) calls: Vec<Value>,
    /// Fields of the message that have no field in this struct.
    pub(super) others: Map<String, Value>,
}

impl ChatMessage {
    /// Creates a message from a response. Content blocks that Chat Completions cannot express are left out.
    pub(super) fn new(response: &CompletionResponse, dialect: &Dialect) -> Self {
        let mut message = Self::default();
        for block in &response.message.content {
            message.add(block);
        }
        for call in message.calls.iter_mut().filter_map(Value::as_object_mut) {
            if dialect.call_stubs {
                call.entry("custom").or_insert(json!({"name": ""}));
            }
            if dialect.signed_calls {
                let signature = json!({"google": {"thought_signature": "c2lnbmF0dXJl"}});
                call.entry("extra_content").or_insert(signature);
            }
        }
        // OpenAI sends the text of a refusal in `refusal` instead of `content`.
        if response.stop_reason == StopReason::Refusal && message.refusal.is_none() {
            message.refusal = message.text.take();
        }
        message
    }

    /// Adds a content block to the message.
    fn add(&mut self, block: &ContentBlock) {
        match block {
            ContentBlock::Raw { provider, json, portable } if provider == "openai" => {
                match json.get("type").and_then(Value::as_str) {
                    // A message with `content` is an item of the Responses API.
                    Some("message") if json.get("content").is_none() => self.add_fields(json),
                    // A raw tool call, for example of a custom tool.
                    Some("custom" | "function") => self.calls.push(json.clone()),
                    _ => portable.iter().for_each(|block| self.add(block)),
                }
            }
            ContentBlock::Text(text) => {
                self.text.get_or_insert_default().push_str(text);
            }
            ContentBlock::Thinking { thinking, .. } => self.reasoning.push_str(thinking),
            ContentBlock::ToolUse { id, name, input } => self.calls.push(json!({
                "id": id,
                "type": "function",
                "function": {"name": name, "arguments": arguments(input)},
            })),
            ContentBlock::Raw { portable: Some(block), .. } => self.add(block),
            _ => {}
        }
    }

    /// Adds the fields of a message in OpenAI's own JSON to this message. The field `type` is left out.
    fn add_fields(&mut self, json: &Value) {
        for (key, value) in json.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                ("type", _) => {}
                ("refusal", Value::String(refusal)) => self.refusal = Some(refusal.clone()),
                _ => drop(self.others.insert(key.clone(), value.clone())),
            }
        }
    }
}

/// Returns the arguments of a tool call as text. Invalid JSON is returned unchanged, as OpenAI sends what the model
/// wrote.
pub(super) fn arguments(input: &Value) -> String {
    ToolCall::invalid_json(input).map_or_else(|| input.to_string(), str::to_owned)
}
