//! The API's errors as ours. <https://platform.claude.com/docs/en/api/errors>

use std::time::Duration;

use neuron_http::reqwest::StatusCode;
use neuron_http::reqwest::header::HeaderMap;
use neuron_http::{header, retry_after};
use neuron_types::ProviderError;
use serde::Deserialize;

/// How much of a body that is no JSON an error shows, in characters.
const SHOWN: usize = 300;

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
pub(crate) fn from_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    limit: Duration,
) -> ProviderError {
    let header_id = header(headers, "request-id");
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(ErrorBody { error, request_id }) => {
            let text = describe(Some(status), &error, request_id.as_deref().or(header_id));
            classify(status.as_u16(), &error, text, retry_after(headers), limit)
        }
        Err(_) => {
            let shown: String = String::from_utf8_lossy(body).trim().chars().take(SHOWN).collect();
            let message = match header(headers, "location") {
                Some(location) => format!("redirected to {location}; set that as the base URL"),
                None if shown.is_empty() => "the response has no body".into(),
                None => format!("the response is not the API's: {shown}"),
            };
            let error = ApiError { kind: String::new(), message, details: None };
            let text = describe(Some(status), &error, header_id);
            classify(status.as_u16(), &error, text, retry_after(headers), limit)
        }
    }
}

/// Maps an `error` event within a stream, whose status was a success.
pub(crate) fn from_event(error: &ApiError, request_id: Option<&str>) -> ProviderError {
    let text = describe(None, error, request_id);
    match error.kind.as_str() {
        "overloaded_error" => ProviderError::ServiceUnavailable(text),
        "rate_limit_error" => classify(429, error, text, None, Duration::ZERO),
        "authentication_error" | "permission_error" => ProviderError::Authentication(text),
        "billing_error" => ProviderError::InsufficientResources(text),
        "invalid_request_error" => ProviderError::InvalidRequest(text),
        _ => ProviderError::StreamError(text),
    }
}

fn classify(
    status: u16,
    error: &ApiError,
    text: String,
    retry_after: Option<Duration>,
    limit: Duration,
) -> ProviderError {
    let code = error.details.as_ref().and_then(|details| details.error_code.as_deref());
    if code.is_some_and(|code| SPEND_LIMITS.contains(&code)) {
        return ProviderError::InsufficientResources(text);
    }
    match status {
        401 | 403 => ProviderError::Authentication(text),
        402 => ProviderError::InsufficientResources(text),
        // Of the two things that may not be found, the path is the caller's mistake.
        404 if error.kind == "not_found_error" => ProviderError::ModelNotFound(text),
        408 | 504 => ProviderError::Timeout(limit),
        429 => ProviderError::RateLimit { retry_after },
        500.. => ProviderError::ServiceUnavailable(text),
        _ => ProviderError::InvalidRequest(text),
    }
}

fn describe(status: Option<StatusCode>, error: &ApiError, request_id: Option<&str>) -> String {
    let mut text = match status {
        Some(status) => status.as_u16().to_string(),
        None => "in the stream".to_owned(),
    };
    if !error.kind.is_empty() {
        text = format!("{text} {}", error.kind);
    }
    text = format!("{text}: {}", error.message);
    if let Some(id) = request_id {
        text = format!("{text} (request id {id})");
    }
    text
}

#[cfg(test)]
mod tests {
    use neuron_http::reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[track_caller]
    fn check(status: u16, body: &str, kind: &str, text: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let headers = headers(&[("request-id", "req_h")]);
        let error = from_response(status, &headers, body.as_bytes(), Duration::from_secs(600));
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
            (404, "not_found_error", "ModelNotFound", "model not found"),
            (409, "conflict_error", "InvalidRequest", "invalid request"),
            (413, "request_too_large", "InvalidRequest", "invalid request"),
            (500, "api_error", "ServiceUnavailable", "service unavailable"),
            (503, "api_error", "ServiceUnavailable", "service unavailable"),
            (529, "overloaded_error", "ServiceUnavailable", "service unavailable"),
        ] {
            let text = format!("{prefix}: {status} {kind}: why (request id req_1)");
            check(status, &body(kind, "why"), class, &text);
        }
        check(429, &body("rate_limit_error", "slow down"), "RateLimit", "rate limited");
        check(504, &body("timeout_error", "late"), "Timeout", "timeout after 600s");
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
        let error = from_response(
            StatusCode::TEMPORARY_REDIRECT,
            &headers(&[("location", "https://elsewhere.example/v1/messages")]),
            b"",
            Duration::ZERO,
        );
        assert_eq!(
            error.to_string(),
            "invalid request: 307: redirected to https://elsewhere.example/v1/messages; set that as the base URL"
        );
    }

    #[test]
    fn every_truncation_of_a_body_gives_an_error_of_the_same_class() {
        let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"日本"},"request_id":"r"}"#;
        for end in 0..=body.len() {
            let cut = &body.as_bytes()[..end];
            let status = StatusCode::from_u16(529).unwrap();
            let error = from_response(status, &HeaderMap::new(), cut, Duration::ZERO);
            assert_eq!(error.kind(), "ServiceUnavailable");
        }
    }

    #[test]
    fn an_error_within_a_stream_keeps_its_class() {
        for (kind, class) in [
            ("overloaded_error", "ServiceUnavailable"),
            ("rate_limit_error", "RateLimit"),
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
