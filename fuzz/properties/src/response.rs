//! Checks that the message of a parsed response contains every text of the response's body.

use serde_json::Value;

use crate::vendor::{self, Vendor};
use crate::{assert_short, echo};

/// Parses a whole response of Anthropic's Messages API.
pub fn anthropic(body: &[u8]) {
    check(&vendor::ANTHROPIC, body, |json| {
        let blocks = list(json, "content").filter(|block| block["type"] == "text");
        blocks.filter_map(|block| block["text"].as_str()).collect()
    });
}

/// Parses a whole response of OpenAI's Chat Completions API.
pub fn chat(body: &[u8]) {
    check(&vendor::CHAT, body, |json| {
        let message = &json["choices"][0]["message"];
        let parts = list(message, "content").filter_map(|part| part["text"].as_str());
        let said = message["content"].as_str().into_iter().chain(parts);
        let more = [&message["refusal"], &message["audio"]["transcript"]];
        said.chain(more.into_iter().filter_map(Value::as_str)).collect()
    });
}

/// Parses a whole response of OpenAI's Responses API.
pub fn responses(body: &[u8]) {
    check(&vendor::RESPONSES, body, |json| {
        let items = list(json, "output").filter(|item| item["type"] == "message");
        let parts = items.flat_map(|item| list(item, "content"));
        parts
            .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
            .collect()
    });
}

/// Parses a whole response of Ollama.
pub fn ollama(body: &[u8]) {
    check(&vendor::OLLAMA, body, |json| {
        json["message"]["content"].as_str().unwrap_or_default().to_owned()
    });
}

/// Parses a whole response of Bedrock.
pub fn bedrock(body: &[u8]) {
    check(&vendor::BEDROCK, body, |json| {
        let blocks = list(&json["output"]["message"], "content");
        let texts = blocks.map(|block| match block["text"].as_str() {
            Some(text) => text.to_owned(),
            None if !block["reasoningContent"].is_object() && !block["toolUse"].is_object() => {
                let parts = list(&block["citationsContent"], "content");
                parts.filter_map(|part| part["text"].as_str()).collect()
            }
            None => String::new(),
        });
        texts.collect()
    });
}

/// Checks a body. `text` returns all texts in the body's JSON, which the message must contain.
fn check(vendor: &Vendor, body: &[u8], text: impl Fn(&Value) -> String) {
    let response = match (vendor.read_response)(body) {
        Ok(response) => response,
        Err(error) => return assert_short(&error),
    };
    // The provider may accept JSON that `serde_json` cannot represent as a `Value`, such as a number that is too large.
    if let Ok(json) = serde_json::from_slice(body) {
        assert_eq!(response.message.text(), text(&json), "{json}");
    }
    echo::check(vendor, &response);
}

/// Returns the items of an array in a JSON object. Returns no items if there is no such array.
fn list<'j>(json: &'j Value, key: &str) -> impl Iterator<Item = &'j Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}
