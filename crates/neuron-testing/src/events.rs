//! Converts a complete response to the events that a provider streams for it.

use neuron_types::{CompletionResponse, ContentBlock, StreamEvent};

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
        // Other blocks than tool calls have no events before the message is complete.
        _ => {
            for event in block.as_tool_use().into_iter().flat_map(StreamEvent::whole_call) {
                match event {
                    StreamEvent::ToolUseInputDelta { id, delta } => events.extend(
                        pieces(&delta, chunk_chars)
                            .map(|delta| StreamEvent::ToolUseInputDelta { id: id.clone(), delta }),
                    ),
                    other => events.push(other),
                }
            }
        }
    }
}

fn pieces(text: &str, chunk_chars: usize) -> impl Iterator<Item = String> {
    chunks(text, chunk_chars).map(str::to_owned)
}
