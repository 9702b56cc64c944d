//! The settings of an [`OtelHook`](crate::OtelHook).

use crate::SemanticConventions;
use crate::capture::Content;
use crate::metrics::Instruments;

/// The settings of a hook. The clones of the hook and its provider wrappers share them.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) conventions: SemanticConventions,
    pub(crate) content: Content,
    pub(crate) instruments: Instruments,
    /// Set if spans are also created in unsampled traces.
    pub(crate) unsampled: bool,
}

impl Config {
    /// Returns `true` if spans contain content.
    pub(crate) fn captures_in_spans(&self) -> bool {
        self.content.capture.in_spans()
    }

    /// Returns `true` if spans may contain the text of an error that quotes content. Returns `false` if a redaction is
    /// set, because the redaction does not receive error texts.
    pub(crate) fn captures_error_texts(&self) -> bool {
        self.captures_in_spans() && self.content.redact.is_none()
    }
}
