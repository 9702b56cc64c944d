//! Conversion of the conversation to the field `messages` of a request.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html>
//!
//! - Neighbouring messages of one role become one message, as the server does with them.
//! - The results of tools come first in their message, as Claude requires.
//! - A message of the user without content becomes a filler.
//! - A system message becomes a message of the user, because few models accept the role `system`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use neuron_http::ObjectInput;
use neuron_model::{ContentBlock, DocumentSource, Message, ProviderError, Role};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::PROVIDER;
use crate::block::{Block, ORIGIN, Own, OwnFields, Reasoning, ToolResult, ToolUse};
use crate::cache::CachePoint;
use crate::content::{cited, is_of_server};
use crate::ids::Ids;
use crate::media::{self, Files, MAX_DOCUMENTS, MAX_IMAGES};
use crate::model::{Family, Model};
use crate::results::{ResultContent, may_be_beside_results};

/// A text for a message that the API requires, but the conversation does not have. Models reject white space.
const FILLER: &str = ".";

/// A text in a message with documents and no other text. The API requires a text there.
const DOCUMENTS: &str = "See the attached documents.";

/// A message of the request.
#[derive(Debug, Serialize)]
pub(crate) struct Turn<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

/// The conversation of a request.
#[derive(Debug, Default)]
pub(crate) struct Conversation<'a> {
    pub(crate) turns: Vec<Turn<'a>>,
    /// Names of the tools in the conversation's calls, as they are sent, each once.
    pub(crate) called: Vec<&'a str>,
}

impl<'a> Conversation<'a> {
    /// Converts messages for a model.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the API does not accept an image or a document.
    pub(crate) fn new(messages: &'a [Message], model: Model<'_>) -> Result<Self, ProviderError> {
        let conversation = Self::with_files(messages, model, Files::default())?;
        match conversation.files_over(model.family) {
            (0, 0) => Ok(conversation),
            (images, documents) => {
                Self::with_files(messages, model, Files::without(images, documents))
            }
        }
    }

    fn with_files(
        messages: &'a [Message],
        model: Model<'_>,
        files: Files,
    ) -> Result<Self, ProviderError> {
        let mut writer = Writer {
            model,
            ids: Ids::new(messages),
            files,
            conversation: Self::default(),
            said: Vec::new(),
            results: Vec::new(),
            others: Vec::new(),
            is_asked: false,
        };
        for message in messages {
            writer.write(message)?;
        }
        writer.end_assistant_turn();
        writer.is_asked |= is_paused_elsewhere(messages);
        writer.end_user_turn();
        let mut conversation = writer.conversation;
        let begins = conversation.turns.first().is_some_and(|turn| turn.role == "assistant");
        if begins && !model.may_begin() {
            conversation.turns.insert(0, filler("user"));
        }
        Ok(conversation)
    }

