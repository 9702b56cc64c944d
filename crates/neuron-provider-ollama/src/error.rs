//! Conversion of the server's errors.
//!
//! <https://docs.ollama.com/api/errors>
//!
//! Errors of Ollama are texts without codes. [`neuron_http`] classifies them by the status and by words in the text.

use std::error::Error;
use std::fmt;

use neuron_http::{Rejection, VendorError};
use neuron_model::{BoxError, ProviderError};
use serde::Deserialize;
use serde_json::Value;

/// The JSON of an error.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) error: Value,
    /// URL at which the user can sign in to Ollama's cloud.
    #[serde(default)]
    signin_url: Option<String>,
}

/// Converts a response whose status is not a success into an error.
pub(crate) fn from_rejection(rejection: &Rejection) -> ProviderError {
    let body: Option<ErrorBody> = rejection.json();
    let error = body.as_ref().map_or_else(|| rejection.vendor_error(), |body| read(&body.error));
    let mut message = error.message().to_owned();
    if let Some(url) = body.and_then(|body| body.signin_url) {
        message = format!("{message}; sign in at {url}");
    }
    match rejection.error_of(&error, &message) {
        ProviderError::ModelNotFound(text) => {
            ProviderError::ModelNotFound(with_pull_command(&text))
        }
        ProviderError::ServiceUnavailable(text) if is_out_of_memory(&error) => {
            ProviderError::InsufficientResources(text)
        }
        // Status 499 means that the server aborted a request that the client did not cancel. A retry may succeed.
        ProviderError::InvalidRequest(text) if rejection.status() == 499 => {
            rejection.with_retry_after(ProviderError::ServiceUnavailable(text.clone()), text)
        }
        error => error,
    }
}

/// Converts an error that the server sent as a line of a stream, after a successful status.
pub(crate) fn from_line(error: &Value) -> ProviderError {
    within("the stream", error)
}

/// Converts an error that the server sent instead of a whole response, although the status was a success.
pub(crate) fn from_answer(error: &Value) -> ProviderError {
    within("the answer", error)
}

/// Converts an error that arrived after a successful status. `place` names the place of the error, for example `the
/// answer`, and becomes a part of the error's text.
fn within(place: &str, error: &Value) -> ProviderError {
    let error = read(error);
    match error.within(place, None, ProviderError::StreamError) {
        ProviderError::ModelNotFound(text) => {
            ProviderError::ModelNotFound(with_pull_command(&text))
        }
        ProviderError::StreamError(text) if is_out_of_memory(&error) => {
            ProviderError::InsufficientResources(text)
        }
        error => error,
    }
}

/// Returns `true` if the server's machine has too little memory for the model. On other servers such an error may be
/// temporary, so only this crate treats it as permanent.
fn is_out_of_memory(error: &VendorError) -> bool {
    // The text after `raw='` quotes an invalid tool call of the model, which may contain any words.
    let own = error.message().split("raw='").next().unwrap_or_default();
    own.to_lowercase().contains("out of memory")
}

/// Parses an error. Ollama sends a text, and compatible servers may send an object. Any other value is quoted as JSON
/// in the error.
fn read(error: &Value) -> VendorError {
    VendorError::read(error.clone()).unwrap_or_else(|| VendorError::new(error.to_string()))
}

/// Adds a hint to start Ollama to the error of a refused connection. Returns any other error unchanged.
pub(crate) fn with_hint(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Network(source) if source.to_string().contains("refused") => {
            ProviderError::Network(Box::new(NotRunning(source)))
        }
        error => error,
    }
}

/// The error of a refused connection, with a hint to start Ollama.
#[derive(Debug)]
struct NotRunning(BoxError);

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; is Ollama running there? `ollama serve` starts it", self.0)
    }
}

