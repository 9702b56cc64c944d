//! Sends valid requests to the Anthropic server.

use neuron_testing::AnthropicServer;
use serde_json::{Value, json};

use crate::servers::http::{Answer, exchange};

pub(crate) const HEADERS: &[(&str, &str)] = &[
    ("x-api-key", AnthropicServer::API_KEY),
    ("anthropic-version", "2023-06-01"),
    ("content-type", "application/json"),
];

pub(crate) const MESSAGES: &str = "POST /v1/messages";

/// Returns the body of a valid request. `stream` is `true` to request a stream.
pub(crate) fn ask(stream: bool) -> Value {
    json!({
        "model": "claude-sonnet-4-6",
        "max_tokens": 256,
        "stream": stream,
        "messages": [{"role": "user", "content": "hi"}],
    })
}

/// Sends a body with valid headers over a new connection, and returns the response.
pub(crate) async fn post(server: &AnthropicServer, body: &Value) -> Answer {
    exchange(&server.url(), MESSAGES, HEADERS, body).await
}
