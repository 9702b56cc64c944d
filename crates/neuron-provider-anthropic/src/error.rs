//! Conversion of errors that a server sends with a successful status. [`neuron_http`] converts all other error
//! responses.
//!
//! <https://platform.claude.com/docs/en/api/errors>

pub(crate) use neuron_http::VendorError as ApiError;
use neuron_model::ProviderError;

/// Converts an `error` event of a stream. The event arrives after a successful status.
pub(crate) fn from_event(error: &ApiError, request_id: Option<&str>) -> ProviderError {
    error.within("the stream", request_id, ProviderError::StreamError)
}

/// Returns the error in the body of a response with a successful status. Some proxies forward errors with such a
/// status. Returns `None` if the body is not an error.
pub(crate) fn find_in(body: &[u8]) -> Option<ProviderError> {
    let error = ApiError::find_in(body)?;
    Some(error.within("the answer", error.request_id(), ProviderError::StreamError))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuron_http::Rejection;
    use neuron_http::http::header::{HeaderMap, HeaderName, HeaderValue};

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
        let error = Rejection::new(status, headers, body.as_bytes(), limit).error();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    #[test]
    fn each_status_is_classified_with_full_text() {
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
            (409, "conflict_error", "InvalidRequest", "invalid request"),
            (413, "request_too_large", "ContextWindowExceeded", "context window exceeded"),
            (500, "api_error", "ServiceUnavailable", "service unavailable"),
            (503, "api_error", "ServiceUnavailable", "service unavailable"),
            (529, "overloaded_error", "ServiceUnavailable", "service unavailable"),
        ] {
            let text = format!("{prefix}: {status} {kind}: why (request id req_1)");
            check(status, &body(kind, "why"), class, &text);
        }
        let text = "invalid request: 404 not_found_error: why (request id req_1); the base URL is probably wrong";
        check(404, &body("not_found_error", "why"), "InvalidRequest", text);
        let text = "model not found: 404 not_found_error: model: m (request id req_1)";
        check(404, &body("not_found_error", "model: m"), "ModelNotFound", text);
        check(429, &body("rate_limit_error", "slow down"), "RateLimit", "rate limited");
        check(504, &body("timeout_error", "late"), "Timeout", "timeout after 600s");
    }

    #[test]
    fn context_overflow_is_classified() {
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
        // An error about a tool's name contains similar words, but is not an overflow.
        let other =
            r#"{"error":{"type":"invalid_request_error","message":"tools.0: name is too long"}}"#;
        let text = "invalid request: 400 invalid_request_error: tools.0: name is too long (request id req_h)";
        check(400, other, "InvalidRequest", text);
    }

    /// Errors of other servers with Anthropic's API must get the right class, although their formats and their words
    /// differ from Anthropic's.
    #[test]
    fn error_formats_of_compatible_servers_are_parsed() {
        for (vendor, status, body, class) in [
            (
                "Vertex",
                404,
                r#"[{"error":{"code":404,"message":"Publisher Model `claude-x` was not found.","status":"NOT_FOUND"}}]"#,
                "ModelNotFound",
            ),
            (
                "Bedrock",
                400,
                r#"{"message":"The provided model identifier is invalid."}"#,
                "ModelNotFound",
            ),
            (
                "Bedrock",
                400,
                r#"{"message":"Input is too long for requested model."}"#,
                "ContextWindowExceeded",
            ),
            (
                "vLLM",
                400,
                r#"{"type":"error","error":{"type":"BadRequestError","message":"You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is only 131072 tokens"}}"#,
                "ContextWindowExceeded",
            ),
            (
                "llama.cpp",
                400,
                r#"{"error":{"code":400,"message":"request (1407 tokens) exceeds the available context size (256 tokens), try increasing it","type":"exceed_context_size_error"}}"#,
                "ContextWindowExceeded",
            ),
            (
                "llama.cpp",
                500,
                r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
                "InvalidRequest",
            ),
            (
                "MiniMax",
                400,
                r#"{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}"#,
                "ContextWindowExceeded",
            ),
            (
                "z.ai",
                429,
                r#"{"error":{"code":"1308","message":"Usage limit reached"}}"#,
                "InsufficientResources",
            ),
            (
                "Anthropic",
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
                "InsufficientResources",
            ),
        ] {
            let limit = Duration::from_secs(600);
            let rejection = Rejection::new(status, HeaderMap::new(), body.as_bytes(), limit);
            let error = rejection.error();
            assert_eq!(error.kind(), class, "{vendor}: {error}");
            let within = find_in(body.as_bytes()).map(|error| error.kind());
            assert_eq!(within, Some(class), "{vendor} with status 200");
        }
    }

    #[test]
    fn spending_limit_is_not_a_rate_limit() {
        let body = r#"{"error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
        let text = "insufficient resources: 429 rate_limit_error: m (request id req_h)";
        check(429, body, "InsufficientResources", text);
    }

    #[test]
    fn foreign_body_is_shown() {
        let text = "service unavailable: 502: the response is not the API's: <html>Bad gateway</html> (request id req_h)";
        check(502, "<html>Bad gateway</html>\n", "ServiceUnavailable", text);
        let text = "invalid request: 404: the response has no body (request id req_h); the base URL is probably wrong";
        check(404, "", "InvalidRequest", text);
        let location = headers(&[("location", "https://elsewhere.example/v1/messages")]);
        let error = Rejection::new(307, location, b"", Duration::ZERO).error();
        assert_eq!(
            error.to_string(),
            "invalid request: 307: redirected to https://elsewhere.example/v1/messages, which is not followed: the base URL must lead there"
        );
    }

    #[test]
    fn truncated_body_keeps_error_class() {
        let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"日本"},"request_id":"r"}"#;
        for end in 0..=body.len() {
            let cut = &body.as_bytes()[..end];
            let rejection = Rejection::new(529, HeaderMap::new(), cut, Duration::ZERO);
            let error = rejection.error();
            assert_eq!(error.kind(), "ServiceUnavailable");
        }
    }

    #[test]
    fn stream_error_keeps_its_class() {
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
