//! Images and documents, as parts of a content or of a function response.
//!
//! <https://ai.google.dev/gemini-api/docs/image-understanding>

use neuron_types::{DocumentSource, ImageSource};
use serde::Serialize;

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

/// Converts an image. Returns `None` for a type of source that this crate does not know.
pub(crate) fn image(source: &ImageSource) -> Option<Media<'_>> {
    match source {
        ImageSource::Base64 { media_type, data } => {
            Some(Media::InlineData { mime_type: media_type, data })
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
    match inline(url) {
        Some((mime_type, data)) => Media::InlineData { mime_type, data },
        None => Media::FileData { file_uri: url, mime_type: type_of(url) },
    }
}

/// Returns the type and the base64 data of a `data:` URL, or `None` for any other URL.
fn inline(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((kind.strip_suffix(";base64")?.split(';').next()?, data))
}

/// Types of files by the extension in their URL.
const TYPES: [(&str, &str); 20] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("webp", "image/webp"),
    ("heic", "image/heic"),
    ("heif", "image/heif"),
    ("gif", "image/gif"),
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

    #[track_caller]
    fn check(url: &str, expected: Value) {
        assert_eq!(serde_json::to_value(at(url)).unwrap(), expected);
    }

    #[test]
    fn urls_become_files_or_inline_data() {
        let png = json!({"inlineData": {"mimeType": "image/png", "data": "aGk="}});
        check("data:image/png;base64,aGk=", png.clone());
        check("data:image/png;x=y;base64,aGk=", png);
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
}
