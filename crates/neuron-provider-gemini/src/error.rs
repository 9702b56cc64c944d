//! Conversion of the server's errors.
//!
//! <https://ai.google.dev/gemini-api/docs/troubleshooting>
//!
//! [`neuron_http`] classifies errors by the status and by words in the text. Google's errors have further details
//! (<https://google.aip.dev/193#error-model>), which decide about a wrong key, an exhausted quota and the delay before a
//! retry.

use std::time::Duration;

use neuron_http::{Rejection, VendorError};
use neuron_model::ProviderError;
use serde_json::Value;

/// Converts a response whose status is not a success into an error.
pub(crate) fn from_rejection(rejection: &Rejection) -> ProviderError {
    let error = rejection.vendor_error();
    let details = rejection.json().map(|json| Details::of(&json)).unwrap_or_default();
    details.with_delay(match details.class(&error) {
        Some(class) => class(details.text(&rejection.status().to_string(), &error)),
        None => rejection.error_of(&error, error.message()),
    })
}

/// Returns the error in a body or a chunk with a successful status. Returns `None` if there is no error. `place` is the
/// part of the response for the text of the error, such as `the stream`.
pub(crate) fn find_in(data: &[u8], place: &str) -> Option<ProviderError> {
    let json: Value = serde_json::from_slice(data).ok()?;
    VendorError::find(json.clone())?;
    Some(within(place, &json))
}

/// Converts the JSON of an error that arrived after a successful status.
pub(crate) fn within(place: &str, json: &Value) -> ProviderError {
    let error = VendorError::find(json.clone())
        .unwrap_or_else(|| VendorError::new("the server reports an error"));
    let details = Details::of(json);
    let text = || details.text(&format!("in {place}"), &error);
    let found = match details.class(&error) {
        Some(class) => class(text()),
        None => error.within(place, None, ProviderError::StreamError),
    };
    details.with_delay(match found {
        // This class has no text and reports a timeout of the client, but the response has begun in time.
        ProviderError::Timeout(_) => ProviderError::ServiceUnavailable(text()),
        found => found,
    })
}

/// The parts of a Google error that decide about its class.
#[derive(Debug, Default)]
struct Details {
    /// Name of the error, such as `INVALID_ARGUMENT`.
    status: String,
    /// Set if the API key is invalid. The status of such an error is 400.
    is_invalid_key: bool,
    /// Set if a quota for a whole day is exhausted.
    is_daily_quota: bool,
    /// Delay before the next attempt.
    delay: Option<Duration>,
}

impl Details {
    /// Reads the details of an error body. The body is an object, or a list with one object.
    fn of(json: &Value) -> Self {
        let error = json.get(0).unwrap_or(json).get("error");
        let field = |key: &str| error.and_then(|error| error.get(key));
        let list = field("details").and_then(Value::as_array).into_iter().flatten();
        let texts =
            |key: &'static str| list.clone().filter_map(move |detail| detail.get(key)?.as_str());
        let violations = list.clone().filter_map(|detail| detail.get("violations")?.as_array());
        let mut quotas = violations.flatten().filter_map(|quota| quota.get("quotaId")?.as_str());
        Self {
            status: field("status").and_then(Value::as_str).unwrap_or_default().to_owned(),
            is_invalid_key: texts("reason").any(|reason| reason == "API_KEY_INVALID"),
            is_daily_quota: quotas.any(|id| id.contains("PerDay")),
            delay: texts("retryDelay").find_map(duration),
        }
    }

    /// Returns the class of an error that the status and the text do not classify.
    fn class(&self, error: &VendorError) -> Option<fn(String) -> ProviderError> {
        match self.status.as_str() {
            _ if self.is_invalid_key => Some(ProviderError::Authentication),
            "RESOURCE_EXHAUSTED" if self.is_daily_quota => {
                Some(ProviderError::InsufficientResources)
            }
            // The other precondition is a location that the API does not serve.
            "FAILED_PRECONDITION" if error.says("billing") => {
                Some(ProviderError::InsufficientResources)
            }
            // Files and caches can be missing too.
            "NOT_FOUND" if error.message().split(is_separator).any(is_file_or_cache) => {
                Some(ProviderError::InvalidRequest)
            }
            // `ProviderError::Timeout` has no field for the delay.
            "DEADLINE_EXCEEDED" if self.delay.is_some() => Some(ProviderError::ServiceUnavailable),
            "NOT_FOUND" => Some(ProviderError::ModelNotFound),
            _ => None,
        }
    }

