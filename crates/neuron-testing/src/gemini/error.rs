//! Errors in Gemini's format.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

use crate::vendor::message;

/// An error of the Gemini API.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code} {status}: {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// Google's name of the error, such as `INVALID_ARGUMENT`.
    pub status: String,
    /// The error message.
    pub message: String,
    /// Objects with more information, such as the delay before a retry. Gemini sends no `retry-after` header.
    pub details: Vec<Value>,
}

impl ApiError {
    /// Creates an error without details.
    pub fn new(code: u16, status: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, status: status.into(), message: message.into(), details: Vec::new() }
    }

    /// Creates an `INVALID_ARGUMENT` error with status 400.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    /// Adds an object to the details. `kind` is the type of the object, such as `RetryInfo`.
    #[must_use]
    pub fn detail(mut self, kind: &str, mut fields: Value) -> Self {
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("@type".into(), format!("type.googleapis.com/google.rpc.{kind}").into());
        }
        self.details.push(fields);
        self
    }

    /// Returns the error as JSON. This is the body of an error response, and the last chunk of a stream that fails.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message, "status": self.status});
        if !self.details.is_empty()
            && let Some(fields) = error.as_object_mut()
        {
            fields.insert("details".into(), self.details.clone().into());
        }
        json!({"error": error})
    }
}

/// Creates an error response that causes a Gemini provider to return this [`ProviderError`]. Errors without a matching
/// response become a 500 `INTERNAL`.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let (code, status, text) = match error {
            E::RateLimit { .. } => {
                (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).")
            }
            E::InsufficientResources(_) => (429, "RESOURCE_EXHAUSTED", "{}"),
            E::ModelLoading(_) | E::ServiceUnavailable(_) => (503, "UNAVAILABLE", "{}"),
            E::Timeout(_) => (504, "DEADLINE_EXCEEDED", "{}"),
            E::Authentication(_) => (401, "UNAUTHENTICATED", "{}"),
            E::InvalidRequest(_) => (400, "INVALID_ARGUMENT", "{}"),
            E::ContextWindowExceeded(_) => {
                let text = "The input token count exceeds the maximum number of tokens allowed: {}";
                (400, "INVALID_ARGUMENT", text)
            }
            E::ModelNotFound(_) => {
                let text = "models/{} is not found for API version v1beta, or is not supported for \
                            generateContent. Call ListModels to see the list of available models \
                            and their supported methods.";
                (404, "NOT_FOUND", text)
            }
            _ => (500, "INTERNAL", "{}"),
        };
        let own = Self::new(code, status, message(error, text));
        match (error, error.retry_after()) {
            // Only a daily quota tells a budget that is used up from a rate.
            (E::InsufficientResources(_), _) => {
                let quota = "GenerateRequestsPerDayPerProjectPerModel-FreeTier";
                own.detail("QuotaFailure", json!({"violations": [{"quotaId": quota}]}))
            }
            (_, Some(delay)) => own.detail("RetryInfo", json!({"retryDelay": seconds(delay)})),
            _ => own,
        }
    }
}

/// Returns a duration in the JSON format of protocol buffers, such as `14s` or `0.5s`.
fn seconds(delay: Duration) -> String {
    format!("{}s", delay.as_secs_f64())
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
        check(
            E::RateLimit { retry_after: None },
            "429 RESOURCE_EXHAUSTED: Resource has been exhausted (e.g. check quota).",
        );
        check(E::InsufficientResources("pay".into()), "429 RESOURCE_EXHAUSTED: pay");
        check(E::ModelLoading("m".into()), "503 UNAVAILABLE: m");
        check(E::ServiceUnavailable("busy".into()), "503 UNAVAILABLE: busy");
        check(
            E::Timeout(Duration::from_secs(3)),
            "504 DEADLINE_EXCEEDED: the request timed out after 3s",
        );
        check(E::Authentication("no".into()), "401 UNAUTHENTICATED: no");
        check(E::InvalidRequest("bad".into()), "400 INVALID_ARGUMENT: bad");
        check(
            E::ContextWindowExceeded("9".into()),
            "400 INVALID_ARGUMENT: The input token count exceeds the maximum number of tokens \
             allowed: 9",
        );
        check(E::StreamError("cut".into()), "500 INTERNAL: stream error: cut");
        check(E::Other("odd".into()), "500 INTERNAL: odd");
    }

    #[test]
    fn delay_and_daily_quota_are_details_of_the_body() {
        let delay = |millis| {
            let retry_after = Some(Duration::from_millis(millis));
            ApiError::from(&ProviderError::RateLimit { retry_after }).body()["error"]["details"][0]
                .clone()
        };
        assert_eq!(delay(14_000)["retryDelay"], "14s");
        assert_eq!(delay(500)["retryDelay"], "0.5s");
        assert_eq!(delay(500)["@type"], "type.googleapis.com/google.rpc.RetryInfo");
        let used_up = ApiError::from(&ProviderError::InsufficientResources("pay".into())).body();
        let quota = &used_up["error"]["details"][0]["violations"][0]["quotaId"];
        assert!(quota.as_str().unwrap().contains("PerDay"));
        assert_eq!(ApiError::invalid_argument("bad").body()["error"].get("details"), None);
    }
}
