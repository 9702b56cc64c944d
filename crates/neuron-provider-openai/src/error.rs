//! The API's errors as ours. <https://platform.openai.com/docs/guides/error-codes>

use std::time::Duration;

use neuron_http::reqwest::header::HeaderMap;
use neuron_http::{Rejection, describe_within};
use neuron_types::ProviderError;
use serde_json::Value;

/// What is used up comes as a rate limit, but waiting does not help.
const QUOTA: [&str; 3] = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"];

const RATE_LIMITS: [&str; 2] = ["rate_limit_exceeded", "rate_limit_error"];

const OVERLOADED: [&str; 3] = ["server_is_overloaded", "slow_down", "overloaded_error"];

/// An error, as a body and an event in a stream have it.
#[derive(Debug, Default)]
pub(crate) struct ApiError {
    kind: Option<String>,
    /// A text, or on compatible servers a number.
    code: Option<Value>,
    message: Option<String>,
}

/// Maps a response whose status is not a success.
pub(crate) fn from_rejection(rejection: &Rejection) -> ProviderError {
    let request_id = rejection.header("x-request-id");
    let Some(error) = rejection.json::<Value>().and_then(ApiError::find) else {
        return rejection.classify(rejection.describe("", &rejection.foreign(), request_id));
    };
    let text = rejection.describe(error.name(), error.message(), request_id);
    let missing_model = rejection.status() == 404 && error.message().contains("model");
    match error.class() {
        Some(Class::Quota) => ProviderError::InsufficientResources(text),
        Some(Class::NoModel) => ProviderError::ModelNotFound(text),
        Some(Class::TooLong) => ProviderError::ContextWindowExceeded(text),
        _ if missing_model => ProviderError::ModelNotFound(text),
        _ if rejection.status() == 503 && error.is_loading() => ProviderError::ModelLoading(text),
        _ => rejection.classify(text),
    }
}

/// Maps an error within a stream, whose status was a success.
pub(crate) fn from_event(error: &ApiError) -> ProviderError {
    // Part of the answer has been shown: it cannot be asked for again.
    error.classify("the stream", ProviderError::StreamError)
}

/// Maps an error that came in place of an answer, whose status was a success.
pub(crate) fn from_answer(error: &ApiError) -> ProviderError {
    error.classify("the answer", |text| match error.name() {
        "server_error" => ProviderError::ServiceUnavailable(text),
        _ => ProviderError::Other(text.into()),
    })
}

/// What the vendor's words for an error mean.
enum Class {
    Quota,
    NoModel,
    RateLimit,
    Overloaded,
    Key,
    /// The conversation does not fit into the model's context window.
    TooLong,
    Request,
}

impl ApiError {
    /// Finds the error in a body or an event: nested as the vendor has it, or flat as some
    /// compatible servers do.
    pub(crate) fn find(mut json: Value) -> Option<Self> {
        if let Some(error) = json.get_mut("error").map(Value::take).and_then(Self::read) {
            return Some(error);
        }
        json.get("message").filter(|message| !message.is_null())?;
        Self::read(json)
    }

    /// Finds the error that came in place of a chunk or an event.
    pub(crate) fn find_in(data: &[u8]) -> Option<Self> {
        Self::find(serde_json::from_slice(data).ok()?)
    }

    /// Reads an event that is an error: its `type` says so, and is not the error's.
    pub(crate) fn of_event(data: &[u8]) -> Option<Self> {
        let mut json: Value = serde_json::from_slice(data).ok()?;
        let nested = json.get_mut("error").map(Value::take).and_then(Self::read);
        nested.or_else(|| Some(Self { kind: None, ..Self::read(json)? }))
    }

    /// Reads an `error`, which some servers give as a text. `None` for one that says that there is
    /// none.
    pub(crate) fn read(json: Value) -> Option<Self> {
        let mut fields = match json {
            Value::Object(fields) => fields,
            Value::String(message) if !message.is_empty() => {
                return Some(Self { message: Some(message), ..Self::default() });
            }
            _ => return None,
        };
        let text = |value: Value| match value {
            Value::Null => None,
            Value::String(text) => Some(text),
            // What is wrong with which field, perhaps.
            other => Some(other.to_string()),
        };
        let mut take = |key: &str| fields.get_mut(key).map(Value::take);
        Some(Self {
            kind: take("type").and_then(text),
            code: take("code").filter(|code| !code.is_null()),
            message: take("message").and_then(text),
        })
    }

    /// The word that says most.
    fn name(&self) -> &str {
        let code = self.code.as_ref().and_then(Value::as_str);
        code.or(self.kind.as_deref()).unwrap_or_default()
    }

    fn message(&self) -> &str {
        self.message.as_deref().unwrap_or("the server gives no reason")
    }

