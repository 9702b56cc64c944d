//! Conversion of the conversation to the field `contents` of a request.
//!
//! <https://ai.google.dev/api/caching#Content>
//!
//! - Consecutive assistant messages become one content, because a content with function calls must follow the user's
//!   content.
//! - The results of tools form a content of their own. In a content that also has other parts, the API would take them
//!   for the model's own words (<https://github.com/pydantic/pydantic-ai/issues/4210>).
//! - A system message becomes a content of the user, because contents have no system role.
//! - A conversation that begins or ends with the model gets a content of the user, because the API rejects it without
//!   (<https://github.com/crewAIInc/crewAI/pull/6973>).

use neuron_http::ObjectInput;
use neuron_model::{ContentBlock, DocumentSource, Message, ProviderError, Role};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::media::{self, Media};
use crate::model::{Generation, base_name};
use crate::parts::{SIGNED_BY, is_signed};
use crate::results::{FunctionResponse, ResultContent};

/// The model and the platform that will receive the contents.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// Name of the platform. Only raw blocks of this platform are sent in their own JSON.
    pub(crate) vendor: &'static str,
    pub(crate) model: &'a str,
    pub(crate) generation: Generation,
}

impl<'a> Target<'a> {
    pub(crate) fn new(vendor: &'static str, model: &'a str) -> Self {
        Self { vendor, model: base_name(model), generation: Generation::of(model) }
    }

    /// Returns `true` if the model knows the ids of calls. Older models reject them.
    fn has_ids(self) -> bool {
        self.generation != Generation::BeforeThree
    }

    /// Returns `true` if a part is signed, and not by another model. A part of unknown origin counts as signed by this
    /// model.
    fn accepts_signature(self, fields: &Map<String, Value>) -> bool {
        let model = fields.get(SIGNED_BY).and_then(Value::as_str);
        is_signed(fields) && model.is_none_or(|model| model == self.model)
    }
}

/// A content of the conversation.
#[derive(Serialize)]
pub(crate) struct Content<'a> {
    role: &'static str,
    parts: Vec<Part<'a>>,
}

/// A part of a content.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    Thought {
        text: &'a str,
        thought: bool,
    },
    Media(Media<'a>),
    Call {
        function_call: Call<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'static str>,
    },
    Response {
        function_response: FunctionResponse<'a>,
    },
    Own(Own<'a>),
}

#[derive(Serialize)]
struct Call<'a> {
    name: &'a str,
    args: ObjectInput<'a>,
}

/// A part in the API's own JSON, without [`SIGNED_BY`], and with at most one added field.
struct Own<'a> {
    fields: &'a Map<String, Value>,
    /// `false` if the signature of the part is left out.
    has_signature: bool,
    /// `false` if the id of a call is left out.
    has_id: bool,
    added: Option<(&'static str, &'static str)>,
}

impl Serialize for Own<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        for (key, value) in self.fields {
            let is_left_out = key == SIGNED_BY
                || key == "thoughtSignature" && !self.has_signature
                || self.added.is_some_and(|(name, _)| name == key);
            if is_left_out {
                continue;
            }
            match value {
                Value::Object(call) if key == "functionCall" && !self.has_id => {
                    fields.serialize_entry(key, &WithoutId(call))?;
                }
                value => fields.serialize_entry(key, value)?,
            }
        }
        if let Some((key, value)) = self.added {
            fields.serialize_entry(key, value)?;
        }
        fields.end()
    }
}

/// A call without its id.
struct WithoutId<'a>(&'a Map<String, Value>);

impl Serialize for WithoutId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != "id"))
    }
}

