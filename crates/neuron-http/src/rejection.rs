//! Converts error responses into errors, by their body or their status ([`Rejection`]).

use std::time::Duration;

use http::HeaderMap;
use neuron_model::ProviderError;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::headers::request_id;
use crate::secret::excerpt;
use crate::{VendorError, header, retry_after, wrong_url};

/// A response whose HTTP status is not 2xx.
#[derive(Debug)]
pub struct Rejection {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Timeout of the request, which [`ProviderError::Timeout`] reports.
    limit: Duration,
}

impl Rejection {
    /// Creates a rejection from a status, headers and the beginning of a body. `limit` is the timeout of the request,
    /// which the error shows if it is a [`ProviderError::Timeout`].
    #[must_use]
    pub fn new(status: u16, headers: HeaderMap, body: &[u8], limit: Duration) -> Self {
        Self { status, headers, body: body.to_vec(), limit }
    }

    /// Returns the HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the value of a header. Returns `None` if the header is missing or its value is not visible ASCII.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// Deserialises the body from JSON. Returns `None` if the body is not a `T`, such as the HTML page of a proxy.
    #[must_use]
    pub fn json<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Parses the body as an error in any format of [`VendorError`]. If the format is unknown, the message of the
    /// returned error describes the body.
    #[must_use]
    pub fn vendor_error(&self) -> VendorError {
        VendorError::find_in(&self.body).unwrap_or_else(|| {
            let body = self.body.trim_ascii();
            // `wording` is the text whose words decide the class of the error. The words of an HTML page must not.
            let wording = if body.starts_with(b"<") { String::new() } else { excerpt(body) };
            VendorError::foreign(self.foreign(), wording)
        })
    }

    /// Converts the response into an error. The text of the error contains the status, the vendor's code or type, the
    /// message and the request id.
    #[must_use]
    pub fn error(&self) -> ProviderError {
        let error = self.vendor_error();
        self.error_of(&error, error.message())
    }

    /// Converts a vendor's error into a [`ProviderError`]. Its text contains `message` instead of the vendor's message.
    ///
    /// The class of the error is derived from the vendor's codes and message. If they do not give a class, it is
    /// derived from the [status](Self::classify). The status also decides if they report a rate limit, an overload or
    /// an invalid key.
    #[must_use]
    pub fn error_of(&self, error: &VendorError, message: &str) -> ProviderError {
        let text = self.text_of(error, message);
        let delay = retry_after(&self.headers).or_else(|| error.named_delay());
        match error.fault(Some(self.status)) {
            // For these classes the status decides.
            Some(Fault::RateLimit | Fault::Overloaded | Fault::Key) | None => {
                self.classified(text, delay)
            }
            Some(fault) => self.finished(fault.error(text.clone()), text, delay),
        }
    }

    /// Returns the text of [`error`](Self::error), also if the error has no field for it.
    pub(crate) fn text(&self) -> String {
        let error = self.vendor_error();
        self.text_of(&error, error.message())
    }

    fn text_of(&self, error: &VendorError, message: &str) -> String {
        let request_id = error.request_id().or_else(|| request_id(&self.headers));
        describe(&self.status.to_string(), &error.name(), message, request_id)
    }

    /// Adds to an error what the response's headers say about a retry. `text` is the text of the error.
    ///
    /// - The delay of [`retry_after`] is added, if the headers contain one.
    /// - OpenAI and Anthropic may send `x-should-retry`. If it is `true`, an error that
    ///   [would not be retried](ProviderError::is_retryable) becomes a
    ///   [`ServiceUnavailable`](ProviderError::ServiceUnavailable). If it is `false`, an error that would be retried becomes
    ///   [`InsufficientResources`](ProviderError::InsufficientResources). A router still calls another route then.
    #[must_use]
    pub fn with_retry_after(&self, error: ProviderError, text: String) -> ProviderError {
        self.finished(error, text, retry_after(&self.headers))
    }

    fn finished(
        &self,
        error: ProviderError,
        text: String,
        delay: Option<Duration>,
    ) -> ProviderError {
        let error = match (self.header("x-should-retry"), error.is_retryable()) {
            (Some("true"), false) => ProviderError::ServiceUnavailable(text),
            (Some("false"), true) => ProviderError::InsufficientResources(format!(
                "{text}; the server forbids a retry (x-should-retry)"
            )),
            _ => error,
        };
        match delay {
            Some(delay) => error.with_retry_after(delay),
            None => error,
        }
    }

