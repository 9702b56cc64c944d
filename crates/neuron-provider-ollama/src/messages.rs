//! Serialisation of the messages of a request.
//!
//! A message of the API has one text, one reasoning text, a list of images and a list of tool calls. Each tool result
//! is a separate message.

use std::borrow::Cow;
use std::fmt;

use neuron_http::{ObjectInput, inline_data};
use neuron_model::{
    ContentBlock, ContentItem, DocumentSource, ImageSource, Message, ModelContent, Role,
    SystemPrompt,
};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// The system prompt and the conversation, serialised as the field `messages`.
pub(crate) struct Messages<'a> {
    pub(crate) system: Option<&'a SystemPrompt>,
    pub(crate) messages: &'a [Message],
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        if let Some(system) = self.system.filter(|system| !system.is_empty()) {
            sequence.serialize_element(&System { role: "system", content: Prompt(system) })?;
        }
        for (index, message) in self.messages.iter().enumerate() {
            let before = self.messages.get(..index).unwrap_or_default();
            // Tool results come before the user's text of the same message, because they answer the calls of the
            // previous message.
            for block in message.content.iter().filter_map(portable_block) {
                if let ContentBlock::ToolResult { tool_use_id, content, is_error } = block {
                    sequence.serialize_element(&ToolMessage {
                        role: "tool",
                        content: ResultText { content, is_error: *is_error },
                        images: result_images(content).collect(),
                        tool_name: name_of_call(before, tool_use_id),
                        tool_call_id: tool_use_id,
                    })?;
                }
            }
            let message = OwnMessage(message);
            if !message.is_empty() {
                sequence.serialize_element(&message)?;
            }
        }
        sequence.end()
    }
}

/// Separator between the texts of several blocks. Without a separator, the words of adjacent blocks would be joined.
const PARAGRAPH: &str = "\n\n";

#[derive(Serialize)]
struct System<'a> {
    role: &'static str,
    content: Prompt<'a>,
}

struct Prompt<'a>(&'a SystemPrompt);

impl Serialize for Prompt<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Prompt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SystemPrompt::Text(text) => f.write_str(text),
            SystemPrompt::Blocks(blocks) => {
                join(f, PARAGRAPH, blocks.iter().map(|block| block.text.as_str()))
            }
        }
    }
}

#[derive(Serialize)]
struct ToolMessage<'a> {
    role: &'static str,
    content: ResultText<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    tool_call_id: &'a str,
}

/// A tool result, serialised as text. The text of a failed call begins with `Error: `, because the API has no field for
/// failures.
struct ResultText<'a> {
    content: &'a [ContentItem],
    is_error: bool,
}

impl ResultText<'_> {
    fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.content.iter().filter_map(|item| match item.for_model() {
            ModelContent::Text(text) => Some(Cow::Borrowed(text)),
            // Images are sent in the field `images`.
            ModelContent::Image { .. } => None,
            ModelContent::ImageUrl { url } if base64_of_url(url).is_some() => None,
            // An image that would have to be downloaded becomes a text, because an error would end every later turn.
            _ => Some(Cow::Owned(item.to_string())),
        })
    }
}

impl Serialize for ResultText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for ResultText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_error {
            f.write_str("Error: ")?;
            // The model must see that the call failed, even if the tool returned no text.
            if self.texts().all(|text| text.trim().is_empty()) {
                return f.write_str("the tool failed without a message");
            }
        }
        join(f, "\n", self.texts())
    }
}

/// Returns the name of the tool whose call has this id, or `None` if no message in `before` contains the call. Searches
/// backwards for the latest call, because ids may repeat.
fn name_of_call<'a>(before: &'a [Message], id: &str) -> Option<&'a str> {
    let mut calls = before.iter().rev().flat_map(Message::tool_uses);
    calls.find(|call| call.id == id).map(|call| call.name)
}

/// A message, serialised without its tool results.
struct OwnMessage<'a>(&'a Message);

impl<'a> OwnMessage<'a> {
    fn blocks(&self) -> impl Iterator<Item = &'a ContentBlock> + use<'a> {
        self.0.content.iter()
    }

    /// Returns the texts of all blocks as one text.
    fn content(&self) -> Joined<'a> {
        let separator = match self.0.role {
            // Vendors may split a sentence of the model into several blocks, so no separator is inserted.
            Role::Assistant => "",
            Role::User | Role::System => PARAGRAPH,
        };
        Joined { blocks: &self.0.content, part: text, separator }
    }

    fn thinking(&self) -> Joined<'a> {
        Joined { blocks: &self.0.content, part: thinking, separator: PARAGRAPH }
    }

    fn images(&self) -> Vec<&'a str> {
        let images = self.blocks().filter_map(portable_block).filter_map(|block| match block {
            ContentBlock::Image { source } => bare_base64(source),
            _ => None,
        });
        images.collect()
    }

    fn calls(&self) -> Vec<Call<'a>> {
        self.blocks().filter_map(call).collect()
    }

    /// Returns the unknown fields that the server sent in this message, or `None` if there are none.
    fn fields(&self) -> Option<&'a Map<String, Value>> {
        self.blocks().find_map(|block| match own_json(block) {
            Some(Value::Object(fields)) if is_message(fields) => Some(fields),
            _ => None,
        })
    }

    fn is_empty(&self) -> bool {
        self.content().is_empty()
            && self.thinking().is_empty()
            && self.images().is_empty()
            && self.calls().is_empty()
            && self.fields().is_none()
    }
}

