//! Messages and their content blocks, as neuron stores and sends them.
//!
//! Sessions and journals store messages in their serde form. The field `type` of a block contains the variant in snake
//! case, as in `{"type":"text","text":"…"}`. Unknown fields are ignored.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EmbeddedResource, ResourceLink};

/// The author of a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The message is from the user, or contains tool results.
    User,
    /// The message is from the model.
    Assistant,
    /// The message contains instructions at this place of the conversation.
    ///
    /// Instructions for the whole conversation belong in
    /// [`CompletionRequest::system`](crate::CompletionRequest::system).
    System,
}

/// A message of a conversation, with a role and content blocks.
///
/// # Example
///
/// ```
/// use neuron_model::{ContentBlock, Message, Role};
///
/// let message = Message::user("What is Rust?");
/// assert_eq!(message.role, Role::User);
/// assert_eq!(message.content, vec![ContentBlock::Text("What is Rust?".into())]);
/// assert_eq!(message.text(), "What is Rust?");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The content blocks of the message, in order.
    pub content: Vec<ContentBlock>,
}

/// Creates a user message with one text block.
impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

/// Creates a user message with one text block.
impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl Message {
    /// Creates a user message with one text block.
    pub fn user(text: impl Into<String>) -> Self {
        Self::with_text(Role::User, text)
    }

    /// Creates an assistant message with one text block.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::with_text(Role::Assistant, text)
    }

    /// Creates a system message with one text block.
    pub fn system(text: impl Into<String>) -> Self {
        Self::with_text(Role::System, text)
    }

    fn with_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![ContentBlock::Text(text.into())] }
    }

    /// Concatenates the text blocks of the message, including text blocks inside [`ContentBlock::Raw`].
    ///
    /// No separator is inserted, because vendors may split a sentence into several blocks, for example at citations.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }

    /// Iterates over the tool calls in this message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = ToolUseRef<'_>> {
        self.content.iter().filter_map(ContentBlock::as_tool_use)
    }
}

/// A content block of a [`Message`].
///
/// `Display` prints text unchanged, and a short form in brackets for all other blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Plain text.
    #[serde(with = "text_field")]
    Text(String),
    /// The model's reasoning.
    ///
    /// The block is sent back to the provider unchanged, because providers verify the signature. This includes a block
    /// with a signature and an empty text.
    Thinking {
        /// The text of the reasoning. Empty if the provider sent only the signature.
        thinking: String,
        /// The provider's signature of the reasoning. Empty if the provider sent no signature.
        signature: String,
    },
    /// The model's reasoning, encrypted by the provider.
    RedactedThinking {
        /// The encrypted reasoning, which is sent back to the provider unchanged.
        data: String,
    },
    /// A tool call of the model.
    ToolUse {
        /// Id of the call, unique within its message.
        id: String,
        /// Name of the tool.
        name: String,
        /// The arguments. For truncated arguments see [`ToolCall::invalid_json`](crate::ToolCall::invalid_json).
        input: Value,
    },
    /// The result of a [`ContentBlock::ToolUse`].
    ToolResult {
        /// The `id` of the [`ContentBlock::ToolUse`].
        tool_use_id: String,
        /// The output of the tool.
        content: Vec<ContentItem>,
        /// Set if the tool failed.
        #[serde(default)]
        is_error: bool,
    },
    /// An image.
    Image {
        /// The source of the image.
        source: ImageSource,
    },
    /// A document.
    Document {
        /// The source of the document.
        source: DocumentSource,
    },
    /// The provider's summary of all messages before this block, which replaces them.
    Compaction {
        /// The text of the summary.
        content: String,
    },
    /// A block in the provider's own JSON, sent back unchanged.
    ///
    /// A provider creates this variant for content that no other variant can hold, for example web search results or a
    /// text with citations. All other providers send `portable` instead. If `portable` is `None`, they omit the block.
    Raw {
        /// Name of the provider that created the block, as in [`ProviderInfo::name`](crate::ProviderInfo).
        provider: String,
        /// The block as received from the provider.
        json: Value,
        /// The block that other providers send instead, for example the plain text without the citations. `None` if
        /// other providers must omit the block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        portable: Option<Box<ContentBlock>>,
    },
}

