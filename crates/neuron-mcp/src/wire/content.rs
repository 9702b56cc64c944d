//! Conversion of content between the types of this crate and the types of the SDK `rmcp`.

use neuron_types::{ContentItem, EmbeddedResource, ImageSource, ResourceLink};
use rmcp::model::{ContentBlock, Resource, ResourceContents};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::McpVersion;

/// Converts content that a server sent. Annotations (audience, priority) and metadata are discarded.
pub(crate) fn from_sdk(block: ContentBlock) -> ContentItem {
    match block {
        ContentBlock::Text(text) => ContentItem::Text(text.text),
        ContentBlock::Image(image) => ContentItem::Image {
            source: ImageSource::Base64 { media_type: image.mime_type, data: image.data },
        },
        ContentBlock::Audio(audio) => {
            ContentItem::Audio { media_type: audio.mime_type, data: audio.data }
        }
        ContentBlock::Resource(embedded) => {
            ContentItem::Resource { resource: contents_from_sdk(embedded.resource) }
        }
        ContentBlock::ResourceLink(resource) => {
            ContentItem::ResourceLink { resource: link_from_sdk(resource) }
        }
        // A later version of the SDK may add kinds of content. The model then gets their JSON.
        other => ContentItem::Text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

/// Converts content that the SDK could not parse. Wrong annotations and metadata do not matter. Content that cannot be
/// read becomes a text with its JSON, so that nothing of a result is lost.
pub(crate) fn from_json(block: &Value) -> ContentItem {
    let known = parsed(block).or_else(|| parsed(&completed(block)));
    known.map_or_else(|| ContentItem::Text(text_of(block)), from_sdk)
}

/// Converts contents of a resource that the SDK could not parse. A missing URI is `uri`. Contents that cannot be read
/// become a text with their JSON.
pub(crate) fn contents_from_json(contents: &Value, uri: &str) -> EmbeddedResource {
    let mut contents = without_annotations(contents);
    if let Some(fields) = contents.as_object_mut()
        && !fields.get("uri").is_some_and(Value::is_string)
    {
        fields.insert("uri".to_owned(), uri.into());
    }
    match parsed(&contents) {
        Some(contents) => contents_from_sdk(contents),
        None => EmbeddedResource::text(uri, text_of(&contents)),
    }
}

/// Parses JSON without its annotations and metadata if it cannot be parsed with them.
pub(crate) fn parsed<T: DeserializeOwned>(json: &Value) -> Option<T> {
    T::deserialize(json).or_else(|_| T::deserialize(without_annotations(json))).ok()
}

/// Returns a JSON object without fields that this crate does not use, or whose values have defaults.
fn without_annotations(json: &Value) -> Value {
    let mut json = json.clone();
    if let Some(fields) = json.as_object_mut() {
        fields.retain(|key, _| !matches!(key.as_str(), "annotations" | "_meta" | "icons"));
    }
    json
}

/// Returns a block with the fields that are missing in it, if they can be found out.
fn completed(block: &Value) -> Value {
    let mut block = without_annotations(block);
    let Some(fields) = block.as_object_mut() else { return block };
    match fields.get("type").and_then(Value::as_str) {
        Some("text") => {
            let text = fields.get("text").filter(|text| !text.is_null()).map(text_of);
            fields.insert("text".to_owned(), text.unwrap_or_default().into());
        }
        Some("image") => {
            let data = fields.get("data").and_then(Value::as_str).unwrap_or_default();
            if let Some(media_type) = type_of_image(data) {
                fields.insert("mimeType".to_owned(), media_type.into());
            }
        }
        Some("resource") => {
            let contents = fields.get("resource").map(|contents| contents_from_json(contents, ""));
            if let Some(contents) = contents {
                fields.insert("resource".to_owned(), json!(contents_to_sdk(&contents)));
            }
        }
        Some("resource_link") => {
            if let Some(uri) = fields.get("uri").filter(|_| !fields.contains_key("name")).cloned() {
                fields.insert("name".to_owned(), uri);
            }
        }
        _ => {}
    }
    block
}

/// Returns the media type of an image in base64 by its first bytes.
fn type_of_image(data: &str) -> Option<&'static str> {
    const BEGINNINGS: [(&str, &str); 4] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    BEGINNINGS.iter().find(|(begin, _)| data.starts_with(begin)).map(|(_, kind)| *kind)
}

/// Returns a string without quotes, and the JSON of any other value.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Converts content for a client of this protocol version. Kinds of content that the version does not define are
/// converted to text.
///
/// Audio exists since 2025-03-26, and resource links since 2025-06-18 ("Key Changes" of the MCP specification).
pub(crate) fn to_sdk_in(item: &ContentItem, version: McpVersion) -> ContentBlock {
    let block = to_sdk(item);
    let since = match &block {
        ContentBlock::Audio(_) => McpVersion::V2025_03_26,
        ContentBlock::ResourceLink(_) => McpVersion::V2025_06_18,
        _ => McpVersion::V2024_11_05,
    };
    match version < since {
        true => ContentBlock::text(item.to_string()),
        false => block,
    }
}

/// Converts content for the peer. An image with a URL becomes a resource link, because MCP has only images with
/// embedded data.
pub(crate) fn to_sdk(item: &ContentItem) -> ContentBlock {
    match item {
        ContentItem::Text(text) => ContentBlock::text(text),
        ContentItem::Image { source: ImageSource::Base64 { media_type, data } } => {
            ContentBlock::image(data, media_type)
        }
        ContentItem::Image { source: ImageSource::Url { url } } => {
            ContentBlock::resource_link(Resource::new(url, "image"))
        }
        ContentItem::Audio { media_type, data } => ContentBlock::audio(data, media_type),
        ContentItem::Resource { resource } => ContentBlock::resource(contents_to_sdk(resource)),
        ContentItem::ResourceLink { resource } => {
            ContentBlock::resource_link(link_to_sdk(resource))
        }
        other => ContentBlock::text(other.to_string()),
    }
}

/// Converts the content of a resource that a server sent. Content of an unknown type becomes a resource without
/// content.
pub(crate) fn contents_from_sdk(contents: ResourceContents) -> EmbeddedResource {
    match contents {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            EmbeddedResource { uri, mime_type, text: Some(text), blob: None }
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            EmbeddedResource { uri, mime_type, text: None, blob: Some(blob) }
        }
        _ => EmbeddedResource::default(),
    }
}