    fn text(&self, place: &str, error: &VendorError) -> String {
        let space = if self.status.is_empty() { "" } else { " " };
        format!("{place}{space}{}: {}", self.status, error.message())
    }

    /// Adds the delay before a retry, which the API sends in the body.
    fn with_delay(&self, error: ProviderError) -> ProviderError {
        match self.delay {
            Some(delay) => error.with_retry_after(delay),
            None => error,
        }
    }
}

/// Returns `true` if a character separates the words of a message. A resource name is one word.
fn is_separator(c: char) -> bool {
    !c.is_ascii_alphanumeric() && !"/-_.".contains(c)
}

/// Returns `true` if a word of a message is the resource name of a file or of a cache, such as `files/x` or
/// `projects/p/locations/l/cachedContents/1`, or the type name of a cache.
///
/// The name of a model may contain the same words.
fn is_file_or_cache(word: &str) -> bool {
    let mut steps = word.trim_end_matches('.').split('/').peekable();
    let mut is_resource = false;
    while let Some(step) = steps.next() {
        is_resource |= ["files", "cachedContents"].contains(&step) && steps.peek().is_some();
        if ["models", "tunedModels"].contains(&step) {
            return false;
        }
    }
    is_resource || word == "CachedContent"
}

/// Parses a duration in the JSON of Protocol Buffers, such as `14s` or `0.5s`.
fn duration(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use neuron_http::http::header::HeaderMap;
    use serde_json::json;

    use super::*;

    fn rejected(status: u16, body: &str) -> ProviderError {
        let limit = Duration::from_secs(600);
        from_rejection(&Rejection::new(status, HeaderMap::new(), body.as_bytes(), limit))
    }

    fn body(code: u16, status: &str, message: &str, details: Value) -> Value {
        json!({"error": {"code": code, "message": message, "status": status, "details": details}})
    }

    /// Checks an error with this status, and the same error in a stream and in a list.
    #[track_caller]
    fn check(code: u16, status: &str, message: &str, details: Value, kind: &str) -> ProviderError {
        let body = body(code, status, message, details);
        let error = rejected(code, &body.to_string());
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(rejected(code, &json!([body]).to_string()).to_string(), error.to_string());
        let streamed = within("the stream", &body);
        let kind = if kind == "Timeout" { "ServiceUnavailable" } else { kind };
        assert_eq!((streamed.kind(), streamed.retry_after()), (kind, error.retry_after()));
        error
    }

    #[test]
    fn each_error_of_the_api_has_a_class() {
        let none = || json!([]);
        for (code, status, message, kind) in [
            (400, "INVALID_ARGUMENT", "Unknown name \"x\": Cannot find field.", "InvalidRequest"),
            (
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                "ContextWindowExceeded",
            ),
            (
                400,
                "INVALID_ARGUMENT",
                "The request exceeds the maximum number of tokens allowed.",
                "ContextWindowExceeded",
            ),
            // https://github.com/google-gemini/gemini-cli/issues/19727
            (
                400,
                "INVALID_ARGUMENT",
                "Unable to submit request because the input token count is 1251952 but model only supports up to 1048576. Reduce the input token count and try again.",
                "ContextWindowExceeded",
            ),
            (
                400,
                "FAILED_PRECONDITION",
                "The free tier is not available in your country. Please enable billing.",
                "InsufficientResources",
            ),
            (400, "FAILED_PRECONDITION", "User location is not supported.", "InvalidRequest"),
            (401, "UNAUTHENTICATED", "Request had invalid credentials.", "Authentication"),
            (
                403,
                "PERMISSION_DENIED",
                "Method doesn't allow unregistered callers.",
                "Authentication",
            ),
            (
                404,
                "NOT_FOUND",
                "models/x is not found for API version v1beta, or is not supported for generateContent.",
                "ModelNotFound",
            ),
            (404, "NOT_FOUND", "Requested entity was not found.", "ModelNotFound"),
            (404, "NOT_FOUND", "CachedContent not found", "InvalidRequest"),
            (404, "NOT_FOUND", "File files/abc-1 was not found.", "InvalidRequest"),
            (404, "NOT_FOUND", "`projects/p/locations/l/cachedContents/1`", "InvalidRequest"),
            (404, "NOT_FOUND", "models/profile-x is not found.", "ModelNotFound"),
            (404, "NOT_FOUND", "tunedModels/files/cache is not found.", "ModelNotFound"),
            (404, "NOT_FOUND", "models/cachedContents is not found.", "ModelNotFound"),
            (429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.", "RateLimit"),
            (500, "INTERNAL", "An internal error has occurred.", "ServiceUnavailable"),
            (503, "UNAVAILABLE", "The model is overloaded.", "ServiceUnavailable"),
            (504, "DEADLINE_EXCEEDED", "Deadline expired.", "Timeout"),
        ] {
            let error = check(code, status, message, none(), kind);
            let has_text = !["RateLimit", "Timeout"].contains(&kind);
            let text = format!("{code} {status}: {message}");
            assert!(!has_text || error.to_string().ends_with(&text), "{error}");
        }
    }

    #[test]
    fn details_decide_about_key_and_quota() {
        let reason = json!([{"@type": "x/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
        let message = "API key not valid. Please pass a valid API key.";
        let error = check(400, "INVALID_ARGUMENT", message, reason, "Authentication");
        assert_eq!(
            error.to_string(),
            "authentication failed: 400 INVALID_ARGUMENT: API key not valid. Please pass a valid API key."
        );
        let quota = |id: &str| {
            json!([
                {"@type": "x/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]},
                {"@type": "x/google.rpc.RetryInfo", "retryDelay": "14.5s"},
            ])
        };
        let per_day = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier");
        check(429, "RESOURCE_EXHAUSTED", "quota", per_day, "InsufficientResources");
        let per_minute = quota("GenerateRequestsPerMinutePerProjectPerModel");
        let error = check(429, "RESOURCE_EXHAUSTED", "quota", per_minute, "RateLimit");
        assert_eq!(error.retry_after(), Some(Duration::from_millis(14_500)));
        let busy = check(503, "UNAVAILABLE", "busy", quota("x"), "ServiceUnavailable");
        assert_eq!(busy.retry_after(), Some(Duration::from_millis(14_500)));
    }

    /// A timeout has no delay, so an error with a delay has another class, with its text.
    #[test]
    fn deadline_with_a_delay_keeps_it() {
        let retry = json!([{"retryDelay": "3s"}]);
        let error = check(504, "DEADLINE_EXCEEDED", "late", retry, "ServiceUnavailable");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
        let text = "service unavailable: 504 DEADLINE_EXCEEDED: late, retry after 3s";
        assert_eq!(error.to_string(), text);
    }

    /// A timeout has no text, and no timeout of the client applies to a stream that has begun.
    #[test]
    fn deadline_in_a_stream_keeps_its_message() {
        let body = body(504, "DEADLINE_EXCEEDED", "late", json!([]));
        let error = within("the stream", &body);
        assert_eq!(error.to_string(), "service unavailable: in the stream DEADLINE_EXCEEDED: late");
    }

    #[test]
    fn invalid_delay_is_ignored() {
        for text in ["14", "s", "-1s", "NaNs", "1e300s", ""] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(duration("0.5s"), Some(Duration::from_millis(500)));
    }

    #[test]
    fn foreign_body_is_shown() {
        let error = rejected(502, "<html>Bad gateway</html>");
        let text =
            "service unavailable: 502: the response is not the API's: <html>Bad gateway</html>";
        assert_eq!(error.to_string(), text);
        let error = rejected(404, "");
        let text = "invalid request: 404: the response has no body; the base URL is probably wrong";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn truncated_body_keeps_error_class() {
        let body = body(503, "UNAVAILABLE", "日本", json!([{"retryDelay": "1s"}])).to_string();
        for end in 0..=body.len() {
            let cut = &body.as_bytes()[..end];
            let rejection = Rejection::new(503, HeaderMap::new(), cut, Duration::ZERO);
            assert_eq!(from_rejection(&rejection).kind(), "ServiceUnavailable", "{end}");
        }
    }

    #[test]
    fn response_without_error_has_none() {
        for data in [&br#"{"candidates":[]}"#[..], b"", b"[]", b"x", b"{}"] {
            assert!(find_in(data, "the stream").is_none());
        }
    }
}
