//! API keys, which are never shown in errors or logs ([`Secret`]).

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use neuron_model::{BoxError, ProviderError, Unsent};

/// A secret text, such as an API key. `Debug` prints `[redacted]` instead.
///
/// # Example
///
/// ```
/// use neuron_http::Secret;
///
/// let key = Secret::new("sk-12345");
/// assert_eq!(format!("{key:?}"), "[redacted]");
/// assert_eq!(key.redact("bad key sk-12345".into()), "bad key [redacted]");
/// ```
#[derive(Clone, Default)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret from a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// Returns the secret text. Use it only to send the secret to the server.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the secret is the empty text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a header value that consists of `prefix` and the secret. The value is marked as sensitive, so `Debug`
    /// does not show it.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] if the secret contains characters that a header value must not contain.
    pub fn header(&self, prefix: &str) -> Result<HeaderValue, ProviderError> {
        let mut value = HeaderValue::try_from(format!("{prefix}{}", self.0)).map_err(|_| {
            ProviderError::Authentication(
                "the API key has characters that no header can carry: a line break, perhaps".into(),
            )
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the first 300 characters of bytes that a server sent, for an error text. The secret is redacted.
    #[must_use]
    pub fn excerpt(&self, bytes: &[u8]) -> String {
        // The secret is redacted before the text is cut, because a cut secret would not be recognised.
        excerpt(self.redact(String::from_utf8_lossy(bytes).into_owned()).as_bytes())
    }

    /// Replaces the secret in a text that a server sent, because servers quote keys in errors. These forms are
    /// replaced:
    ///
    /// - the secret itself
    /// - the secret with JSON's escape `\/` for `/`
    /// - the first four or more bytes of the secret at the end of the text
    ///
    /// A secret of fewer than 8 bytes is not replaced.
    #[must_use]
    pub fn redact(&self, text: String) -> String {
        if self.0.len() < MIN_SECRET_BYTES {
            return text;
        }
        redact(redact(text, &self.0), &self.0.replace('/', "\\/"))
    }

    /// Redacts the secret in the texts of an error, and cuts each text to 4,000 characters.
    #[must_use]
    pub fn redact_error(&self, error: ProviderError) -> ProviderError {
        use ProviderError as E;
        let delay = error.retry_after();
        let shown = match error {
            E::Network(source) => E::Network(self.redact_source(source)),
            E::ModelLoading(text) => E::ModelLoading(self.show(text)),
            E::ServiceUnavailable(text) => E::ServiceUnavailable(self.show(text)),
            E::Authentication(text) => E::Authentication(self.show(text)),
            E::InvalidRequest(text) => E::InvalidRequest(self.show(text)),
            E::ContextWindowExceeded(text) => E::ContextWindowExceeded(self.show(text)),
            E::ModelNotFound(text) => E::ModelNotFound(self.show(text)),
            E::InsufficientResources(text) => E::InsufficientResources(self.show(text)),
            E::StreamError(text) => E::StreamError(self.show(text)),
            E::Other(source) => E::Other(self.redact_source(source)),
            // The other variants have no text.
            error => error,
        };
        // The retry delay is stored in the text of the error, so cutting the text may have removed it.
        match delay.filter(|_| shown.retry_after() != delay) {
            Some(delay) => shown.with_retry_after(delay),
            None => shown,
        }
    }

    /// Redacts and cuts the source of an error. An unchanged source keeps its type.
    fn redact_source(&self, source: BoxError) -> BoxError {
        let text = source.to_string();
        let shown = self.show(text.clone());
        match shown == text {
            true => source,
            false if source.is::<Unsent>() => Box::new(Unsent(shown.into())),
            false => shown.into(),
        }
    }

    /// Redacts the secret in a text, and cuts the text to [`MAX_ERROR_CHARS`] characters.
    pub(crate) fn show(&self, text: String) -> String {
        // Redacted before the text is cut, as in `excerpt`.
        let mut text = self.redact(text);
        if let Some((end, _)) = text.char_indices().nth(MAX_ERROR_CHARS) {
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

/// Replaces a secret in a text with `[redacted]`. Also replaces the first four or more bytes of the secret at the end
/// of the text, which may have been cut.
fn redact(text: String, secret: &str) -> String {
    let text = match text.contains(secret) {
        true => text.replace(secret, "[redacted]"),
        false => text,
    };
    match before_cut(&text, secret) {
        Some(before) => format!("{before}[redacted]"),
        None => text,
    }
}

/// Returns the text before an incomplete secret at its end. Returns `None` if the text does not end with at least the
/// first four bytes of the secret.
fn before_cut<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    let ends = secret.char_indices().map(|(end, _)| end).filter(|end| *end >= 4);
    ends.rev().find_map(|end| text.strip_suffix(secret.get(..end)?))
}

/// Minimum length in bytes of a secret that is redacted. A shorter secret is probably a word such as `none`, for a
/// server without keys. Redacting this word would make error messages unreadable.
const MIN_SECRET_BYTES: usize = 8;

/// Maximum length in characters of a server's text that an error quotes.
const EXCERPT_CHARS: usize = 300;

/// Maximum length in characters of the whole text of an error.
const MAX_ERROR_CHARS: usize = 4_000;

/// Returns the first 300 characters of a text in which secrets were already redacted.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(EXCERPT_CHARS).collect()
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Secret::new("sk-añ-123").redact(text.into()), expected);
    }

    #[test]
    fn redact_removes_every_occurrence() {
        check("a sk-añ-123 b sk-añ-123", "a [redacted] b [redacted]");
        check("nothing", "nothing");
        assert_eq!(Secret::default().redact("all".into()), "all");
    }

    /// Regression test. An incomplete secret at the end of a text must be redacted. If an error body was truncated
    /// inside the key, most of the key was shown.
    #[test]
    fn redact_removes_truncated_secret() {
        check("bad key sk-añ-12", "bad key [redacted]");
        check("bad key sk-a", "bad key [redacted]");
        check("sk-añ-123 and sk-añ-", "[redacted] and [redacted]");
        check("bad key sk-", "bad key sk-");
        check("sk-añ-1, cut by the server", "sk-añ-1, cut by the server");
    }

    /// Regression test. A secret with JSON's escape `\/` for `/` must be redacted. An error about a malformed response
    /// once showed such a secret.
    #[test]
    fn redact_removes_json_escaped_secret() {
        let secret = Secret::new("sk-12/34/5");
        let check = |text: &str, expected: &str| assert_eq!(secret.redact(text.into()), expected);
        check(r"{sk-12\/34\/5, sk-12/34/5", "{[redacted], [redacted]");
        check(r"{sk-12\/34\", "{[redacted]");
        check(r"a\/b", r"a\/b");
    }

    // Regression test. A response with a megabyte of text caused an error text of a megabyte.
    #[test]
    fn redacted_error_is_limited_and_contains_no_partial_key() {
        let secret = Secret::new("sk-1234567890");
        for padding in [MAX_ERROR_CHARS - 5, MAX_ERROR_CHARS + 5, 1_000_000] {
            let text =
                format!("{}{}é{}", "é".repeat(padding), secret.expose(), "x".repeat(padding));
            for error in [
                ProviderError::StreamError(text.clone()),
                ProviderError::ContextWindowExceeded(text.clone()),
                ProviderError::Other(text.clone().into()),
            ] {
                let shown = secret.redact_error(error).to_string();
                assert!(!shown.contains("sk-1"), "{padding}");
                assert!(shown.ends_with('…'));
                assert!(shown.chars().count() < MAX_ERROR_CHARS + 50);
            }
        }
    }

    #[test]
    fn truncated_error_keeps_retry_after() {
        let delay = std::time::Duration::from_secs(9);
        let busy = ProviderError::ServiceUnavailable("long ".repeat(2_000)).with_retry_after(delay);
        let shown = Secret::new("sk-12345").redact_error(busy);
        assert_eq!(shown.retry_after(), Some(delay));
        assert!(shown.to_string().len() < 4_100);
    }

    #[test]
    fn unchanged_error_keeps_its_source() {
        let io = std::io::Error::other("reset");
        let error = Secret::new("sk-1").redact_error(ProviderError::Network(Box::new(io)));
        let ProviderError::Network(source) = error else { panic!("{error}") };
        assert!(source.downcast_ref::<std::io::Error>().is_some());
    }
}
