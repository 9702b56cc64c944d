//! The data in a `data:` URL.

use neuron_model::image_type;

/// Returns the media type and the base64 data of a `data:` URL. Returns `None` for any other URL, and for a `data:` URL
/// without base64. The type has no parameters and may be empty.
///
/// Most vendors do not read `data:` URLs and try to download every URL.
///
/// # Example
///
/// ```
/// use neuron_http::inline_data;
///
/// assert_eq!(inline_data("data:image/png;base64,aGk="), Some(("image/png", "aGk=")));
/// assert_eq!(inline_data("https://a.example/b.png"), None);
/// ```
#[must_use]
pub fn inline_data(url: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = url.trim_start().split_once(':')?;
    let (kind, data) = rest.split_once(',').filter(|_| scheme.eq_ignore_ascii_case("data"))?;
    let (kind, encoding) = kind.rsplit_once(';')?;
    let is_base64 = encoding.trim().eq_ignore_ascii_case("base64");
    is_base64.then(|| (kind.split(';').next().unwrap_or_default().trim(), data))
}

/// Returns `false` if `url` is a `data:` URL with an image whose type is not accepted by [all vendors](image_type). Another
/// URL does not tell the type.
///
/// # Example
///
/// ```
/// use neuron_http::is_common_image;
///
/// assert!(is_common_image("data:image/png;base64,aGk="));
/// assert!(!is_common_image("data:image/bmp;base64,aGk="));
/// assert!(is_common_image("https://a.example/b.bmp"));
/// ```
#[must_use]
pub fn is_common_image(url: &str) -> bool {
    inline_data(url).is_none_or(|(kind, _)| image_type(kind).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_split() {
        for (url, expected) in [
            ("data:image/png;base64,aGk=", Some(("image/png", "aGk="))),
            ("DATA:image/png;BASE64,aGk=", Some(("image/png", "aGk="))),
            (" data: image/png ; x=y ; base64,aGk=", Some(("image/png", "aGk="))),
            ("data:;base64,a,b", Some(("", "a,b"))),
            ("data:image/png;base64,", Some(("image/png", ""))),
            ("data:image/png,aGk=", None),
            ("data:image/png;base64", None),
            ("data:base64,aGk=", None),
            ("data:,", None),
            ("data:", None),
            ("https://a.example/?;base64,aGk=", None),
            ("", None),
        ] {
            assert_eq!(inline_data(url), expected, "{url}");
        }
    }
}