/// Converts the content of a resource for the peer. A resource without content gets an empty text.
pub(crate) fn contents_to_sdk(resource: &EmbeddedResource) -> ResourceContents {
    let (uri, mime_type) = (resource.uri.clone(), resource.mime_type.clone());
    match (&resource.text, &resource.blob) {
        (None, Some(blob)) => ResourceContents::BlobResourceContents {
            uri,
            mime_type,
            blob: blob.clone(),
            meta: None,
        },
        (text, _) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.clone().unwrap_or_default(),
            meta: None,
        },
    }
}

/// Converts a resource or resource link that a server sent.
pub(crate) fn link_from_sdk(resource: Resource) -> ResourceLink {
    ResourceLink {
        uri: resource.uri,
        name: resource.name,
        title: resource.title,
        description: resource.description,
        mime_type: resource.mime_type,
        size: resource.size,
    }
}

/// Converts a resource or resource link for the client.
pub(crate) fn link_to_sdk(link: &ResourceLink) -> Resource {
    let mut resource = Resource::new(&link.uri, &link.name);
    resource.title.clone_from(&link.title);
    resource.description.clone_from(&link.description);
    resource.mime_type.clone_from(&link.mime_type);
    resource.size = link.size;
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that `item` is converted to `json`, and that `json` is converted to `item`.
    #[track_caller]
    fn check(item: ContentItem, json: Value) {
        assert_eq!(serde_json::to_value(to_sdk(&item)).unwrap(), json);
        assert_eq!(from_sdk(serde_json::from_value(json).unwrap()), item);
    }

    #[test]
    fn every_kind_of_content_round_trips() {
        check(ContentItem::Text("t".into()), json!({ "type": "text", "text": "t" }));
        let (media_type, data) = ("image/png".to_owned(), "aGk=".to_owned());
        check(
            ContentItem::Image { source: ImageSource::Base64 { media_type, data } },
            json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" }),
        );
        check(
            ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
            json!({ "type": "audio", "data": "aGk=", "mimeType": "audio/wav" }),
        );
        let text = EmbeddedResource::text("a:b", "t").with_mime_type("text/plain");
        check(
            ContentItem::Resource { resource: text },
            json!({ "type": "resource", "resource": { "uri": "a:b", "mimeType": "text/plain", "text": "t" } }),
        );
        check(
            ContentItem::Resource { resource: EmbeddedResource::blob("a:b", "aGk=") },
            json!({ "type": "resource", "resource": { "uri": "a:b", "blob": "aGk=" } }),
        );
        let link = ResourceLink {
            title: Some("B".into()),
            description: Some("the second".into()),
            mime_type: Some("text/plain".into()),
            size: Some(3),
            ..ResourceLink::new("a:b", "b")
        };
        check(
            ContentItem::ResourceLink { resource: link },
            json!({
                "type": "resource_link", "uri": "a:b", "name": "b", "title": "B",
                "description": "the second", "mimeType": "text/plain", "size": 3,
            }),
        );
    }

    #[test]
    fn unsupported_content_is_sent_as_the_closest_kind() {
        let sent = |item: ContentItem| serde_json::to_value(to_sdk(&item)).unwrap();
        let source = ImageSource::Url { url: "https://a/b.png".into() };
        assert_eq!(
            sent(ContentItem::Image { source }),
            json!({ "type": "resource_link", "uri": "https://a/b.png", "name": "image" })
        );
        let neither = EmbeddedResource { uri: "a:b".into(), ..EmbeddedResource::default() };
        assert_eq!(
            sent(ContentItem::Resource { resource: neither }),
            json!({ "type": "resource", "resource": { "uri": "a:b", "text": "" } })
        );
    }

    #[test]
    fn content_that_the_sdk_rejects_is_read() {
        let read = |json: Value| {
            assert!(serde_json::from_value::<ContentBlock>(json.clone()).is_err(), "{json}");
            from_json(&json)
        };
        let text = |text: &str| ContentItem::Text(text.into());
        let odd = json!({ "type": "text", "text": "t", "annotations": { "audience": ["tool"] } });
        assert_eq!(read(odd), text("t"));
        assert_eq!(read(json!({ "type": "text", "text": 42 })), text("42"));
        assert_eq!(read(json!({ "type": "text", "text": { "a": 1 } })), text(r#"{"a":1}"#));
        assert_eq!(read(json!({ "type": "text", "text": null })), text(""));
        assert_eq!(read(json!({ "type": "text" })), text(""));
        assert_eq!(read(json!("plain")), text("plain"));
        assert_eq!(read(json!(null)), text("null"));
        let video = json!({ "type": "video", "data": "aGk=" });
        assert_eq!(read(video.clone()), text(&video.to_string()));
        let source =
            |data: &str| ImageSource::Base64 { media_type: "image/png".into(), data: data.into() };
        let image = json!({ "type": "image", "data": "iVBORw0KGgoA" });
        assert_eq!(read(image), ContentItem::Image { source: source("iVBORw0KGgoA") });
        let unknown = json!({ "type": "image", "data": "aGk=" });
        assert_eq!(read(unknown.clone()), text(&unknown.to_string()));
        let resource = json!({ "type": "resource", "resource": { "text": "t", "_meta": 1 } });
        assert_eq!(
            read(resource),
            ContentItem::Resource { resource: EmbeddedResource::text("", "t") }
        );
        let link = json!({ "type": "resource_link", "uri": "a:b" });
        assert_eq!(
            read(link),
            ContentItem::ResourceLink { resource: ResourceLink::new("a:b", "a:b") }
        );
    }

    #[test]
    fn contents_that_the_sdk_rejects_are_read() {
        let read = |json: Value| contents_from_json(&json, "u:v");
        assert_eq!(read(json!({ "text": "t" })), EmbeddedResource::text("u:v", "t"));
        assert_eq!(
            read(json!({ "uri": "a:b", "blob": "aGk=" })),
            EmbeddedResource::blob("a:b", "aGk=")
        );
        let neither = read(json!({ "uri": "a:b" }));
        assert_eq!(neither, EmbeddedResource::text("u:v", r#"{"uri":"a:b"}"#));
    }

    #[test]
    fn annotations_and_metadata_are_discarded() {
        let annotated = json!({
            "type": "text", "text": "t", "_meta": { "a": 1 },
            "annotations": { "audience": ["user"], "priority": 0.5 },
        });
        let item = from_sdk(serde_json::from_value(annotated).unwrap());
        assert_eq!(item, ContentItem::Text("t".into()));
    }
}
