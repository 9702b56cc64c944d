//! Checks that every text in a whole response is in the message.

use serde_json::Value;

use crate::vendor::{self, Vendor};
use crate::{assert_short, echo};

/// Parses a response of the Messages API.
pub fn anthropic(body: &[u8]) {
    check(&vendor::ANTHROPIC, body, |json| {
        let blocks = list(json, "content").filter(|block| block["type"] == "text");
        blocks.filter_map(|block| block["text"].as_str()).collect()
    });
}

/// Parses a response of Chat Completions.
pub fn chat(body: &[u8]) {
    check(&vendor::CHAT, body, |json| {
        let message = &json["choices"][0]["message"];
        let parts = list(message, "content").filter_map(|part| part["text"].as_str());
        let said = message["content"].as_str().into_iter().chain(parts);
        let more = [&message["refusal"], &message["audio"]["transcript"]];
        said.chain(more.into_iter().filter_map(Value::as_str)).collect()
    });
}

/// Parses a response of the Responses API.
pub fn responses(body: &[u8]) {
    check(&vendor::RESPONSES, body, |json| {
        let items = list(json, "output").filter(|item| item["type"] == "message");
        let parts = items.flat_map(|item| list(item, "content"));
        parts
            .filter_map(|part| part["text"].as_str().or_else(|| part["refusal"].as_str()))
            .collect()
    });
}

/// Parses a response of Ollama.
pub fn ollama(body: &[u8]) {
    check(&vendor::OLLAMA, body, |json| {
        json["message"]["content"].as_str().unwrap_or_default().to_owned()
    });
}

fn check(vendor: &Vendor, body: &[u8], text: impl Fn(&Value) -> String) {
    let response = match (vendor.read_response)(body) {
        Ok(response) => response,
        Err(error) => return assert_short(&error),
    };
    // The parser may skip JSON that `serde_json` rejects, such as a number that is too large.
    if let Ok(json) = serde_json::from_slice(body) {
        assert_eq!(response.message.text(), text(&json), "{json}");
    }
    echo::check(vendor, &response);
}

fn list<'j>(json: &'j Value, key: &str) -> impl Iterator<Item = &'j Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}
