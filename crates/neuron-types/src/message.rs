//! Messages and the blocks they are made of: the conversation as neuron stores and sends it.
//!
//! The serde form is the one that sessions, journals and payloads store: blocks are tagged by
//! `type` in snake case (`{"type":"text","text":"…"}`), unknown fields are ignored.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{EmbeddedResource, ResourceLink};

/// Who wrote a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user; tool results travel in user messages too.
    User,
    /// The model.
    Assistant,
    /// Instructions that stand inside the conversation.
    ///
    /// Instructions for the whole run belong in
    /// [`CompletionRequest::system`](crate::CompletionRequest::system).
    System,
}

/// One turn of a conversation: a role and its content blocks.
///
/// # Example
///
/// ```
/// use neuron_types::{ContentBlock, Message, Role};
///
/// let message = Message::user("What is Rust?");
/// assert_eq!(message.role, Role::User);
/// assert_eq!(message.content, vec![ContentBlock::Text("What is Rust?".into())]);
/// assert_eq!(message.text(), "What is Rust?");
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who wrote it.
    pub role: Role,
    /// What it says, in order.
    pub content: Vec<ContentBlock>,
}

/// A message of the user.
impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::user(text)
    }
}

/// A message of the user.
impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::user(text)
    }
}

impl Message {
    /// Builds a user message with one text block.
    pub fn user(text: impl Into<String>) -> Self {
        Self::with_text(Role::User, text)
    }

    /// Builds an assistant message with one text block.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::with_text(Role::Assistant, text)
    }

    /// Builds a system message with one text block.
    pub fn system(text: impl Into<String>) -> Self {
        Self::with_text(Role::System, text)
    }

    fn with_text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: vec![ContentBlock::Text(text.into())] }
    }

    /// Returns the text blocks joined without a separator, the text in [`ContentBlock::Raw`]
    /// included.
    ///
    /// Vendors split one sentence over several blocks (for citations, say), so nothing is put
    /// between them.
    #[must_use]
    pub fn text(&self) -> String {
        self.content.iter().filter_map(ContentBlock::as_text).collect()
    }

    /// Iterates over the tool calls in this message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = ToolUseRef<'_>> {
        self.content.iter().filter_map(ContentBlock::as_tool_use)
    }
}

/// A piece of a [`Message`].
///
/// `Display` prints text as it is and a short bracketed form for everything else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Plain text.
    #[serde(with = "text_field")]
    Text(String),
    /// The model's reasoning.
    ///
    /// It goes back to the provider unchanged, an empty text with a signature included: providers
    /// check the signature.
    Thinking {
        /// The reasoning as text; empty when the provider omits it.
        thinking: String,
        /// The provider's signature; empty when it gave none.
        signature: String,
    },
    /// Reasoning that the provider encrypted.
    RedactedThinking {
        /// Opaque data, sent back as it came.
        data: String,
    },
    /// The model asks for a tool to be run.
    ToolUse {
        /// Identifies the call within its message.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments; see [`ToolCall::invalid_json`](crate::ToolCall::invalid_json) for the
        /// form of arguments that were cut off.
        input: Value,
    },
    /// The answer to a [`ContentBlock::ToolUse`].
    ToolResult {
        /// The `id` of the call that this answers.
        tool_use_id: String,
        /// What the tool returned.
        content: Vec<ContentItem>,
        /// Whether the tool failed.
        #[serde(default)]
        is_error: bool,
    },
    /// An image.
    Image {
        /// Where its bytes are.
        source: ImageSource,
    },
    /// A document.
    Document {
        /// Where its content is.
        source: DocumentSource,
    },
    /// A summary that the provider wrote in place of the messages before it.
    Compaction {
        /// The summary.
        content: String,
    },
    /// A block in a provider's own JSON, kept so that it goes back unchanged.
    ///
    /// Providers produce it for kinds that neuron does not model (a web search result) and for
    /// known kinds with fields that neuron does not model (a text with citations). Another
    /// provider sends `portable` in its place, or nothing.
    Raw {
        /// The provider that wrote it, as in [`ProviderInfo::name`](crate::ProviderInfo).
        provider: String,
        /// The block as the provider sent it.
        json: Value,
        /// What the block means to everyone else: a text with citations is a text, a tool call
        /// with extra fields is a tool call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        portable: Option<Box<ContentBlock>>,
    },
}

impl ContentBlock {
    /// Returns the text of a text block, also of one inside [`ContentBlock::Raw`].
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self.portable()? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the parts of a tool call, also of one inside [`ContentBlock::Raw`].
    #[must_use]
    pub fn as_tool_use(&self) -> Option<ToolUseRef<'_>> {
        match self.portable()? {
            Self::ToolUse { id, name, input } => Some(ToolUseRef { id, name, input }),
            _ => None,
        }
    }

    /// Returns the id of the call that a tool result answers, also of one inside
    /// [`ContentBlock::Raw`].
    #[must_use]
    pub fn as_tool_result_id(&self) -> Option<&str> {
        match self.portable()? {
            Self::ToolResult { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        }
    }

    /// Returns the block that every provider understands: itself, or the portable form of
    /// [`ContentBlock::Raw`].
    #[must_use]
    pub fn portable(&self) -> Option<&Self> {
        match self {
            Self::Raw { portable, .. } => portable.as_deref(),
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
            block if block.is_mark() => Ok(()),
            Self::Raw { provider, portable: None, .. } => write!(f, "[{provider} block]"),
        }
    }
}

/// A borrowed view of a tool call in a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolUseRef<'a> {
    /// Identifies the call within its message.
    pub id: &'a str,
    /// The tool's name.
    pub name: &'a str,
    /// The arguments.
    pub input: &'a Value,
}

/// A piece of a tool's result.
///
/// It is stored as `{"type":"text","text":"…"}`, or with the type `image`, `audio`, `resource` or
/// `resource_link` and the fields of the variant. `Display` says in words what a model that takes only text
/// is told: text and text resources as they are, of the rest what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentItem {
    /// Plain text.
    #[serde(with = "text_field")]
    Text(String),
    /// An image.
    Image {
        /// Where its bytes are.
        source: ImageSource,
    },
    /// Sound.
    Audio {
        /// The MIME type, `audio/wav` for one.
        media_type: String,
        /// The bytes in standard base64.
        data: String,
    },
    /// A resource with its content.
    Resource {
        /// The resource.
        resource: EmbeddedResource,
    },
    /// A resource by its address.
    ResourceLink {
        /// The resource.
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

/// Where an image's bytes are. [`from_bytes`](Self::from_bytes) and [`from_path`](Self::from_path)
/// determine the type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageSource {
    /// In the message, base64-encoded.
    Base64 {
        /// The MIME type, `image/png` for one.
        media_type: String,
        /// The bytes in standard base64.
        data: String,
    },
    /// At an address that the provider fetches.
    Url {
        /// The address.
        url: String,
    },
}

/// Where a document's content is. [`from_bytes`](Self::from_bytes) and
/// [`from_path`](Self::from_path) determine the type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum DocumentSource {
    /// A PDF in the message, base64-encoded.
    Base64Pdf {
        /// The bytes in standard base64.
        data: String,
    },
    /// Plain text in the message.
    PlainText {
        /// The text.
        data: String,
    },
    /// At an address that the provider fetches.
    Url {
        /// The address.
        url: String,
    },
}

/// Gives `Text(String)` the stored form `{"type":"text","text":"…"}`: serde can tag a newtype
/// variant only if its content is a map.
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
