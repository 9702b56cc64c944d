//! Conversion of one [`Message`] to one or more messages of Chat Completions.
//!
//! Each tool result becomes a message with the role `tool`.

use std::borrow::Cow;
use std::fmt::Display;

use neuron_http::{inline_data, is_common_image};
use neuron_model::{
    ContentBlock, ContentItem, DocumentSource, ImageSource, Message, ModelContent, ProviderError,
    image_type,
};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::dialect::{Dialect, ReasoningBack};
pub(crate) use crate::message_fields::is_own_fields;
use crate::message_fields::{contains_text, is_sent_back, own_fields};
use crate::request::PROVIDER;

/// Checks that Chat Completions can express the content of all messages.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if a message contains a document that is given by its URL.
pub(crate) fn check(messages: &[Message]) -> Result<(), ProviderError> {
    let is_address = |block: &ContentBlock| {
        let block = block.portable();
        matches!(block, Some(ContentBlock::Document { source: DocumentSource::Url { .. } }))
    };
    if messages.iter().flat_map(|message| &message.content).any(is_address) {
        return Err(ProviderError::InvalidRequest(
            "Chat Completions fetches no documents: send the PDF itself, or use the Responses API"
                .into(),
        ));
    }
    Ok(())
}

/// Returns the texts of all blocks of a message, in order.
pub(crate) fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.content.iter().filter_map(block_text)
}

/// Returns the text of a block, or `None` if the block is not text. The compaction summary of another provider counts
/// as text.
fn block_text(block: &ContentBlock) -> Option<&str> {
    match block.portable()? {
        ContentBlock::Text(text) | ContentBlock::Compaction { content: text } => Some(text),
        _ => None,
    }
}

/// A part of the content of a user message or of a system prompt, in the format of the API.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part<'a> {
    Text {
        text: &'a str,
    },
    ImageUrl {
        image_url: ImageUrl<'a>,
    },
    File {
        file: File<'a>,
    },
    /// A part that the caller wrote in the API's format, for example speech or an image with `detail`.
    #[serde(untagged)]
    Own(&'a Value),
}

#[derive(Serialize)]
pub(crate) struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
pub(crate) struct File<'a> {
    filename: &'static str,
    file_data: DataUrl<'a>,
}

/// A URL, or data that is sent as a `data:` URL.
pub(crate) enum DataUrl<'a> {
    Address(&'a str),
    Data { media_type: &'a str, base64: &'a str },
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Address(url) => serializer.serialize_str(url),
            Self::Data { media_type, base64 } => {
                serializer.collect_str(&format_args!("data:{media_type};base64,{base64}"))
            }
        }
    }
}

impl<'a> DataUrl<'a> {
    /// Returns the URL of an image. Returns `None` for a type of source that this crate does not know.
    pub(crate) fn image(source: &'a ImageSource) -> Option<Self> {
        match source {
            ImageSource::Base64 { media_type, data } => {
                let media_type = image_type(media_type).unwrap_or(media_type);
                Some(Self::Data { media_type, base64: data })
            }
            ImageSource::Url { url } => Some(Self::image_at(url)),
            _ => None,
        }
    }

    /// Returns the URL of an image. The API rejects types such as `image/jpg` and `image/PNG` in a `data:` URL.
    pub(crate) fn image_at(url: &'a str) -> Self {
        match inline_data(url).and_then(|(kind, data)| Some((image_type(kind)?, data))) {
            Some((media_type, base64)) => Self::Data { media_type, base64 },
            None => Self::Address(url),
        }
    }

    pub(crate) fn pdf(base64: &'a str) -> Self {
        Self::Data { media_type: "application/pdf", base64 }
    }
}

/// File name of each document. The API requires a name, but documents have none.
pub(crate) const FILE_NAME: &str = "document.pdf";

/// Converts a block to a content part. Returns `None` for an empty text, and for a block that is not content, such as a
/// tool result.
fn part(block: &ContentBlock) -> Option<Part<'_>> {
    if let Some(own) = own_part(block, PROVIDER, &["text", "image_url", "input_audio", "file"]) {
        return Some(Part::Own(own));
    }
    match block.portable()? {
        ContentBlock::Image { source } => image(source),
        ContentBlock::Document { source: DocumentSource::Base64Pdf { data } } => {
            Some(Part::File { file: File { filename: FILE_NAME, file_data: DataUrl::pdf(data) } })
        }
        ContentBlock::Document { source: DocumentSource::PlainText { data } } => {
            Some(Part::Text { text: data })
        }
        block => block_text(block).filter(|text| !text.is_empty()).map(|text| Part::Text { text }),
    }
}

