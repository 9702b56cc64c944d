//! Images and documents, as parts of a content or of a function response.
//!
//! <https://ai.google.dev/gemini-api/docs/image-understanding>

use neuron_http::inline_data;
use neuron_model::{DocumentSource, ImageSource, ProviderError, image_type};
use serde::Serialize;

use crate::model::VERTEX;

/// A file, as data or as a URL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(crate) enum Media<'a> {
    InlineData {
        mime_type: &'a str,
        /// The file in base64.
        data: &'a str,
    },
    FileData {
        file_uri: &'a str,
        /// Type of the file. Vertex AI requires the type, and Google AI knows the type of an uploaded file.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<&'static str>,
    },
}

pub(crate) const PDF: &str = "application/pdf";

/// Types of images that the API accepts.
const IMAGES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// Types of inline data that a function response may contain.
const IN_RESPONSES: [&str; 5] = ["image/png", "image/jpeg", "image/webp", PDF, "text/plain"];

impl Media<'_> {
    fn mime_type(&self) -> Option<&str> {
        match *self {
            Self::InlineData { mime_type, .. } => Some(mime_type),
            Self::FileData { mime_type, .. } => mime_type,
        }
    }

    /// Returns `false` if the platform `vendor` rejects the file: an image of another type than [`IMAGES`], a `data:` URL
    /// that is not in base64, or on Vertex AI a file without a type. Types other than images are not checked.
    pub(crate) fn is_accepted(&self, vendor: &str) -> bool {
        let is_data = matches!(self, Self::FileData { file_uri, .. } if is_data_url(file_uri));
        let is_other = |kind: &str| kind.starts_with("image/") && !IMAGES.contains(&kind);
        !is_data && self.mime_type().map_or(vendor != VERTEX, |kind| !is_other(kind))
    }

    /// Returns `true` if a function response may contain the file.
    pub(crate) fn fits_response(&self) -> bool {
        match self {
            Self::InlineData { mime_type, .. } => IN_RESPONSES.contains(mime_type),
            Self::FileData { .. } => false,
        }
    }

    /// Returns the file if the platform `vendor` accepts it.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if it does [not](Self::is_accepted).
    pub(crate) fn checked(self, vendor: &str) -> Result<Self, ProviderError> {
        if self.is_accepted(vendor) {
            return Ok(self);
        }
        let what = match self {
            Self::FileData { file_uri, mime_type: None } if !is_data_url(file_uri) => {
                return Err(ProviderError::InvalidRequest(
                    "Vertex AI needs the type of a file, and the URL has no known extension such as `.png`: send the \
                     file in base64"
                        .into(),
                ));
            }
            file => match file.mime_type() {
                Some(kind) => format!("an image of the type `{kind}`"),
                None => "a `data:` URL without base64".to_owned(),
            },
        };
        Err(ProviderError::InvalidRequest(format!(
            "Gemini does not accept {what}: send the image as PNG, JPEG, WebP, HEIC or HEIF, in base64"
        )))
    }
}

/// Converts an image. Returns `None` for a type of source that this crate does not know.
pub(crate) fn image(source: &ImageSource) -> Option<Media<'_>> {
    match source {
        ImageSource::Base64 { media_type, data } => {
            Some(Media::InlineData { mime_type: canonical(media_type), data })
        }
        ImageSource::Url { url } => Some(at(url)),
        _ => None,
    }
}

/// Converts a document that is not plain text. Returns `None` for a type of source that this crate does not know.
pub(crate) fn document(source: &DocumentSource) -> Option<Media<'_>> {
    match source {
        DocumentSource::Base64Pdf { data } => Some(Media::InlineData { mime_type: PDF, data }),
        DocumentSource::Url { url } => Some(at(url)),
        _ => None,
    }
}

/// Returns the file at a URL. A `data:` URL becomes inline data, because the API downloads only other URLs.
pub(crate) fn at(url: &str) -> Media<'_> {
    match inline_data(url) {
        Some((kind, data)) => Media::InlineData { mime_type: canonical(kind), data },
        None => Media::FileData { file_uri: url, mime_type: type_of(url) },
    }
}

fn is_data_url(url: &str) -> bool {
    let scheme = url.trim_start().split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("data"))
}

