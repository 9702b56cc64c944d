//! The parts of a response that the suite compares, whatever blocks a provider stores them in.

use neuron_types::{CompletionResponse, ContentBlock, Message, StopReason, TokenUsage};

use super::Capabilities;

/// The parts of a response that the suite compares.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meaning {
    pub(super) message: MessageMeaning,
    /// The id of the response. Empty if the vendor's responses have no ids.
    id: String,
    model: String,
    stop_reason: StopReason,
    usage: TokenUsage,
}

/// The parts of a message that the suite compares, which are the text, the reasoning and the tool calls.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MessageMeaning {
    text: String,
    thinking: String,
    /// The id, name and arguments of each tool call. The arguments are JSON text, because a comparison of parsed JSON
    /// would ignore the order of fields.
    calls: Vec<(String, String, String)>,
}

impl Meaning {
    pub(super) fn of(response: &CompletionResponse, can: &Capabilities) -> Self {
        Self {
            message: MessageMeaning::of(&response.message, can),
            id: if can.response_ids { response.id.clone() } else { String::new() },
            model: response.model.clone(),
            stop_reason: response.stop_reason.clone(),
            usage: response.usage.clone(),
        }
    }
}

impl MessageMeaning {
    fn of(message: &Message, can: &Capabilities) -> Self {
        let calls = message.tool_uses().map(|call| {
            let id = if can.tool_call_ids { call.id } else { "" };
            (id.to_owned(), call.name.to_owned(), call.input.to_string())
        });
        Self { text: message.text(), thinking: thinking(message), calls: calls.collect() }
    }
}

/// Returns the reasoning texts of all blocks, joined.
pub(super) fn thinking(message: &Message) -> String {
    thoughts(message).map(|(thinking, _)| thinking).collect()
}

/// Returns the vendor's signature of the last reasoning block in the message. Returns `None` if there is no such block
/// or no signature.
///
/// Ignores raw blocks whose `portable` field contains no standard block.
pub(super) fn signature(message: &Message) -> Option<&str> {
    let last = thoughts(message).last();
    last.map(|(_, signature)| signature).filter(|signature| !signature.is_empty())
}

/// Returns the text and the signature of each reasoning block.
fn thoughts(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message.content.iter().filter_map(|block| match block.portable()? {
        ContentBlock::Thinking { thinking, signature } => {
            Some((thinking.as_str(), signature.as_str()))
        }
        _ => None,
    })
}
