//! Cutting a stream of bytes into the frames that a vendor wrote.

use neuron_types::ProviderError;

/// The most bytes that one frame may have. Answers of models stay far below it; what does not is no
/// stream of theirs.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Cuts bytes that arrive in pieces of any size into frames: the data of events, or lines.
pub trait Framing {
    /// Takes the next bytes and calls `on_frame` with every frame that they complete.
    ///
    /// # Errors
    ///
    /// What `on_frame` returns; [`ProviderError::StreamError`] for a frame of more than 64 MiB. The
    /// decoder must not be used after it.
    fn feed(
        &mut self,
        bytes: &[u8],
        on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError>;

    /// Calls `on_frame` with the frame that the end of the bytes completes, if it does.
    ///
    /// # Errors
    ///
    /// What `on_frame` returns.
    fn finish(
        &mut self,
        on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError>;
}

pub(crate) fn check_size(bytes: usize) -> Result<(), ProviderError> {
    if bytes <= MAX_FRAME_BYTES {
        return Ok(());
    }
    Err(ProviderError::StreamError("an event of the stream is too large".into()))
}
