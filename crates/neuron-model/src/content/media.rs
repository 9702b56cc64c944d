//! Constructors of images and documents from bytes and files. The MIME type is detected from the content, never from
//! the file name.
//!
//! The module has its own file signatures, because the signatures of the crate `infer` are too short. For example,
//! `infer` reports any text that starts with `GIF` as an image.

use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::content::model_content::{IMAGE_TYPES, PDF_TYPE};
use crate::{ContentBlock, ContentItem, DocumentSource, ImageSource, MediaError};

const TEXT_TYPE: &str = "text/plain";
const DOCUMENT_TYPES: [&str; 2] = [PDF_TYPE, TEXT_TYPE];

impl ImageSource {
    /// Creates an image from the bytes of a PNG, JPEG, GIF or WebP file. The models of all vendors accept these types.
    ///
    /// The type is detected from the signature at the beginning of the bytes. The remaining bytes are not validated.
    ///
    /// Vendors limit the size of an image and of a request. Anthropic, for example, accepts requests of up to 32 MB.
    /// Base64 increases the size by one third. This method checks no limit.
    ///
    /// # Errors
    ///
    /// [`MediaError::Type`] if the bytes are of another type, and [`MediaError::Empty`] if `bytes` is empty.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::ImageSource;
    ///
    /// let source = ImageSource::from_bytes(b"GIF89a...")?;
    /// assert_eq!(
    ///     source,
    ///     ImageSource::Base64 { media_type: "image/gif".into(), data: "R0lGODlhLi4u".into() }
    /// );
    /// let error = ImageSource::from_bytes(b"\0\0\0\x18ftypheic").unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "image/heic is not accepted: accepted are image/png, image/jpeg, image/gif, image/webp"
    /// );
    /// # Ok::<(), neuron_model::MediaError>(())
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Self, MediaError> {
        let bytes = bytes.as_ref();
        let media_type = accepted_type(bytes, &IMAGE_TYPES)?.to_owned();
        Ok(Self::Base64 { media_type, data: BASE64_STANDARD.encode(bytes) })
    }

    /// Reads an image from a file and passes the bytes to [`from_bytes`](Self::from_bytes). The extension of the file
    /// name is ignored.
    ///
    /// This method blocks. In async code, read the file with the async runtime and call `from_bytes`. On
    /// `wasm32-unknown-unknown`, which has no files, this method always returns an error.
    ///
    /// # Errors
    ///
    /// [`MediaError::Read`] if the file cannot be read, and the errors of [`from_bytes`](Self::from_bytes). Each error
    /// contains the path.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use neuron_model::{ContentBlock, ImageSource, Message, Role};
    ///
    /// let chart = ImageSource::from_path("chart.png")?;
    /// let question = ContentBlock::Text("What does the chart show?".into());
    /// let message = Message { role: Role::User, content: vec![chart.into(), question] };
    /// # Ok::<(), neuron_model::MediaError>(())
    /// ```
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, MediaError> {
        read(path.as_ref(), Self::from_bytes)
    }
}

impl DocumentSource {
    /// Creates a document from the bytes of a PDF file or of plain UTF-8 text. The type is detected from the content. A
    /// byte order mark at the beginning of a text is removed.
    ///
    /// Vendors limit the size and the number of pages of a document. This method checks no limit.
    ///
    /// # Errors
    ///
    /// [`MediaError::Type`] if the bytes are of another type, including text in another encoding. [`MediaError::Empty`]
    /// if `bytes` is empty.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::DocumentSource;
    ///
    /// let source = DocumentSource::from_bytes("Dear Sir or Madam,")?;
    /// assert_eq!(source, DocumentSource::PlainText { data: "Dear Sir or Madam,".into() });
    /// # Ok::<(), neuron_model::MediaError>(())
    /// ```
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Self, MediaError> {
        let bytes = bytes.as_ref();
        match (accepted_type(bytes, &DOCUMENT_TYPES)?, text(bytes)) {
            (TEXT_TYPE, Some(text)) => Ok(Self::PlainText { data: text.to_owned() }),
            _ => Ok(Self::Base64Pdf { data: BASE64_STANDARD.encode(bytes) }),
        }
    }

