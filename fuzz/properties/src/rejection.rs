//! Checks the parsing of error responses. The kind of an error depends only on status and body, not on headers. Its
//! text is short.

use neuron_http::http::header::{HeaderMap, HeaderValue};
use neuron_provider_anthropic as anthropic;
use neuron_provider_bedrock as bedrock;
use neuron_provider_ollama as ollama;
use neuron_provider_openai as openai;
use neuron_types::ProviderError;

use crate::assert_short;

/// Parses an error response of Anthropic's Messages API.
pub fn anthropic(input: &[u8]) {
    check(anthropic::wire::read_error, input);
}

/// Parses an error response of Bedrock.
pub fn bedrock(input: &[u8]) {
    check(bedrock::wire::read_error, input);
}

/// Parses an error response of OpenAI.
pub fn openai(input: &[u8]) {
    check(openai::wire::read_error, input);
}

/// Parses an error response of Ollama.
pub fn ollama(input: &[u8]) {
    check(ollama::wire::read_error, input);
}

/// Headers that the parsers read. Every header gets the same value.
const HEADERS: [&str; 5] =
    ["retry-after", "retry-after-ms", "request-id", "x-request-id", "location"];

/// Checks an input. The first two bytes are the HTTP status. The third byte is the length of the header value that
/// follows. The remaining bytes are the body.
fn check(read: fn(u16, &HeaderMap, &[u8]) -> ProviderError, input: &[u8]) {
    let [high, low, length, rest @ ..] = input else {
        return;
    };
    let status = u16::from_be_bytes([*high, *low]);
    let (value, body) = rest.split_at(rest.len().min((*length).into()));
    let mut headers = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.extend(HEADERS.map(|name| (name.parse().ok(), value.clone())));
    }

    let plain = read(status, &HeaderMap::new(), body);
    let error = read(status, &headers, body);
    let kind = match plain.kind() {
        // `ProviderError::Timeout` has no field for a delay, so a timeout with a delay becomes another kind.
        "Timeout" if error.retry_after().is_some() => "ServiceUnavailable",
        kind => kind,
    };
    assert_eq!(error.kind(), kind);
    // Without headers, a delay can only come from the server's error text.
    assert!(plain.retry_after().is_none() || plain.to_string().contains(", retry after "));
    assert!(error.retry_after().is_none() || error.is_retryable());
    assert_short(&plain);
    assert_short(&error);
}
