//! The sources of images and documents in a request.

use neuron_types::{DocumentSource, ImageSource};
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
        ImageSource::Base64 { media_type, data } => Source::Base64 { media_type, data },
        ImageSource::Url { url } => image_at(url),
        _ => return None,
    })
}

/// Returns the source of an image with this URL. A `data:` URL becomes inline data.
pub(crate) fn image_at(url: &str) -> Source<'_> {
    match inline_image(url) {
        Some((media_type, data)) => Source::Base64 { media_type, data },
        None => Source::Url { url },
    }
}

pub(crate) fn pdf(data: &str) -> Source<'_> {
    Source::Base64 { media_type: "application/pdf", data }
}

/// Returns the media type and the base64 data of a `data:` URL, or `None` for any other URL. Other vendors accept
/// `data:` URLs, but this API tries to download every URL.
fn inline_image(url: &str) -> Option<(&str, &str)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = kind.strip_suffix(";base64")?.split(';').next()?;
    Some((media_type, data))
}

pub(crate) fn document(source: &DocumentSource) -> Option<Source<'_>> {
    Some(match source {
        DocumentSource::Base64Pdf { data } => pdf(data),
        DocumentSource::PlainText { data } => Source::Text { media_type: "text/plain", data },
        DocumentSource::Url { url } => Source::Url { url },
        _ => return None,
    })
}