/// Returns the JSON of a [`ContentBlock::Raw`] of `vendor` if its `type` is listed in `types`. Returns `None` for any
/// other block.
pub(crate) fn own_part<'a>(
    block: &'a ContentBlock,
    vendor: &str,
    types: &[&str],
) -> Option<&'a Value> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == vendor => {
            let kind = json.get("type")?.as_str()?;
            types.contains(&kind).then_some(json)
        }
        _ => None,
    }
}

fn image(source: &ImageSource) -> Option<Part<'_>> {
    DataUrl::image(source).map(image_part)
}

fn image_part(url: DataUrl<'_>) -> Part<'_> {
    Part::ImageUrl { image_url: ImageUrl { url } }
}

/// Returns the image in an item of a tool result, which may be an image or a resource with an image. Returns `None` for
/// any other item.
fn item_image(item: &ContentItem) -> Option<DataUrl<'_>> {
    match item.for_model() {
        ModelContent::Image { media_type, data } => {
            Some(DataUrl::Data { media_type, base64: data })
        }
        ModelContent::ImageUrl { url } if is_common_image(url) => Some(DataUrl::image_at(url)),
        _ => None,
    }
}

/// The content of a user message, serialised as one text or as a list of parts.
///
/// Contains the images of tool results, because the API accepts images only from users. All other content of tool
/// results is sent in a [`ToolMessage`].
pub(crate) struct UserContent<'a>(pub(crate) &'a Message);

impl<'a> UserContent<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.parts().next().is_none()
    }

    fn parts(&self) -> impl Iterator<Item = Part<'a>> + use<'a> {
        self.0.content.iter().flat_map(|block| {
            let images = match block.portable() {
                Some(ContentBlock::ToolResult { content, .. }) => content.as_slice(),
                _ => &[],
            };
            let images = images.iter().filter_map(item_image).map(image_part);
            part(block).into_iter().chain(images)
        })
    }
}

impl Serialize for UserContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut parts = self.parts();
        // A string is the shortest form of a single text.
        match (parts.next(), parts.next()) {
            (Some(Part::Text { text }), None) => serializer.serialize_str(text),
            _ => serializer.collect_seq(self.parts()),
        }
    }
}

/// The message of one tool result, with the role `tool`.
pub(crate) struct ToolMessage<'a> {
    tool_call_id: Cow<'a, str>,
    content: ToolText<'a>,
}

impl<'a> ToolMessage<'a> {
    /// Returns one tool message for each tool result in `message`.
    pub(crate) fn all(message: &'a Message, dialect: &Dialect) -> impl Iterator<Item = Self> {
        message.content.iter().filter_map(|block| match block.portable()? {
            ContentBlock::ToolResult { tool_use_id, content, is_error } => Some(Self {
                tool_call_id: dialect.call_id(tool_use_id),
                content: ToolText { content, is_error: *is_error },
            }),
            _ => None,
        })
    }
}

impl Serialize for ToolMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut message = serializer.serialize_map(Some(3))?;
        message.serialize_entry("role", "tool")?;
        message.serialize_entry("tool_call_id", &self.tool_call_id)?;
        message.serialize_entry("content", &self.content)?;
        message.end()
    }
}

/// A tool result, serialised as text. The text of a failed call begins with `Error: `, because the API has no field for
/// failures.
pub(crate) struct ToolText<'a> {
    pub(crate) content: &'a [ContentItem],
    pub(crate) is_error: bool,
}

impl Serialize for ToolText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.content, self.is_error) {
            ([ContentItem::Text(text)], false) => serializer.serialize_str(text),
            _ => serializer.collect_str(self),
        }
    }
}

impl Display for ToolText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_error {
            f.write_str("Error: ")?;
        }
        for (position, item) in self.content.iter().enumerate() {
            if position > 0 {
                f.write_str("\n")?;
            }
            match item_image(item) {
                // Only user messages may contain images, so `UserContent` sends the image.
                Some(_) => f.write_str("[the image follows]")?,
                None => item.fmt(f)?,
            }
        }
        Ok(())
    }
}

/// An assistant message, serialised for the next request.
pub(crate) struct AssistantMessage<'a> {
    message: &'a Message,
    dialect: &'a Dialect,
}

