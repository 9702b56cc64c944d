//! The binary frames of a streamed response: [`EventStreamFraming`] splits and checks them, [`Frame`] has their content.
//!
//! <https://smithy.io/2.0/aws/amazon-eventstream.html>
//!
//! All integers are big-endian. The checksums are CRC-32, as in gzip.
//!
//! | part | bytes |
//! |---|---|
//! | length of the whole frame | 4 |
//! | length of the headers | 4 |
//! | checksum of the two lengths | 4 |
//! | headers | up to 128 KiB |
//! | payload | up to 24 MiB |
//! | checksum of everything before it | 4 |

#[cfg(test)]
mod tests;

use neuron_http::Framing;
use neuron_model::ProviderError;

/// Maximum length of the headers of a frame, as in AWS's SDKs.
const MAX_HEADERS_BYTES: usize = 128 * 1024;

/// Maximum length of the payload of a frame, as in AWS's SDKs.
const MAX_PAYLOAD_BYTES: usize = 24 * 1024 * 1024;

/// Length of the two lengths and their checksum, at the beginning of a frame.
const PRELUDE_BYTES: usize = 12;

/// Length of a checksum.
const CHECKSUM_BYTES: usize = 4;

/// Splits bytes into whole frames whose lengths and checksums are correct. A frame keeps its lengths and checksums, as
/// [`Frame::parse`] expects.
///
/// A corrupted length causes an error as soon as the beginning of the frame has arrived. Memory is reserved for bytes
/// that have arrived only.
#[derive(Debug, Default)]
pub(crate) struct EventStreamFraming {
    /// The beginning of a frame whose end has not arrived yet.
    kept: Vec<u8>,
}

impl Framing for EventStreamFraming {
    fn feed(
        &mut self,
        mut bytes: &[u8],
        mut on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        while !self.kept.is_empty() && !bytes.is_empty() {
            let length = frame_length(&self.kept)?;
            let missing = length.unwrap_or(PRELUDE_BYTES) - self.kept.len();
            let (next, rest) = bytes.split_at(missing.min(bytes.len()));
            self.kept.extend_from_slice(next);
            bytes = rest;
            if length == Some(self.kept.len()) {
                end_frame(&self.kept, &mut on_frame)?;
                self.kept.clear();
            }
        }
        // Frames that are complete in this chunk are not copied.
        while let Some(length) = frame_length(bytes)?
            && let Some((frame, rest)) = bytes.split_at_checked(length)
        {
            end_frame(frame, &mut on_frame)?;
            bytes = rest;
        }
        self.kept.extend_from_slice(bytes);
        // The lengths are checked with their last byte, and not with the next chunk.
        frame_length(&self.kept).map(drop)
    }

    /// Returns [`ProviderError::StreamError`] if the bytes end inside a frame.
    fn finish(
        &mut self,
        _on_frame: impl FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.kept.is_empty() {
            return Ok(());
        }
        Err(malformed("the stream ended inside of a frame"))
    }
}

/// Returns the length of the frame that begins with these bytes. Returns `None` if its lengths have not arrived yet.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, ProviderError> {
    let Some((prelude, _)) = bytes.split_first_chunk::<PRELUDE_BYTES>() else {
        return Ok(None);
    };
    verify(prelude, "the checksum of a frame's lengths is wrong")?;
    let (frame, headers) = lengths(prelude)?;
    let content = frame.checked_sub(PRELUDE_BYTES + CHECKSUM_BYTES);
    match content.and_then(|content| content.checked_sub(headers)) {
        Some(..=MAX_PAYLOAD_BYTES) if headers <= MAX_HEADERS_BYTES => Ok(Some(frame)),
        Some(_) => Err(malformed(&format!("a frame of {frame} bytes is too large"))),
        None => Err(cut()),
    }
}

/// Reads the length of a frame and the length of its headers.
fn lengths(mut bytes: &[u8]) -> Result<(usize, usize), ProviderError> {
    Ok((take_number::<4>(&mut bytes)?, take_number::<4>(&mut bytes)?))
}

