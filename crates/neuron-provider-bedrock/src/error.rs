//! Conversion of the server's errors.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html#API_runtime_Converse_Errors>
//!
//! The name of an error is in the header `x-amzn-errortype`, or in the name of a frame of a stream. [`neuron_http`]
//! classifies general errors and errors with other names by words in the text, because Bedrock passes on the texts of
//! the models, and proxies send errors of their own.

use neuron_http::{Rejection, VendorError};
use neuron_model::ProviderError;
use serde_json::Value;

/// Converts a response whose status is not a success into an error.
pub(crate) fn from_rejection(rejection: &Rejection) -> ProviderError {
    let header = rejection.header("x-amzn-errortype");
    let error = ApiError::new(header, rejection.json().unwrap_or_default());
    let vendor = rejection.vendor_error();
    let message = error.message().unwrap_or_else(|| vendor.message());
    let Some(class) = error.class() else {
        return rejection.error_of(&vendor, message);
    };
    let id = rejection.header("x-amzn-requestid");
    let id = id.map(|id| format!(" (request id {id})")).unwrap_or_default();
    let text = format!("{} {}: {message}{id}", rejection.status(), error.name);
    match class {
        // The error contains the timeout of the client, which only the rejection has.
        Class::Timeout if [408, 504].contains(&rejection.status()) => rejection.classify(text),
        _ => rejection.with_retry_after(error.error(text.clone()), text),
    }
}

/// Returns the error in a body with a successful status. Returns `None` if there is no error. `place` is the part of
/// the response for the text of the error, such as `the answer`.
pub(crate) fn find_in(data: &[u8], place: &str) -> Option<ProviderError> {
    let json: Value = serde_json::from_slice(data).ok()?;
    let error = ApiError::new(None, json.clone());
    if error.class().is_some() {
        return Some(error.within(place));
    }
    let vendor = VendorError::find(json)?;
    Some(vendor.within(place, None, |text| ProviderError::Other(text.into())))
}

/// Converts an exception that arrived in a stream.
pub(crate) fn of_exception(name: &str, payload: &[u8]) -> ProviderError {
    let json = serde_json::from_slice(payload).unwrap_or_default();
    ApiError::new(Some(name), json).within("the stream")
}

/// Converts an error of the connection that arrived in a stream.
pub(crate) fn of_frame(code: &str, message: &str) -> ProviderError {
    ApiError::new(Some(code), serde_json::json!({ "message": message })).within("the stream")
}

/// An error of the API.
#[derive(Debug)]
struct ApiError {
    /// Name of the error, such as `ThrottlingException`. Empty if it is not known.
    name: String,
    json: Value,
}

impl ApiError {
    /// Reads an error from its name and the JSON of its body. A body without a name from elsewhere may have the name
    /// itself.
    fn new(name: Option<&str>, json: Value) -> Self {
        let text = |key: &str| json.get(key).and_then(Value::as_str);
        let name = name.or_else(|| text("code")).or_else(|| text("__type")).unwrap_or_default();
        // The name may be between a namespace and a URL, as in `com.amazon#ValidationException:http://…`.
        let name = name.split(':').next().unwrap_or_default();
        let name = name.rsplit('#').next().unwrap_or_default().trim().to_owned();
        Self { name, json }
    }

    fn message(&self) -> Option<&str> {
        let mut texts = ["message", "Message", "originalMessage"].into_iter();
        texts.find_map(|key| self.json.get(key)?.as_str()).filter(|text| !text.is_empty())
    }

    /// Converts the error into an error with this text. The words of the message decide about the class if the name of
    /// the error is unknown or general.
    fn error(&self, text: String) -> ProviderError {
        let class = self.class();
        let is_general = matches!(class, None | Some(Class::Request | Class::Unavailable));
        let message = self.message().filter(|_| is_general);
        // Only some of these errors have a status. Their texts have the same meaning with each status.
        let found = message.and_then(|it| VendorError::new(it).classify(400, text.clone()));
        found.unwrap_or_else(|| match class {
            Some(class) => class.error(text),
            None => ProviderError::StreamError(text),
        })
    }

