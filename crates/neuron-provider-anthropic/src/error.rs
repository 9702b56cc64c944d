//! The API's errors as ours. <https://platform.claude.com/docs/en/api/errors>

use neuron_http::{Rejection, describe_within};
use neuron_types::ProviderError;
use serde::Deserialize;

/// Spending limits come as rate limits, but waiting does not help.
const SPEND_LIMITS: [&str; 2] = ["enforced_spend_limit_reached", "contract_spend_limit_reached"];

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: ApiError,
    #[serde(default)]
    request_id: Option<String>,
}

/// The `error` object of a body, and of an event in a stream.
#[derive(Debug, Deserialize)]
pub(crate) struct ApiError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Debug, Deserialize)]
struct Details {
    #[serde(default)]
    error_code: Option<String>,
}

/// Maps a response whose status is not a success.
pub(crate) fn from_rejection(rejection: &Rejection) -> ProviderError {
    let header_id = rejection.header("request-id");
    let Some(ErrorBody { error, request_id }) = rejection.json() else {
        return rejection.classify(rejection.describe("", &rejection.foreign(), header_id));
    };
    let request_id = request_id.as_deref().or(header_id);
    let text = rejection.describe(&error.kind, &error.message, request_id);
    match rejection.status() {
        _ if error.is_spend_limit() => ProviderError::InsufficientResources(text),
        404 if error.is_missing_model() => ProviderError::ModelNotFound(text),
        400 if error.is_too_long() => ProviderError::ContextWindowExceeded(text),
        _ => rejection.classify(text),
    }
}

/// Maps an `error` event within a stream, whose status was a success.
pub(crate) fn from_event(error: &ApiError, request_id: Option<&str>) -> ProviderError {
    within("the stream", error, request_id)
}

/// Maps an error that came in place of an answer, whose status was a success: proxies do that.
pub(crate) fn find_in(body: &[u8]) -> Option<ProviderError> {
    let body: ErrorBody = serde_json::from_slice(body).ok()?;
    Some(within("the answer", &body.error, body.request_id.as_deref()))
}

fn within(place: &str, error: &ApiError, request_id: Option<&str>) -> ProviderError {
    let text = describe_within(place, &error.kind, &error.message, request_id);
    match error.kind.as_str() {
        _ if error.is_spend_limit() => ProviderError::InsufficientResources(text),
        "overloaded_error" => ProviderError::ServiceUnavailable(text),
        "rate_limit_error" => ProviderError::RateLimit { retry_after: None },
        "authentication_error" | "permission_error" => ProviderError::Authentication(text),
        "billing_error" => ProviderError::InsufficientResources(text),
        _ if error.is_missing_model() => ProviderError::ModelNotFound(text),
        "invalid_request_error" if error.is_too_long() => {
            ProviderError::ContextWindowExceeded(text)
        }
        "invalid_request_error" => ProviderError::InvalidRequest(text),
        _ => ProviderError::StreamError(text),
    }
}

impl ApiError {
    /// A path or a file that is not found is the caller's mistake, and has the same kind.
    fn is_missing_model(&self) -> bool {
        self.kind == "not_found_error" && self.message.starts_with("model")
    }

    /// Only the words tell: "prompt is too long: 200001 tokens > 200000 maximum", and "input length and
    /// `max_tokens` exceed context limit: …".
    fn is_too_long(&self) -> bool {
        self.kind == "invalid_request_error"
            && (self.message.starts_with("prompt is too long")
                || self.message.contains("exceed context limit"))
    }

