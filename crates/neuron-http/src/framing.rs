//! Splits a byte stream into frames ([`Framing`]).

use neuron_model::{ProviderError, ToolCall};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Maximum size of a frame in bytes (64 MiB). Frames of models are much smaller.
const MAX_FRAME_BYTES: usize = 64 * 1024 * 1024;

/// Splits chunks of bytes into frames. A frame is a line, or the data of a server-sent event.
pub trait Framing {
    /// Decodes the next chunk, and calls `on_frame` with each frame that is now complete.
    ///
    /// # Errors
    ///
    /// Returns the error of `on_frame`, or [`ProviderError::StreamError`] for a frame of more than 64 MiB. The decoder
    /// must not be used after an error.
    fn feed(
        &mut self,
        bytes: &[u8],
        on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError>;

    /// Handles the end of the bytes. Calls `on_frame` if the end completes a frame.
    ///
    /// # Errors
    ///
    /// Returns the error of `on_frame`.
    fn finish(
        &mut self,
        on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError>;

    /// Returns the beginning of what arrived where a frame was due, such as the JSON of an error or an HTML page. Empty
    /// by default, for a framing whose frames may be anything.
    fn foreign(&self) -> &[u8] {
        &[]
    }
}

/// Deserialises the JSON of a frame, or of a whole response.
///
/// Validates UTF-8 once for the whole frame, because this is much faster than validating each string. A byte order mark
/// before the JSON is ignored.
///
/// # Errors
///
/// Returns an error if the frame is not JSON, or not a `T`.
pub fn read_frame<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> serde_json::Result<T> {
    let frame = without_mark(frame);
    match std::str::from_utf8(frame) {
        Ok(text) => serde_json::from_str(text),
        // The invalid UTF-8 may be in a field that `T` does not have.
        Err(_) => serde_json::from_slice(frame),
    }
}

/// Deserialises the JSON of a frame or of a whole response that may contain the arguments of a tool call as an object.
/// An integer that does not fit into 64 bits becomes a text, as in [`ToolCall::parse_input`].
///
/// # Errors
///
/// Returns an error if the frame is not JSON, or not a `T`.
pub fn read_with_arguments<T: DeserializeOwned>(frame: &[u8]) -> serde_json::Result<T> {
    match std::str::from_utf8(without_mark(frame)) {
        Ok(text) => serde_json::from_str(&ToolCall::quote_long_integers(text)),
        Err(_) => read_frame(frame),
    }
}

/// Returns the bytes without the byte order mark of UTF-8, which some servers send before JSON.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Appends bytes to a buffer. A single byte is pushed, which is faster than copying a slice of one byte.
#[inline]
pub(crate) fn append(kept: &mut Vec<u8>, bytes: &[u8]) {
    match bytes {
        [byte] => kept.push(*byte),
        bytes => kept.extend_from_slice(bytes),
    }
}

/// Returns an error if the size of a frame exceeds [`MAX_FRAME_BYTES`].
#[inline]
pub(crate) fn check_size(bytes: usize) -> Result<(), ProviderError> {
    if bytes <= MAX_FRAME_BYTES {
        return Ok(());
    }
    Err(ProviderError::StreamError("an event of the stream is too large".into()))
}
