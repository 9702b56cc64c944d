//! Tests that check the classes and texts of errors of OpenAI, llama.cpp and vLLM.

use std::time::Duration;

use neuron_http::Rejection;
use neuron_http::http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;

fn rejection(status: u16, body: &str) -> Rejection {
    let id = (HeaderName::from_static("x-request-id"), HeaderValue::from_static("req_h"));
    let headers = [id].into_iter().collect();
    Rejection::new(status, headers, body.as_bytes(), Duration::from_secs(600))
}

#[track_caller]
fn check(status: u16, body: &Value, kind: &str, text: &str) {
    let error = rejection(status, &body.to_string()).error();
    assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
}

fn body(kind: &str, code: Value) -> Value {
    json!({"error": {"message": "why", "type": kind, "param": null, "code": code}})
}

#[test]
fn each_status_is_classified_with_full_text() {
    for (status, kind, code, class, text) in [
        (
            400,
            "invalid_request_error",
            json!(null),
            "InvalidRequest",
            "invalid request: 400 invalid_request_error: why (request id req_h)",
        ),
        (
            400,
            "invalid_request_error",
            json!("context_length_exceeded"),
            "ContextWindowExceeded",
            "context window exceeded: 400 context_length_exceeded: why (request id req_h)",
        ),
        (
            401,
            "invalid_request_error",
            json!("invalid_api_key"),
            "Authentication",
            "authentication failed: 401 invalid_api_key: why (request id req_h)",
        ),
        (
            403,
            "invalid_request_error",
            json!(null),
            "Authentication",
            "authentication failed: 403 invalid_request_error: why (request id req_h)",
        ),
        (
            403,
            "invalid_request_error",
            json!("model_not_found"),
            "ModelNotFound",
            "model not found: 403 model_not_found: why (request id req_h)",
        ),
        (
            404,
            "invalid_request_error",
            json!("model_not_found"),
            "ModelNotFound",
            "model not found: 404 model_not_found: why (request id req_h)",
        ),
        (
            404,
            "invalid_request_error",
            json!(null),
            "InvalidRequest",
            "invalid request: 404 invalid_request_error: why (request id req_h); the base URL is probably wrong",
        ),
        (429, "requests", json!("rate_limit_exceeded"), "RateLimit", "rate limited"),
        (
            429,
            "insufficient_quota",
            json!("insufficient_quota"),
            "InsufficientResources",
            "insufficient resources: 429 insufficient_quota: why (request id req_h)",
        ),
        (
            429,
            "insufficient_quota",
            json!(429),
            "InsufficientResources",
            "insufficient resources: 429 insufficient_quota: why (request id req_h)",
        ),
        (
            429,
            "billing_not_active",
            json!("billing_not_active"),
            "InsufficientResources",
            "insufficient resources: 429 billing_not_active: why (request id req_h)",
        ),
        (
            500,
            "server_error",
            json!(null),
            "ServiceUnavailable",
            "service unavailable: 500 server_error: why (request id req_h)",
        ),
        (
            503,
            "server_error",
            json!("slow_down"),
            "ServiceUnavailable",
            "service unavailable: 503 slow_down: why (request id req_h)",
        ),
        (504, "server_error", json!(null), "Timeout", "timeout after 600s"),
    ] {
        check(status, &body(kind, code), class, text);
    }
}

#[test]
fn error_formats_of_compatible_servers_are_parsed() {
    check(
        400,
        &json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}}),
        "ContextWindowExceeded",
        "context window exceeded: 400 exceed_context_size_error: the request exceeds the available context size (request id req_h)",
    );
    check(
        400,
        &json!({"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested 5000.", "type": "BadRequestError", "code": 400}),
        "ContextWindowExceeded",
        "context window exceeded: 400 BadRequestError: This model's maximum context length is 4096 tokens. However, you requested 5000. (request id req_h)",
    );
    check(
        404,
        &json!({"object": "error", "message": "The model `x` does not exist.", "type": "NotFoundError", "code": 404}),
        "ModelNotFound",
        "model not found: 404 NotFoundError: The model `x` does not exist. (request id req_h)",
    );
    check(
        503,
        &json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}),
        "ModelLoading",
        "model loading: 503 unavailable_error: Loading model (request id req_h)",
    );
    check(
        400,
        &json!({"error": "bad"}),
        "InvalidRequest",
        "invalid request: 400: bad (request id req_h)",
    );
    check(
        400,
        &json!({"error": {}}),
        "InvalidRequest",
        "invalid request: 400: the server gives no reason (request id req_h)",
    );
    check(
        400,
        &json!({"detail": "bad"}),
        "InvalidRequest",
        "invalid request: 400: bad (request id req_h)",
    );
}

