//! The names of a server's tools in a request of ours, and back.

use std::collections::HashMap;

use neuron_types::{ContentBlock, Message, ToolChoice, ToolDefinition};

use crate::bridge::{cleaned_schema, model_names};

/// The names of a request's tools at the server and for vendors.
#[derive(Debug, Default)]
pub(super) struct ToolNames {
    shown: HashMap<String, String>,
    of_server: HashMap<String, String>,
}

impl ToolNames {
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

    /// The tools under names and with schemas that vendors take.
    pub(super) fn in_definitions(&self, tools: Vec<ToolDefinition>) -> Vec<ToolDefinition> {
        let shown = tools.into_iter().map(|tool| ToolDefinition {
            name: translated(&self.shown, tool.name),
            input_schema: cleaned_schema(&tool.input_schema),
            ..tool
        });
        shown.collect()
    }

    pub(super) fn in_choice(&self, choice: ToolChoice) -> ToolChoice {
        match choice {
            ToolChoice::Specific { name } => {
                ToolChoice::Specific { name: translated(&self.shown, name) }
            }
            choice => choice,
        }
    }

    pub(super) fn in_messages(&self, messages: Vec<Message>) -> Vec<Message> {
        messages.into_iter().map(|message| renamed(message, &self.shown)).collect()
    }

    /// An answer with the names that the server knows.
    pub(super) fn of_server_in(&self, message: Message) -> Message {
        renamed(message, &self.of_server)
    }
}

fn translated(names: &HashMap<String, String>, name: String) -> String {
    names.get(&name).cloned().unwrap_or(name)
}

/// A message with other names in its calls. What only one vendor understands does not leave the client.
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
