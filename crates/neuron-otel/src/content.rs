//! Converts content to JSON that matches the schemas of OpenTelemetry's GenAI conventions, such as
//! `gen-ai-input-messages.json`.
//!
//! The functions of this module only convert. The module `capture` decides whether content is captured.

use neuron_types::{
    CompletionResponse, ContentBlock, ContentItem, Message, Role, SystemPrompt, ToolDefinition,
    ToolOutput,
};
use serde_json::{Value, json};

mod history;
mod part;

pub(crate) use history::History;

#[cfg(test)]
mod tests;

/// Returns the value of `gen_ai.system_instructions`. It has one text for each block of the system prompt, without
/// empty blocks.
pub(crate) fn system_instructions(prompt: &SystemPrompt) -> Value {
    let texts = match prompt {
        SystemPrompt::Text(text) => vec![text.as_str()],
        SystemPrompt::Blocks(blocks) => blocks.iter().map(|block| block.text.as_str()).collect(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).map(part::text).collect()
}

/// Returns the value of `gen_ai.input.messages`, with all messages in the order in which they are sent.
pub(crate) fn input_messages(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &Message) -> Value {
    json!({ "role": role(message), "parts": part::blocks(&message.content) })
}

/// Returns the value of `gen_ai.output.messages` for the response of a model call. `finish_reason` is `None` if
/// messages have no finish reason in the selected conventions.
pub(crate) fn output_messages(response: &CompletionResponse, finish_reason: Option<&str>) -> Value {
    assistant_message(part::blocks(&response.message.content), finish_reason)
}

/// Returns the value of `gen_ai.output.messages` for the text that a run returned. `finish_reason` is `None` if
/// messages have no finish reason in the selected conventions.
pub(crate) fn run_output(text: &str, finish_reason: Option<&str>) -> Value {
    assistant_message(json!([part::text(text)]), finish_reason)
}

/// Returns a list with one assistant message, in the format of OpenTelemetry's conventions.
fn assistant_message(parts: impl Into<Value>, finish_reason: Option<&str>) -> Value {
    let mut message = json!({ "role": "assistant", "parts": parts.into() });
    if let (Some(reason), Some(fields)) = (finish_reason, message.as_object_mut()) {
        fields.insert("finish_reason".to_owned(), reason.into());
    }
    Value::Array(vec![message])
}

/// Returns the value of `gen_ai.tool.definitions`.
pub(crate) fn tool_definitions(tools: &[ToolDefinition]) -> Value {
    let definition = |tool: &ToolDefinition| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.plain_schema(),
        })
    };
    tools.iter().map(definition).collect()
}

/// Returns the value of `gen_ai.tool.call.result`. This is the structured result or, if there is none, the content for
/// the model.
pub(crate) fn tool_result(output: &ToolOutput) -> Value {
    output.structured_content.clone().unwrap_or_else(|| tool_response(&output.content))
}

/// Returns the items of a tool result as one text if all items are texts. Otherwise returns a list of message parts.
fn tool_response<'a>(content: &'a [ContentItem]) -> Value {
    let text = |item: &'a ContentItem| match item {
        ContentItem::Text(text) => Some(text.as_str()),
        _ => None,
    };
    match content.iter().map(text).collect::<Option<Vec<_>>>() {
        Some(texts) => texts.join("\n").into(),
        None => content.iter().map(part::item).collect(),
    }
}

/// Returns the role of a message in OpenTelemetry's conventions. A message that contains only tool results has the role
/// `tool`, although neuron sends tool results in user messages.
fn role(message: &Message) -> &'static str {
    let mut blocks = message.content.iter().filter(|block| !block.is_mark()).peekable();
    let has_blocks = blocks.peek().is_some();
    match message.role {
        _ if has_blocks && blocks.all(is_result) => "tool",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    }
}

/// Returns `true` if the block is a tool result.
fn is_result(block: &ContentBlock) -> bool {
    matches!(portable_block(block), ContentBlock::ToolResult { .. })
}

/// Returns the portable block that a raw block contains. Every provider can read a portable block. Returns any other
/// block unchanged.
fn portable_block(mut block: &ContentBlock) -> &ContentBlock {
    while let ContentBlock::Raw { portable: Some(portable), .. } = block {
        block = portable;
    }
    block
}
