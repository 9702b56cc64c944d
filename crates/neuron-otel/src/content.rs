//! What is said, as JSON in the forms of the conventions' schemas (`gen-ai-input-messages.json` and its
//! like). Pure: whether it may be told is decided in `capture`.

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

/// `gen_ai.system_instructions`: a text for each block of the prompt that says something.
pub(crate) fn system_instructions(prompt: &SystemPrompt) -> Value {
    let texts = match prompt {
        SystemPrompt::Text(text) => vec![text.as_str()],
        SystemPrompt::Blocks(blocks) => blocks.iter().map(|block| block.text.as_str()).collect(),
    };
    texts.into_iter().filter(|text| !text.is_empty()).map(part::text).collect()
}

/// `gen_ai.input.messages`: the conversation in the order in which it is sent.
pub(crate) fn input_messages(messages: &[Message]) -> Value {
    messages.iter().map(message).collect()
}

fn message(message: &Message) -> Value {
    json!({ "role": role(message), "parts": part::blocks(&message.content) })
}

/// `gen_ai.output.messages`: the answer, with the conventions' word for why it ended.
pub(crate) fn output_messages(response: &CompletionResponse, finish_reason: Option<&str>) -> Value {
    said(part::blocks(&response.message.content), finish_reason)
}

/// `gen_ai.output.messages` of a run: its text, with the conventions' word for why the model stopped.
pub(crate) fn answer(text: &str, finish_reason: Option<&str>) -> Value {
    said(json!([part::text(text)]), finish_reason)
}

/// What the model said.
fn said(parts: impl Into<Value>, finish_reason: Option<&str>) -> Value {
    let mut message = json!({ "role": "assistant", "parts": parts.into() });
    if let (Some(reason), Some(fields)) = (finish_reason, message.as_object_mut()) {
        fields.insert("finish_reason".to_owned(), reason.into());
    }
    Value::Array(vec![message])
}

/// `gen_ai.tool.definitions`.
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

/// `gen_ai.tool.call.result`: the structured result if there is one, else what the model sees.
pub(crate) fn tool_result(output: &ToolOutput) -> Value {
    output.structured_content.clone().unwrap_or_else(|| tool_response(&output.content))
}

/// The pieces of a tool's result: text if all of them are, else each in its own form.
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

/// The conventions give results of tools a role of their own; ours travel in user messages.
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

fn is_result(block: &ContentBlock) -> bool {
    matches!(meant(block), ContentBlock::ToolResult { .. })
}

/// The block that everyone understands, where a provider's own block has such a meaning; else the block.
fn meant(mut block: &ContentBlock) -> &ContentBlock {
    while let ContentBlock::Raw { portable: Some(portable), .. } = block {
        block = portable;
    }
    block
}
