//! Decoding of streams into [`StreamEvent`]s.
//!
//! <https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent>
//!
//! Each event is a whole response with the next parts. No further event ends the stream: the last chunk has the
//! `finishReason`.

use std::collections::VecDeque;

use neuron_http::{Decoder, Secret, SseDecoder, complete};
use neuron_types::{ContentBlock, ProviderError, StopReason, StreamEvent, ToolCall};

use crate::parts::Origin;
use crate::response::{PartialResponse, WireChunk};

/// A decoder of one streamed response. Collects the response while it emits events.
pub(crate) struct ChunkDecoder {
    origin: Origin,
    collected: PartialResponse,
    /// The events of the first call and of everything after it.
    ///
    /// A call may start to run as soon as its event arrives. Whether the calls of a response may run is known only when
    /// the stream has ended, so these events wait for the end.
    held: Vec<StreamEvent>,
}

impl ChunkDecoder {
    pub(crate) fn new(origin: Origin) -> Self {
        Self { collected: PartialResponse::new(origin.clone()), origin, held: Vec::new() }
    }
}

impl Decoder for ChunkDecoder {
    type Framing = SseDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        // Proxies send empty events to keep the connection open.
        if data.trim_ascii().is_empty() {
            return Ok(false);
        }
        let chunk = WireChunk::parse(data, "the stream", |why| {
            let shown = secret.excerpt(data);
            ProviderError::StreamError(format!("a chunk is not as expected ({why}): {shown}"))
        })?;
        let Self { origin, collected, held } = self;
        collected.take(chunk, |block| {
            let mut events = events(block);
            if held.is_empty() && !events.iter().any(is_of_call) {
                out.extend(events);
            } else {
                held.append(&mut events);
            }
        })?;
        if !collected.has_ended() {
            return Ok(false);
        }
        let collected = std::mem::replace(collected, PartialResponse::new(origin.clone()));
        let has_malformed_calls = collected.has_malformed_calls();
        let response = collected.into_response();
        let is_refusal = response.stop_reason == StopReason::Refusal;
        let is_dropped = |event: &StreamEvent| match event {
            // This event lets an agent run the call. The calls of a refusal are in the message, and must not run.
            StreamEvent::ToolUse { .. } => has_malformed_calls || is_refusal,
            event => has_malformed_calls && is_of_call(event),
        };
        out.extend(held.drain(..).filter(|event| !is_dropped(event)));
        complete(response, out);
        Ok(true)
    }
}

fn is_of_call(event: &StreamEvent) -> bool {
    matches!(
        event,
        StreamEvent::ToolUseStart { .. }
            | StreamEvent::ToolUseInputDelta { .. }
            | StreamEvent::ToolUseEnd { .. }
            | StreamEvent::ToolUse { .. }
    )
}

/// Returns the events of a part. A call is never split into several parts, so all of its events come at once.
fn events(block: ContentBlock) -> Vec<StreamEvent> {
    let block = match block {
        ContentBlock::Raw { portable: Some(block), .. } => *block,
        block => block,
    };
    match block {
        ContentBlock::Text(text) => vec![StreamEvent::TextDelta(text)],
        ContentBlock::Thinking { thinking, .. } => vec![StreamEvent::ThinkingDelta(thinking)],
        ContentBlock::ToolUse { id, name, input } => {
            // The delta of invalid arguments is the text that the model wrote.
            let invalid = ToolCall::invalid_json(&input).map(str::to_owned);
            let is_valid = invalid.is_none();
            let delta = invalid.unwrap_or_else(|| input.to_string());
            let mut events = vec![
                StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() },
                StreamEvent::ToolUseInputDelta { id: id.clone(), delta },
                StreamEvent::ToolUseEnd { id: id.clone() },
            ];
            // The event `ToolUse` lets an agent run the call, and invalid arguments must not run.
            if is_valid {
                events.push(StreamEvent::ToolUse { id, name, input });
            }
            events
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