impl ContentBlock {
    /// Returns the text of a text block, also inside [`ContentBlock::Raw`]. Returns `None` for any other block.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self.portable()? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the id, name and arguments of a tool call, also inside [`ContentBlock::Raw`]. Returns `None` for any
    /// other block.
    #[must_use]
    pub fn as_tool_use(&self) -> Option<ToolUseRef<'_>> {
        match self.portable()? {
            Self::ToolUse { id, name, input } => Some(ToolUseRef { id, name, input }),
            _ => None,
        }
    }

    /// Returns the call id of a tool result, also inside [`ContentBlock::Raw`]. Returns `None` for any other block.
    #[must_use]
    pub fn as_tool_result_id(&self) -> Option<&str> {
        match self.portable()? {
            Self::ToolResult { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        }
    }

    /// Returns the form of the block that every provider can send. For [`ContentBlock::Raw`] this is the field
    /// `portable`. Any other block is returned unchanged.
    #[must_use]
    pub fn portable(&self) -> Option<&Self> {
        match self {
            Self::Raw { portable, .. } => portable.as_deref(),
            block => Some(block),
        }
    }

    /// Returns the block of [`portable`](Self::portable) to change it. In [`ContentBlock::Raw`], the JSON in the
    /// vendor's format does not change with it.
    #[must_use]
    pub fn portable_mut(&mut self) -> Option<&mut Self> {
        match self {
            Self::Raw { portable, .. } => portable.as_deref_mut(),
            block => Some(block),
        }
    }
}

impl fmt::Display for ContentBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Thinking { .. } | Self::RedactedThinking { .. } => f.write_str("[thinking]"),
            Self::ToolUse { id, name, input } => write!(f, "[tool call {id}: {name} {input}]"),
            Self::ToolResult { tool_use_id, content, is_error } => {
                let kind = if *is_error { "tool error" } else { "tool result" };
                write!(f, "[{kind} {tool_use_id}:")?;
                for item in content {
                    write!(f, " {item}")?;
                }
                f.write_str("]")
            }
            Self::Image { .. } => f.write_str("[image]"),
            Self::Document { .. } => f.write_str("[document]"),
            Self::Compaction { .. } => f.write_str("[summary of the conversation so far]"),
            Self::Raw { portable: Some(block), .. } => block.fmt(f),
            // Marker blocks are not content, so they have no text form.
            block if block.is_mark() => Ok(()),
            Self::Raw { provider, portable: None, .. } => write!(f, "[{provider} block]"),
        }
    }
}

/// A borrowed view of a tool call in a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolUseRef<'a> {
    /// Id of the call, unique within its message.
    pub id: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// The arguments of the call.
    pub input: &'a Value,
}

/// An item of a tool's result.
///
/// In the stored form, the field `type` is `text`, `image`, `audio`, `resource` or `resource_link`. The other fields
/// are the fields of the variant, as in `{"type":"text","text":"…"}`.
///
/// `Display` is the form for models that accept only text. It prints text and text resources unchanged. Any other item
/// becomes a short description in brackets, such as `[image]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentItem {
    /// Plain text.
    #[serde(with = "text_field")]
    Text(String),
    /// An image.
    Image {
        /// The source of the image.
        source: ImageSource,
    },
    /// An audio recording.
    Audio {
        /// The MIME type, for example `audio/wav`.
        media_type: String,
        /// The content in standard base64.
        data: String,
    },
    /// A resource, including its content.
    Resource {
        /// The URI, type and content of the resource.
        resource: EmbeddedResource,
    },
    /// A link to a resource, without its content.
    ResourceLink {
        /// The URI and metadata of the resource.
        resource: ResourceLink,
    },
}

impl fmt::Display for ContentItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Image { .. } => f.write_str("[image]"),
            Self::Audio { media_type, .. } => write!(f, "[audio, {media_type}]"),
            Self::Resource { resource } => resource.fmt(f),
            Self::ResourceLink { resource } => resource.fmt(f),
        }
    }
}

/// The source of an image. [`from_bytes`](Self::from_bytes) and [`from_path`](Self::from_path) detect the MIME type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageSource {
    /// The image itself, as part of the message.
    Base64 {
        /// The MIME type, for example `image/png`.
        media_type: String,
        /// The content in standard base64.
        data: String,
    },
    /// A URL that the provider fetches.
    Url {
        /// The URL.
        url: String,
    },
}

/// The source of a document. [`from_bytes`](Self::from_bytes) and [`from_path`](Self::from_path) detect the MIME type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentSource {
    /// A PDF document, as part of the message.
    Base64Pdf {
        /// The content in standard base64.
        data: String,
    },
    /// A plain text document, as part of the message.
    PlainText {
        /// The text.
        data: String,
    },
    /// A URL that the provider fetches.
    Url {
        /// The URL.
        url: String,
    },
}

/// Serialises the variant `Text(String)` as `{"type":"text","text":"…"}`.
///
/// This module is needed because serde's internally tagged enums support only newtype variants that contain a map.
pub(crate) mod text_field {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Field<'a> {
        text: Cow<'a, str>,
    }

    pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        Field { text: Cow::Borrowed(text) }.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<String, D::Error> {
        Ok(Field::deserialize(deserializer)?.text.into_owned())
    }
}
