//! Conversion of sampling between the types of this crate and the types of the SDK `rmcp`.
#![expect(deprecated, reason = "sampling is left to older versions of the protocol")]

use neuron_types::{ContentBlock, ImageSource, Message, StopReason, ToolChoice};
use rmcp::model::{
    self, CreateMessageRequestParams, CreateMessageResult, ModelHint, SamplingContent,
    SamplingMessage, SamplingMessageContentBlock, ToolChoiceMode, ToolResultContent,
    ToolUseContent,
};
use serde_json::{Value, json};

use super::{content, prompt, tool};
use crate::{ModelPreferences, SamplingRequest, SamplingResponse, TraceContext};

/// Converts a sampling request that a server sent. `trace_context` comes from the metadata of the request.
pub(crate) fn request_from_sdk(
    sent: CreateMessageRequestParams,
    trace_context: Option<TraceContext>,
) -> SamplingRequest {
    SamplingRequest {
        messages: sent.messages.into_iter().map(message_from_sdk).collect(),
        system_prompt: sent.system_prompt,
        max_tokens: sent.max_tokens,
        temperature: sent.temperature,
        stop_sequences: sent.stop_sequences.unwrap_or_default(),
        model_preferences: sent.model_preferences.map(preferences_from_sdk).unwrap_or_default(),
        tools: sent.tools.unwrap_or_default().into_iter().map(tool::definition_from_sdk).collect(),
        tool_choice: sent.tool_choice.and_then(|choice| choice.mode).map(|mode| match mode {
            ToolChoiceMode::Required => ToolChoice::Required,
            ToolChoiceMode::None => ToolChoice::None,
            _ => ToolChoice::Auto,
        }),
        trace_context,
    }
}

/// Converts a sampling request for the client. The trace context is not part of the result.
pub(crate) fn request_to_sdk(request: &SamplingRequest) -> CreateMessageRequestParams {
    let messages = request.messages.iter().map(message_to_sdk).collect();
    let mut sent = CreateMessageRequestParams::new(messages, request.max_tokens);
    sent.system_prompt.clone_from(&request.system_prompt);
    sent.temperature = request.temperature;
    sent.stop_sequences =
        (!request.stop_sequences.is_empty()).then(|| request.stop_sequences.clone());
    if request.model_preferences != ModelPreferences::default() {
        sent.model_preferences = Some(preferences_to_sdk(&request.model_preferences));
    }
    if !request.tools.is_empty() {
        sent.tools = Some(request.tools.iter().map(tool::definition_to_sdk).collect());
    }
    sent.tool_choice = request.tool_choice.as_ref().map(|choice| match choice {
        ToolChoice::None => model::ToolChoice::none(),
        ToolChoice::Auto => model::ToolChoice::auto(),
        _ => model::ToolChoice::required(),
    });
    sent
}

fn preferences_from_sdk(sent: model::ModelPreferences) -> ModelPreferences {
    ModelPreferences {
        hints: sent.hints.unwrap_or_default().into_iter().filter_map(|hint| hint.name).collect(),
        cost_priority: sent.cost_priority,
        speed_priority: sent.speed_priority,
        intelligence_priority: sent.intelligence_priority,
    }
}

fn preferences_to_sdk(preferences: &ModelPreferences) -> model::ModelPreferences {
    let mut sent = model::ModelPreferences::new();
    if !preferences.hints.is_empty() {
        sent.hints = Some(preferences.hints.iter().map(ModelHint::new).collect());
    }
    sent.cost_priority = preferences.cost_priority;
    sent.speed_priority = preferences.speed_priority;
    sent.intelligence_priority = preferences.intelligence_priority;
    sent
}

/// Converts a client's response to a sampling request.
pub(crate) fn response_from_sdk(result: CreateMessageResult) -> SamplingResponse {
    SamplingResponse {
        message: message_from_sdk(result.message),
        model: result.model,
        stop_reason: result.stop_reason.map(|reason| match reason.as_str() {
            "endTurn" => StopReason::EndTurn,
            "stopSequence" => StopReason::StopSequence,
            "maxTokens" => StopReason::MaxTokens,
            "toolUse" => StopReason::ToolUse,
            _ => StopReason::Other(reason),
        }),
    }
}

/// Converts the response of the model for the server.
pub(crate) fn response_to_sdk(response: &SamplingResponse) -> CreateMessageResult {
    let message = message_to_sdk(&response.message);
    let mut result = CreateMessageResult::new(message, response.model.clone());
    result.stop_reason = response.stop_reason.as_ref().map(|reason| match reason {
        StopReason::EndTurn => "endTurn".to_owned(),
        StopReason::StopSequence => "stopSequence".to_owned(),
        StopReason::MaxTokens => "maxTokens".to_owned(),
        StopReason::ToolUse => "toolUse".to_owned(),
        // Other reasons are sent in their stored form, which is snake case or the text of the provider.
        other => serde_json::to_value(other)
            .ok()
            .and_then(|reason| reason.as_str().map(str::to_owned))
            .unwrap_or_default(),
    });
    result
}

