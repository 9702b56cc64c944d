//! Errors in Ollama's format.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

use crate::vendor::message;

/// An error of Ollama's API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}")]
pub struct ApiError {
    /// The HTTP status. Within a stream, an error is sent without a status.
    pub status: u16,
    /// The error text.
    pub message: String,
    /// The delay in the `retry-after` header. `None` sends no header.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Creates an error without a `retry-after` header.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), retry_after: None }
    }

    /// Creates an error with status 400.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    /// Returns the error as JSON. This is the body of an error response, and the last line of a stream that fails.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"error": self.message})
    }
}

/// Creates an error response that causes an Ollama provider to return this [`ProviderError`]. Errors without a matching
/// response become a 500.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let (status, text) = match error {
            E::RateLimit { .. } => (429, "too many requests"),
            E::InsufficientResources(_) => (402, "{}"),
            E::ModelLoading(_) | E::ServiceUnavailable(_) => (503, "{}"),
            E::Timeout(_) => (504, "{}"),
            E::Authentication(_) => (401, "{}"),
            E::InvalidRequest(_) => (400, "{}"),
            E::ContextWindowExceeded(_) => (400, "the input length exceeds the context length: {}"),
            E::ModelNotFound(_) => (404, "model '{}' not found"),
            // The line has only `text`, without the prefix of `StreamError`. The provider that reads the line adds the
            // prefix.
            E::StreamError(text) => return Self::new(500, text),
            _ => (500, "{}"),
        };
        Self { retry_after: error.retry_after(), ..Self::new(status, message(error, text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: ProviderError, expected: &str) {
        assert_eq!(ApiError::from(&error).to_string(), expected);
    }

    #[test]
    fn from_provider_error_maps_status_and_text() {
        use ProviderError as E;
        check(E::RateLimit { retry_after: None }, "429: too many requests");
        check(E::InsufficientResources("pay".into()), "402: pay");
        check(E::ModelLoading("m".into()), "503: m");
        check(E::ServiceUnavailable("busy".into()), "503: busy");
        check(E::Timeout(Duration::from_secs(3)), "504: the request timed out after 3s");
        check(E::Authentication("no".into()), "401: no");
        check(E::InvalidRequest("bad".into()), "400: bad");
        check(E::ModelNotFound("m".into()), "404: model 'm' not found");
        check(E::StreamError("cut".into()), "500: cut");
        check(E::Other("odd".into()), "500: odd");
    }
}
