//! Conversion of content between the types of this crate and the types of the SDK `rmcp`.

use neuron_types::{ContentItem, EmbeddedResource, ImageSource, ResourceLink};
use rmcp::model::{ContentBlock, Resource, ResourceContents};

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
    use serde_json::{Value, json};

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
    fn annotations_and_metadata_are_discarded() {
        let annotated = json!({
            "type": "text", "text": "t", "_meta": { "a": 1 },
            "annotations": { "audience": ["user"], "priority": 0.5 },
        });
        let item = from_sdk(serde_json::from_value(annotated).unwrap());
        assert_eq!(item, ContentItem::Text("t".into()));
    }
}