/// Reads the parameters of a request that the SDK could not parse. A block of a message that cannot be read becomes a text
/// with its JSON. Returns `None` if the rest of the parameters is invalid.
pub(crate) fn params_from_json(mut params: Value) -> Option<CreateMessageRequestParams> {
    for message in params.get_mut("messages")?.as_array_mut()? {
        let Some(content) = message.get_mut("content") else { continue };
        let blocks = match content {
            Value::Array(blocks) => blocks.as_mut_slice(),
            block => std::slice::from_mut(block),
        };
        for block in blocks {
            let read: Option<SamplingMessageContentBlock> = content::parsed(block);
            *block = match read {
                Some(read) => json!(read),
                None => json!({ "type": "text", "text": content::from_json(block).to_string() }),
            };
        }
    }
    content::parsed(&params)
}

fn message_from_sdk(message: SamplingMessage) -> Message {
    let blocks = match message.content {
        SamplingContent::Single(block) => vec![block],
        SamplingContent::Multiple(blocks) => blocks,
    };
    Message {
        role: prompt::role_from_sdk(&message.role),
        content: blocks.into_iter().map(block_from_sdk).collect(),
    }
}

fn block_from_sdk(block: SamplingMessageContentBlock) -> ContentBlock {
    match block {
        SamplingMessageContentBlock::Text(text) => ContentBlock::Text(text.text),
        SamplingMessageContentBlock::Image(image) => ContentBlock::Image {
            source: ImageSource::Base64 { media_type: image.mime_type, data: image.data },
        },
        // No provider of this workspace accepts audio. The model gets a text with the audio's type instead.
        SamplingMessageContentBlock::Audio(audio) => {
            ContentBlock::Text(format!("[audio, {}]", audio.mime_type))
        }
        SamplingMessageContentBlock::ToolUse(call) => {
            ContentBlock::ToolUse { id: call.id, name: call.name, input: Value::Object(call.input) }
        }
        SamplingMessageContentBlock::ToolResult(result) => ContentBlock::ToolResult {
            tool_use_id: result.tool_use_id,
            content: result.content.into_iter().map(content::from_sdk).collect(),
            is_error: result.is_error.unwrap_or_default(),
        },
        other => ContentBlock::Text(serde_json::to_string(&other).unwrap_or_default()),
    }
}

/// Converts a message for the peer. Thinking blocks are omitted, because MCP has no equivalent. Other unsupported
/// blocks become text blocks, and are omitted if their text is empty.
fn message_to_sdk(message: &Message) -> SamplingMessage {
    let mut blocks: Vec<_> = message.content.iter().filter_map(block_to_sdk).collect();
    let role = prompt::role_to_sdk(message.role);
    match blocks.pop() {
        // Older versions of the protocol allow only one block in a message.
        Some(block) if blocks.is_empty() => SamplingMessage::new(role, block),
        last => {
            blocks.extend(last);
            SamplingMessage::new_multiple(role, blocks)
        }
    }
}

/// Converts a block of a message. Images, tool calls and tool results keep their kind. Other blocks become text.
/// Returns `None` for thinking, and for a block with an empty text.
fn block_to_sdk(block: &ContentBlock) -> Option<SamplingMessageContentBlock> {
    Some(match block {
        ContentBlock::Image { source: ImageSource::Base64 { media_type, data } } => {
            SamplingMessageContentBlock::Image(model::ImageContent::new(data, media_type))
        }
        ContentBlock::ToolUse { id, name, input } => {
            let input = input.as_object().cloned().unwrap_or_default();
            SamplingMessageContentBlock::ToolUse(ToolUseContent::new(id, name, input))
        }
        ContentBlock::ToolResult { tool_use_id, content, is_error } => {
            let content = content.iter().map(content::to_sdk).collect();
            let mut result = ToolResultContent::new(tool_use_id, content);
            result.is_error = Some(*is_error);
            SamplingMessageContentBlock::ToolResult(result)
        }
        // A block in the format of a vendor.
        ContentBlock::Raw { portable: Some(portable), .. } => return block_to_sdk(portable),
        ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => return None,
        block => {
            let text = block.to_string();
            if text.is_empty() {
                return None;
            }
            SamplingMessageContentBlock::Text(model::TextContent::new(text))
        }
    })
}
