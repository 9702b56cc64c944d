//! Cutting a stream of bytes into the frames that a vendor wrote.

use neuron_types::ProviderError;
use serde::Deserialize;

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

/// Reads a frame's JSON.
///
/// The bytes are found to be text once and as a whole, which takes a fraction of what it takes for
/// each string in them.
///
/// # Errors
///
/// When they are no JSON, or not what is read.
pub fn read_frame<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(frame) {
        Ok(text) => serde_json::from_str(text),
        // What is broken may be in a part that nobody reads.
        Err(_) => serde_json::from_slice(frame),
    }
}

/// Keeps bytes until more come. Single ones are pushed: copying a slice of any length calls a
/// function.
#[inline]
pub(crate) fn append(kept: &mut Vec<u8>, bytes: &[u8]) {
    match bytes {
        [byte] => kept.push(*byte),
        bytes => kept.extend_from_slice(bytes),
    }
}

#[inline]
pub(crate) fn check_size(bytes: usize) -> Result<(), ProviderError> {
    if bytes <= MAX_FRAME_BYTES {
        return Ok(());
    }
    Err(ProviderError::StreamError("an event of the stream is too large".into()))
}