    /// Returns the numbers of images and of documents beyond the limits of the API.
    fn files_over(&self, family: Family) -> (usize, usize) {
        let blocks = || self.turns.iter().flat_map(|turn| &turn.content);
        let count = |kind: &str| -> usize {
            let in_block = |block: &Block<'_>| match block {
                Block::ToolResult(result) => {
                    result.content.iter().filter(|block| block.is(&[kind])).count()
                }
                block => usize::from(block.is(&[kind])),
            };
            blocks().map(in_block).sum()
        };
        let documents = count("document");
        // Claude counts documents as images too: "too many images and documents: 19 + 5 > 20".
        let counted = if family == Family::Claude { documents.min(MAX_DOCUMENTS) } else { 0 };
        let images = (count("image") + counted).saturating_sub(MAX_IMAGES);
        (images, documents.saturating_sub(MAX_DOCUMENTS))
    }

    /// Returns `true` if the conversation has calls of tools or results.
    pub(crate) fn has_tool_blocks(&self) -> bool {
        self.turns
            .iter()
            .flat_map(|turn| &turn.content)
            .any(|block| block.is(&["toolUse", "toolResult"]))
    }

    /// Returns `true` if the model waits for results of tools in a turn that began without reasoning. A model of another
    /// vendor may have begun the turn, and its reasoning is not sent.
    pub(crate) fn began_without_reasoning(&self) -> bool {
        let is_said = |block: &Block<'_>| !block.is(&["toolResult", "cachePoint"]);
        let is_prompt = |turn: &Turn<'_>| turn.role == "user" && turn.content.iter().any(is_said);
        let start = self.turns.iter().rposition(is_prompt).map_or(0, |last| last + 1);
        let current = self.turns.get(start..).unwrap_or_default();
        let is_open = current.last().is_some_and(|turn| turn.role == "user");
        let first = current.iter().find(|turn| turn.role == "assistant");
        let block = first.and_then(|turn| turn.content.first());
        is_open && block.is_some_and(|block| !block.is(&["reasoningContent"]))
    }

    /// Returns the cache points in the API's own JSON.
    pub(crate) fn own_cache_points(&self) -> impl Iterator<Item = &Value> {
        self.turns.iter().flat_map(|turn| &turn.content).filter_map(|block| match block {
            Block::Own(own) => own.0.get("cachePoint"),
            _ => None,
        })
    }

    /// Adds a cache point at the last place in the messages of the user that the model accepts. Adds nothing if there is
    /// no such place, or if a point is already there.
    pub(crate) fn end_with(&mut self, point: CachePoint, family: Family) {
        let may_precede = |block: &Block<'_>| match family {
            // Nova rejects a point after any other block, such as the result of a tool
            // (<https://github.com/zeroclaw-labs/zeroclaw/issues/8720>).
            Family::Nova | Family::Nova2 => block.is(&["text"]),
            // The API rejects a point after a document.
            _ => !block.is(&["document", "video"]),
        };
        let mut turns = self.turns.iter_mut().rev().filter(|turn| turn.role == "user");
        let place = turns.find_map(|turn| {
            let last = turn.content.iter().rposition(may_precede)?;
            Some((last, &mut turn.content))
        });
        let Some((last, content)) = place else {
            return;
        };
        let is_point = |at: usize| content.get(at).is_some_and(|it| it.is(&["cachePoint"]));
        if !is_point(last) && !is_point(last + 1) {
            content.insert(last + 1, Block::CachePoint(point));
        }
    }
}

