//! Converts a complete response to the events that a provider streams for it.

use neuron_types::{CompletionResponse, ContentBlock, StreamEvent, ToolCall};

use crate::chunks::chunks;

/// Returns all events of a stream for `response`. Deltas have `chunk_chars` characters.
///
/// The last two events are [`StreamEvent::MessageComplete`] and [`StreamEvent::ResponseComplete`].
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

/// Adds the events of one content block.
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
            // Invalid arguments are streamed as raw text, and no `ToolUse` event follows, because they have no JSON
            // value.
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
