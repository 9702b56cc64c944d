//! Bedrock's rules for messages and their content blocks.

use super::ApiError;
use super::wording::{Object, Wording, invalid, of_the_model, unmatched};
use crate::bedrock::route::{Family, Route};
use crate::bedrock::signature::is_foreign;
use crate::shape::{Wording as _, words};

/// Consecutive messages of one role. Bedrock treats such messages as one message.
pub(super) struct Turn<'a> {
    pub(super) role: &'a str,
    /// The path of the content of the last message of the turn.
    pub(super) path: String,
    pub(super) blocks: Vec<Object<'a>>,
}

impl<'a> Turn<'a> {
    /// Returns the objects in the field `key` of the blocks, such as `toolUse`.
    pub(super) fn having(&self, key: &str) -> Vec<Object<'a>> {
        self.blocks.iter().filter_map(|block| block.object(key)).collect()
    }
}

/// Checks each message of a request, and that the user begins. Returns the turns.
pub(super) fn check_messages<'a>(
    body: &Object<'a>,
    route: &Route,
) -> Result<Vec<Turn<'a>>, ApiError> {
    let messages = body.objects("messages");
    // A prompt in place of a model has its own messages.
    if messages.is_empty() && !route.is_prompt() {
        return Err(invalid(BEGIN));
    }
    let mut turns: Vec<Turn<'a>> = Vec::new();
    for message in &messages {
        let role = message.str("role").unwrap_or_default();
        let blocks = message.objects("content");
        if blocks.is_empty() {
            return Err(invalid(format!(
                "The content field in the Message object at {} is empty. Add a ContentBlock object \
                 to the content field and try again.",
                message.path
            )));
        }
        blocks.iter().try_for_each(|block| check_block(block, role, route))?;
        if turns.last().is_none_or(|turn| turn.role != role) {
            turns.push(Turn { role, path: String::new(), blocks: Vec::new() });
        }
        if let Some(turn) = turns.last_mut() {
            turn.path = message.at("content");
            turn.blocks.extend(blocks);
        }
    }
    let first = turns.iter().find(|turn| turn.role != "system");
    if first.is_some_and(|turn| turn.role == "assistant") && !route.family().may_begin() {
        return Err(invalid(BEGIN));
    }
    check_ends(&turns, route)?;
    Ok(turns)
}

const BEGIN: &str = "A conversation must start with a user message. Try again with a conversation \
                     that starts with a user message.";

