//! Decoding of streams into [`StreamEvent`]s.
//!
//! <https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent>
//!
//! Each event is a whole response with the next parts. No event ends the stream: a chunk with a `finishReason` may be
//! followed by others. The API sends such a reason after each round of code execution
//! (<https://github.com/0xPlaygrounds/rig/pull/2328>), and some proxies send one in each chunk without a text.

use std::collections::VecDeque;

use neuron_http::{Decoder, Framing, Secret, SseDecoder, complete};
use neuron_model::{CompletionResponse, ContentBlock, ProviderError, StopReason, StreamEvent};

use crate::error;
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
        match data.trim_ascii() {
            // Proxies send empty events to keep the connection open.
            b"" => return Ok(false),
            // Some proxies end each stream as OpenAI does.
            b"[DONE]" => return self.end(out).map(|()| true),
            _ => {}
        }
        let chunk = WireChunk::parse(data, "the stream", |why| {
            let shown = secret.excerpt(data);
            ProviderError::StreamError(format!("a chunk is not as expected ({why}): {shown}"))
        })?;
        let Self { collected, held, .. } = self;
        collected.take(chunk, |block| {
            let mut events = events(block);
            if held.is_empty() && !events.iter().any(is_of_call) {
                out.extend(events);
            } else {
                held.append(&mut events);
            }
        })?;
        Ok(false)
    }

    /// Completes the response at the end of the stream, with the last `finishReason`. Returns an error if there is none.
    fn end(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        let Self { origin, collected, held } = self;
        if !collected.has_ended() {
            let text = "the stream ended before the answer was complete";
            return Err(ProviderError::StreamError(text.into()));
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
        Ok(())
    }
}

/// Parses all bytes of a stream. The API key is removed from errors that quote them.
///
/// # Errors
///
/// The error of the stream. The server's error, or [`ProviderError::Other`], if the bytes are no stream.
/// [`ProviderError::StreamError`] if the response is incomplete.
pub(crate) fn read(
    bytes: &[u8],
    secret: &Secret,
    origin: Origin,
) -> Result<CompletionResponse, ProviderError> {
    let mut decoder = ChunkDecoder::new(origin);
    let mut framing = SseDecoder::default();
    let mut events = VecDeque::new();
    let (mut is_stream, mut has_ended) = (false, false);
    let mut on_frame = |frame: &[u8]| {
        is_stream = true;
        if !has_ended {
            has_ended = decoder.take(frame, secret, &mut events)?;
        }
        Ok(())
    };
    let read = framing.feed(bytes, &mut on_frame).and_then(|()| framing.finish(&mut on_frame));
    if !has_ended {
        read?;
    }
    if is_stream && !has_ended {
        decoder.end(&mut events)?;
    }
    if let Some(StreamEvent::ResponseComplete(response)) = events.pop_back() {
        return Ok(*response);
    }
    // Some proxies send a JSON error with a successful status instead of a stream.
    Err(error::find_in(bytes, "the answer").unwrap_or_else(|| {
        let shown = secret.excerpt(bytes.trim_ascii());
        ProviderError::Other(format!("a stream was asked for, and the server sent: {shown}").into())
    }))
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

/// Returns the events of a block. All events of a call come at once, when its last part has arrived.
fn events(block: ContentBlock) -> Vec<StreamEvent> {
    let block = match block {
        ContentBlock::Raw { portable: Some(block), .. } => *block,
        block => block,
    };
    match block {
        ContentBlock::Text(text) => vec![StreamEvent::TextDelta(text)],
        ContentBlock::Thinking { thinking, .. } => vec![StreamEvent::ThinkingDelta(thinking)],
        block => block.as_tool_use().into_iter().flat_map(StreamEvent::whole_call).collect(),
    }
}

#[cfg(test)]
mod tests;
