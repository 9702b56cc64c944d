//! Framing of streams of Chat Completions.

use neuron_http::{Framing, SseDecoder};
use neuron_types::ProviderError;

/// A decoder of server-sent events that rejects a truncated event.
///
/// A response of Chat Completions may end without `[DONE]`. A truncated event must not be discarded then, because it
/// may have been the usage. The blank line after the last event may be missing, but not the end of its line.
#[derive(Debug, Default)]
pub(crate) struct ChatFraming {
    events: SseDecoder,
    /// Set if the last line has not ended.
    in_line: bool,
}

impl Framing for ChatFraming {
    fn feed(
        &mut self,
        bytes: &[u8],
        on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if let Some(last) = bytes.last() {
            self.in_line = !matches!(last, b'\n' | b'\r');
        }
        self.events.feed(bytes, on_frame)
    }

    fn finish(
        &mut self,
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let mut is_torn = self.in_line;
        self.events.feed(b"\n\n", |frame| {
            is_torn &= frame.trim_ascii() != b"[DONE]";
            if is_torn { Ok(()) } else { on_frame(frame) }
        })?;
        if is_torn {
            let text = "the stream ended inside an event";
            return Err(ProviderError::StreamError(text.into()));
        }
        Ok(())
    }
}