impl Error for NotRunning {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Appends the command that pulls a model. The command contains the model's name if the message contains the name in
/// quotes.
fn with_pull_command(message: &str) -> String {
    let mut parts = message.splitn(3, ['\'', '"', '`']);
    match (parts.next(), parts.next(), parts.next()) {
        (_, Some(model), Some(_)) if !model.is_empty() => {
            format!("{message}; `ollama pull {model}` gets it")
        }
        _ => format!("{message}; `ollama pull` gets models"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuron_http::http::header::HeaderMap;
    use serde_json::json;

    use super::*;

    fn rejected(status: u16, body: &str) -> ProviderError {
        let limit = Duration::from_secs(600);
        from_rejection(&Rejection::new(status, HeaderMap::new(), body.as_bytes(), limit))
    }

    #[track_caller]
    fn check(status: u16, error: Value, kind: &str, text: &str) {
        let error = rejected(status, &json!({"error": error}).to_string());
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
    }

    #[test]
    fn each_server_error_has_class_and_text() {
        for (status, message, kind, prefix) in [
            (400, "\"m\" does not support tools", "InvalidRequest", "invalid request"),
            (400, "\"m\" does not support thinking", "InvalidRequest", "invalid request"),
            (400, "invalid character 'x'", "InvalidRequest", "invalid request"),
            (401, "unauthorized", "Authentication", "authentication failed"),
            (403, "cloud is disabled", "Authentication", "authentication failed"),
            (
                429,
                "you (a) have reached your weekly usage limit, upgrade for higher limits",
                "InsufficientResources",
                "insufficient resources",
            ),
            (499, "request canceled", "ServiceUnavailable", "service unavailable"),
            (500, "error loading model: bad magic", "ServiceUnavailable", "service unavailable"),
            (
                500,
                "model requires more system memory (5.0 GiB) than is available (3.9 GiB)",
                "InsufficientResources",
                "insufficient resources",
            ),
            (500, "CUDA error: out of memory", "InsufficientResources", "insufficient resources"),
            (502, "upstream", "ServiceUnavailable", "service unavailable"),
            (
                503,
                "server busy, please try again.  maximum pending requests exceeded",
                "ServiceUnavailable",
                "service unavailable",
            ),
            (503, "Loading model", "ModelLoading", "model loading"),
            (500, "llm server loading model", "ModelLoading", "model loading"),
        ] {
            check(status, json!(message), kind, &format!("{prefix}: {status}: {message}"));
        }
        check(429, json!("too many requests"), "RateLimit", "rate limited");
        check(504, json!("late"), "Timeout", "timeout after 600s");
    }

    #[test]
    fn context_overflow_is_classified() {
        for message in [
            "the input length exceeds the context length",
            "the request exceeds the available context size, try increasing it",
        ] {
            for status in [400, 500] {
                let text = format!("context window exceeded: {status}: {message}");
                check(status, json!(message), "ContextWindowExceeded", &text);
            }
            assert_eq!(from_line(&json!(message)).kind(), "ContextWindowExceeded");
        }
    }

    #[test]
    fn missing_model_error_names_the_pull_command() {
        check(
            404,
            json!("model 'qwen3:32b' not found"),
            "ModelNotFound",
            "model not found: 404: model 'qwen3:32b' not found; `ollama pull qwen3:32b` gets it",
        );
        check(
            404,
            json!("model \"m\" not found, try pulling it first"),
            "ModelNotFound",
            "model not found: 404: model \"m\" not found, try pulling it first; `ollama pull m` gets it",
        );
        check(
            404,
            json!("model not found"),
            "ModelNotFound",
            "model not found: 404: model not found; `ollama pull` gets models",
        );
        let error = rejected(404, "404 page not found");
        assert_eq!(
            error.to_string(),
            "invalid request: 404: the response is not the API's: 404 page not found; the base URL is probably wrong"
        );
    }

    /// The class of an error must not depend on words in the model output that the error quotes. Regression test.
    #[test]
    fn quoted_model_output_does_not_affect_error_class() {
        let message = "error parsing tool call: raw='{\"q\":\"model not found, out of memory\"', err=unexpected end of JSON input";
        let text = format!("service unavailable: 500: {message}");
        check(500, json!(message), "ServiceUnavailable", &text);
        assert_eq!(from_line(&json!(message)).kind(), "StreamError");
    }

    #[test]
    fn unauthorized_cloud_error_contains_sign_in_url() {
        let body = r#"{"error":"unauthorized","signin_url":"https://ollama.com/connect?x=1"}"#;
        assert_eq!(
            rejected(401, body).to_string(),
            "authentication failed: 401: unauthorized; sign in at https://ollama.com/connect?x=1"
        );
    }

    #[test]
    fn error_objects_of_compatible_servers_are_parsed() {
        check(
            503,
            json!({"code": 503, "message": "Loading model", "type": "unavailable_error"}),
            "ModelLoading",
            "model loading: 503 unavailable_error: Loading model",
        );
        check(
            400,
            json!({"code": 7, "message": "no"}),
            "InvalidRequest",
            "invalid request: 400 7: no",
        );
        check(400, json!({"a": 1}), "InvalidRequest", "invalid request: 400: {\"a\":1}");
        check(400, json!(null), "InvalidRequest", "invalid request: 400: null");
    }

    #[test]
    fn truncated_body_keeps_error_class() {
        let body = r#"{"error":"日本 \"x\""}"#;
        for end in 0..=body.len() {
            let cut = &body.as_bytes()[..end];
            let rejection = Rejection::new(502, HeaderMap::new(), cut, Duration::ZERO);
            assert_eq!(from_rejection(&rejection).kind(), "ServiceUnavailable");
        }
    }

    /// An error with which the same request always fails must become an invalid request, even if its status suggests a
    /// retry.
    #[test]
    fn permanent_error_with_server_status_is_invalid_request() {
        for message in [
            "\"m\" does not support tools",
            "this model is missing data required for image input",
            "invalid JSON schema in format",
        ] {
            check(
                500,
                json!(message),
                "InvalidRequest",
                &format!("invalid request: 500: {message}"),
            );
            assert_eq!(from_line(&json!(message)).kind(), "InvalidRequest");
        }
    }

    #[test]
    fn error_format_of_proxies_is_parsed() {
        let error = rejected(401, r#"{"detail":"Unauthorized"}"#);
        assert_eq!(error.to_string(), "authentication failed: 401: Unauthorized");
        let error = rejected(
            400,
            r#"[{"error":{"message":"the input length exceeds the context length"}}]"#,
        );
        assert_eq!(error.kind(), "ContextWindowExceeded");
    }

    #[test]
    fn stream_error_keeps_its_class() {
        for (message, kind, text) in [
            (
                "model 'm' not found",
                "ModelNotFound",
                "model not found: in the stream: model 'm' not found; `ollama pull m` gets it",
            ),
            (
                "server busy, please try again.",
                "ServiceUnavailable",
                "service unavailable: in the stream: server busy, please try again.",
            ),
            (
                "cudaMalloc failed: out of memory",
                "InsufficientResources",
                "insufficient resources: in the stream: cudaMalloc failed: out of memory",
            ),
            ("loading model", "ModelLoading", "model loading: in the stream: loading model"),
            (
                "unauthorized",
                "Authentication",
                "authentication failed: in the stream: unauthorized",
            ),
            (
                "an error was encountered while running the model: EOF",
                "StreamError",
                "stream error: in the stream: an error was encountered while running the model: EOF",
            ),
        ] {
            let error = from_line(&json!(message));
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
        let error = from_line(&json!({"message": "m", "type": "odd"}));
        assert_eq!(error.to_string(), "stream error: in the stream odd: m");
    }

    #[test]
    fn only_refused_connection_gets_the_hint() {
        let hinted = with_hint(ProviderError::Network("tcp: Connection refused".into()));
        assert_eq!(
            hinted.to_string(),
            "network error: tcp: Connection refused; is Ollama running there? `ollama serve` starts it"
        );
        assert!(hinted.is_retryable());
        let source = Error::source(&hinted).and_then(Error::source);
        assert_eq!(source.map(ToString::to_string).as_deref(), Some("tcp: Connection refused"));
        let reset = with_hint(ProviderError::Network("reset".into()));
        assert_eq!(reset.to_string(), "network error: reset");
        let other = with_hint(ProviderError::InvalidRequest("refused".into()));
        assert_eq!(other.to_string(), "invalid request: refused");
    }
}
