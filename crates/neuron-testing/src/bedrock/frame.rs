//! Encodes the binary frames of a stream, in AWS's format `application/vnd.amazon.eventstream`.
//!
//! Source: <https://smithy.io/2.0/aws/amazon-eventstream.html>.

/// Returns a frame with these headers and this payload. All headers are strings.
///
/// A frame consists of its length, the length of its headers, a checksum of these two numbers, the headers, the
/// payload, and a checksum of all preceding bytes. Numbers are big-endian, and checksums are CRC-32.
///
/// A header name must have at most 255 bytes, and a header value at most 65,535 bytes. Longer names and values are cut
/// off.
///
/// # Example
///
/// ```
/// use neuron_testing::bedrock::frame;
///
/// assert_eq!(frame(&[], b"").len(), 16);
/// let headers = [(":message-type", "event"), (":event-type", "messageStop")];
/// let bytes = frame(&headers, br#"{"stopReason":"end_turn"}"#);
/// assert_eq!(bytes[..4], 89_u32.to_be_bytes());
/// ```
#[must_use]
pub fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        let name = name.as_bytes().get(..usize::from(u8::MAX)).unwrap_or(name.as_bytes());
        encoded.extend([u8::try_from(name.len()).unwrap_or(u8::MAX)]);
        encoded.extend(name);
        let value = value.as_bytes().get(..usize::from(u16::MAX)).unwrap_or(value.as_bytes());
        encoded.extend([STRING]);
        encoded.extend(u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        encoded.extend(value);
    }
    let length = OVERHEAD.saturating_add(encoded.len()).saturating_add(payload.len());
    let mut frame = Vec::with_capacity(length);
    frame.extend(word(length));
    frame.extend(word(encoded.len()));
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame.extend(encoded);
    frame.extend(payload);
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame
}

/// The type of a header whose value is a string.
const STRING: u8 = 7;

/// Number of bytes of a frame without headers and payload.
const OVERHEAD: usize = 16;

/// Returns a length as four bytes.
fn word(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hexadecimal(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn frame_matches_frames_that_botocore_accepts() {
        assert_eq!(hexadecimal(&frame(&[], b"")), "000000100000000005c248eb7d98c8ff");
        let headers = [(":message-type", "event"), (":event-type", "messageStop")];
        let expected = "000000590000003076f8427f0d3a6d6573736167652d747970650700056576656e740b3a65\
                        76656e742d7479706507000b6d65737361676553746f707b2273746f70526561736f6e223a\
                        22656e645f7475726e227def4f02c7";
        assert_eq!(hexadecimal(&frame(&headers, br#"{"stopReason":"end_turn"}"#)), expected);
    }

    #[test]
    fn lengths_are_those_of_the_frame_and_of_its_headers() {
        let length = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let bytes = frame(&[("name", "é")], &[0; 1000]);
        assert_eq!(length(&bytes[..4]), u32::try_from(bytes.len()).unwrap());
        assert_eq!(length(&bytes[4..8]), 1 + 4 + 1 + 2 + 2);
        assert_eq!(bytes[12..22], *b"\x04name\x07\x00\x02\xc3\xa9");
    }

    #[test]
    fn long_headers_are_cut_off() {
        let name = "n".repeat(300);
        let bytes = frame(&[(&name, &"v".repeat(70_000))], b"");
        assert_eq!(bytes.len(), OVERHEAD + 1 + 255 + 1 + 2 + 65_535);
        assert_eq!(bytes[12], 255);
    }
}
