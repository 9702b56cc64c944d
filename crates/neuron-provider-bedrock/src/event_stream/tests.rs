//! Tests of frames: recorded ones, all types of headers, and malformed input.

use proptest::prelude::*;

use super::*;

/// A frame without headers and without a payload, which botocore accepts.
const EMPTY: &str = "000000100000000005c248eb7d98c8ff";

/// The event `messageStop`, which botocore accepts.
const MESSAGE_STOP: &str = "\
    000000590000003076f8427f0d3a6d6573736167652d747970650700056576656e740b3a6576656e742d7479706507000b6d65737361676553\
    746f707b2273746f70526561736f6e223a22656e645f7475726e227def4f02c7";

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

/// Returns the beginning of a frame with these lengths and a correct checksum.
fn prelude(frame: usize, headers: usize) -> Vec<u8> {
    let lengths = [frame, headers].map(|length| u32::try_from(length).unwrap().to_be_bytes());
    let mut bytes = lengths.concat();
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

/// Returns a frame with correct lengths and checksums.
fn frame(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut frame = prelude(headers.len() + payload.len() + 16, headers.len());
    frame.extend(headers);
    frame.extend(payload);
    frame.extend(crc32fast::hash(&frame).to_be_bytes());
    frame
}

/// Returns a header of any type. `value` includes the length of the value, if its type has one.
fn header(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[length], name.as_bytes(), &[kind], value].concat()
}

/// Returns a header with a text.
fn text(name: &str, value: &str) -> Vec<u8> {
    let length = u16::try_from(value.len()).unwrap().to_be_bytes();
    header(name, 7, &[&length, value.as_bytes()].concat())
}

fn event(name: &str, payload: &[u8]) -> Vec<u8> {
    frame(&[text(":message-type", "event"), text(":event-type", name)].concat(), payload)
}

type Frames = Vec<Vec<u8>>;

/// Returns the frames in chunks of bytes, or the frames before an error and its text.
fn decode<'b>(chunks: impl IntoIterator<Item = &'b [u8]>) -> Result<Frames, (Frames, String)> {
    let mut framing = EventStreamFraming::default();
    let mut frames = Vec::new();
    let mut keep = |frame: &[u8]| {
        frames.push(frame.to_vec());
        Ok(())
    };
    let fed = chunks.into_iter().try_for_each(|chunk| framing.feed(chunk, &mut keep));
    match fed.and_then(|()| framing.finish(&mut keep)) {
        Ok(()) => Ok(frames),
        Err(error) => Err((frames, error.to_string())),
    }
}

#[track_caller]
fn check_error(bytes: &[u8], problem: &str) {
    let expected = format!("stream error: the event stream is malformed: {problem}");
    for size in [1, bytes.len().max(1)] {
        assert_eq!(decode(bytes.chunks(size)), Err((Vec::new(), expected.clone())), "{size}");
    }
}

