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
    /// Set if the hook creates spans in unsampled traces too.
    pub(crate) unsampled: bool,
}

impl Config {
    /// Returns `true` if these settings record content in the attributes of spans.
    pub(crate) fn captures_in_spans(&self) -> bool {
        self.content.capture.in_spans()
    }

    /// Returns `true` if spans may contain error texts that quote content. Returns `false` if a redaction function is
    /// set, because that function does not receive error texts.
    pub(crate) fn captures_error_texts(&self) -> bool {
        self.captures_in_spans() && self.content.redact.is_none()
    }
}
