//! Converts the content blocks of a message, and the items of a tool result, to message parts. OpenTelemetry's GenAI
//! conventions define the JSON of these parts.

use neuron_types::{
    ContentBlock, ContentItem, DocumentSource, EmbeddedResource, ImageSource, ToolCall,
};
use serde_json::{Value, json};

/// Returns one message part for each content block of a message. Skips marker blocks, in which neuron stores data about
/// the message itself, such as the metadata of a response.
pub(super) fn blocks(blocks: &[ContentBlock]) -> Value {
    blocks.iter().filter(|block| !block.is_mark()).map(block).collect()
}

/// Returns a message part of the type `text`.
pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "content": text })
}

/// Returns the message part for an item of a tool result.
pub(super) fn item(item: &ContentItem) -> Value {
    match item {
        ContentItem::Text(said) => text(said),
        ContentItem::Image { source } => image(source),
        ContentItem::Audio { media_type, data } => blob(Some(media_type), "audio", data),
        ContentItem::Resource { resource } => embedded(resource),
        ContentItem::ResourceLink { resource } => {
            let mime_type = resource.mime_type.as_deref();
            uri(mime_type, modality(mime_type), &resource.uri)
        }
        _ => unknown(),
    }
}

fn block(block: &ContentBlock) -> Value {
    match super::portable_block(block) {
        ContentBlock::Text(said) => text(said),
        ContentBlock::Thinking { thinking, .. } => {
            json!({ "type": "reasoning", "content": thinking })
        }
        ContentBlock::RedactedThinking { .. } => json!({ "type": "redacted_thinking" }),
        ContentBlock::ToolUse { id, name, input } => {
            // Arguments that are not valid JSON are recorded as the text that the model wrote.
            let arguments = match ToolCall::invalid_json(input) {
                Some(written) => Value::from(written),
                None => input.clone(),
            };
            json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments })
        }
        ContentBlock::ToolResult { tool_use_id, content, .. } => {
            let response = super::tool_response(content);
            json!({ "type": "tool_call_response", "id": tool_use_id, "response": response })
        }
        ContentBlock::Image { source } => image(source),
        ContentBlock::Document { source } => document(source),
        ContentBlock::Compaction { content } => json!({ "type": "compaction", "content": content }),
        // Only the type is captured, because the content of a raw block may be secret, for example encrypted reasoning.
        ContentBlock::Raw { provider, json, .. } => {
            json!({ "type": raw_type(provider, json), "provider": provider })
        }
        _ => unknown(),
    }
}

fn image(source: &ImageSource) -> Value {
    match source {
        ImageSource::Base64 { media_type, data } => blob(Some(media_type), "image", data),
        ImageSource::Url { url } => uri(None, "image", url),
        _ => unknown(),
    }
}

fn document(source: &DocumentSource) -> Value {
    match source {
        DocumentSource::Base64Pdf { data } => blob(Some("application/pdf"), "document", data),
        DocumentSource::PlainText { data } => text(data),
        DocumentSource::Url { url } => uri(None, "document", url),
        _ => unknown(),
    }
}

/// Returns the message part for an embedded resource, with its URI and its text or bytes. A resource with neither text
/// nor bytes becomes a part of the type `uri`.
fn embedded(resource: &EmbeddedResource) -> Value {
    let mime_type = resource.mime_type.as_deref();
    let mut part = match (&resource.text, &resource.blob) {
        (Some(said), _) => text(said),
        (None, Some(data)) => blob(mime_type, modality(mime_type), data),
        (None, None) => return uri(mime_type, modality(mime_type), &resource.uri),
    };
    if let Some(fields) = part.as_object_mut() {
        fields.insert("uri".to_owned(), resource.uri.as_str().into());
    }
    part
}

/// Returns a message part of the type `blob`, which contains base64 data.
fn blob(mime_type: Option<&str>, modality: &str, base64: &str) -> Value {
    typed(mime_type, json!({ "type": "blob", "modality": modality, "content": base64 }))
}

/// Returns the message part for a URI. A base64 `data:` URI becomes a part of the type `blob`, as OpenTelemetry's
/// conventions require. Any other URI becomes a part of the type `uri`.
fn uri(mime_type: Option<&str>, modality: &str, uri: &str) -> Value {
    let held = uri.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    match held {
        // The media type in the URI is more precise than the media type of the resource.
        Some((held_type, base64)) => {
            let held_type = Some(held_type).filter(|held_type| !held_type.is_empty());
            blob(held_type.or(mime_type), modality, base64)
        }
        None => typed(mime_type, json!({ "type": "uri", "modality": modality, "uri": uri })),
    }
}

/// Adds the field `mime_type` to a message part if the media type is known.
fn typed(mime_type: Option<&str>, mut part: Value) -> Value {
    if let (Some(mime_type), Some(fields)) = (mime_type, part.as_object_mut()) {
        fields.insert("mime_type".to_owned(), mime_type.into());
    }
    part
}

/// Returns the modality of a media type, which is `document` if it is not image, audio or video.
fn modality(mime_type: Option<&str>) -> &'static str {
    let family = mime_type.and_then(|mime_type| mime_type.trim().split('/').next());
    let known = ["image", "audio", "video"];
    let is_family = |known: &&str| family.is_some_and(|family| family.eq_ignore_ascii_case(known));
    known.into_iter().find(is_family).unwrap_or("document")
}

/// The types of message parts for which OpenTelemetry's conventions require certain fields. The part of a raw block (a
/// vendor's own JSON) lacks these fields, so it must not have one of these types.
const TYPES_WITH_FIELDS: [&str; 9] = [
    "text",
    "tool_call",
    "tool_call_response",
    "server_tool_call",
    "server_tool_call_response",
    "blob",
    "file",
    "uri",
    "reasoning",
];

/// Returns the type of the message part for a raw block, which is a vendor's own JSON. The part contains only this
/// type.
fn raw_type(provider: &str, json: &Value) -> String {
    match json.get("type").and_then(Value::as_str) {
        // With the prefix, the part is not mistaken for a standard part, whose required fields it lacks.
        Some(name) if TYPES_WITH_FIELDS.contains(&name) => format!("{provider}.{name}"),
        Some(name) => name.to_owned(),
        None => "raw".to_owned(),
    }
}

/// Returns the message part for content of an unknown kind. A later version of neuron-types may add such kinds.
fn unknown() -> Value {
    json!({ "type": "unknown" })
}