#[test]
fn body_that_is_not_json_is_shown() {
    let error = rejection(502, "<html>Bad gateway</html>\n").error();
    assert_eq!(
        error.to_string(),
        "service unavailable: 502: the response is not the API's: <html>Bad gateway</html> (request id req_h)"
    );
    let error = rejection(404, "").error();
    assert_eq!(
        error.to_string(),
        "invalid request: 404: the response has no body (request id req_h); the base URL is probably wrong"
    );
}

#[test]
fn truncated_body_keeps_error_class() {
    let body = body("server_error", json!("日本")).to_string();
    for end in 0..=body.len() {
        let rejection =
            Rejection::new(500, HeaderMap::new(), &body.as_bytes()[..end], Duration::ZERO);
        assert_eq!(rejection.error().kind(), "ServiceUnavailable");
    }
}

#[test]
fn error_is_found_in_every_field() {
    let found = |json: Value| ApiError::find(json).map(|error| error.message().to_owned());
    let why = Some("why".to_owned());
    assert_eq!(found(json!({"error": {"message": "why"}})), why);
    assert_eq!(found(json!({"error": "why", "message": "not this"})), why);
    assert_eq!(found(json!({"object": "error", "message": "why"})), why);
    assert_eq!(found(json!({"error": {"message": ["a", 1]}})), Some("[\"a\",1]".into()));
    for none in [json!({}), json!([]), json!({"error": null}), json!({"message": null})] {
        assert_eq!(found(none), None);
    }
    for none in [json!(null), json!(""), json!(false), json!([]), json!(7)] {
        assert_eq!(found(json!({"error": none})), None);
    }
}

/// A server failure that replaces a whole response must be a retryable error. After the beginning of a stream, it must
/// be an error that is not retryable.
#[test]
fn server_failure_in_place_of_response_is_retryable() {
    let error = |kind: &str| ApiError::read(json!({"type": kind, "message": "why"})).unwrap();
    assert_eq!(from_answer(&error("server_error")).kind(), "ServiceUnavailable");
    assert_eq!(from_event(&error("server_error")).kind(), "StreamError");
    assert_eq!(from_answer(&error("new")).kind(), "Other");
}

#[test]
fn stream_error_keeps_its_class() {
    for (kind, code, class) in [
        ("server_error", json!(null), "StreamError"),
        ("server_error", json!("server_is_overloaded"), "ServiceUnavailable"),
        ("tokens", json!("rate_limit_exceeded"), "RateLimit"),
        ("insufficient_quota", json!(null), "InsufficientResources"),
        ("invalid_request_error", json!("invalid_api_key"), "Authentication"),
        ("invalid_request_error", json!(null), "InvalidRequest"),
        ("upstream", json!(502), "ServiceUnavailable"),
        ("upstream", json!(402), "InsufficientResources"),
        ("upstream", json!(7), "StreamError"),
        ("upstream", json!("503"), "ServiceUnavailable"),
        // In most cases, the status in the error takes precedence over its type.
        ("invalid_request_error", json!(401), "Authentication"),
        ("invalid_request_error", json!(429), "RateLimit"),
        ("invalid_request_error", json!(400), "InvalidRequest"),
        ("insufficient_quota", json!(429), "InsufficientResources"),
        ("something_new", json!("new"), "StreamError"),
    ] {
        let error = ApiError::read(body(kind, code)["error"].take()).unwrap();
        assert_eq!(from_event(&error).kind(), class, "{kind}");
    }
}
