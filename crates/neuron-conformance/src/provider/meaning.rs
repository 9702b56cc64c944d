//! The meaning of a response, independent of the form in which a provider keeps it.

use neuron_types::{CompletionResponse, ContentBlock, Message, StopReason, TokenUsage};

use super::Capabilities;

/// The meaning of a response. Two responses with the same meaning are equal.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Meaning {
    pub(super) message: MessageMeaning,
    /// Empty if responses have no id.
    id: String,
    model: String,
    stop_reason: StopReason,
    usage: TokenUsage,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct MessageMeaning {
    text: String,
    thinking: String,
    /// Id, name and arguments. The arguments are text, so their order is compared.
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

/// Returns the reasoning of all blocks, joined.
pub(super) fn thinking(message: &Message) -> String {
    thoughts(message).map(|(thinking, _)| thinking).collect()
}

/// Returns the signature of the last reasoning, unless only its own provider can read it.
pub(super) fn signature(message: &Message) -> Option<&str> {
    let last = thoughts(message).last();
    last.map(|(_, signature)| signature).filter(|signature| !signature.is_empty())
}

fn thoughts(message: &Message) -> impl Iterator<Item = (&str, &str)> {
    message.content.iter().filter_map(|block| match block.portable()? {
        ContentBlock::Thinking { thinking, signature } => {
            Some((thinking.as_str(), signature.as_str()))
        }
        _ => None,
    })
}
