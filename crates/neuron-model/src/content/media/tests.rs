//! Tests of the detection of each MIME type, and of content and files that are refused.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::ModelContent;

/// Images with their MIME types. Each image consists only of the signature at the beginning of its file.
///
/// The signatures are defined by <https://www.w3.org/TR/png-3/>, ITU-T T.81,
/// <https://www.w3.org/Graphics/GIF/spec-gif89a.txt> and RFC 9649.
const IMAGES: [(&[u8], &str); 6] = [
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
    (b"\xff\xd8\xff\xe1\0\x10Exif\0", "image/jpeg"),
    (b"GIF87a\x01\0\x01\0", "image/gif"),
    (b"GIF89a\x01\0\x01\0", "image/gif"),
    (b"RIFF\x1a\0\0\0WEBPVP8L", "image/webp"),
];

const PDF: &[u8] = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n";

const NOT_AN_IMAGE: &str = "accepted are image/png, image/jpeg, image/gif, image/webp";
const NOT_A_DOCUMENT: &str = "accepted are application/pdf, text/plain";

#[track_caller]
fn check_refused(bytes: &[u8], found: &str) {
    let image = ImageSource::from_bytes(bytes).unwrap_err();
    assert_eq!(image.to_string(), format!("{found}: {NOT_AN_IMAGE}"));
    let document = DocumentSource::from_bytes(bytes).unwrap_err();
    assert_eq!(document.to_string(), format!("{found}: {NOT_A_DOCUMENT}"));
}

fn plain(text: &str) -> DocumentSource {
    DocumentSource::PlainText { data: text.into() }
}

#[test]
fn images_of_each_accepted_type() {
    for (bytes, expected) in IMAGES {
        let source = ImageSource::from_bytes(bytes).unwrap();
        let ImageSource::Base64 { media_type, data } = &source else {
            panic!("{source:?}");
        };
        assert_eq!(
            (media_type.as_str(), BASE64_STANDARD.decode(data).unwrap().as_slice()),
            (expected, bytes)
        );
        let item = ContentItem::from(source.clone());
        assert_eq!(item.for_model(), ModelContent::Image { media_type: expected, data });
        assert_eq!(ContentBlock::from(source.clone()), ContentBlock::Image { source });
        let error = DocumentSource::from_bytes(bytes).unwrap_err().to_string();
        assert_eq!(error, format!("{expected} is not accepted: {NOT_A_DOCUMENT}"));
    }
}

#[test]
fn documents_of_each_accepted_type() {
    let source = DocumentSource::from_bytes(PDF).unwrap();
    assert_eq!(source, DocumentSource::Base64Pdf { data: BASE64_STANDARD.encode(PDF) });
    assert_eq!(ContentBlock::from(source.clone()), ContentBlock::Document { source });
    for text in ["a", "日本 🦀\n", "GIFT", "BMW is a car", "%PD", "\u{1b}[31mred"] {
        assert_eq!(DocumentSource::from_bytes(text).unwrap(), plain(text));
        let error = ImageSource::from_bytes(text).unwrap_err().to_string();
        assert_eq!(error, format!("text/plain is not accepted: {NOT_AN_IMAGE}"));
    }
    assert_eq!(DocumentSource::from_bytes(b"\xef\xbb\xbfhi").unwrap(), plain("hi"));
    let error = ImageSource::from_bytes(PDF).unwrap_err().to_string();
    assert_eq!(error, format!("application/pdf is not accepted: {NOT_AN_IMAGE}"));
}

#[test]
fn other_types_are_named_in_the_error() {
    for (bytes, found) in [
        (&b"\0\0\0\x18ftypheic\0\0\0\0mif1"[..], "image/heic"),
        (b"\0\0\0\x18ftyphevc\0\0\0\0", "image/heic"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0", "image/heif"),
        (b"\0\0\0\x1cftypavif\0\0\0\0", "image/avif"),
        (b"II*\0\x08\0\0\0", "image/tiff"),
        (b"MM\0*\0\0\0\x08", "image/tiff"),
        (b"BM\x36\0\0\0\0\0\0\0", "image/bmp"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "image/jxl"),
        (b"PK\x03\x04\x14\0", "application/zip"),
    ] {
        check_refused(bytes, &format!("{found} is not accepted"));
    }
    // These are video, audio, UTF-16 text, Latin-1 text, and a UTF-8 text that ends within a character.
    for bytes in [
        &b"\0\0\0\x18ftypmp42"[..],
        b"RIFF\x1a\0\0\0WAVEfmt ",
        b"\xff\xfeh\0i\0",
        b"caf\xe9",
        b"caf\xc3",
        b"a\0b",
    ] {
        check_refused(bytes, "the type of the content is unknown");
    }
}

#[test]
fn content_without_text_or_bytes_is_empty() {
    // Content that consists of a byte order mark is an empty text.
    for bytes in [&b""[..], b"\xef\xbb\xbf"] {
        for error in [
            ImageSource::from_bytes(bytes).unwrap_err(),
            DocumentSource::from_bytes(bytes).unwrap_err(),
        ] {
            assert!(matches!(error, MediaError::Empty { path: None }));
            assert_eq!(error.to_string(), "the content is empty");
        }
    }
}

#[test]
fn truncated_signature_is_no_image() {
    for (bytes, media_type) in IMAGES {
        let whole = (0..=bytes.len()).find(|end| ImageSource::from_bytes(&bytes[..*end]).is_ok());
        let signature = match media_type {
            "image/png" => 8,
            "image/jpeg" => 3,
            "image/gif" => 6,
            _ => 12,
        };
        assert_eq!(whole, Some(signature), "{media_type}");
    }
    let is_pdf = |end: &usize| {
        matches!(DocumentSource::from_bytes(&PDF[..*end]), Ok(DocumentSource::Base64Pdf { .. }))
    };
    assert_eq!((0..=PDF.len()).find(is_pdf), Some(5));
}

#[test]
fn type_of_a_file_follows_its_content_not_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let (png, _) = IMAGES[0];
    let named_text = file("image.txt", png);
    assert_eq!(ImageSource::from_path(&named_text).unwrap(), ImageSource::from_bytes(png).unwrap());
    let named_png = file("text.png", b"a text");
    assert_eq!(DocumentSource::from_path(&named_png).unwrap(), plain("a text"));
    let error = ImageSource::from_path(&named_png).unwrap_err();
    assert!(
        matches!(&error, MediaError::Type { path: Some(path), found: Some("text/plain"), .. } if *path == named_png)
    );
    assert_eq!(
        error.to_string(),
        format!("{}: text/plain is not accepted: {NOT_AN_IMAGE}", named_png.display())
    );
    let empty = file("empty.png", b"");
    let error = ImageSource::from_path(&empty).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: the content is empty", empty.display()));
}

#[test]
fn read_error_names_path_and_cause() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_owned(), folder.path().join("missing.png")] {
        let cause = fs::read(&path).unwrap_err();
        for error in [
            ImageSource::from_path(&path).unwrap_err(),
            DocumentSource::from_path(&path).unwrap_err(),
        ] {
            assert_eq!(error.to_string(), format!("cannot read {}: {cause}", path.display()));
            let MediaError::Read { source, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(source.kind(), cause.kind());
        }
    }
}
