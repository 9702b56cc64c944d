//! Errors in Anthropic's format.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

use crate::vendor::message;

/// An error of Anthropic's Messages API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {kind}: {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// Anthropic's error type, such as `invalid_request_error`.
    pub kind: String,
    /// The error message.
    pub message: String,
    /// The delay in the `retry-after` header. `None` sends no header.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Creates an error without a `retry-after` header.
    pub fn new(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, kind: kind.into(), message: message.into(), retry_after: None }
    }

    /// Creates an `invalid_request_error` with status 400.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Returns the error as JSON. This is the body of an error response, and the data of an `error` event in a stream.
    #[must_use]
    pub fn body(&self, request_id: &str) -> Value {
        json!({
            "type": "error",
            "error": {"type": self.kind, "message": self.message},
            "request_id": request_id,
        })
    }
}

/// Creates an error response that causes an Anthropic provider to return this [`ProviderError`]. Errors without a
/// matching response become a 500 `api_error`.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let (status, kind, text) = match error {
            E::RateLimit { .. } => (429, "rate_limit_error", "the rate limit is exceeded"),
            E::ModelLoading(_) => (503, "api_error", "{}"),
            E::Timeout(_) => (504, "timeout_error", "{}"),
            E::ServiceUnavailable(_) => (529, "overloaded_error", "{}"),
            E::Authentication(_) => (401, "authentication_error", "{}"),
            E::InvalidRequest(_) => (400, "invalid_request_error", "{}"),
            E::ContextWindowExceeded(_) => (400, "invalid_request_error", "prompt is too long: {}"),
            E::ModelNotFound(_) => (404, "not_found_error", "model: {}"),
            E::InsufficientResources(_) => (402, "billing_error", "{}"),
            _ => (500, "api_error", "{}"),
        };
        Self { retry_after: error.retry_after(), ..Self::new(status, kind, message(error, text)) }
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
    fn from_provider_error_maps_status_type_and_text() {
        use ProviderError as E;
        check(
            E::RateLimit { retry_after: None },
            "429 rate_limit_error: the rate limit is exceeded",
        );
        check(E::ModelLoading("m".into()), "503 api_error: m");
        check(
            E::Timeout(Duration::from_secs(3)),
            "504 timeout_error: the request timed out after 3s",
        );
        check(E::ServiceUnavailable("busy".into()), "529 overloaded_error: busy");
        check(E::Authentication("no".into()), "401 authentication_error: no");
        check(E::InvalidRequest("bad".into()), "400 invalid_request_error: bad");
        check(E::ModelNotFound("m".into()), "404 not_found_error: model: m");
        check(E::InsufficientResources("pay".into()), "402 billing_error: pay");
        check(E::StreamError("cut".into()), "500 api_error: stream error: cut");
        check(E::Other("odd".into()), "500 api_error: odd");
    }
}