    fn is_spend_limit(&self) -> bool {
        let code = self.details.as_ref().and_then(|details| details.error_code.as_deref());
        code.is_some_and(|code| SPEND_LIMITS.contains(&code))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuron_http::reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[track_caller]
    fn check(status: u16, body: &str, kind: &str, text: &str) {
        let headers = headers(&[("request-id", "req_h")]);
        let limit = Duration::from_secs(600);
        let error = from_rejection(&Rejection::new(status, headers, body.as_bytes(), limit));
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    #[test]
    fn each_status_has_its_class_and_the_text_says_all() {
        let body = |kind: &str, message: &str| {
            format!(
                r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
            )
        };
        for (status, kind, class, prefix) in [
            (400, "invalid_request_error", "InvalidRequest", "invalid request"),
            (401, "authentication_error", "Authentication", "authentication failed"),
            (402, "billing_error", "InsufficientResources", "insufficient resources"),
            (403, "permission_error", "Authentication", "authentication failed"),
            (404, "not_found_error", "InvalidRequest", "invalid request"),
            (409, "conflict_error", "InvalidRequest", "invalid request"),
            (413, "request_too_large", "InvalidRequest", "invalid request"),
            (500, "api_error", "ServiceUnavailable", "service unavailable"),
            (503, "api_error", "ServiceUnavailable", "service unavailable"),
            (529, "overloaded_error", "ServiceUnavailable", "service unavailable"),
        ] {
            let text = format!("{prefix}: {status} {kind}: why (request id req_1)");
            check(status, &body(kind, "why"), class, &text);
        }
        let text = "model not found: 404 not_found_error: model: m (request id req_1)";
        check(404, &body("not_found_error", "model: m"), "ModelNotFound", text);
        check(429, &body("rate_limit_error", "slow down"), "RateLimit", "rate limited");
        check(504, &body("timeout_error", "late"), "Timeout", "timeout after 600s");
    }

    #[test]
    fn a_conversation_that_is_too_long_has_a_class_of_its_own() {
        for message in [
            "prompt is too long: 209353 tokens > 199999 maximum",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again",
        ] {
            let json = format!(r#"{{"type":"invalid_request_error","message":"{message}"}}"#);
            let text = format!(
                "context window exceeded: 400 invalid_request_error: {message} (request id req_h)"
            );
            check(400, &format!(r#"{{"error":{json}}}"#), "ContextWindowExceeded", &text);
            let error = from_event(&serde_json::from_str(&json).unwrap(), None);
            assert_eq!(error.kind(), "ContextWindowExceeded");
        }
        // A tool's name, or words of the user in another error.
        let other =
            r#"{"error":{"type":"invalid_request_error","message":"tools.0: name is too long"}}"#;
        let text = "invalid request: 400 invalid_request_error: tools.0: name is too long (request id req_h)";
        check(400, other, "InvalidRequest", text);
    }

    #[test]
    fn a_spending_limit_is_no_rate_limit() {
        let body = r#"{"error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
        let text = "insufficient resources: 429 rate_limit_error: m (request id req_h)";
        check(429, body, "InsufficientResources", text);
    }

    #[test]
    fn a_body_that_is_not_the_apis_is_shown() {
        let text = "service unavailable: 502: the response is not the API's: <html>Bad gateway</html> (request id req_h)";
        check(502, "<html>Bad gateway</html>\n", "ServiceUnavailable", text);
        let text = "invalid request: 404: the response has no body (request id req_h)";
        check(404, "", "InvalidRequest", text);
        let location = headers(&[("location", "https://elsewhere.example/v1/messages")]);
        let error = from_rejection(&Rejection::new(307, location, b"", Duration::ZERO));
        assert_eq!(
            error.to_string(),
            "invalid request: 307: redirected to https://elsewhere.example/v1/messages, which is not followed: the base URL must lead there"
        );
    }

    #[test]
    fn every_truncation_of_a_body_gives_an_error_of_the_same_class() {
        let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"日本"},"request_id":"r"}"#;
        for end in 0..=body.len() {
            let cut = &body.as_bytes()[..end];
            let rejection = Rejection::new(529, HeaderMap::new(), cut, Duration::ZERO);
            let error = from_rejection(&rejection);
            assert_eq!(error.kind(), "ServiceUnavailable");
        }
    }

    #[test]
    fn an_error_within_a_stream_keeps_its_class() {
        for (kind, class) in [
            ("overloaded_error", "ServiceUnavailable"),
            ("rate_limit_error", "RateLimit"),
            ("not_found_error", "StreamError"),
            ("api_error", "StreamError"),
            ("something_new", "StreamError"),
        ] {
            let json = format!(r#"{{"type":"{kind}","message":"m"}}"#);
            let error = from_event(&serde_json::from_str(&json).unwrap(), Some("req_2"));
            assert_eq!(error.kind(), class);
            if class != "RateLimit" {
                assert!(
                    error
                        .to_string()
                        .ends_with(&format!("in the stream {kind}: m (request id req_2)"))
                );
            }
        }
    }
}
