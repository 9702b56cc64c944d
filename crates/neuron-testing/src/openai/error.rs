//! Errors as the vendor sends them.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

/// An error of OpenAI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {}: {message}", .code.as_ref().unwrap_or(.kind))]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The vendor's type, `invalid_request_error` for one.
    pub kind: String,
    /// The vendor's code, `model_not_found` for one.
    pub code: Option<String>,
    /// The parameter to blame.
    pub param: Option<String>,
    /// The message.
    pub message: String,
    /// The delay in the `retry-after` header.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Builds an error without code, parameter and `retry-after` header.
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

    /// Builds a 400 `invalid_request_error`.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(400, "invalid_request_error", message)
    }

    /// Sets the code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the parameter to blame.
    #[must_use]
    pub fn param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Returns the JSON body, also the data of an event that ends a chat's stream.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"error": self.object()})
    }

    /// Returns the value of the `retry-after` header, in seconds.
    #[must_use]
    pub fn retry_after_header(&self) -> Option<String> {
        self.retry_after.map(|delay| delay.as_secs_f64().to_string())
    }

    pub(super) fn object(&self) -> Value {
        json!({
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        })
    }

    pub(super) fn model_not_found(model: &str) -> Self {
        let message =
            format!("The model `{model}` does not exist or you do not have access to it.");
        Self::new(404, "invalid_request_error", message).code("model_not_found")
    }
}

/// The error from which a provider makes this one again, as far as the vendor has one.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        match error {
            ProviderError::RateLimit { retry_after } => Self {
                retry_after: *retry_after,
                ..Self::new(429, "requests", "Rate limit reached").code("rate_limit_exceeded")
            },
            ProviderError::InsufficientResources(text) => {
                Self::new(429, "insufficient_quota", text).code("insufficient_quota")
            }
            // llama.cpp's server says so, and says the type of other things too.
            ProviderError::ModelLoading(text) => {
                Self::new(503, "unavailable_error", format!("Loading model: {text}"))
            }
            ProviderError::Timeout(after) => {
                Self::new(504, "server_error", format!("the request timed out after {after:?}"))
            }
            ProviderError::ServiceUnavailable(text) => {
                Self::new(503, "service_unavailable_error", text).code("server_is_overloaded")
            }
            ProviderError::Authentication(text) => {
                Self::new(401, "invalid_request_error", text).code("invalid_api_key")
            }
            ProviderError::InvalidRequest(text) => Self::invalid_request(text),
            ProviderError::ContextWindowExceeded(text) => {
                Self::invalid_request(text).code("context_length_exceeded")
            }
            ProviderError::ModelNotFound(model) => Self::model_not_found(model),
            other => Self::new(500, "server_error", other.to_string()),
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
    fn every_provider_error_has_its_status() {
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