    /// Returns a message about a body without a known error format. The message names the target of a redirect, or
    /// quotes the body.
    fn foreign(&self) -> String {
        let shown = excerpt(self.body.trim_ascii());
        match self.header("location") {
            Some(location) => wrong_url::redirect(location),
            None if shown.is_empty() => "the response has no body".into(),
            None => {
                let hint = match self.status {
                    400 => wrong_url::plain_http_hint(&self.body),
                    _ => "",
                };
                format!("the response is not the API's: {shown}{hint}")
            }
        }
    }

    /// Converts the response into an error with this text. The class of the error depends only on the status. Use this
    /// method if the vendor's codes do not give a more precise class.
    ///
    /// | status | error |
    /// |---|---|
    /// | 401, 403 | [`Authentication`](ProviderError::Authentication) |
    /// | 402 | [`InsufficientResources`](ProviderError::InsufficientResources) |
    /// | 408 or 504, without a delay | [`Timeout`](ProviderError::Timeout) |
    /// | 408 or 504, with a delay | [`ServiceUnavailable`](ProviderError::ServiceUnavailable) |
    /// | 413 | [`ContextWindowExceeded`](ProviderError::ContextWindowExceeded) |
    /// | 429 | [`RateLimit`](ProviderError::RateLimit) |
    /// | other 5xx | [`ServiceUnavailable`](ProviderError::ServiceUnavailable) |
    /// | all others | [`InvalidRequest`](ProviderError::InvalidRequest) |
    ///
    /// "Delay" is the result of [`retry_after`], which is added to the error. The error of a 404 also says that the
    /// base URL is probably wrong.
    #[must_use]
    pub fn classify(&self, text: String) -> ProviderError {
        self.classified(text, retry_after(&self.headers))
    }

    fn classified(&self, text: String, delay: Option<Duration>) -> ProviderError {
        let error = match self.status {
            401 | 403 => ProviderError::Authentication(text.clone()),
            402 => ProviderError::InsufficientResources(text.clone()),
            404 => ProviderError::InvalidRequest(format!("{text}{}", wrong_url::WRONG_URL)),
            // `ProviderError::Timeout` has no field for the delay.
            408 | 504 if delay.is_none() => ProviderError::Timeout(self.limit),
            // The body is too large for the server. A shorter conversation may fit.
            413 => ProviderError::ContextWindowExceeded(text.clone()),
            429 => ProviderError::RateLimit { retry_after: None },
            408 | 500.. => ProviderError::ServiceUnavailable(text.clone()),
            _ => ProviderError::InvalidRequest(text.clone()),
        };
        self.finished(error, text, delay)
    }
}

