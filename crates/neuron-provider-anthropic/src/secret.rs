//! A text that is never shown.

use std::fmt;

/// A text that `Debug` does not show.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be sent and nothing else.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Takes the secret out of a text that somebody else wrote: servers echo keys in errors.
    pub(crate) fn redact(&self, text: String) -> String {
        if self.0.is_empty() || !text.contains(&self.0) {
            return text;
        }
        text.replace(&self.0, "[redacted]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
