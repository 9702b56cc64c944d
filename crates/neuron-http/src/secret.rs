//! A text that is never shown.

use std::fmt;

use http::HeaderValue;
use neuron_types::{BoxError, ProviderError, Unsent};

/// A text that `Debug` does not show.
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
pub struct Secret(String);

impl Secret {
    /// Keeps a text from being shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent and nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no secret.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a header that carries the secret after `prefix`, marked so that it does not
    /// show.
    ///
    /// # Errors
    ///
    /// [`ProviderError::Authentication`] for a secret that no header can carry.
    pub fn header(&self, prefix: &str) -> Result<HeaderValue, ProviderError> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0)).map_err(|_| {
            ProviderError::Authentication(
                "the API key has characters that no header can carry: a line break, perhaps".into(),
            )
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The beginning of bytes that somebody else wrote, for errors that show it: 300 characters at
    /// the most, without the secret.
    #[must_use]
    pub fn excerpt(&self, bytes: &[u8]) -> String {
        // Redacted before it is cut: half a key is too much.
        excerpt(self.redact(String::from_utf8_lossy(bytes).into_owned()).as_bytes())
    }

    /// Replaces the secret in a text that a server wrote, because servers echo keys in errors. Finds it
    /// written as in JSON too, with `\/` for `/`, and at the end of a text that was cut within it.
    #[must_use]
    pub fn redact(&self, text: String) -> String {
        if self.0.len() < SHORTEST {
            return text;
        }
        redact(redact(text, &self.0), &self.0.replace('/', "\\/"))
    }

    /// Makes an error fit to be shown: its texts are without the secret, and have 4,000 characters at
    /// the most, whatever a server wrote into them.
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
            // No text.
            error => error,
        };
        // A text that is cut loses its end.
        match delay.filter(|_| shown.retry_after() != delay) {
            Some(delay) => shown.with_retry_after(delay),
            None => shown,
        }
    }

    fn redact_source(&self, source: BoxError) -> BoxError {
        let text = source.to_string();
        let shown = self.show(text.clone());
        match shown == text {
            true => source,
            false if source.is::<Unsent>() => Box::new(Unsent(shown.into())),
            false => shown.into(),
        }
    }

    fn show(&self, text: String) -> String {
        // Redacted before it is cut, as an excerpt is.
        let mut text = self.redact(text);
        if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
            text.truncate(end);
            text.push('…');
        }
        text
    }
}

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

/// Returns the text before a cut secret at its end. Fewer characters than four give nothing away.
fn before_cut<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    let ends = secret.char_indices().map(|(end, _)| end).filter(|end| *end >= 4);
    ends.rev().find_map(|end| text.strip_suffix(secret.get(..end)?))
}

/// The length below which a key is none, in bytes: for servers that need no key one sends a word, and
/// taking that out would spoil what errors say.
const SHORTEST: usize = 8;

/// How much of a foreign text an error shows, in characters.
const SHOWN: usize = 300;

/// How much of any text an error shows, in characters.
const MOST_SHOWN: usize = 4_000;

/// The beginning of a text in which there is no secret.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(SHOWN).collect()
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
    fn the_secret_is_taken_out_wherever_it_stands() {
        check("a sk-añ-123 b sk-añ-123", "a [redacted] b [redacted]");
        check("nothing", "nothing");
        assert_eq!(Secret::default().redact("all".into()), "all");
    }

    /// A body that broke off within the key showed most of it.
    #[test]
    fn a_secret_that_is_cut_is_taken_out_too() {
        check("bad key sk-añ-12", "bad key [redacted]");
        check("bad key sk-a", "bad key [redacted]");
        check("sk-añ-123 and sk-añ-", "[redacted] and [redacted]");
        check("bad key sk-", "bad key sk-");
        check("sk-añ-1, cut by the server", "sk-añ-1, cut by the server");
    }

    /// A malformed answer was shown as the server wrote it, with the key in the escaped form of JSON.
    #[test]
    fn a_secret_that_is_escaped_is_taken_out_too() {
        let secret = Secret::new("sk-12/34/5");
        let check = |text: &str, expected: &str| assert_eq!(secret.redact(text.into()), expected);
        check(r"{sk-12\/34\/5, sk-12/34/5", "{[redacted], [redacted]");
        check(r"{sk-12\/34\", "{[redacted]");
        check(r"a\/b", r"a\/b");
    }

    // A server that answered with a megabyte of text once gave an error of a megabyte.
    #[test]
    fn an_error_shows_no_more_than_a_page_and_no_half_of_a_key() {
        let secret = Secret::new("sk-1234567890");
        for padding in [MOST_SHOWN - 5, MOST_SHOWN + 5, 1_000_000] {
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
                assert!(shown.chars().count() < MOST_SHOWN + 50);
            }
        }
    }

    #[test]
    fn an_error_that_is_cut_keeps_how_long_to_wait() {
        let delay = std::time::Duration::from_secs(9);
        let busy = ProviderError::ServiceUnavailable("long ".repeat(2_000)).with_retry_after(delay);
        let shown = Secret::new("sk-12345").redact_error(busy);
        assert_eq!(shown.retry_after(), Some(delay));
        assert!(shown.to_string().len() < 4_100);
    }

    #[test]
    fn an_error_that_is_fit_to_be_shown_keeps_its_source() {
        let io = std::io::Error::other("reset");
        let error = Secret::new("sk-1").redact_error(ProviderError::Network(Box::new(io)));
        let ProviderError::Network(source) = error else { panic!("{error}") };
        assert!(source.downcast_ref::<std::io::Error>().is_some());
    }
}