    /// Makes an error of one that came although the status was a success.
    fn classify(&self, place: &str, other: impl FnOnce(String) -> ProviderError) -> ProviderError {
        let text = describe_within(place, self.name(), self.message(), None);
        match (self.class(), self.status()) {
            (Some(Class::Quota), _) => ProviderError::InsufficientResources(text),
            (Some(Class::NoModel), _) => ProviderError::ModelNotFound(text),
            (Some(Class::RateLimit), _) => ProviderError::RateLimit { retry_after: None },
            (Some(Class::Overloaded), _) => ProviderError::ServiceUnavailable(text),
            (Some(Class::Key), _) => ProviderError::Authentication(text),
            (Some(Class::TooLong), _) => ProviderError::ContextWindowExceeded(text),
            (_, Some(503)) if self.is_loading() => ProviderError::ModelLoading(text),
            // The vendor says `invalid_request_error` of keys too: the status tells more.
            (_, Some(status)) => {
                Rejection::new(status, HeaderMap::new(), b"", Duration::ZERO).classify(text)
            }
            (Some(Class::Request), None) => ProviderError::InvalidRequest(text),
            (None, None) => other(text),
        }
    }

    /// The status that a proxy's own server had, which it passes on as a code.
    fn status(&self) -> Option<u16> {
        let code = self.code.as_ref()?;
        let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
        u16::try_from(number).ok().filter(|status| (400..600).contains(status))
    }

    fn class(&self) -> Option<Class> {
        let code = self.code.as_ref().and_then(Value::as_str);
        [code, self.kind.as_deref()].into_iter().flatten().find_map(|word| match word {
            word if QUOTA.contains(&word) => Some(Class::Quota),
            word if RATE_LIMITS.contains(&word) => Some(Class::RateLimit),
            word if OVERLOADED.contains(&word) => Some(Class::Overloaded),
            "model_not_found" => Some(Class::NoModel),
            "invalid_api_key" | "authentication_error" | "permission_error" => Some(Class::Key),
            // The second is llama.cpp's.
            "context_length_exceeded" | "exceed_context_size_error" => Some(Class::TooLong),
            _ if self.is_too_long() => Some(Class::TooLong),
            "invalid_request_error" | "invalid_prompt" => Some(Class::Request),
            _ => None,
        })
    }

    /// vLLM and others have no code for it: "This model's maximum context length is 4096 tokens.
    /// However, …".
    fn is_too_long(&self) -> bool {
        self.message().starts_with("This model's maximum context length is")
    }

    /// llama.cpp answers so until its model is there.
    fn is_loading(&self) -> bool {
        self.message().to_ascii_lowercase().contains("loading model")
    }
}

#[cfg(test)]
mod tests {
    use neuron_http::reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn rejection(status: u16, body: &str) -> Rejection {
        let id = (HeaderName::from_static("x-request-id"), HeaderValue::from_static("req_h"));
        let headers = [id].into_iter().collect();
        Rejection::new(status, headers, body.as_bytes(), Duration::from_secs(600))
    }

    #[track_caller]
    fn check(status: u16, body: &Value, kind: &str, text: &str) {
        let error = from_rejection(&rejection(status, &body.to_string()));
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    fn body(kind: &str, code: Value) -> Value {
        json!({"error": {"message": "why", "type": kind, "param": null, "code": code}})
    }

    #[test]
    fn each_status_has_its_class_and_the_text_says_all() {
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
                "invalid request: 404 invalid_request_error: why (request id req_h)",
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
    fn compatible_servers_have_other_forms() {
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
            "invalid request: 400: the response is not the API's: {\"detail\":\"bad\"} (request id req_h)",
        );
    }

    #[test]
    fn a_body_that_is_not_json_is_shown() {
        let error = from_rejection(&rejection(502, "<html>Bad gateway</html>\n"));
        assert_eq!(
            error.to_string(),
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html> (request id req_h)"
        );
        let error = from_rejection(&rejection(404, ""));
        assert_eq!(
            error.to_string(),
            "invalid request: 404: the response has no body (request id req_h)"
        );
    }

    #[test]
    fn every_truncation_of_a_body_gives_an_error_of_the_same_class() {
        let body = body("server_error", json!("日本")).to_string();
        for end in 0..=body.len() {
            let rejection =
                Rejection::new(500, HeaderMap::new(), &body.as_bytes()[..end], Duration::ZERO);
            assert_eq!(from_rejection(&rejection).kind(), "ServiceUnavailable");
        }
    }

    #[test]
    fn an_error_is_found_where_servers_put_it() {
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

    /// In a stream nothing can be taken back; an answer that is not there can be asked for again.
    #[test]
    fn a_failure_of_the_server_in_place_of_an_answer_can_be_tried_again() {
        let error = |kind: &str| ApiError::read(json!({"type": kind, "message": "why"})).unwrap();
        assert_eq!(from_answer(&error("server_error")).kind(), "ServiceUnavailable");
        assert_eq!(from_event(&error("server_error")).kind(), "StreamError");
        assert_eq!(from_answer(&error("new")).kind(), "Other");
    }

    #[test]
    fn an_error_within_a_stream_keeps_its_class() {
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
            // The status says more than the vendor's word for nearly everything.
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
}
