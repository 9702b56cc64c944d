//! Errors in Bedrock's format.

use std::time::Duration;

use neuron_types::ProviderError;
use serde_json::{Value, json};

use super::frame::frame;
use crate::vendor::message;

/// An error of the Converse API.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{status} {exception}: {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The name of Bedrock's exception, such as `ValidationException`.
    pub exception: String,
    /// The error message.
    pub message: String,
    /// The delay in the headers `x-amz-retry-after`, which AWS's SDKs read, and `retry-after`. `None` sends no such
    /// headers.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Creates an error without a delay.
    pub fn new(status: u16, exception: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, exception: exception.into(), message: message.into(), retry_after: None }
    }

    /// Creates a `ValidationException` with status 400.
    pub fn validation(message: impl Into<String>) -> Self {
        Self::new(400, "ValidationException", message)
    }

    /// Returns the JSON body of the error. The name of the exception is in a header, and not in the body.
    #[must_use]
    pub fn body(&self) -> Value {
        json!({"message": self.message})
    }

    /// Returns the frame that ends a stream with this error.
    ///
    /// Five exceptions are part of Bedrock's streams. Any other error is sent as an `error` message, which has its text
    /// in a header.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        if !STREAMED.contains(&self.exception.as_str()) {
            let headers = [
                (":message-type", "error"),
                (":error-code", self.exception.as_str()),
                (":error-message", self.message.as_str()),
            ];
            return frame(&headers, b"");
        }
        let headers = [
            (":message-type", "exception"),
            (":exception-type", &in_camel_case(&self.exception)),
            (":content-type", "application/json"),
        ];
        frame(&headers, self.body().to_string().as_bytes())
    }

    /// Returns the response headers of the error.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let url = "http://internal.amazon.com/coral/com.amazon.bedrock/";
        let mut headers = vec![("x-amzn-errortype", format!("{}:{url}", self.exception))];
        if let Some(delay) = self.retry_after {
            headers.push(("x-amz-retry-after", delay.as_millis().to_string()));
            headers.push(("retry-after", delay.as_secs_f64().to_string()));
        }
        headers
    }
}

/// The exceptions of a stream.
///
/// Source: <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html>.
const STREAMED: [&str; 5] = [
    "InternalServerException",
    "ModelStreamErrorException",
    "ServiceUnavailableException",
    "ThrottlingException",
    "ValidationException",
];

/// Returns the name of an exception as a stream has it, with a small first letter.
fn in_camel_case(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().into_iter().map(|first| first.to_ascii_lowercase()).chain(letters).collect()
}

/// Creates an error response that causes a Bedrock provider to return this [`ProviderError`]. Errors without a matching
/// response become a 500 `InternalServerException`.
impl From<&ProviderError> for ApiError {
    fn from(error: &ProviderError) -> Self {
        use ProviderError as E;
        let (status, name, text) = match error {
            E::RateLimit { .. } => {
                (429, "Throttling", "Too many requests, please wait before trying again.")
            }
            E::InsufficientResources(_) => {
                let text = "Too many tokens per day, please wait before trying again: {}";
                (429, "Throttling", text)
            }
            E::ModelLoading(_) => (429, "ModelNotReady", "{}"),
            E::ServiceUnavailable(_) => (503, "ServiceUnavailable", "{}"),
            E::Timeout(_) => (408, "ModelTimeout", "{}"),
            E::Authentication(_) => (403, "AccessDenied", "{}"),
            E::InvalidRequest(_) => (400, "Validation", "{}"),
            E::ContextWindowExceeded(_) => {
                let text = "The model returned the following errors: prompt is too long: {}";
                (400, "Validation", text)
            }
            E::ModelNotFound(_) => {
                let text = "Could not resolve the foundation model from the model identifier: {}";
                (404, "ResourceNotFound", text)
            }
            _ => (500, "InternalServer", "{}"),
        };
        let retry_after = match error {
            E::RateLimit { retry_after } => *retry_after,
            _ => None,
        };
        Self { retry_after, ..Self::new(status, format!("{name}Exception"), message(error, text)) }
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
    fn from_provider_error_maps_status_exception_and_text() {
        use ProviderError as E;
        check(
            E::RateLimit { retry_after: None },
            "429 ThrottlingException: Too many requests, please wait before trying again.",
        );
        check(
            E::InsufficientResources("pay".into()),
            "429 ThrottlingException: Too many tokens per day, please wait before trying again: pay",
        );
        check(E::ModelLoading("m".into()), "429 ModelNotReadyException: m");
        check(E::ServiceUnavailable("busy".into()), "503 ServiceUnavailableException: busy");
        check(
            E::Timeout(Duration::from_secs(3)),
            "408 ModelTimeoutException: the request timed out after 3s",
        );
        check(E::Authentication("no".into()), "403 AccessDeniedException: no");
        check(E::InvalidRequest("bad".into()), "400 ValidationException: bad");
        check(
            E::ContextWindowExceeded("9".into()),
            "400 ValidationException: The model returned the following errors: prompt is too long: 9",
        );
        check(
            E::ModelNotFound("m".into()),
            "404 ResourceNotFoundException: Could not resolve the foundation model from the model \
             identifier: m",
        );
        check(E::StreamError("cut".into()), "500 InternalServerException: stream error: cut");
        check(E::Other("odd".into()), "500 InternalServerException: odd");
    }

    #[test]
    fn headers_have_the_exception_and_the_delay() {
        let headers = |retry_after| {
            let headers = ApiError::from(&ProviderError::RateLimit { retry_after }).headers();
            headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>()
        };
        let name = "x-amzn-errortype: ThrottlingException:http://internal.amazon.com/coral/\
                    com.amazon.bedrock/";
        assert_eq!(headers(None), [name]);
        let delayed = headers(Some(Duration::from_millis(1500)));
        assert_eq!(delayed, [name, "x-amz-retry-after: 1500", "retry-after: 1.5"]);
    }

    #[test]
    fn only_exceptions_of_streams_are_sent_as_exceptions() {
        let shown = |error: ApiError| String::from_utf8_lossy(&error.frame()).into_owned();
        let known = shown(ApiError::validation("bad"));
        assert!(known.contains("validationException"), "{known}");
        assert!(known.contains("{\"message\":\"bad\"}"), "{known}");
        let other = shown(ApiError::new(403, "AccessDeniedException", "no"));
        assert!(other.contains(":error-code\u{7}\0\u{15}AccessDeniedException"), "{other}");
        assert!(other.contains(":error-message\u{7}\0\u{2}no"), "{other}");
    }
}
