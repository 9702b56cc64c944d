//! Errors in OpenAI's format.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

use crate::vendor::message;

/// An error of OpenAI's APIs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {}: {message}", .code.as_ref().unwrap_or(.kind))]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// OpenAI's error type, such as `invalid_request_error`.
    pub kind: String,
    /// OpenAI's error code, such as `model_not_found`. `None` sends null.
    pub code: Option<String>,
    /// The parameter of the request that caused the error. `None` sends null.
    pub param: Option<String>,
    /// The error message.
    pub message: String,
    /// The delay in the `retry-after` header. `None` sends no header.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Creates an error without a code, a parameter and a `retry-after` header.
    pub fn new(status: u16, kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: kind.into(),
            code: None,
            param: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Creates an `invalid_request_error` with status 400.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Sets the error code.
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        Self { code: Some(code.into()), ..self }
    }

    /// Sets the parameter of the request that caused the error.
    #[must_use]
    pub fn param(self, param: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..self }
    }

    /// Returns the error as JSON. This is the body of an error response, and the last event of a chat stream that
    /// fails.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"error": self.object()})
    }

    /// Returns the JSON object that [`body`](Self::body) nests under `error`.
    pub(super) fn object(&self) -> Value {
        json!({
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        })
    }
}

/// Creates an error response that causes an OpenAI provider to return this [`ProviderError`]. Errors without a matching
/// response become a 500 `server_error`.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let (status, kind, code, text) = match error {
            E::RateLimit { .. } => (429, "requests", "rate_limit_exceeded", "Rate limit reached"),
            E::InsufficientResources(_) => (429, "insufficient_quota", "insufficient_quota", "{}"),
            // OpenAI has no such error. This is the error of llama.cpp's server, which uses the type for other errors
            // too.
            E::ModelLoading(_) => (503, "unavailable_error", "", "Loading model: {}"),
            E::Timeout(_) => (504, "server_error", "", "{}"),
            E::ServiceUnavailable(_) => {
                (503, "service_unavailable_error", "server_is_overloaded", "{}")
            }
            E::Authentication(_) => (401, "invalid_request_error", "invalid_api_key", "{}"),
            E::InvalidRequest(_) => (400, "invalid_request_error", "", "{}"),
            E::ContextWindowExceeded(_) => {
                (400, "invalid_request_error", "context_length_exceeded", "{}")
            }
            E::ModelNotFound(_) => {
                let text = "The model `{}` does not exist or you do not have access to it.";
                (404, "invalid_request_error", "model_not_found", text)
            }
            _ => (500, "server_error", "", "{}"),
        };
        Self {
            code: Some(code).filter(|code| !code.is_empty()).map(str::to_owned),
            retry_after: error.retry_after(),
            ..Self::new(status, kind, message(error, text))
        }
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
    fn from_provider_error_maps_status_code_and_text() {
        use ProviderError as E;
        check(E::RateLimit { retry_after: None }, "429 rate_limit_exceeded: Rate limit reached");
        check(E::InsufficientResources("pay".into()), "429 insufficient_quota: pay");
        check(E::ModelLoading("m".into()), "503 unavailable_error: Loading model: m");
        check(
            E::Timeout(Duration::from_secs(3)),
            "504 server_error: the request timed out after 3s",
        );
        check(E::ServiceUnavailable("busy".into()), "503 server_is_overloaded: busy");
        check(E::Authentication("no".into()), "401 invalid_api_key: no");
        check(E::InvalidRequest("bad".into()), "400 invalid_request_error: bad");
        check(
            E::ModelNotFound("m".into()),
            "404 model_not_found: The model `m` does not exist or you do not have access to it.",
        );
        check(E::Other("odd".into()), "500 server_error: odd");
    }
}
