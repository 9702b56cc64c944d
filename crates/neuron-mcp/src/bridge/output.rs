//! Conversion of a tool's result into a form that every vendor accepts.

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use neuron_types::{ContentItem, EmbeddedResource, ImageSource, ToolOutput};

/// A base64 decoder that accepts missing padding. [`lenient`] first removes whitespace and replaces the URL alphabet.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Converts the result of a tool into a form that every model vendor accepts. A vendor would reject every later request
/// of a conversation that contains an invalid content item.
pub(super) fn for_model(mut output: ToolOutput) -> ToolOutput {
    for item in &mut output.content {
        mend(item);
    }
    // MCP specification 2025-06-18, "Structured Content": a server should also send the JSON as text, but need not.
    if output.content.is_empty()
        && let Some(value) = &output.structured_content
    {
        output.content.push(ContentItem::Text(value.to_string()));
    }
    output
}

/// Converts the base64 data of an item to standard base64, and corrects the media type of an image. If the data is not
/// valid base64, replaces the item by a text.
fn mend(item: &mut ContentItem) {
    let is_readable = match &mut *item {
        ContentItem::Image { source: ImageSource::Base64 { media_type, data } } => {
            mend_bytes(data, Some(media_type))
        }
        ContentItem::Audio { data, .. } => mend_bytes(data, None),
        ContentItem::Resource {
            resource: EmbeddedResource { blob: Some(blob), mime_type, .. },
        } => mend_bytes(blob, mime_type.as_mut()),
        _ => true,
    };
    if !is_readable {
        *item = ContentItem::Text(format!("{item} (the server sent invalid base64)"));
    }
}

/// Converts `data` to standard base64. If the bytes are an image, also corrects `media_type`. Returns `false` for
/// invalid base64.
fn mend_bytes(data: &mut String, media_type: Option<&mut String>) -> bool {
    let bytes = match STANDARD.decode(&*data) {
        Ok(bytes) => bytes,
        Err(_) => {
            let Some(bytes) = lenient(data) else { return false };
            *data = STANDARD.encode(&bytes);
            bytes
        }
    };
    if let Some(media_type) = media_type
        && media_type.starts_with("image/")
        && let Some(actual) = image_type(&bytes)
    {
        actual.clone_into(media_type);
    }
    true
}

/// Decodes base64 with whitespace, without padding or in the URL alphabet. Returns `None` for invalid base64.
fn lenient(data: &str) -> Option<Vec<u8>> {
    let characters = data.chars().filter(|char| !char.is_ascii_whitespace());
    let standard = characters.map(|char| match char {
        '-' => '+',
        '_' => '/',
        char => char,
    });
    LENIENT.decode(standard.collect::<String>()).ok()
}

/// Detects the media type of an image from its first bytes. Returns `None` if the bytes are neither PNG, JPEG, GIF nor
/// WebP. Vendors reject an image that is sent with a wrong type.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn image(media_type: &str, data: &str) -> ContentItem {
        let source = ImageSource::Base64 { media_type: media_type.into(), data: data.into() };
        ContentItem::Image { source }
    }

    fn sound(data: &str) -> ContentItem {
        ContentItem::Audio { media_type: "audio/wav".into(), data: data.into() }
    }

    fn blob(mime_type: &str, data: &str) -> ContentItem {
        let resource = EmbeddedResource::blob("a:b", data).with_mime_type(mime_type);
        ContentItem::Resource { resource }
    }

    #[track_caller]
    fn check(item: ContentItem, expected: ContentItem) {
        let output = ToolOutput { content: vec![item], ..ToolOutput::default() };
        assert_eq!(for_model(output).content, [expected]);
    }

    #[test]
    fn valid_content_is_unchanged() {
        for item in [
            ContentItem::Text("aGk".into()),
            image("image/png", "aGk="),
            sound("aGk="),
            blob("application/pdf", "aGk="),
            blob("image/png", ""),
            ContentItem::Resource { resource: EmbeddedResource::text("a:b", "no base64!") },
        ] {
            check(item.clone(), item);
        }
    }

    #[test]
    fn lenient_base64_becomes_standard_base64() {
        for data in ["+/8=", "-_8=", "-_8", "+/\n8=\r\n", "+/9="] {
            check(image("image/png", data), image("image/png", "+/8="));
            check(sound(data), sound("+/8="));
            check(blob("a/b", data), blob("a/b", "+/8="));
        }
    }

    #[test]
    fn invalid_base64_becomes_text() {
        let note = "(the server sent invalid base64)";
        let told = |words: &str| ContentItem::Text(format!("{words} {note}"));
        check(image("image/png", "https://a"), told("[image]"));
        check(sound("a"), told("[audio, audio/wav]"));
        check(blob("image/png", "ä"), told("[resource a:b, image/png]"));
    }

    #[test]
    fn image_type_follows_the_first_bytes() {
        let riff = b"RIFF\0\0\0\0WEBPVP8 ";
        for (bytes, expected) in [
            (&b"\x89PNG\r\n"[..], "image/png"),
            (b"\xff\xd8\xff\xe0", "image/jpeg"),
            (b"GIF89a", "image/gif"),
            (riff, "image/webp"),
        ] {
            let data = STANDARD.encode(bytes);
            for claimed in ["image/png", "image/jpg", "image/*"] {
                check(image(claimed, &data), image(expected, &data));
                check(blob(claimed, &data), blob(expected, &data));
            }
            check(blob("application/octet-stream", &data), blob("application/octet-stream", &data));
        }
        check(image("image/svg+xml", "PHN2Zy8+"), image("image/svg+xml", "PHN2Zy8+"));
    }

    #[test]
    fn structured_content_becomes_text_if_content_is_empty() {
        let structured = Some(json!({ "b": 1, "a": [2] }));
        let output = |content| ToolOutput {
            content,
            structured_content: structured.clone(),
            is_error: true,
        };
        let text = |text: &str| vec![ContentItem::Text(text.into())];
        assert_eq!(for_model(output(vec![])), output(text(r#"{"b":1,"a":[2]}"#)));
        assert_eq!(for_model(output(text("1"))), output(text("1")));
        assert_eq!(for_model(ToolOutput::default()), ToolOutput::default());
    }
}