    /// Reads a document from a file and passes the bytes to [`from_bytes`](Self::from_bytes). The extension of the file
    /// name is ignored.
    ///
    /// This method blocks. In async code, read the file with the async runtime and call `from_bytes`.
    ///
    /// # Errors
    ///
    /// [`MediaError::Read`] if the file cannot be read, and the errors of [`from_bytes`](Self::from_bytes). Each error
    /// contains the path.
    pub fn from_path(path: impl AsRef<Path>) -> Result<Self, MediaError> {
        read(path.as_ref(), Self::from_bytes)
    }
}

impl From<ImageSource> for ContentBlock {
    fn from(source: ImageSource) -> Self {
        Self::Image { source }
    }
}

impl From<DocumentSource> for ContentBlock {
    fn from(source: DocumentSource) -> Self {
        Self::Document { source }
    }
}

impl From<ImageSource> for ContentItem {
    fn from(source: ImageSource) -> Self {
        Self::Image { source }
    }
}

/// Reads a file and passes its bytes to `from_bytes`. Adds the path to an error.
fn read<T>(
    path: &Path,
    from_bytes: impl FnOnce(Vec<u8>) -> Result<T, MediaError>,
) -> Result<T, MediaError> {
    let bytes =
        std::fs::read(path).map_err(|source| MediaError::Read { path: path.to_owned(), source })?;
    from_bytes(bytes).map_err(|error| error.at(path))
}

/// Detects the MIME type of the bytes. Returns an error if the type is not in `accepted`.
fn accepted_type(
    bytes: &[u8],
    accepted: &'static [&'static str],
) -> Result<&'static str, MediaError> {
    // `text` also returns an empty text for bytes that consist of a byte order mark.
    if text(bytes) == Some("") {
        return Err(MediaError::Empty { path: None });
    }
    let found = type_of(bytes);
    let is_accepted = |found: &&str| accepted.contains(found);
    found.filter(is_accepted).ok_or(MediaError::Type { path: None, found, accepted })
}

/// Detects the MIME type of the bytes. Returns `None` for an unknown type.
///
/// The function also detects common types that the constructors refuse, so that the error can name the type.
fn type_of(bytes: &[u8]) -> Option<&'static str> {
    let at = |offset, signature: &[u8]| {
        bytes.get(offset..).is_some_and(|rest| rest.starts_with(signature))
    };
    // https://mp4ra.org/registered-types/brands
    let is_brand =
        |brands: &[&[u8; 4]]| at(4, b"ftyp") && brands.iter().any(|brand| at(8, brand.as_slice()));
    let signatures = [
        ("image/png", at(0, b"\x89PNG\r\n\x1a\n")),
        ("image/jpeg", at(0, b"\xff\xd8\xff")),
        ("image/gif", at(0, b"GIF87a") || at(0, b"GIF89a")),
        ("image/webp", at(0, b"RIFF") && at(8, b"WEBP")),
        (PDF_TYPE, at(0, b"%PDF-")),
        ("image/avif", is_brand(&[b"avif", b"avis"])),
        ("image/heic", is_brand(&[b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"])),
        ("image/heif", is_brand(&[b"mif1", b"msf1"])),
        ("image/tiff", at(0, b"II*\0") || at(0, b"MM\0*")),
        // The reserved bytes distinguish a bitmap from a text that starts with `BM`.
        ("image/bmp", at(0, b"BM") && at(6, b"\0\0\0\0")),
        ("image/jxl", at(0, b"\xff\x0a") || at(4, b"JXL \r\n\x87\n")),
        // Office documents are ZIP archives.
        ("application/zip", at(0, b"PK\x03\x04")),
    ];
    // Text comes last, because a PDF or GIF may be valid UTF-8 too.
    let known = signatures.into_iter().find_map(|(kind, is_there)| is_there.then_some(kind));
    known.or_else(|| text(bytes).map(|_| TEXT_TYPE))
}

/// Decodes UTF-8 text and removes a byte order mark. Returns `None` for bytes that are not UTF-8 or contain NUL.
fn text(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
