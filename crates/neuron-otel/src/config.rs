//! The settings that a hook shares with its wrappers.

use crate::SemanticConventions;
use crate::capture::Content;
use crate::metrics::Instruments;

/// The settings of a hook, shared by its clones and wrappers.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) conventions: SemanticConventions,
    pub(crate) content: Content,
    pub(crate) instruments: Instruments,
    /// Creates spans in unsampled traces too.
    pub(crate) unsampled: bool,
}

impl Config {
    /// Returns `true` if spans contain content.
    pub(crate) fn captures_in_spans(&self) -> bool {
        self.content.capture.in_spans()
    }

    /// Returns `true` if spans contain the texts of errors that may quote content. A redaction cannot redact these
    /// texts.
    pub(crate) fn captures_error_texts(&self) -> bool {
        self.captures_in_spans() && self.content.redact.is_none()
    }
}