    /// Returns the class that the name of the error gives. Returns `None` for an unknown name.
    fn class(&self) -> Option<Class> {
        let name = self.name.to_ascii_lowercase();
        let name = name.strip_suffix("exception").unwrap_or(&name);
        Some(match name {
            "accessdenied"
            | "unrecognizedclient"
            | "invalidsignature"
            | "incompletesignature"
            | "invalidclienttokenid"
            | "missingauthenticationtoken"
            | "expiredtoken"
            | "signaturedoesnotmatch" => Class::Key,
            "resourcenotfound" => Class::NoModel,
            "validation" => Class::Request,
            "servicequotaexceeded" => Class::Quota,
            "throttling" | "toomanyrequests" => {
                let message = self.message().unwrap_or_default().to_lowercase();
                if message.contains("per day") { Class::Quota } else { Class::RateLimit }
            }
            "modelnotready" => Class::Loading,
            "modeltimeout" => Class::Timeout,
            // The model is a subscription that AWS is still setting up.
            "mpagreementbeingcreated" => Class::Unavailable,
            "internalserver"
            | "internalservererror"
            | "internalerror"
            | "internalfailure"
            | "serviceunavailable" => Class::Unavailable,
            // The error is the model's own.
            "modelerror" | "modelstreamerror" => self.original(),
            _ => return None,
        })
    }

    /// Returns the class of an error of the model, which has a status of its own.
    fn original(&self) -> Class {
        match self.json.get("originalStatusCode").and_then(Value::as_u64) {
            Some(429) => Class::RateLimit,
            Some(408) => Class::Timeout,
            Some(400..500) => Class::Request,
            _ => Class::Unavailable,
        }
    }