/// Calls `on_frame` with a whole frame, after its checksum was checked.
fn end_frame(
    frame: &[u8],
    on_frame: &mut impl FnMut(&[u8]) -> Result<(), ProviderError>,
) -> Result<(), ProviderError> {
    verify(frame, "the checksum of a frame is wrong")?;
    on_frame(frame)
}

/// Compares the checksum at the end of these bytes with the bytes before it.
fn verify(bytes: &[u8], problem: &str) -> Result<(), ProviderError> {
    match bytes.split_last_chunk::<CHECKSUM_BYTES>() {
        Some((summed, sum)) if crc32fast::hash(summed) == u32::from_be_bytes(*sum) => Ok(()),
        _ => Err(malformed(problem)),
    }
}

/// The content of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// An event of the response.
    Event {
        /// Name of the event, such as `contentBlockDelta`. Empty for a frame without headers.
        name: &'a str,
        /// The event as JSON.
        payload: &'a [u8],
    },
    /// An error that the API's model describes.
    Exception {
        /// Name of the error, such as `throttlingException`.
        name: &'a str,
        /// A JSON object with a `message`.
        payload: &'a [u8],
    },
    /// Any other error.
    Error {
        /// Code of the error, such as `InternalError`. Empty if the server sent none.
        code: &'a str,
        /// Text of the error. Empty if the server sent none.
        message: &'a str,
    },
}

impl<'a> Frame<'a> {
    /// Parses a whole frame of [`EventStreamFraming`], which has checked the checksums.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if a length or a header is malformed, or if the frame is of an unknown kind.
    pub(crate) fn parse(frame: &'a [u8]) -> Result<Self, ProviderError> {
        let (_, headers) = lengths(frame)?;
        let mut rest = frame;
        take(&mut rest, PRELUDE_BYTES)?;
        let mut headers = take(&mut rest, headers)?;
        let Some((payload, _)) = rest.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(cut());
        };
        // A frame without a kind is an event for botocore too.
        let (mut kind, mut event, mut exception, mut code, mut message) = ("event", "", "", "", "");
        while !headers.is_empty() {
            let (name, value) = take_header(&mut headers)?;
            let known = match name {
                b":message-type" => &mut kind,
                b":event-type" => &mut event,
                b":exception-type" => &mut exception,
                b":error-code" => &mut code,
                b":error-message" => &mut message,
                _ => continue,
            };
            *known = value.and_then(|value| str::from_utf8(value).ok()).ok_or_else(|| {
                malformed(&format!("the header {} is not a text", name.escape_ascii()))
            })?;
        }
        match kind {
            "event" => Ok(Self::Event { name: event, payload }),
            "exception" => Ok(Self::Exception { name: exception, payload }),
            "error" => Ok(Self::Error { code, message }),
            _ => Err(malformed("a frame is neither an event, nor an exception, nor an error")),
        }
    }
}

/// Reads the next header, and returns its name and its value. Returns `None` for a value that is not a text.
fn take_header<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), ProviderError> {
    let length = take_number::<1>(bytes)?;
    let name = take(bytes, length)?;
    let length = match take_number::<1>(bytes)? {
        // `true` and `false`.
        0 | 1 => 0,
        // Integers of 8, 16, 32 and 64 bits.
        2 => 1,
        3 => 2,
        4 => 4,
        5 => 8,
        // Bytes.
        6 => take_number::<2>(bytes)?,
        7 => {
            let length = take_number::<2>(bytes)?;
            return Ok((name, Some(take(bytes, length)?)));
        }
        // A timestamp.
        8 => 8,
        // A UUID.
        9 => 16,
        kind => return Err(malformed(&format!("a header has the unknown type {kind}"))),
    };
    take(bytes, length)?;
    Ok((name, None))
}

/// Reads an unsigned integer of at most 4 bytes.
fn take_number<const N: usize>(bytes: &mut &[u8]) -> Result<usize, ProviderError> {
    let number = take(bytes, N)?;
    Ok(number.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// Removes the first bytes.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], ProviderError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or_else(cut)?;
    *bytes = rest;
    Ok(taken)
}

/// Returns the error for a length that exceeds the frame.
fn cut() -> ProviderError {
    malformed("a length exceeds its frame")
}

fn malformed(problem: &str) -> ProviderError {
    ProviderError::StreamError(format!("the event stream is malformed: {problem}"))
}
