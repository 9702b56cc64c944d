//! Conversion of tool results into content that models accept.

use crate::{ContentItem, EmbeddedResource, ImageSource};

/// An item of a tool's result, in a form that models accept. Returned by [`ContentItem::for_model`].
///
/// Providers use this type to send tool results. If a vendor does not accept a variant in tool results, the provider
/// sends the `Display` form of the [`ContentItem`] as text.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ModelContent<'a> {
    /// Plain text.
    Text(&'a str),
    /// An image of a type that the models of all vendors accept.
    Image {
        /// The MIME type, which is `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        media_type: &'static str,
        /// The content in standard base64.
        data: &'a str,
    },
    /// An image at a URL that the vendor fetches.
    ImageUrl {
        /// The URL.
        url: &'a str,
    },
    /// A PDF document.
    Pdf {
        /// The content in standard base64.
        data: &'a str,
    },
    /// Any other item. Send its `Display` form as text.
    Words(&'a ContentItem),
}

impl ContentItem {
    /// Converts the item to a form that models accept.
    ///
    /// An image stays an image only if the models of all vendors accept its MIME type. Tools, especially of MCP
    /// servers, may return images of any type, and vendors refuse a request with an unsupported type. A resource that
    /// contains an image or a PDF is converted in the same way.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::{ContentItem, EmbeddedResource, ModelContent};
    ///
    /// let blob = |mime_type: &str| ContentItem::Resource {
    ///     resource: EmbeddedResource::blob("file:///a", "aGk=").with_mime_type(mime_type),
    /// };
    /// let image = ModelContent::Image { media_type: "image/jpeg", data: "aGk=" };
    /// assert_eq!(blob("image/jpg").for_model(), image);
    /// assert_eq!(blob("application/pdf").for_model(), ModelContent::Pdf { data: "aGk=" });
    ///
    /// let archive = blob("application/zip");
    /// assert_eq!(archive.for_model(), ModelContent::Words(&archive));
    /// assert_eq!(archive.to_string(), "[resource file:///a, application/zip]");
    /// ```
    #[must_use]
    pub fn for_model(&self) -> ModelContent<'_> {
        let known = match self {
            Self::Text(text) => Some(ModelContent::Text(text)),
            Self::Image { source: ImageSource::Base64 { media_type, data } } => {
                image(media_type, data)
            }
            Self::Image { source: ImageSource::Url { url } } => {
                Some(ModelContent::ImageUrl { url })
            }
            // A resource with text is sent as text, even if it also has bytes.
            Self::Resource {
                resource:
                    EmbeddedResource {
                        text: None, blob: Some(data), mime_type: Some(mime_type), ..
                    },
            } => image(mime_type, data).or_else(|| pdf(mime_type, data)),
            Self::Audio { .. } | Self::Resource { .. } | Self::ResourceLink { .. } => None,
        };
        known.unwrap_or(ModelContent::Words(self))
    }
}

/// The image types that the models of all vendors accept.
pub(crate) const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

pub(crate) const PDF_TYPE: &str = "application/pdf";

/// Converts base64 `data` to image content. Returns `None` if `data` is empty, or if not all vendors accept the MIME
/// type.
fn image<'a>(media_type: &str, data: &'a str) -> Option<ModelContent<'a>> {
    let media_type = image_type(media_type)?;
    (!data.is_empty()).then_some(ModelContent::Image { media_type, data })
}

/// Returns the MIME type of an image that the models of all vendors accept, as they spell it: without parameters, in lower
/// case, and `image/jpeg` for `image/jpg`, which is not registered but common. Returns `None` for any other type.
///
/// # Example
///
/// ```
/// use neuron_model::image_type;
///
/// assert_eq!(image_type("image/PNG; q=1"), Some("image/png"));
/// assert_eq!(image_type("image/jpg"), Some("image/jpeg"));
/// assert_eq!(image_type("image/bmp"), None);
/// ```
#[must_use]
pub fn image_type(media_type: &str) -> Option<&'static str> {
    match essence(media_type) {
        jpeg if jpeg.eq_ignore_ascii_case("image/jpg") => Some("image/jpeg"),
        other => IMAGE_TYPES.into_iter().find(|known| known.eq_ignore_ascii_case(other)),
    }
}

/// Converts base64 `data` to PDF content. Returns `None` for another MIME type, or if `data` is empty.
fn pdf<'a>(media_type: &str, data: &'a str) -> Option<ModelContent<'a>> {
    let is_pdf = essence(media_type).eq_ignore_ascii_case(PDF_TYPE);
    (is_pdf && !data.is_empty()).then_some(ModelContent::Pdf { data })
}

/// Returns a MIME type without its parameters.
fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(media_type: &str, data: &str) -> ContentItem {
        let source = ImageSource::Base64 { media_type: media_type.into(), data: data.into() };
        ContentItem::Image { source }
    }

    #[track_caller]
    fn check(item: &ContentItem, expected: ModelContent<'_>) {
        assert_eq!(item.for_model(), expected);
    }

    #[track_caller]
    fn check_words(item: &ContentItem) {
        check(item, ModelContent::Words(item));
    }

    #[test]
    fn images_of_common_types_stay_images() {
        for (given, expected) in [
            ("image/png", "image/png"),
            ("image/jpeg", "image/jpeg"),
            ("image/jpg", "image/jpeg"),
            ("image/gif", "image/gif"),
            ("image/webp", "image/webp"),
            ("IMAGE/PNG", "image/png"),
            (" image/JPG ; q=1", "image/jpeg"),
        ] {
            let expected = ModelContent::Image { media_type: expected, data: "aGk=" };
            check(&image_of(given, "aGk="), expected);
            let resource = EmbeddedResource::blob("a:b", "aGk=").with_mime_type(given);
            check(&ContentItem::Resource { resource }, expected);
        }
        for given in ["image/svg+xml", "image/tiff", "image/", "image", "", "png", "text/plain"] {
            check_words(&image_of(given, "aGk="));
        }
        check_words(&image_of("image/png", ""));
        let url = ContentItem::Image { source: ImageSource::Url { url: "https://a".into() } };
        check(&url, ModelContent::ImageUrl { url: "https://a" });
    }

    #[test]
    fn resources_with_other_content_become_text() {
        let resource = |resource| ContentItem::Resource { resource };
        let pdf = EmbeddedResource::blob("a:b", "aGk=").with_mime_type("Application/PDF");
        check(&resource(pdf.clone()), ModelContent::Pdf { data: "aGk=" });
        check_words(&resource(EmbeddedResource { blob: Some(String::new()), ..pdf.clone() }));
        check_words(&resource(EmbeddedResource { mime_type: None, ..pdf.clone() }));
        // The text of a resource takes precedence over its bytes.
        check_words(&resource(EmbeddedResource { text: Some("a".into()), ..pdf }));
        check_words(&resource(EmbeddedResource::text("a:b", "<svg/>").with_mime_type("image/png")));
        check_words(&resource(EmbeddedResource::default()));
        check_words(&ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() });
        check_words(&ContentItem::ResourceLink { resource: crate::ResourceLink::default() });
        check(&ContentItem::Text("a".into()), ModelContent::Text("a"));
    }
}