impl<'a> AssistantMessage<'a> {
    pub(crate) fn new(message: &'a Message, dialect: &'a Dialect) -> Self {
        Self { message, dialect }
    }

    /// Returns `true` if the message has no content that the API accepts.
    pub(crate) fn is_empty(&self) -> bool {
        self.texts().all(str::is_empty)
            && self.calls().next().is_none()
            && self.more().next().is_none()
            && self.reasoning().next().is_none()
    }

    /// Returns the texts of the message, except for refusals and speech, which are sent in separate fields.
    fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let vendor = self.dialect.name;
        let is_said =
            move |block: &&ContentBlock| own_fields(block, vendor).is_some_and(contains_text);
        self.message.content.iter().filter(move |block| !is_said(block)).filter_map(block_text)
    }

    fn calls(&self) -> impl Iterator<Item = Call<'a>> + use<'a> {
        let Self { message, dialect } = *self;
        message.content.iter().filter_map(move |block| Call::new(block, dialect))
    }

    fn own_fields(&self) -> impl Iterator<Item = &'a Map<String, Value>> + use<'a> {
        let vendor = self.dialect.name;
        self.message.content.iter().filter_map(|block| own_fields(block, vendor))
    }

    /// Returns the unknown fields of the response that the next request contains too.
    fn more(&self) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
        self.own_fields().flatten().filter(|(key, value)| is_sent_back(key, value))
    }

    /// Returns `true` if the API accepts the message without `content`, because it has tool calls, a refusal or speech.
    fn may_lack_content(&self) -> bool {
        self.own_fields().any(contains_text) || self.calls().next().is_some()
    }

    /// Returns the reasoning texts that the dialect sends back.
    fn reasoning(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let is_sent_back = self.dialect.reasoning.is_sent_back(self.message);
        let blocks = if is_sent_back { self.message.content.as_slice() } else { &[] };
        blocks.iter().filter_map(|block| match block {
            // Compatible servers do not sign reasoning, so signed reasoning comes from another vendor.
            ContentBlock::Thinking { thinking, signature } if signature.is_empty() => {
                Some(thinking.as_str())
            }
            _ => None,
        })
    }
}

impl Serialize for AssistantMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", "assistant")?;
        let mut texts = self.texts().filter(|text| !text.is_empty());
        match (texts.next(), texts.next()) {
            // The API requires `content`, unless calls, a refusal or speech replace it.
            (None, _) if self.may_lack_content() => {}
            (None, _) => map.serialize_entry("content", "")?,
            (Some(text), None) => map.serialize_entry("content", text)?,
            _ => map.serialize_entry("content", &self.texts().collect::<String>())?,
        }
        let has_calls = self.calls().next().is_some();
        let must_reason = has_calls && self.dialect.reasoning == ReasoningBack::WithCalls;
        if must_reason || self.reasoning().next().is_some() {
            let mut reasoning = self.reasoning().collect::<String>();
            if must_reason && reasoning.is_empty() {
                // DeepSeek rejects calls without the field (400). Moonshot also rejects an empty text.
                reasoning.push(' ');
            }
            map.serialize_entry(self.dialect.reasoning_field, &reasoning)?;
        }
        if has_calls {
            map.serialize_entry("tool_calls", &Calls(self))?;
        }
        for (key, value) in self.more() {
            match value.get("id") {
                // The API accepts only the id of earlier speech, not its data.
                Some(id) if key == "audio" => map.serialize_entry(key, &json!({"id": id}))?,
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct Calls<'a>(&'a AssistantMessage<'a>);

impl Serialize for Calls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.calls())
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::Role;

    use super::*;

    #[test]
    fn tool_result_text_marks_error_and_refers_to_image() {
        let text = |content: &[ContentItem], is_error| ToolText { content, is_error }.to_string();
        let words = |text: &str| ContentItem::Text(text.into());
        let picture = ContentItem::Image { source: ImageSource::Url { url: "u".into() } };
        assert_eq!(text(&[], false), "");
        assert_eq!(text(&[words("a"), words("b")], false), "a\nb");
        assert_eq!(text(&[words("a")], true), "Error: a");
        assert_eq!(text(&[words("a"), picture], false), "a\n[the image follows]");
    }

    #[test]
    fn document_url_is_rejected() {
        let source = DocumentSource::Url { url: "https://h/a.pdf".into() };
        let content = vec![ContentBlock::Document { source }];
        let error = check(&[Message { role: Role::User, content }]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: Chat Completions fetches no documents: send the PDF itself, or use the Responses API"
        );
    }
}