/// Formats the text of an error. `place` is the status, or the part of a successful response that contains the error.
/// `kind` is the vendor's code or type, and may be empty.
pub(crate) fn describe(place: &str, kind: &str, message: &str, request_id: Option<&str>) -> String {
    let space = if kind.is_empty() { "" } else { " " };
    let id = request_id.map(|id| format!(" (request id {id})")).unwrap_or_default();
    format!("{place}{space}{kind}: {message}{id}")
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[track_caller]
    fn check(status: u16, kind: &str) {
        let rejection = Rejection::new(status, HeaderMap::new(), b"", Duration::from_secs(600));
        assert_eq!(rejection.classify("why".into()).kind(), kind);
    }

    #[test]
    fn each_status_is_classified() {
        for (status, kind) in [
            (301, "InvalidRequest"),
            (400, "InvalidRequest"),
            (401, "Authentication"),
            (402, "InsufficientResources"),
            (403, "Authentication"),
            (404, "InvalidRequest"),
            (408, "Timeout"),
            (409, "InvalidRequest"),
            (413, "ContextWindowExceeded"),
            (422, "InvalidRequest"),
            (429, "RateLimit"),
            (499, "InvalidRequest"),
            (500, "ServiceUnavailable"),
            (502, "ServiceUnavailable"),
            (503, "ServiceUnavailable"),
            (504, "Timeout"),
            (529, "ServiceUnavailable"),
        ] {
            check(status, kind);
        }
    }

    #[test]
    fn retry_after_is_kept_for_temporary_errors() {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("retry-after-ms"),
            HeaderValue::from_static("1500"),
        )]);
        let delay = Some(Duration::from_millis(1500));
        for (status, body, expected) in [
            (429, "", delay),
            (500, "", delay),
            (502, "<html>", delay),
            (503, "", delay),
            (529, r#"{"error": {"type": "overloaded_error", "message": "busy"}}"#, delay),
            (503, r#"{"error": {"message": "Loading model", "type": "unavailable_error"}}"#, delay),
            (408, "", delay),
            (504, "", delay),
            // A wait does not help against these errors, so they have no delay.
            (400, "", None),
            (429, r#"{"error": {"code": "insufficient_quota"}}"#, None),
        ] {
            let rejection =
                Rejection::new(status, headers.clone(), body.as_bytes(), Duration::ZERO);
            assert_eq!(rejection.error().retry_after(), expected, "{status} {body}");
        }
    }

    #[test]
    fn delay_that_only_the_message_names_counts() {
        let body = br#"{"error": {"message": "Please retry after 30 seconds."}}"#;
        let of = |status, headers| Rejection::new(status, headers, body, Duration::ZERO).error();
        for (status, expected) in [(429, Some(30)), (503, Some(30)), (504, Some(30)), (400, None)] {
            let error = of(status, HeaderMap::new());
            assert_eq!(error.retry_after(), expected.map(Duration::from_secs), "{status}");
            let headers = [(HeaderName::from_static("retry-after"), HeaderValue::from_static("2"))];
            let header = of(status, HeaderMap::from_iter(headers)).retry_after();
            assert_eq!(header, expected.map(|_| Duration::from_secs(2)), "the header counts more");
        }
    }

    #[test]
    fn delay_in_a_quotation_or_a_page_does_not_count() {
        for body in [
            r#"{"error": "error parsing tool call: raw='{\"text\":\"please try again in 5 hours\"}'"}"#,
            "<html>Down for maintenance, try again in 30 minutes</html>",
        ] {
            let rejection = Rejection::new(503, HeaderMap::new(), body.as_bytes(), Duration::ZERO);
            assert_eq!(rejection.error().retry_after(), None, "{body}");
        }
    }

    #[test]
    fn x_should_retry_is_obeyed() {
        let body = br#"{"error": {"message": "why"}}"#;
        for (status, value, kind, is_retryable) in [
            (429, "false", "InsufficientResources", false),
            (503, "false", "InsufficientResources", false),
            (504, "false", "InsufficientResources", false),
            (409, "true", "ServiceUnavailable", true),
            (400, "true", "ServiceUnavailable", true),
            (429, "true", "RateLimit", true),
            (400, "false", "InvalidRequest", false),
            (503, "maybe", "ServiceUnavailable", true),
        ] {
            let name = HeaderName::from_static("x-should-retry");
            let headers = HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
            let error = Rejection::new(status, headers, body, Duration::ZERO).error();
            let found = (error.kind(), error.is_retryable());
            assert_eq!(found, (kind, is_retryable), "{status} {value}: {error}");
            assert!(
                status == 429 && is_retryable || error.to_string().contains(": why"),
                "{error}"
            );
        }
    }

    #[test]
    fn error_text_contains_available_parts() {
        let text = |id: Option<&'static str>, body: &str| {
            let header = id.map(|id| {
                (HeaderName::from_static("apim-request-id"), HeaderValue::from_static(id))
            });
            let headers = HeaderMap::from_iter(header);
            Rejection::new(418, headers, body.as_bytes(), Duration::ZERO).error().to_string()
        };
        let body = r#"{"error": {"type": "teapot", "message": "why"}}"#;
        assert_eq!(text(None, r#"{"error": "why"}"#), "invalid request: 418: why");
        assert_eq!(text(Some("r"), body), "invalid request: 418 teapot: why (request id r)");
        let body = r#"{"error": {"message": "why"}, "request_id": "b"}"#;
        assert_eq!(text(Some("r"), body), "invalid request: 418: why (request id b)");
        let foreign = "invalid request: 418: the response is not the API's: <html>";
        assert_eq!(text(None, " <html>\n"), foreign);
    }
}