impl Serialize for OwnMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let role = match self.0.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
        };
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("role", role)?;
        fields.serialize_entry("content", &self.content())?;
        let thinking = self.thinking();
        if !thinking.is_empty() {
            fields.serialize_entry("thinking", &thinking)?;
        }
        let images = self.images();
        if !images.is_empty() {
            fields.serialize_entry("images", &images)?;
        }
        let calls = self.calls();
        if !calls.is_empty() {
            fields.serialize_entry("tool_calls", &calls)?;
        }
        // A raw field does not replace a field that was written above.
        for (key, value) in self.fields().into_iter().flatten() {
            let is_there = match key.as_str() {
                "type" | "role" | "content" | "thinking" | "tool_calls" => true,
                "images" => !images.is_empty(),
                _ => false,
            };
            if !is_there {
                fields.serialize_entry(key, value)?;
            }
        }
        fields.end()
    }
}

/// Returns a block that every provider can read. This is `block` itself or, for a raw block of another provider, the
/// portable block inside it. Returns `None` for a raw block of this provider, or one without a portable block.
pub(crate) fn portable_block(block: &ContentBlock) -> Option<&ContentBlock> {
    match block {
        ContentBlock::Raw { provider, .. } if provider == PROVIDER => None,
        ContentBlock::Raw { portable, .. } => portable_block(portable.as_deref()?),
        block => Some(block),
    }
}

/// Returns the JSON of a [`ContentBlock::Raw`] of this provider, or `None` for any other block.
fn own_json(block: &ContentBlock) -> Option<&Value> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => Some(json),
        _ => None,
    }
}

/// Returns `true` if the JSON of a [`ContentBlock::Raw`] contains the unknown fields of a message. Returns `false` if
/// the JSON is a tool call.
fn is_message(fields: &Map<String, Value>) -> bool {
    fields.get("type").is_some_and(|kind| kind == "message")
}

/// Returns the text of a block, or `None` if the block is not text.
fn text(block: &ContentBlock) -> Option<&str> {
    match portable_block(block)? {
        ContentBlock::Text(text) => Some(text),
        ContentBlock::Document { source: DocumentSource::PlainText { data } } => Some(data),
        // The summary of another vendor's compaction replaces messages that the conversation may no longer contain.
        ContentBlock::Compaction { content } => Some(content),
        _ => None,
    }
}

/// Returns the reasoning of a block, or `None` if the block has no reasoning or the reasoning is signed. Signed
/// reasoning comes from another vendor, whose models alone can use it.
fn thinking(block: &ContentBlock) -> Option<&str> {
    match portable_block(block)? {
        ContentBlock::Thinking { thinking, signature } if signature.is_empty() => Some(thinking),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Call<'a> {
    Raw(&'a Value),
    Converted { id: &'a str, function: Function<'a> },
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: ObjectInput<'a>,
}

/// Returns the tool call in a block. Returns `None` if the block is not a call, or is a raw call that the server would
/// reject.
fn call(block: &ContentBlock) -> Option<Call<'_>> {
    if let Some(json) = own_json(block) {
        // Ollama rejects a conversation that contains an invalid `function`.
        let is_readable =
            |fields: &Map<_, _>| block.as_tool_use().is_some() || !fields.contains_key("function");
        let is_call =
            json.as_object().is_some_and(|fields| !is_message(fields) && is_readable(fields));
        return is_call.then_some(Call::Raw(json));
    }
    match portable_block(block)? {
        ContentBlock::ToolUse { id, name, input } => {
            Some(Call::Converted { id, function: Function { name, arguments: ObjectInput(input) } })
        }
        _ => None,
    }
}

/// Returns the base64 data of all images in a tool result. The server accepts images in messages of every role.
fn result_images(content: &[ContentItem]) -> impl Iterator<Item = &str> {
    content.iter().filter_map(|item| match item.for_model() {
        ModelContent::Image { data, .. } => Some(data),
        ModelContent::ImageUrl { url } => base64_of_url(url),
        _ => None,
    })
}

/// Returns the base64 data of an image, without the prefix of a `data:` URL. Returns `None` for an image that would
/// have to be downloaded.
pub(crate) fn bare_base64(source: &ImageSource) -> Option<&str> {
    match source {
        ImageSource::Base64 { data, .. } => Some(data),
        ImageSource::Url { url } => base64_of_url(url),
        _ => None,
    }
}

/// Returns the base64 data of a `data:` URL, or `None` for any other URL.
fn base64_of_url(url: &str) -> Option<&str> {
    inline_data(url).map(|(_, data)| data)
}

/// The texts that `part` returns for several blocks, joined to one text with a separator.
#[derive(Clone, Copy)]
struct Joined<'a> {
    blocks: &'a [ContentBlock],
    part: fn(&ContentBlock) -> Option<&str>,
    separator: &'static str,
}

impl Joined<'_> {
    fn is_empty(&self) -> bool {
        self.blocks.iter().filter_map(self.part).all(str::is_empty)
    }
}

impl Serialize for Joined<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(f, self.separator, self.blocks.iter().filter_map(self.part))
    }
}

/// Writes all texts that are not empty, with a separator between them.
fn join<T: AsRef<str>>(
    f: &mut fmt::Formatter<'_>,
    separator: &str,
    texts: impl Iterator<Item = T>,
) -> fmt::Result {
    let mut is_first = true;
    for text in texts {
        let text = text.as_ref();
        if text.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            f.write_str(separator)?;
        }
        f.write_str(text)?;
    }
    Ok(())
}
