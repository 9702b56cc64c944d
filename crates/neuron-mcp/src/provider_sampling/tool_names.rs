//! [`ToolNames`], which maps the tool names of a server to names that the model's provider accepts.

use std::collections::HashMap;

use neuron_types::{ContentBlock, Message, ToolChoice, ToolDefinition};

use crate::bridge::{cleaned_schema, model_names};

/// The tool names of a sampling request, mapped in both directions.
///
/// The model receives changed names, because providers reject some names that the protocol allows, for example names
/// with dots.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    /// The names that the provider receives, by the server's names.
    shown: HashMap<String, String>,
    /// The server's names, by the names that the provider receives.
    of_server: HashMap<String, String>,
}

impl ToolNames {
    /// Creates the mapping between the server's names and the provider's names of these tools.
    pub(super) fn of(tools: &[ToolDefinition]) -> Self {
        let mut names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let shown = model_names("", &names);
        let pairs = || names.iter().map(|name| (*name).to_owned()).zip(shown.iter().cloned());
        Self {
            shown: pairs().collect(),
            of_server: pairs().map(|(name, shown)| (shown, name)).collect(),
        }
    }

    /// Returns the tools with names and input schemas that providers accept.
    pub(super) fn in_definitions(&self, tools: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        let shown = tools.into_iter().map(|tool| ToolDefinition {
            name: translated(&self.shown, tool.name),
            input_schema: cleaned_schema(&tool.input_schema),
            ..tool
        });
        shown.collect()
    }

    /// Returns the tool choice with the server's tool name replaced by the name for the provider.
    pub(super) fn in_choice(&self, choice: ToolChoice) -> ToolChoice {
        match choice {
            ToolChoice::Specific { name } => {
                ToolChoice::Specific { name: translated(&self.shown, name) }
            }
            choice => choice,
        }
    }

    /// Returns the messages with the server's tool names replaced by the names for the provider.
    pub(super) fn in_messages(&self, messages: Vec<Message>) -> Vec<Message> {
        messages.into_iter().map(|message| renamed(message, &self.shown)).collect()
    }

    /// Returns the message with the provider's tool names replaced by the server's names.
    pub(super) fn of_server_in(&self, message: Message) -> Message {
        renamed(message, &self.of_server)
    }
}

/// Returns the name to which `names` maps `name`. Returns `name` if the mapping does not contain it.
fn translated(names: &HashMap<String, String>, name: String) -> String {
    names.get(&name).cloned().unwrap_or(name)
}

/// Replaces the names of the tool calls in a message, as `names` maps them. Also replaces each provider-specific block
/// (`Raw`) that has a portable form by that form.
fn renamed(message: Message, names: &HashMap<String, String>) -> Message {
    let block = |block: ContentBlock| match block {
        ContentBlock::ToolUse { id, name, input } => {
            ContentBlock::ToolUse { id, name: translated(names, name), input }
        }
        ContentBlock::Raw { portable: Some(portable), .. } => match *portable {
            ContentBlock::ToolUse { id, name, input } => {
                ContentBlock::ToolUse { id, name: translated(names, name), input }
            }
            block => block,
        },
        block => block,
    };
    Message { role: message.role, content: message.content.into_iter().map(block).collect() }
}