fn filler(role: &'static str) -> Turn<'static> {
    Turn { role, content: vec![Block::Text(FILLER.into())] }
}

struct Writer<'a, 'm> {
    model: Model<'m>,
    ids: Ids<'a>,
    files: Files,
    conversation: Conversation<'a>,
    /// Blocks of the current message of the assistant. It follows the current message of the user.
    said: Vec<Block<'a>>,
    /// Tool results of the current message of the user.
    results: Vec<Block<'a>>,
    /// Other blocks of the current message of the user.
    others: Vec<Block<'a>>,
    /// Set if the conversation has a current message of the user, even if all of its texts are blank.
    is_asked: bool,
}

impl<'a> Writer<'a, '_> {
    fn write(&mut self, message: &'a Message) -> Result<(), ProviderError> {
        self.ids.enter_message(message);
        if message.role != Role::Assistant {
            self.end_assistant_turn();
            self.is_asked |= !message.content.is_empty();
            for block in &message.content {
                if let Some(block) = self.block(block)? {
                    self.others.push(block);
                }
            }
            // A later message may be joined to this one, and must not change it.
            let has = |kind| self.others.iter().any(|block| block.is(&[kind]));
            if has("document") && !has("text") {
                self.others.insert(0, Block::Text(DOCUMENTS.into()));
            }
            return Ok(());
        }
        for block in &message.content {
            // The API accepts files from the user only.
            let block = match file(block) {
                Some(file) => Some(Block::Text(file.into())),
                None => self.block(block)?,
            };
            self.said.extend(block);
        }
        Ok(())
    }

    /// Ends the current message of the assistant, without the reasoning at its end. Claude rejects such reasoning,
    /// which belongs to a response that was cut off, and takes a message of reasoning alone for a prefilled response.
    fn end_assistant_turn(&mut self) {
        let mut content = std::mem::take(&mut self.said);
        while content.pop_if(|block| block.is(&["reasoningContent"])).is_some() {}
        if content.is_empty() {
            return;
        }
        self.end_user_turn();
        match self.conversation.turns.last_mut().filter(|turn| turn.role == "assistant") {
            Some(turn) => turn.content.append(&mut content),
            None => self.conversation.turns.push(Turn { role: "assistant", content }),
        }
    }

    /// Ends the current message of the user. A message with blank texts alone becomes a filler: the API rejects a
    /// conversation without messages, and new models of Claude reject a conversation that ends with their own response.
    fn end_user_turn(&mut self) {
        let is_asked = std::mem::take(&mut self.is_asked);
        let mut results = std::mem::take(&mut self.results);
        let mut others = std::mem::take(&mut self.others);
        let turns = &mut self.conversation.turns;
        let family = self.model.family;
        if !results.is_empty() && !others.iter().all(|block| may_be_beside_results(block, family)) {
            turns.push(Turn { role: "user", content: std::mem::take(&mut results) });
            // Without a message between them, the server would join the two messages of the user.
            turns.push(filler("assistant"));
        }
        results.append(&mut others);
        if !results.is_empty() {
            turns.push(Turn { role: "user", content: results });
        } else if is_asked {
            turns.push(filler("user"));
        }
    }

    /// Converts a block. Returns `None` if the block is empty, if only another provider or another model can use it, or
    /// if it is a tool result. A tool result is added to the current message of the user.
    ///
    /// # Errors
    ///
    /// [`ProviderError::InvalidRequest`] if the API does not accept an image or a document.
    fn block(&mut self, block: &'a ContentBlock) -> Result<Option<Block<'a>>, ProviderError> {
        Ok(match block {
            ContentBlock::Raw { provider, json, portable } if provider == PROVIDER => {
                match (own(block, json, self.model), portable) {
                    (Some(own), _) => {
                        self.note_call(json);
                        Some(Block::Own(Own(self.with_unique_name(own))))
                    }
                    (None, Some(portable)) => self.block(portable)?,
                    (None, None) => None,
                }
            }
            ContentBlock::Raw { portable: Some(block), .. } => self.block(block)?,
            // The summary of another vendor's compaction replaces messages that the conversation may no longer contain.
            ContentBlock::Text(text)
            | ContentBlock::Compaction { content: text }
            | ContentBlock::Document { source: DocumentSource::PlainText { data: text } } => {
                Block::text(text)
            }
            // Signed reasoning is Claude's. Its signatures are valid on all platforms
            // (<https://platform.claude.com/docs/en/build-with-claude/extended-thinking>). Reasoning without a
            // signature was truncated or comes from another model.
            ContentBlock::Thinking { thinking, signature } => {
                let reasoning = Reasoning::ReasoningText { text: thinking, signature };
                let is_usable = self.model.family == Family::Claude && !signature.is_empty();
                is_usable.then_some(Block::ReasoningContent(reasoning))
            }
            ContentBlock::RedactedThinking { data } => {
                let reasoning = Reasoning::RedactedContent(STANDARD.encode(data));
                let is_usable = self.model.family == Family::Claude;
                is_usable.then_some(Block::ReasoningContent(reasoning))
            }
            ContentBlock::ToolUse { id, name, input } => {
                self.note_name(name);
                let tool_use_id = self.ids.of(id);
                Some(Block::ToolUse(ToolUse { tool_use_id, name, input: ObjectInput(input) }))
            }
            ContentBlock::ToolResult { tool_use_id, content, is_error } => {
                let family = self.model.family;
                let result = ResultContent::new(content, *is_error, family, &mut self.files);
                let ResultContent { inside: content, mut following, status } = result;
                let tool_use_id = self.ids.of(tool_use_id);
                self.results.push(Block::ToolResult(ToolResult { tool_use_id, content, status }));
                self.others.append(&mut following);
                None
            }
            ContentBlock::Image { source } => media::image(source)?.map(Block::Image),
            ContentBlock::Document { source } => {
                media::pdf(source)?.map(|data| Block::Document(self.files.pdf(data)))
            }
            _ => None,
        })
    }

    /// Notes the name of the tool, if a block in the API's own JSON is a call of a tool of the request.
    fn note_call(&mut self, own: &'a Value) {
        let call = own.get("toolUse").and_then(Value::as_object);
        let call = call.filter(|call| !is_of_server(call));
        if let Some(name) = call.and_then(|call| call.get("name")?.as_str()) {
            self.note_name(name);
        }
    }

    /// Replaces the name of a document in the API's own JSON, if another document has it. The API rejects such a name.
    fn with_unique_name(&mut self, mut own: OwnFields<'a>) -> OwnFields<'a> {
        if let Some(Value::String(name)) = own.get("document").and_then(|it| it.get("name")) {
            let unique = self.files.unique(name);
            if unique != *name
                && let Some(document) = own.to_mut().get_mut("document")
            {
                document["name"] = unique.into();
            }
        }
        own
    }

    fn note_name(&mut self, name: &'a str) {
        let called = &mut self.conversation.called;
        if !called.contains(&name) {
            called.push(name);
        }
    }
}

/// Returns `true` if the conversation ends with a response that another vendor paused to run a tool of its own. No model
/// of Bedrock continues such a response, and new models of Claude reject it as a prefilled response
/// (<https://platform.claude.com/docs/en/about-claude/models/migration-guide>).
fn is_paused_elsewhere(messages: &[Message]) -> bool {
    let last = messages.last().filter(|message| message.role == Role::Assistant);
    let block = last.and_then(|message| message.content.iter().rfind(|block| !block.is_mark()));
    matches!(block, Some(ContentBlock::Raw { provider, portable: None, .. }) if provider != PROVIDER)
}

/// Returns the text form of a file. Returns `None` for any other block.
fn file(block: &ContentBlock) -> Option<String> {
    match block.portable() {
        Some(file @ (ContentBlock::Image { .. } | ContentBlock::Document { .. })) => {
            Some(file.to_string())
        }
        _ => match block {
            ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => {
                let kinds = ["image", "document", "video", "audio"];
                let kind = kinds.into_iter().find(|kind| json.get(*kind).is_some())?;
                Some(format!("[{kind}]"))
            }
            _ => None,
        },
    }
}

/// Returns the fields of a raw block in the API's own JSON. Returns `None` if the model does not accept the block.
fn own<'a>(block: &ContentBlock, json: &'a Value, model: Model<'_>) -> Option<OwnFields<'a>> {
    let fields = json.as_object().filter(|fields| !fields.is_empty())?;
    if block.as_text().is_some_and(|text| text.trim().is_empty()) {
        return None;
    }
    if fields.get(ORIGIN).is_some_and(|origin| origin.as_str() != Some(model.origin())) {
        return None;
    }
    let has_citations =
        matches!(model.family, Family::Claude | Family::Nova | Family::Nova2 | Family::Unknown);
    let is_accepted = match fields.get("toolUse") {
        // A call that does not run has no result, and the API rejects a call without a result.
        Some(call) => block.as_tool_use().is_some() || call.as_object().is_some_and(is_of_server),
        None if fields.contains_key("reasoningContent") => model.reads_reasoning(),
        None if fields.contains_key("citationsContent") => {
            return with_citations(fields).filter(|_| has_citations);
        }
        None => true,
    };
    is_accepted.then_some(Cow::Borrowed(fields))
}

/// Returns a text with citations. Its parts are joined if one of them is blank, because the API rejects a blank part. A
/// stream may have a citation without a text. Returns `None` if the whole text is blank.
fn with_citations(fields: &Map<String, Value>) -> Option<OwnFields<'_>> {
    let said = cited(fields).filter(|said| !said.trim().is_empty())?;
    let is_blank = |part: &Value| {
        part.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty())
    };
    let parts = fields.get("citationsContent")?.get("content")?.as_array()?;
    let mut fields = Cow::Borrowed(fields);
    if parts.iter().any(is_blank)
        && let Some(cited) = fields.to_mut().get_mut("citationsContent")
    {
        cited["content"] = json!([{ "text": said }]);
    }
    Some(fields)
}

#[cfg(test)]
mod tests;