/// Checks that no turn of the assistant is a prefilled response that the model does not continue. New models of Claude
/// take any turn of reasoning alone for such a response, even if the user follows.
fn check_ends(turns: &[Turn<'_>], route: &Route) -> Result<(), ApiError> {
    let last = turns.last().filter(|turn| turn.role == "assistant");
    let is_reasoning = |turn: &Turn<'_>| turn.blocks.iter().all(|it| it.has("reasoningContent"));
    if last.is_some() && route.is_claude_since((4, 6))
        || route.is_claude_since((5, 0)) && turns.iter().any(is_reasoning)
    {
        return Err(of_the_model(
            "This model does not support assistant message prefill. The conversation must end with \
             a user message.",
        ));
    }
    let text = last.and_then(|turn| turn.blocks.last()?.str("text"));
    let ends_with_space = text.is_some_and(|text| text.ends_with(char::is_whitespace));
    match route.family() == Family::Claude && ends_with_space {
        true => Err(of_the_model(
            "messages: final assistant content cannot end with trailing whitespace",
        )),
        false => Ok(()),
    }
}

/// Checks a content block of a message with this role.
fn check_block(block: &Object<'_>, role: &str, route: &Route) -> Result<(), ApiError> {
    let kind = block.fields.keys().find(|key| block.has(key)).map_or("", String::as_str);
    if !words(Wording.shape("places"), role).any(|known| known == kind) {
        return Err(invalid(format!(
            "The {kind} field in the ContentBlock object at {} is not supported in {role} messages.",
            block.path
        )));
    }
    if let Some(text) = block.str("text") {
        check_text(text, &block.path, route)?;
    }
    let cited = block.object("citationsContent").map(|cited| cited.objects("content"));
    for part in cited.unwrap_or_default() {
        check_text(part.str("text").unwrap_or_default(), &part.path, route)?;
    }
    for key in ["toolUse", "toolResult"] {
        if let Some(id) = block.object(key) {
            check_id(&id)?;
        }
    }
    if let Some(call) = block.object("toolUse")
        && call.object("input").is_none()
    {
        return Err(not_an_object(&call.at("input")));
    }
    if let Some(result) = block.object("toolResult") {
        check_result(&result, role, route)?;
    }
    match block.object("reasoningContent") {
        Some(reasoning) => check_reasoning(&reasoning, route),
        None => Ok(()),
    }
}

/// Checks that a text is neither empty nor only whitespace.
fn check_text(text: &str, path: &str, route: &Route) -> Result<(), ApiError> {
    if text.is_empty() {
        return Err(invalid(format!(
            "The text field in the ContentBlock object at {path} is blank. Add text to the text \
             field, and try again."
        )));
    }
    match text.trim().is_empty() && matches!(route.family(), Family::Claude | Family::Other) {
        true => Err(of_the_model("messages: text content blocks must contain non-whitespace text")),
        false => Ok(()),
    }
}

/// Checks the characters of the id of a call or a result.
fn check_id(object: &Object<'_>) -> Result<(), ApiError> {
    let id = object.str("toolUseId").unwrap_or_default();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    match !id.is_empty() && id.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(unmatched(&object.at("toolUseId"), "[a-zA-Z0-9_.:-]+")),
    }
}

fn not_an_object(path: &str) -> ApiError {
    invalid(format!(
        "The format of the value at {path} is invalid. Provide a json object for the field and try \
         again."
    ))
}

/// Checks the status and the content of a tool result.
fn check_result(result: &Object<'_>, role: &str, route: &Route) -> Result<(), ApiError> {
    // A tool of the vendor's has its result in the message of its call.
    if role == "assistant" && !result.has("type") {
        return Err(invalid(format!(
            "The toolResult field at {} is not supported in assistant messages.",
            result.path
        )));
    }
    let content = result.objects("content");
    if content.is_empty() && result.str("status") == Some("error") {
        return Err(invalid(format!(
            "The content field at {} cannot be empty when status value is error.",
            result.path
        )));
    }
    if result.has("status") && route.family() == Family::Palmyra {
        return Err(invalid(
            "This model doesn't support the status field. Remove status and try again.",
        ));
    }
    for item in &content {
        // Some models accept an empty text here.
        if item.str("text").is_some_and(str::is_empty) {
            return Err(of_the_model("messages: text content blocks must be non-empty"));
        }
        if item.has("image") && !route.has_result_images() {
            return Err(invalid(
                "This model doesn't support the image field for user messages. Remove image and try again.",
            ));
        }
    }
    Ok(())
}

/// Checks that the model reads reasoning, that reasoning of Claude has a signature, and that the signature belongs to
/// the text.
fn check_reasoning(reasoning: &Object<'_>, route: &Route) -> Result<(), ApiError> {
    let family = route.family();
    if !family.reads_reasoning() {
        return Err(invalid(
            "This model doesn't support the reasoningContent field. Remove reasoningContent and \
             try again.",
        ));
    }
    let Some(text) = reasoning.object("reasoningText") else { return Ok(()) };
    let signature = text.str("signature").unwrap_or_default();
    if signature.is_empty() && family == Family::Claude {
        let at = text.path.replace(".reasoningContent.reasoningText", "");
        return Err(of_the_model(&format!("{at}.thinking.signature: Field required")));
    }
    match is_foreign(signature, text.str("text").unwrap_or_default(), route) {
        true => Err(of_the_model(
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be \
             modified. These blocks must remain as they were in the original response.",
        )),
        false => Ok(()),
    }
}
