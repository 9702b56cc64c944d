//! Tests of decoding, with bodies that are split, cut and damaged at each byte.

use std::io::Write as _;

use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use flate2::{Compression, GzBuilder};
use futures_util::{StreamExt as _, stream};
use http::HeaderValue;
use http_body_util::StreamBody;

use super::*;

const TEXT: &[u8] = b"data: {\"a\":1}\n\n: a comment\n\ndata: {\"b\":2}\n\n";

/// Decodes a body that arrives in these pieces. Returns the decoded pieces.
fn pieces(header: &str, body: &[&[u8]]) -> Result<Vec<Bytes>, String> {
    let headers =
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_str(header).unwrap())]);
    let frame =
        |piece: &&[u8]| Ok::<_, BoxError>(http_body::Frame::data(Bytes::copy_from_slice(piece)));
    let body: Vec<_> = body.iter().map(frame).collect();
    let chunks = Chunks::boxed(StreamBody::new(stream::iter(body)));
    let mut content = Content::new(chunks, Encoding::of(&headers)?);
    let read = stream::poll_fn(|cx| content.poll_next(cx));
    let read: Vec<Result<Bytes, BoxError>> =
        futures_util::FutureExt::now_or_never(read.collect()).expect("all pieces are there");
    read.into_iter().map(|piece| piece.map_err(|error| error.to_string())).collect()
}

fn decode(header: &str, body: &[&[u8]]) -> Result<Vec<u8>, String> {
    Ok(pieces(header, body)?.concat())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a gzip body whose header has all optional fields, and a flush after each byte.
fn elaborate() -> Vec<u8> {
    let builder = GzBuilder::new().filename("a.txt").comment("why").extra("extra".as_bytes());
    let mut encoder = builder.write(Vec::new(), Compression::default());
    for byte in TEXT {
        encoder.write_all(&[*byte]).unwrap();
        encoder.flush().unwrap();
    }
    encoder.finish().unwrap()
}

/// All bodies that decode to [`TEXT`], with the value of the header.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let (first, last) = TEXT.split_at(10);
    let members = [gzip(first), gzip(b""), gzip(last)].concat();
    vec![
        ("gzip", gzip(TEXT)),
        ("GZip", gzip(TEXT)),
        ("x-gzip", gzip(TEXT)),
        ("gzip, identity", gzip(TEXT)),
        (" , identity,gzip ", gzip(TEXT)),
        ("gzip", elaborate()),
        ("gzip", members.clone()),
        ("gzip", [members, vec![0; 20]].concat()),
        // gzip ignores what follows.
        ("gzip", [gzip(TEXT), b"\0\x1f and more".to_vec()].concat()),
        ("gzip", [gzip(TEXT), b"\x1f".to_vec()].concat()),
        ("deflate", zlib(TEXT)),
        ("deflate", raw(TEXT)),
        // The header and the body contradict each other.
        ("", gzip(TEXT)),
        ("identity", gzip(TEXT)),
        ("deflate", gzip(TEXT)),
        ("gzip", TEXT.to_vec()),
        ("deflate", TEXT.to_vec()),
        ("utf-8", TEXT.to_vec()),
        // Regression cases. These bodies were an error.
        ("UTF8", TEXT.to_vec()),
        ("charset=utf-8", TEXT.to_vec()),
        ("binary", TEXT.to_vec()),
        ("application/json, gzip", gzip(TEXT)),
        ("application/json", gzip(TEXT)),
        ("", TEXT.to_vec()),
    ]
}

#[test]
fn body_split_at_any_byte_is_decoded() {
    for (header, body) in bodies() {
        for at in 0..=body.len() {
            let (before, after) = body.split_at(at);
            let decoded = decode(header, &[before, after]);
            assert_eq!(decoded.as_deref(), Ok(TEXT), "{header} split at {at}");
        }
        let bytes: Vec<&[u8]> = body.chunks(1).collect();
        assert_eq!(decode(header, &bytes).as_deref(), Ok(TEXT), "{header} byte by byte");
    }
}

#[test]
fn body_that_ends_early_is_an_error() {
    for (header, body) in [
        ("gzip", gzip(TEXT)),
        ("gzip", elaborate()),
        ("deflate", zlib(TEXT)),
        ("deflate", raw(TEXT)),
    ] {
        for length in 1..body.len() {
            let error = decode(header, &[&body[..length]]).unwrap_err();
            let expected = format!("the {header} body ended before it was complete");
            assert_eq!(error, expected, "{length} of {}", body.len());
        }
        assert_eq!(decode(header, &[]), Ok(Vec::new()));
    }
}

#[test]
fn damaged_body_is_an_error() {
    let body = gzip(TEXT);
    for at in 10..body.len() {
        let mut damaged = body.clone();
        damaged[at] ^= 0xff;
        let error = decode("gzip", &[&damaged]).unwrap_err();
        let is_known = ["the gzip body is damaged", "the gzip body ended before"]
            .iter()
            .any(|text| error.starts_with(text));
        assert!(is_known, "byte {at}: {error}");
    }
    let long = [b"\x1f\x8b\x08\x08\0\0\0\0\0\0".to_vec(), vec![b'a'; 80_000]].concat();
    let error = decode("gzip", &[&long]).unwrap_err();
    assert_eq!(error, "the gzip body is damaged: its header is too long");
}

/// A piece is limited, so that a reader can stop before a small body fills the memory.
#[test]
fn decoded_pieces_are_limited() {
    let zeros = vec![0; 3_000_000];
    for (header, body) in [("gzip", gzip(&zeros)), ("deflate", zlib(&zeros))] {
        assert!(body.len() < 10_000);
        let pieces = pieces(header, &[&body]).unwrap();
        assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= MAX_PIECE));
        assert_eq!(pieces.concat().len(), zeros.len());
    }
}

#[test]
fn body_without_encoding_is_not_copied() {
    let chunk = Bytes::from_static(TEXT);
    let frame = Ok::<_, BoxError>(http_body::Frame::data(chunk.clone()));
    let chunks = Chunks::boxed(StreamBody::new(stream::iter([frame])));
    let mut content = Content::new(chunks, Encoding::Identity);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Some(Ok(read))) = content.poll_next(&mut cx) else {
        panic!("the chunk is there");
    };
    assert_eq!(read.as_ptr(), chunk.as_ptr());
}

#[test]
fn unsupported_encoding_is_named() {
    for (header, shown) in [
        ("br", "`br`"),
        ("gzip, zstd", "`zstd`"),
        ("compress", "`compress`"),
        ("gzip, gzip", "in more than one layer"),
        ("deflate,gzip", "in more than one layer"),
    ] {
        let error = decode(header, &[]).unwrap_err();
        let beginning = format!("the response has the content encoding {shown}, which is not");
        assert!(error.starts_with(&beginning), "{error}");
    }
}
