//! Splitting of a Chat Completions stream into events.

use neuron_http::{Framing, SseDecoder};
use neuron_model::ProviderError;

/// A decoder of server-sent events that rejects a stream with a truncated last event.
///
/// A truncated event may have contained the token counts, so it must not be ignored. Two deviations are accepted:
///
/// - The blank line after the last event may be missing.
/// - After `[DONE]`, the end of the line may be missing too.
#[derive(Debug, Default)]
pub(crate) struct ChatFraming {
    events: SseDecoder,
    /// Set while the bytes received so far end inside a line.
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

    fn foreign(&self) -> &[u8] {
        self.events.foreign()
    }
}