/// Converts the conversation.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the API does not accept a file. Also if a tool result has no call, because the
/// API requires the name of the tool, which only the call contains.
pub(crate) fn contents<'a>(
    messages: &'a [Message],
    target: Target<'_>,
) -> Result<Vec<Content<'a>>, ProviderError> {
    let mut contents: Vec<Content<'a>> = Vec::with_capacity(messages.len());
    for (index, message) in messages.iter().enumerate() {
        let blocks = message.content.iter().filter(|block| !is_result(block));
        let parts = blocks.filter_map(|block| part(block, target).transpose());
        let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
        let role = match message.role {
            Role::Assistant => "model",
            Role::User | Role::System => "user",
        };
        if message.role == Role::Assistant
            && let Some(previous) = contents.last_mut().filter(|previous| previous.role == role)
        {
            previous.parts.append(&mut parts);
            continue;
        }
        let before = messages.get(..index).unwrap_or_default();
        let (results, more) = results(before, message, target)?;
        if !results.is_empty() {
            contents.push(Content { role, parts: results });
        }
        parts.splice(..0, more);
        if !parts.is_empty() {
            contents.push(Content { role, parts });
        }
    }
    if target.generation == Generation::Three {
        contents.iter_mut().for_each(Content::sign);
    }
    Ok(contents)
}

/// Adds a content of the user at the beginning and at the end of a conversation, unless it has one there. The API rejects
/// a conversation that begins or ends with the model, and a conversation without contents.
///
/// A conversation begins with the model if the user's first message is blank, or if only another vendor can read it. A
/// conversation ends with the model after a paused response of another vendor.
pub(crate) fn surround_with_user(contents: &mut Vec<Content<'_>>) {
    let user = |text| Content { role: "user", parts: vec![Part::Text { text }] };
    if contents.first().is_none_or(|first| first.role == "model") {
        contents.insert(0, user("[blank message]"));
    }
    if contents.last().is_some_and(|last| last.role == "model") {
        contents.push(user("Continue."));
    }
}

fn is_result(block: &ContentBlock) -> bool {
    block.as_tool_result_id().is_some()
}

/// Returns the parts of the tool results in `message`, in the order of their calls. Also returns the media in these
/// results that a function response cannot contain.
fn results<'a>(
    before: &'a [Message],
    message: &'a Message,
    target: Target<'_>,
) -> Result<(Vec<Part<'a>>, Vec<Part<'a>>), ProviderError> {
    let mut responses = Vec::new();
    let mut more = Vec::new();
    for block in message.content.iter().filter_map(ContentBlock::portable) {
        let ContentBlock::ToolResult { tool_use_id, content, is_error } = block else {
            continue;
        };
        let Some((position, name, id)) = call_of(before, tool_use_id, target) else {
            return Err(ProviderError::InvalidRequest(format!(
                "the tool result `{tool_use_id}` has no tool call in the messages before it: repair the history with \
                 transcript::repair"
            )));
        };
        let content = ResultContent::new(content, *is_error, target.vendor, target.generation);
        more.extend(content.following.iter().copied().map(Part::Media));
        let function_response = FunctionResponse::new(name, id, content);
        responses.push((position, Part::Response { function_response }));
    }
    // The API matches calls and results without ids by their order.
    responses.sort_by_key(|(position, _)| *position);
    Ok((responses.into_iter().map(|(_, part)| part).collect(), more))
}

/// Finds the latest tool call with this id. Returns its position in its message, the name of the tool in the request,
/// and the id that the server gave to the call.
///
/// A result must have the server's id. An id that another vendor or this crate invented is never sent, because the API
/// rejects an id that differs from its own. Models before Gemini 3 reject every id, so they get none.
fn call_of<'a>(
    before: &'a [Message],
    id: &str,
    target: Target<'_>,
) -> Option<(usize, &'a str, Option<&'a str>)> {
    let blocks = before.iter().rev().flat_map(|message| message.content.iter().enumerate());
    let mut calls =
        blocks.filter_map(|(position, block)| Some((position, block, block.as_tool_use()?)));
    let (position, block, call) = calls.find(|(_, _, call)| call.id == id)?;
    let own = own_fields(block, target.vendor).and_then(|fields| fields.get("functionCall"));
    let own_text = |key| own?.get(key)?.as_str().filter(|text| !text.is_empty());
    // The server's call is sent back with the name in its JSON, which may be the name of another request.
    let name = own_text("name").unwrap_or(call.name);
    Some((position, name, own_text("id").filter(|_| target.has_ids())))
}

/// Returns the JSON of a [`ContentBlock::Raw`] of this platform. Returns `None` for any other block.
fn own_fields<'a>(block: &'a ContentBlock, vendor: &str) -> Option<&'a Map<String, Value>> {
    match block {
        ContentBlock::Raw { provider, json, .. } if provider == vendor => json.as_object(),
        _ => None,
    }
}

