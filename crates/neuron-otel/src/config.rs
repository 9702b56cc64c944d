//! The settings that a hook and its wrappers share.

use crate::SemanticConventions;
use crate::capture::Content;
use crate::metrics::Instruments;

/// The settings of a hook. Shared by its clones and by what they wrap.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) conventions: SemanticConventions,
    pub(crate) content: Content,
    pub(crate) instruments: Instruments,
    /// Whether spans are made although the one around them is not sampled.
    pub(crate) unsampled: bool,
}

impl Config {
    /// Whether spans tell what is said.
    pub(crate) fn captures_in_spans(&self) -> bool {
        self.content.capture.in_spans()
    }

    /// Whether spans tell the texts of errors that may quote what is said. Redaction does not see those.
    pub(crate) fn tells_all_errors(&self) -> bool {
        self.captures_in_spans() && self.content.redact.is_none()
    }
}
