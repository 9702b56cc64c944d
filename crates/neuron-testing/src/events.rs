//! The events that a provider streams for a response.

use neuron_types::{CompletionResponse, ContentBlock, StreamEvent, ToolCall};

use crate::chunks::chunks;

/// Returns all events for `response`. The last two contain the message and the response.
pub(crate) fn events(response: CompletionResponse, chunk_chars: usize) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    for block in response.message.content.iter().filter_map(ContentBlock::portable) {
        push_block(&mut events, block, chunk_chars);
    }
    events.push(StreamEvent::Usage(response.usage.clone()));
    events.push(StreamEvent::MessageComplete(response.message.clone()));
    events.push(StreamEvent::ResponseComplete(Box::new(response)));
    events
}

fn push_block(events: &mut Vec<StreamEvent>, block: &ContentBlock, chunk_chars: usize) {
    match block {
        ContentBlock::Text(text) => {
            events.extend(pieces(text, chunk_chars).map(StreamEvent::TextDelta));
        }
        ContentBlock::Thinking { thinking, signature } => {
            events.extend(pieces(thinking, chunk_chars).map(StreamEvent::ThinkingDelta));
            if !signature.is_empty() {
                events.push(StreamEvent::SignatureDelta(signature.clone()));
            }
        }
        ContentBlock::ToolUse { id, name, input } => {
            events.push(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
            let invalid = ToolCall::invalid_json(input);
            let json = invalid.map_or_else(|| input.to_string(), str::to_owned);
            events.extend(
                pieces(&json, chunk_chars)
                    .map(|delta| StreamEvent::ToolUseInputDelta { id: id.clone(), delta }),
            );
            events.push(StreamEvent::ToolUseEnd { id: id.clone() });
            if invalid.is_none() {
                events.push(StreamEvent::ToolUse {
                    id: id.clone(),
                    name: name.clone(),
                    input: input.clone(),
                });
            }
        }
        // Providers send no events for other kinds of blocks before the message is complete.
        _ => {}
    }
}

fn pieces(text: &str, chunk_chars: usize) -> impl Iterator<Item = String> {
    chunks(text, chunk_chars).map(str::to_owned)
}
