//! The sources of images and documents in a request.

use neuron_http::inline_data;
use neuron_model::{DocumentSource, ImageSource, image_type};
use serde::Serialize;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'static str, data: &'a str },
    Url { url: &'a str },
}

pub(crate) fn image(source: &ImageSource) -> Option<Source<'_>> {
    Some(match source {
        ImageSource::Base64 { media_type, data } => inline(media_type, data),
        ImageSource::Url { url } => image_at(url),
        _ => return None,
    })
}

/// Returns the source of an image with this URL. A `data:` URL becomes inline data, because the API tries to download
/// every URL.
pub(crate) fn image_at(url: &str) -> Source<'_> {
    match inline_data(url) {
        Some((media_type, data)) => inline(media_type, data),
        None => Source::Url { url },
    }
}

/// Returns an image with its data. The API rejects types such as `image/jpg` and `image/PNG`.
fn inline<'a>(media_type: &'a str, data: &'a str) -> Source<'a> {
    Source::Base64 { media_type: image_type(media_type).unwrap_or(media_type), data }
}

pub(crate) fn pdf(data: &str) -> Source<'_> {
    Source::Base64 { media_type: "application/pdf", data }
}

pub(crate) fn document(source: &DocumentSource) -> Option<Source<'_>> {
    Some(match source {
        DocumentSource::Base64Pdf { data } => pdf(data),
        DocumentSource::PlainText { data } => Source::Text { media_type: "text/plain", data },
        DocumentSource::Url { url } => Source::Url { url },
        _ => return None,
    })
}