    /// Converts an error that arrived after a successful status.
    fn within(&self, place: &str) -> ProviderError {
        let message = self.message().unwrap_or("the server gives no reason");
        let space = if self.name.is_empty() { "" } else { " " };
        let text = format!("in {place}{space}{}: {message}", self.name);
        self.error(text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Key,
    NoModel,
    Request,
    Quota,
    RateLimit,
    Loading,
    Timeout,
    Unavailable,
}

impl Class {
    fn error(self, text: String) -> ProviderError {
        match self {
            Self::Key => ProviderError::Authentication(text),
            Self::NoModel => ProviderError::ModelNotFound(text),
            Self::Request => ProviderError::InvalidRequest(text),
            Self::Quota => ProviderError::InsufficientResources(text),
            Self::RateLimit => ProviderError::RateLimit { retry_after: None },
            Self::Loading => ProviderError::ModelLoading(text),
            // `ProviderError::Timeout` has no text, and reports a timeout of the client.
            Self::Timeout | Self::Unavailable => ProviderError::ServiceUnavailable(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use neuron_http::http::header::{HeaderMap, HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    fn rejected(status: u16, name: &'static str, body: &str) -> ProviderError {
        let mut headers = HeaderMap::new();
        if !name.is_empty() {
            let header = HeaderName::from_static("x-amzn-errortype");
            headers.insert(header, HeaderValue::from_static(name));
        }
        let id = HeaderName::from_static("x-amzn-requestid");
        headers.insert(id, HeaderValue::from_static("r-1"));
        let limit = Duration::from_secs(600);
        from_rejection(&Rejection::new(status, headers, body.as_bytes(), limit))
    }

    #[test]
    fn each_error_of_the_api_has_a_class() {
        for (status, name, message, kind) in [
            (403, "AccessDeniedException", "no access to the model", "Authentication"),
            (
                403,
                "UnrecognizedClientException",
                "The security token is invalid.",
                "Authentication",
            ),
            (403, "InvalidSignatureException", "Signature expired", "Authentication"),
            (403, "ExpiredTokenException", "expired", "Authentication"),
            (403, "MPAgreementBeingCreatedException", "retry later", "ServiceUnavailable"),
            (404, "ResourceNotFoundException", "not found", "ModelNotFound"),
            (
                400,
                "ValidationException",
                "The provided model identifier is invalid.",
                "ModelNotFound",
            ),
            (400, "ValidationException", "Malformed input request", "InvalidRequest"),
            (
                400,
                "ValidationException",
                "The model returned the following errors: Input is too long for requested model.",
                "ContextWindowExceeded",
            ),
            (
                400,
                "ValidationException",
                "The model returned the following errors: input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
                "ContextWindowExceeded",
            ),
            // A shorter conversation does not help against these two errors.
            (
                400,
                "ValidationException",
                "The model returned the following errors: input length and `max_tokens` exceed context limit: 10 + 200000 > 200000",
                "InvalidRequest",
            ),
            (
                424,
                "ModelErrorException",
                "'max_tokens' or 'max_completion_tokens' is too large: 262144. This model's maximum context length is 262144 tokens and your request has 22554 input tokens (262144 > 262144 - 22554).",
                "InvalidRequest",
            ),
            (
                400,
                "ValidationException",
                "The model returned the following errors: prompt tokens (204801) exceed model maximum (200000)",
                "ContextWindowExceeded",
            ),
            // A text of another vendor's server, which the shared table knows.
            (
                400,
                "ValidationException",
                "The input (300000 tokens) is longer than the model's context length (262144 tokens).",
                "ContextWindowExceeded",
            ),
            (
                400,
                "ValidationException",
                "The model returned the following errors: Tool 'look' not found in provided tools",
                "InvalidRequest",
            ),
            (
                400,
                "ValidationException",
                "Too many total text bytes: 1 > 0",
                "ContextWindowExceeded",
            ),
            (
                400,
                "ValidationException",
                "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
                "ContextWindowExceeded",
            ),
            (424, "ModelErrorException", "prompt is too long: 1 tokens", "ContextWindowExceeded"),
            (400, "ServiceQuotaExceededException", "quota", "InsufficientResources"),
            (429, "ThrottlingException", "Too many tokens, please wait", "RateLimit"),
            (429, "ThrottlingException", "Too many tokens per day", "InsufficientResources"),
            (429, "ModelNotReadyException", "not ready", "ModelLoading"),
            (408, "ModelTimeoutException", "late", "Timeout"),
            (500, "InternalServerException", "fault", "ServiceUnavailable"),
            (503, "ServiceUnavailableException", "busy", "ServiceUnavailable"),
            (424, "ModelErrorException", "failed", "ServiceUnavailable"),
            (424, "ModelStreamErrorException", "failed", "ServiceUnavailable"),
        ] {
            let body = json!({ "message": message }).to_string();
            let error = rejected(status, name, &body);
            assert_eq!(error.kind(), kind, "{error}");
            let has_text = !["RateLimit", "Timeout"].contains(&kind);
            let text = format!("{status} {name}: {message} (request id r-1)");
            assert!(!has_text || error.to_string().ends_with(&text), "{error}");
            // In a stream, the name begins with a small letter.
            let streamed = name[..1].to_lowercase() + &name[1..];
            let error = of_exception(&streamed, body.as_bytes());
            let kind = if kind == "Timeout" { "ServiceUnavailable" } else { kind };
            assert_eq!(error.kind(), kind, "{error}");
            let text = format!("in the stream {streamed}: {message}");
            assert!(!has_text || error.to_string().ends_with(&text), "{error}");
        }
    }

    #[test]
    fn status_of_the_model_decides_about_its_errors() {
        for (original, kind) in [
            (json!(400), "InvalidRequest"),
            (json!(408), "ServiceUnavailable"),
            (json!(429), "RateLimit"),
            (json!(500), "ServiceUnavailable"),
            (json!(null), "ServiceUnavailable"),
        ] {
            let body = json!({"message": "no", "originalStatusCode": original}).to_string();
            assert_eq!(rejected(424, "ModelErrorException", &body).kind(), kind);
            assert_eq!(of_exception("modelStreamErrorException", body.as_bytes()).kind(), kind);
        }
    }

    /// A proxy or a new version of the API may send another name.
    #[test]
    fn overflow_with_an_unknown_name_is_recognised() {
        let body = json!({"message": "Input is too long for requested model."}).to_string();
        assert_eq!(rejected(400, "NewException", &body).kind(), "ContextWindowExceeded");
        let streamed = of_exception("newException", body.as_bytes());
        assert_eq!(streamed.kind(), "ContextWindowExceeded");
        let found = find_in(body.as_bytes(), "the answer").unwrap();
        assert_eq!(found.kind(), "ContextWindowExceeded");
    }

    #[test]
    fn name_is_found_in_every_place() {
        let body = r#"{"message": "no"}"#;
        let long = "com.amazon.coral#AccessDeniedException:http://internal.amazon.com/coral/";
        assert_eq!(rejected(400, long, body).kind(), "Authentication");
        for key in ["code", "__type"] {
            let body = json!({key: "x#ThrottlingException", "Message": "slow down"}).to_string();
            assert_eq!(rejected(400, "", &body).kind(), "RateLimit", "{key}");
        }
    }

    #[test]
    fn other_errors_are_classified_by_their_status() {
        let error = rejected(502, "", "<html>Bad gateway</html>");
        let text = "service unavailable: 502: the response is not the API's: <html>Bad gateway</html> (request id r-1)";
        assert_eq!(error.to_string(), text);
        let error = rejected(403, "", r#"{"Message": "User is not authorized"}"#);
        let text = "authentication failed: 403: User is not authorized (request id r-1)";
        assert_eq!(error.to_string(), text);
        let error = rejected(503, "NewException", r#"{"message": "new"}"#);
        assert_eq!(error.to_string(), "service unavailable: 503: new (request id r-1)");
        assert_eq!(rejected(404, "", "").kind(), "InvalidRequest");
    }

    #[test]
    fn error_in_a_stream_without_a_known_name_is_a_stream_error() {
        let error = of_frame("NewError", "why");
        assert_eq!(error.to_string(), "stream error: in the stream NewError: why");
        let error = of_frame("InternalFailure", "");
        let text = "service unavailable: in the stream InternalFailure: the server gives no reason";
        assert_eq!(error.to_string(), text);
        assert_eq!(of_exception("newException", b"no JSON").kind(), "StreamError");
    }

    #[test]
    fn error_with_a_successful_status_is_found() {
        let body = json!({"__type": "ThrottlingException", "message": "slow"}).to_string();
        assert_eq!(find_in(body.as_bytes(), "the answer").unwrap().kind(), "RateLimit");
        let body = json!({"error": {"message": "busy"}}).to_string();
        assert_eq!(
            find_in(body.as_bytes(), "the answer").unwrap().to_string(),
            "in the answer: busy"
        );
        for data in [&br#"{"output":{}}"#[..], b"", b"[]", b"x", b"{}"] {
            assert!(find_in(data, "the answer").is_none());
        }
    }

    #[test]
    fn truncated_body_keeps_error_class() {
        let body = json!({"message": "Input is good, 日本", "originalStatusCode": 500}).to_string();
        for end in 0..=body.len() {
            let mut headers = HeaderMap::new();
            let name = HeaderName::from_static("x-amzn-errortype");
            headers.insert(name, HeaderValue::from_static("ServiceUnavailableException"));
            let cut = &body.as_bytes()[..end];
            let rejection = Rejection::new(503, headers, cut, Duration::ZERO);
            assert_eq!(from_rejection(&rejection).kind(), "ServiceUnavailable", "{end}");
        }
    }
}
