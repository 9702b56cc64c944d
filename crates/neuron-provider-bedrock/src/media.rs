//! Images and documents in a request.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html>

use std::collections::HashSet;

pub(crate) use neuron_http::inline_data as inline;
use neuron_model::{DocumentSource, ImageSource, ProviderError, image_type};
use serde::Serialize;

use crate::block::Block;

/// The content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source<'a> {
    /// The file in base64.
    Bytes(&'a str),
}

/// An image.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Image<'a> {
    format: &'static str,
    source: Source<'a>,
}

impl<'a> Image<'a> {
    /// Creates an image from a type such as `image/png` and the content in base64. Returns `None` for a type that the
    /// API rejects.
    pub(crate) fn new(media_type: &str, data: &'a str) -> Option<Self> {
        let (_, format) = image_type(media_type)?.split_once('/')?;
        Some(Self { format, source: Source::Bytes(data) })
    }
}

/// A document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Document<'a> {
    format: &'static str,
    /// Name of the document, which the model reads. AWS recommends a neutral name, because the model may take a name
    /// for an instruction. The names in a request must differ.
    name: String,
    source: Source<'a>,
}

/// Maximum number of images in a request. The messages of all turns count together.
pub(crate) const MAX_IMAGES: usize = 20;

/// Maximum number of documents in a request.
pub(crate) const MAX_DOCUMENTS: usize = 5;

/// The files in a conversation so far.
#[derive(Debug, Default)]
pub(crate) struct Files {
    documents: usize,
    /// Names of documents.
    taken: HashSet<String>,
    /// Number of images in the next tool results that are left out.
    images_over: usize,
    /// Number of documents in the next tool results that are left out.
    documents_over: usize,
}

impl Files {
    /// Leaves out this number of images and of documents in tool results, the oldest first.
    pub(crate) fn without(images_over: usize, documents_over: usize) -> Self {
        Self { images_over, documents_over, ..Self::default() }
    }

    /// Returns `true` if a file of a tool result is left out.
    pub(crate) fn leaves_out(&mut self, file: &Block<'_>) -> bool {
        let over = match file {
            Block::Document(_) => &mut self.documents_over,
            _ => &mut self.images_over,
        };
        let is_left_out = *over > 0;
        *over = over.saturating_sub(1);
        is_left_out
    }

    /// Creates the next document from a PDF in base64.
    pub(crate) fn pdf<'a>(&mut self, data: &'a str) -> Document<'a> {
        self.documents += 1;
        let name = self.unique(&format!("Document {}", self.documents));
        Document { format: "pdf", name, source: Source::Bytes(data) }
    }

    /// Returns a name for a document, with a number if another document has the name.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut number = 1_usize;
        while !self.taken.insert(unique.clone()) {
            number += 1;
            unique = format!("{name} ({number})");
        }
        unique
    }
}

/// Converts an image. Returns `None` for a kind of source that this crate does not know.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the API does not accept the image.
pub(crate) fn image(source: &ImageSource) -> Result<Option<Image<'_>>, ProviderError> {
    let (media_type, data) = match source {
        ImageSource::Base64 { media_type, data } => (media_type.as_str(), data.as_str()),
        ImageSource::Url { url } => inline(url).ok_or_else(|| fetches_nothing("images"))?,
        _ => return Ok(None),
    };
    let image = Image::new(media_type, data);
    image.map(Some).ok_or_else(|| {
        ProviderError::InvalidRequest(format!(
            "Bedrock does not accept an image of the type `{media_type}`: send it as PNG, JPEG, GIF or WebP"
        ))
    })
}

/// Returns the PDF of a document. Returns `None` for a plain text, and for a kind of source that this crate does not
/// know.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the document is a URL.
pub(crate) fn pdf(source: &DocumentSource) -> Result<Option<&str>, ProviderError> {
    match source {
        DocumentSource::Base64Pdf { data } => Ok(Some(data)),
        DocumentSource::Url { url } => match inline(url) {
            Some((kind, data)) if kind.eq_ignore_ascii_case("application/pdf") => Ok(Some(data)),
            _ => Err(fetches_nothing("documents")),
        },
        _ => Ok(None),
    }
}

fn fetches_nothing(what: &str) -> ProviderError {
    ProviderError::InvalidRequest(format!(
        "Bedrock fetches no {what} from URLs: send the bytes in base64"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn images_have_the_formats_of_the_api() {
        for (source, format) in [
            (ImageSource::Base64 { media_type: "image/jpg".into(), data: "aGk=".into() }, "jpeg"),
            (
                ImageSource::Base64 { media_type: "IMAGE/PNG; a=b".into(), data: "aGk=".into() },
                "png",
            ),
            (ImageSource::Url { url: "data:image/webp;x=y;base64,aGk=".into() }, "webp"),
            (ImageSource::Url { url: "DATA:image/gif;BASE64,aGk=".into() }, "gif"),
        ] {
            let image = image(&source).unwrap().unwrap();
            let expected = json!({"format": format, "source": {"bytes": "aGk="}});
            assert_eq!(serde_json::to_value(image).unwrap(), expected);
        }
    }

    #[test]
    fn other_images_and_urls_are_errors() {
        let tiff = ImageSource::Base64 { media_type: "image/tiff".into(), data: "aGk=".into() };
        assert_eq!(
            image(&tiff).unwrap_err().to_string(),
            "invalid request: Bedrock does not accept an image of the type `image/tiff`: send it as PNG, JPEG, GIF or \
             WebP"
        );
        for url in ["https://a.example/b.png", "data:image/png,x", "s3://a/b.png", ""] {
            let image = image(&ImageSource::Url { url: url.into() }).unwrap_err().to_string();
            let text =
                "invalid request: Bedrock fetches no images from URLs: send the bytes in base64";
            assert_eq!(image, text);
            let text =
                "invalid request: Bedrock fetches no documents from URLs: send the bytes in base64";
            let document = pdf(&DocumentSource::Url { url: url.into() }).unwrap_err().to_string();
            assert_eq!(document, text);
        }
    }

    #[test]
    fn documents_have_neutral_and_different_names() {
        let mut files = Files::default();
        assert_eq!(files.unique("Document 2"), "Document 2");
        let source = DocumentSource::Url { url: "data:application/pdf;base64,aGk=".into() };
        let data = pdf(&source).unwrap().unwrap();
        for name in ["Document 1", "Document 2 (2)", "Document 3"] {
            let expected = json!({"format": "pdf", "name": name, "source": {"bytes": "aGk="}});
            assert_eq!(serde_json::to_value(files.pdf(data)).unwrap(), expected);
        }
        assert_eq!(pdf(&DocumentSource::PlainText { data: "a".into() }).unwrap(), None);
    }
}