/// Returns a type without its parameters, and in the spelling of the API if the type is known.
fn canonical(kind: &str) -> &str {
    if let Some(known) = image_type(kind) {
        return known;
    }
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let mut known = TYPES.iter().map(|(_, known)| *known);
    known.find(|known| known.eq_ignore_ascii_case(kind)).unwrap_or(kind)
}

/// Types of files by the extension in their URL.
const TYPES: [(&str, &str); 24] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("gif", "image/gif"),
    ("svg", "image/svg+xml"),
    ("bmp", "image/bmp"),
    ("avif", "image/avif"),
    ("tiff", "image/tiff"),
    ("pdf", PDF),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("html", "text/html"),
    ("csv", "text/csv"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mp3"),
    ("aac", "audio/aac"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("mp4", "video/mp4"),
    ("mov", "video/quicktime"),
    ("webm", "video/webm"),
];

/// Returns the type of the file at a URL, derived from its extension. Returns `None` for an unknown extension.
fn type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, extension) = path.rsplit('/').next().unwrap_or_default().rsplit_once('.')?;
    let mut types = TYPES.into_iter();
    types.find_map(|(known, kind)| known.eq_ignore_ascii_case(extension).then_some(kind))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::GOOGLE_AI;

    #[track_caller]
    fn check(url: &str, expected: Value) {
        assert_eq!(serde_json::to_value(at(url)).unwrap(), expected);
    }

    #[test]
    fn urls_become_files_or_inline_data() {
        let png = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
        check("data:image/png;base64,aGk=", png.clone());
        check("data:image/png;x=y;base64,aGk=", png.clone());
        check("DATA:IMAGE/PNG;BASE64,aGk=", png);
        let jpeg = json!({"inlineData": {"mimeType": "image/jpeg", "data": "aGk="}});
        check("data:image/jpg;base64,aGk=", jpeg);
        for (url, kind) in [
            ("https://a.example/b.PNG?x=.pdf", "image/png"),
            ("gs://bucket/a.b.pdf", "application/pdf"),
            ("https://a.example/b.jpeg#c", "image/jpeg"),
        ] {
            check(url, json!({"fileData": {"fileUri": url, "mimeType": kind}}));
        }
        for url in [
            "https://generativelanguage.googleapis.com/v1beta/files/abc",
            "https://a.pdf/b",
            "data:image/png,x",
            "",
        ] {
            check(url, json!({"fileData": {"fileUri": url}}));
        }
    }

    #[test]
    fn file_of_a_type_that_the_api_rejects_is_not_accepted() {
        let rejected = |what: &str| {
            format!(
                "invalid request: Gemini does not accept {what}: send the image as PNG, JPEG, WebP, HEIC or HEIF, in \
                 base64"
            )
        };
        for (url, what) in [
            ("data:image/gif;base64,aGk=", "an image of the type `image/gif`"),
            ("data:Image/SVG+xml;base64,aGk=", "an image of the type `image/svg+xml`"),
            ("https://a.example/b.gif", "an image of the type `image/gif`"),
            ("data:image/png,x", "a `data:` URL without base64"),
            ("data:,", "a `data:` URL without base64"),
            ("data:", "a `data:` URL without base64"),
        ] {
            for vendor in [GOOGLE_AI, VERTEX] {
                let error = at(url).checked(vendor).unwrap_err().to_string();
                assert_eq!(error, rejected(what), "{url}");
            }
        }
        for url in [
            "data:image/heic;base64,aGk=",
            "data:application/pdf;base64,aGk=",
            "data:audio/wav;base64,aGk=",
            "gs://b/c.mp4",
        ] {
            assert!(at(url).is_accepted(GOOGLE_AI) && at(url).is_accepted(VERTEX), "{url}");
        }
        for url in ["https://a.example/b?c=.png", "gs://b/c", ""] {
            assert!(at(url).is_accepted(GOOGLE_AI), "{url}");
            assert_eq!(
                at(url).checked(VERTEX).unwrap_err().to_string(),
                "invalid request: Vertex AI needs the type of a file, and the URL has no known extension such as \
                 `.png`: send the file in base64"
            );
        }
    }
}
