//! Conversion of prompts between the types of this crate and the types of the SDK `rmcp`.

use neuron_types::Role;
use rmcp::model::{GetPromptResult, Prompt, PromptArgument, PromptMessage};
use serde_json::Value;

use super::content;
use crate::text::{cleaned, cleaned_name};
use crate::{McpPrompt, McpPromptArgument, McpPromptMessage, McpPromptResult, McpVersion};

/// Converts a prompt of a server's list. Removes hidden characters from its texts.
pub(crate) fn from_sdk(prompt: Prompt) -> McpPrompt {
    let arguments = prompt.arguments.unwrap_or_default().into_iter();
    McpPrompt {
        name: cleaned_name(prompt.name),
        title: prompt.title.map(cleaned_name),
        description: prompt.description.map(cleaned),
        arguments: arguments
            .map(|argument| McpPromptArgument {
                name: cleaned_name(argument.name),
                description: argument.description.map(cleaned),
                required: argument.required.unwrap_or_default(),
            })
            .collect(),
    }
}

/// Converts a prompt for the list that a client receives.
pub(crate) fn to_sdk(prompt: &McpPrompt) -> Prompt {
    let arguments = prompt.arguments.iter().map(|argument| {
        let mut sent = PromptArgument::new(&argument.name).with_required(argument.required);
        sent.description.clone_from(&argument.description);
        sent
    });
    let mut sent = Prompt::new(&prompt.name, prompt.description.clone(), Some(arguments.collect()));
    sent.title.clone_from(&prompt.title);
    sent
}

/// Converts a prompt with filled-in arguments that a server sent.
pub(crate) fn result_from_sdk(result: GetPromptResult) -> McpPromptResult {
    let messages = result.messages.into_iter().map(|message| McpPromptMessage {
        role: role_from_sdk(&message.role),
        content: content::from_sdk(message.content),
    });
    McpPromptResult { description: result.description.map(cleaned), messages: messages.collect() }
}

/// Converts a prompt with filled-in arguments that the SDK could not parse, message by message. Returns `None` if the
/// JSON has no messages.
pub(crate) fn result_from_json(result: &Value) -> Option<McpPromptResult> {
    let message = |message: &Value| {
        let is_assistant = message.get("role").is_some_and(|role| role == "assistant");
        let role = if is_assistant { Role::Assistant } else { Role::User };
        let blocks = match message.get("content") {
            None => std::slice::from_ref(message),
            Some(Value::Array(blocks)) => blocks.as_slice(),
            Some(block) => std::slice::from_ref(block),
        };
        let blocks = blocks.iter().map(content::from_json);
        blocks.map(|content| McpPromptMessage { role, content }).collect::<Vec<_>>()
    };
    let description = result.get("description").and_then(Value::as_str).map(str::to_owned);
    let messages = result.get("messages")?.as_array()?.iter().flat_map(message).collect();
    Some(McpPromptResult { description, messages })
}

/// Converts a prompt with filled-in arguments for a client of this protocol version.
pub(crate) fn result_to_sdk(result: &McpPromptResult, version: McpVersion) -> GetPromptResult {
    let messages = result.messages.iter().map(|message| {
        PromptMessage::new(role_to_sdk(message.role), content::to_sdk_in(&message.content, version))
    });
    let mut sent = GetPromptResult::new(messages.collect());
    sent.description.clone_from(&result.description);
    sent
}

/// Converts the role of a message that the peer sent.
pub(crate) fn role_from_sdk(role: &rmcp::model::Role) -> Role {
    match role {
        rmcp::model::Role::Assistant => Role::Assistant,
        rmcp::model::Role::User => Role::User,
    }
}

/// Converts the role of a message for the peer. All roles except the assistant become the user, because MCP has only
/// these two roles.
pub(crate) fn role_to_sdk(role: Role) -> rmcp::model::Role {
    match role {
        Role::Assistant => rmcp::model::Role::Assistant,
        _ => rmcp::model::Role::User,
    }
}