/// Converts a block, except for tool results. Returns `None` if the block is empty, or if only another provider can use
/// it.
///
/// # Errors
///
/// [`ProviderError::InvalidRequest`] if the block is a file that the API does not accept.
fn part<'a>(
    block: &'a ContentBlock,
    target: Target<'_>,
) -> Result<Option<Part<'a>>, ProviderError> {
    let media =
        |media: Option<Media<'a>>| media.map(|media| media.checked(target.vendor)).transpose();
    Ok(match block {
        ContentBlock::Raw { provider, .. } if provider == target.vendor => {
            own_fields(block, target.vendor).and_then(|fields| own_part(block, fields, target))
        }
        ContentBlock::Raw { portable: Some(block), .. } => return part(block, target),
        // The summary of another vendor's compaction replaces messages that the conversation may no longer contain.
        ContentBlock::Text(text)
        | ContentBlock::Compaction { content: text }
        | ContentBlock::Document { source: DocumentSource::PlainText { data: text } } => {
            (!text.is_empty()).then_some(Part::Text { text })
        }
        // Signed reasoning comes from another vendor, whose models alone can use it.
        ContentBlock::Thinking { thinking, signature } => {
            let is_usable = signature.is_empty() && !thinking.is_empty();
            is_usable.then_some(Part::Thought { text: thinking, thought: true })
        }
        ContentBlock::ToolUse { name, input, .. } => Some(Part::Call {
            function_call: Call { name, args: ObjectInput(input) },
            thought_signature: None,
        }),
        ContentBlock::Image { source } => media(media::image(source))?.map(Part::Media),
        ContentBlock::Document { source } => media(media::document(source))?.map(Part::Media),
        _ => None,
    })
}

/// Names of the fields of a part that say something about its content, but are not content.
const ABOUT_CONTENT: [&str; 7] = [
    "thought",
    "thoughtSignature",
    SIGNED_BY,
    "videoMetadata",
    "mediaResolution",
    "mediaProcessing",
    "partMetadata",
];

/// Converts a part of an earlier response. Returns `None` for a part that the API does not accept back.
fn own_part<'a>(
    block: &ContentBlock,
    fields: &'a Map<String, Value>,
    target: Target<'_>,
) -> Option<Part<'a>> {
    // A call that must not run has no result, and the API rejects a call without a result.
    if fields.contains_key("functionCall") && block.as_tool_use().is_none() {
        return None;
    }
    let has_signature = target.accepts_signature(fields);
    let is_empty = |(key, value): (&String, &Value)| {
        ABOUT_CONTENT.contains(&key.as_str()) || key == "text" && value == ""
    };
    let added = match fields.iter().all(is_empty) {
        false => None,
        // Signed parts about the processing of media must not be sent back. A part whose only content was its signature
        // says nothing to another model.
        true if fields.contains_key("mediaProcessing") || !has_signature => return None,
        // The API rejects a part without content.
        true => Some(("text", "")),
    };
    // An empty signature means the same as none, and is sent back as it came.
    let has_signature = has_signature || !is_signed(fields);
    Some(Part::Own(Own { fields, has_signature, has_id: target.has_ids(), added }))
}

/// A value that the API accepts in place of a thought signature, for calls that another model made.
///
/// <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

impl Content<'_> {
    /// Marks the first call of the content as made by another model, unless the target's model signed the call. Gemini 3 rejects a
    /// first call without a signature. Does nothing if the content has no call.
    ///
    /// The API checks only the calls of the current turn. All turns are marked, because otherwise their JSON would
    /// change with the next turn, and prompt caches need equal bytes.
    fn sign(&mut self) {
        for part in &mut self.parts {
            match part {
                Part::Call { thought_signature, .. } => *thought_signature = Some(NO_SIGNATURE),
                Part::Own(own) if own.fields.contains_key("functionCall") => {
                    if !(own.has_signature && is_signed(own.fields)) {
                        own.added = Some(("thoughtSignature", NO_SIGNATURE));
                    }
                }
                _ => continue,
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests;
