//! Reads delays, request ids and rate limits from response headers.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue};
use neuron_model::{AnswerMetadata, ProviderError};

/// Returns the delay that the server requests before a retry. Returns `None` if no header contains a valid delay.
///
/// The header `retry-after-ms` is used if it is valid, and otherwise `retry-after`, which contains seconds or a date.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = |text: &str, unit: f64| {
        let value = text.trim().parse::<f64>().ok()? * unit;
        Duration::try_from_secs_f64(value).ok()
    };
    if let Some(delay) = header(headers, "retry-after-ms").and_then(|text| seconds(text, 0.001)) {
        return Some(delay);
    }
    let text = header(headers, "retry-after")?;
    seconds(text, 1.0).or_else(|| time_until(text, Utc::now()))
}

/// Returns the time from `now` until an HTTP date. Returns zero if the date is in the past, and `None` if `date` is
/// invalid.
fn time_until(date: &str, now: DateTime<Utc>) -> Option<Duration> {
    let date = DateTime::parse_from_rfc2822(date.trim()).ok()?;
    Some((date.with_timezone(&Utc) - now).to_std().unwrap_or_default())
}

/// Returns the value of a header. Returns `None` if the header is missing or its value is not visible ASCII.
#[must_use]
pub fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Names of the headers that may contain the request id. Anthropic sends the first header. OpenAI and most others send
/// the second. Azure, OpenRouter and Bedrock send the last three.
const REQUEST_IDS: [&str; 5] =
    ["request-id", "x-request-id", "apim-request-id", "x-generation-id", "x-amzn-requestid"];

/// Returns the request id from the headers. Returns `None` if there is no such header.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&str> {
    REQUEST_IDS.iter().find_map(|name| header(headers, name))
}

/// Returns the request id and the rate limits from the headers. Each header whose name contains `ratelimit` is a rate
/// limit, because all known vendors use such names.
pub(crate) fn metadata(headers: &HeaderMap) -> AnswerMetadata {
    let mut metadata = AnswerMetadata::default();
    metadata.request_id = request_id(headers).map(str::to_owned);
    let limits = headers.keys().map(HeaderName::as_str).filter(|name| name.contains("ratelimit"));
    let limit = |name: &str| Some((name.to_owned(), header(headers, name)?.to_owned()));
    metadata.rate_limits = limits.filter_map(limit).collect();
    metadata
}

/// Converts a text into the value of the header `name`. The text may be a secret, so an error does not quote it.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the text has characters that a header value must not contain.
pub fn header_value(name: &str, text: &str) -> Result<HeaderValue, ProviderError> {
    HeaderValue::from_str(text).map_err(|_| {
        ProviderError::InvalidRequest(format!(
            "the value of {name} has characters that no header can carry: a line break, perhaps"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn metadata_contains_request_id_and_rate_limits_of_every_vendor() {
        // https://platform.openai.com/docs/guides/rate-limits, https://docs.anthropic.com/en/api/rate-limits
        let metadata = metadata(&headers(&[
            ("content-type", "application/json"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("anthropic-ratelimit-requests-reset", "2026-01-27T00:00:00Z"),
            ("request-id", "req_1"),
        ]));
        assert_eq!(metadata.request_id.as_deref(), Some("req_1"));
        let names: Vec<&str> = metadata.rate_limits.keys().map(String::as_str).collect();
        assert_eq!(names, ["anthropic-ratelimit-requests-reset", "x-ratelimit-remaining-tokens"]);
        for name in REQUEST_IDS {
            assert_eq!(
                super::metadata(&headers(&[(name, "id")])).request_id.as_deref(),
                Some("id")
            );
        }
        assert!(super::metadata(&headers(&[("content-type", "text/plain")])).is_empty());
    }

    #[test]
    fn retry_after_parses_every_format() {
        let delay = |pairs: &[_]| retry_after(&headers(pairs));
        assert_eq!(delay(&[]), None);
        assert_eq!(delay(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(delay(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(
            delay(&[("retry-after", "7"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        for nonsense in ["-1", "NaN", "1e300", "soon", ""] {
            assert_eq!(delay(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
        let now = DateTime::parse_from_rfc3339("2026-11-21T10:00:00Z").unwrap().to_utc();
        let time_until = |date| time_until(date, now);
        assert_eq!(time_until("Sat, 21 Nov 2026 10:00:30 GMT"), Some(Duration::from_secs(30)));
        assert_eq!(time_until("Sat, 21 Nov 2026 09:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(time_until("tomorrow"), None);
    }
}