#[test]
fn recorded_frames_are_parsed() {
    let (empty, stop) = (bytes(EMPTY), bytes(MESSAGE_STOP));
    assert_eq!(frame(b"", b""), empty);
    assert_eq!(event("messageStop", br#"{"stopReason":"end_turn"}"#), stop);
    let frames = decode([&*[&*empty, &*stop, &*empty].concat()]).unwrap();
    assert_eq!(frames, [&*empty, &*stop, &*empty]);
    assert_eq!(Frame::parse(&empty).unwrap(), Frame::Event { name: "", payload: b"" });
    let payload = br#"{"stopReason":"end_turn"}"#;
    assert_eq!(Frame::parse(&stop).unwrap(), Frame::Event { name: "messageStop", payload });
}

#[test]
fn no_bytes_are_no_frames() {
    assert_eq!(decode([]), Ok(Vec::new()));
    assert_eq!(decode([&b""[..], b""]), Ok(Vec::new()));
}

#[test]
fn stream_is_split_at_every_byte() {
    let frames = [bytes(MESSAGE_STOP), bytes(EMPTY), event("metadata", b"{}")];
    let all = frames.concat();
    assert_eq!(decode(all.chunks(1)).unwrap(), frames);
    for at in 0..=all.len() {
        let (first, second) = all.split_at(at);
        assert_eq!(decode([first, b"", second]).unwrap(), frames, "{at}");
    }
}

#[test]
fn stream_that_ends_inside_of_a_frame_is_an_error() {
    let frames = [bytes(MESSAGE_STOP), bytes(EMPTY), event("metadata", b"{}")];
    let all = frames.concat();
    let ends = [0, 89, 105, all.len()];
    for at in 0..=all.len() {
        let whole = ends.iter().filter(|end| (1..=at).contains(*end)).count();
        let decoded = decode([&all[..at]]);
        if ends.contains(&at) {
            assert_eq!(decoded, Ok(frames[..whole].to_vec()));
            continue;
        }
        let (kept, error) = decoded.unwrap_err();
        assert_eq!(kept, frames[..whole]);
        assert!(error.ends_with("the stream ended inside of a frame"), "{at}: {error}");
    }
}

#[test]
fn every_wrong_bit_is_an_error() {
    let frame = event("contentBlockDelta", br#"{"delta":{"text":"hi"},"contentBlockIndex":0}"#);
    for bit in 0..frame.len() * 8 {
        let mut wrong = frame.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        for size in [1, wrong.len()] {
            let (frames, error) = decode(wrong.chunks(size)).unwrap_err();
            assert_eq!(frames, Vec::<Vec<u8>>::new());
            assert!(error.contains("checksum"), "{bit}: {error}");
        }
    }
}

#[test]
fn wrong_lengths_are_an_error_as_soon_as_they_arrive() {
    let largest = 16 + MAX_HEADERS_BYTES + MAX_PAYLOAD_BYTES;
    for (length, headers) in [(largest + 1, MAX_HEADERS_BYTES), (16 + 131_073, 131_073)] {
        let problem = format!("a frame of {length} bytes is too large");
        check_error(&prelude(length, headers), &problem);
    }
    let longest = usize::try_from(u32::MAX).unwrap();
    check_error(&prelude(longest, 0), "a frame of 4294967295 bytes is too large");
    check_error(&prelude(longest, longest), "a length exceeds its frame");
    for (length, headers) in [(0, 0), (15, 0), (16, 1), (100, 85), (100, longest)] {
        check_error(&prelude(length, headers), "a length exceeds its frame");
    }
    check_error(&[0; 12], "the checksum of a frame's lengths is wrong");
    check_error(&[0; 11], "the stream ended inside of a frame");
}

#[test]
fn memory_is_not_reserved_for_bytes_that_have_not_arrived() {
    let mut framing = EventStreamFraming::default();
    let largest = prelude(16 + MAX_HEADERS_BYTES + MAX_PAYLOAD_BYTES, MAX_HEADERS_BYTES);
    framing.feed(&largest, |_| panic!("a frame")).unwrap();
    framing.feed(&[0; 100], |_| panic!("a frame")).unwrap();
    assert!(framing.kept.capacity() < 1024);
}

#[test]
fn error_of_the_callback_is_returned() {
    let all = [bytes(EMPTY), bytes(EMPTY)].concat();
    for size in [1, all.len()] {
        let mut framing = EventStreamFraming::default();
        let mut calls = 0;
        let fed = all.chunks(size).try_for_each(|chunk| {
            framing.feed(chunk, |_| {
                calls += 1;
                Err(ProviderError::ModelNotFound("m".into()))
            })
        });
        assert!(matches!(fed, Err(ProviderError::ModelNotFound(_))));
        assert_eq!(calls, 1);
    }
}

#[test]
fn headers_of_all_types_are_read() {
    let other = [
        header("true", 0, b""),
        header("false", 1, b""),
        header("i8", 2, &[1]),
        header("i16", 3, &[7; 2]),
        header("i32", 4, &[7; 4]),
        header("i64", 5, &[7; 8]),
        header("bytes", 6, &[0, 3, 7, 7, 7]),
        header("no bytes", 6, &[0, 0]),
        text("text", "日本"),
        header("not UTF-8", 7, &[0, 1, 0xff]),
        header("time", 8, &[7; 8]),
        header("uuid", 9, &[7; 16]),
        header("", 0, b""),
        header(&"n".repeat(255), 0, b""),
        text(":content-type", "application/json"),
    ];
    let known = [text(":message-type", "event"), text(":event-type", "metadata")];
    for headers in [[&other[..], &known].concat(), [&known[..], &other].concat()] {
        let frame = frame(&headers.concat(), b"{}");
        let expected = Frame::Event { name: "metadata", payload: b"{}" };
        assert_eq!(Frame::parse(&frame).unwrap(), expected);
    }
}

#[test]
fn kind_of_a_frame_is_its_message_type() {
    let kind = |kind: &str, more: &[Vec<u8>], payload: &[u8]| {
        let headers = [&[text(":message-type", kind)], more].concat().concat();
        frame(&headers, payload)
    };
    let name = [text(":exception-type", "throttlingException")];
    let payload = br#"{"message":"slow"}"#;
    let exception = kind("exception", &name, payload);
    let expected = Frame::Exception { name: "throttlingException", payload };
    assert_eq!(Frame::parse(&exception).unwrap(), expected);

    let texts = [text(":error-code", "InternalError"), text(":error-message", "broken")];
    let error = kind("error", &texts, b"");
    let expected = Frame::Error { code: "InternalError", message: "broken" };
    assert_eq!(Frame::parse(&error).unwrap(), expected);
    let expected = Frame::Error { code: "", message: "" };
    assert_eq!(Frame::parse(&kind("error", &[], b"")).unwrap(), expected);

    let error = Frame::parse(&kind("request", &[], b"")).unwrap_err().to_string();
    assert!(error.ends_with("neither an event, nor an exception, nor an error"), "{error}");
}

#[test]
fn malformed_headers_are_an_error() {
    for (headers, problem) in [
        (&[1][..], "a length exceeds its frame"),
        (&[5, b'a'], "a length exceeds its frame"),
        (&[1, b'a'], "a length exceeds its frame"),
        (&[1, b'a', 5, 0, 0], "a length exceeds its frame"),
        (&[1, b'a', 7, 0], "a length exceeds its frame"),
        (&[1, b'a', 7, 0xff, 0xff, b'x'], "a length exceeds its frame"),
        (&[1, b'a', 6, 0, 2, 0], "a length exceeds its frame"),
        (&[1, b'a', 10, 0], "a header has the unknown type 10"),
        (&header(":event-type", 0, b""), "the header :event-type is not a text"),
        (&header(":message-type", 7, &[0, 1, 0xff]), "the header :message-type is not a text"),
    ] {
        // The payload must not complete a header.
        let frame = frame(headers, &[0; 64]);
        let error = Frame::parse(&frame).unwrap_err().to_string();
        assert_eq!(error, format!("stream error: the event stream is malformed: {problem}"));
    }
}

#[test]
fn incomplete_frame_is_not_parsed() {
    let whole = bytes(MESSAGE_STOP);
    for at in 0..12 + 48 + 4 {
        assert!(Frame::parse(&whole[..at]).is_err(), "{at}");
    }
}

proptest! {
    #[test]
    fn frames_are_the_same_for_any_chunks(
        contents in prop::collection::vec(("[a-zA-Z]{0,20}", prop::collection::vec(any::<u8>(), 0..300)), 0..8),
        sizes in prop::collection::vec(1..100_usize, 1..50),
    ) {
        let frames: Vec<_> = contents.iter().map(|(name, payload)| event(name, payload)).collect();
        let all = frames.concat();
        let mut rest = &all[..];
        let chunks = sizes.iter().cycle().map_while(|size| {
            let (chunk, after) = rest.split_at((*size).min(rest.len()));
            rest = after;
            (!chunk.is_empty()).then_some(chunk)
        });
        prop_assert_eq!(&decode(chunks).unwrap(), &frames);
        prop_assert_eq!(&decode([&*all]).unwrap(), &frames);
        for (frame, (name, payload)) in frames.iter().zip(&contents) {
            prop_assert_eq!(Frame::parse(frame).unwrap(), Frame::Event { name, payload });
        }
    }

    #[test]
    fn any_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(decode([&*bytes]).is_ok(), decode(bytes.chunks(1)).is_ok());
        let _ = Frame::parse(&bytes);
        let _ = Frame::parse(&frame(&bytes, b"{}"));
    }
}
