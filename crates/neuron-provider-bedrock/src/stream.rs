//! Decoding of streams into [`StreamEvent`]s.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html>
//!
//! The token counts are in the event `metadata`, which follows the end of the message. The API does not promise the
//! order of these two events.

use std::collections::{BTreeMap, VecDeque};

use neuron_http::{Decoder, Framing, Secret, complete, read_frame};
use neuron_model::{CompletionResponse, ContentBlock, ProviderError, StreamEvent};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::content::{Origin, Reader};
use crate::error;
use crate::event_stream::{EventStreamFraming, Frame};
use crate::open_block::{Delta, OpenBlock};
use crate::response::ResponseEnd;

/// A decoder of one streamed response. Collects the response while it emits events.
pub(crate) struct ConverseDecoder {
    reader: Reader,
    /// Blocks that have not ended, by index.
    open: BTreeMap<usize, OpenBlock>,
    /// Complete blocks with their indices, in the order in which they ended.
    done: Vec<(usize, ContentBlock)>,
    end: ResponseEnd,
    has_metadata: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartEvent {
    #[serde(default)]
    content_block_index: usize,
    #[serde(default)]
    start: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeltaEvent {
    #[serde(default)]
    content_block_index: usize,
    delta: Delta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StopEvent {
    #[serde(default)]
    content_block_index: usize,
}

impl Decoder for ConverseDecoder {
    type Framing = EventStreamFraming;

    fn take(
        &mut self,
        frame: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        match Frame::parse(frame)? {
            Frame::Event { name, payload } => self.event(name, payload, secret, out),
            Frame::Exception { name, payload } => Err(error::of_exception(name, payload)),
            Frame::Error { code, message } => Err(error::of_frame(code, message)),
        }
    }

    /// Completes the response at the end of a stream without `metadata`, if the message has ended. Returns an error
    /// otherwise.
    fn end(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.end.stop_reason.is_none() {
            let text = "the stream ended before the answer was complete";
            return Err(ProviderError::StreamError(text.into()));
        }
        self.finish(out);
        Ok(())
    }
}

impl ConverseDecoder {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            reader: Reader::new(origin),
            open: BTreeMap::new(),
            done: Vec::new(),
            end: ResponseEnd::default(),
            has_metadata: false,
        }
    }

    /// Decodes an event. Returns `true` after the last event of the response. Unknown events are ignored.
    fn event(
        &mut self,
        name: &str,
        payload: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        match name {
            "contentBlockDelta" => {
                let event: DeltaEvent = parse(name, payload, secret)?;
                self.extend(event.content_block_index, event.delta, out)?;
            }
            "contentBlockStart" => {
                let StartEvent { content_block_index: index, start } =
                    parse(name, payload, secret)?;
                self.close(index, out);
                if let Some(block) = OpenBlock::start(start, &mut self.reader, out) {
                    self.open.insert(index, block);
                }
            }
            "contentBlockStop" => {
                let StopEvent { content_block_index: index } = parse(name, payload, secret)?;
                self.close(index, out);
            }
            "messageStop" | "metadata" => {
                self.end.update(parse(name, payload, secret)?);
                self.has_metadata |= name == "metadata";
            }
            _ => {}
        }
        let has_ended = self.has_metadata && self.end.stop_reason.is_some();
        if has_ended {
            self.finish(out);
        }
        Ok(has_ended)
    }

    /// Adds a delta to a block. Text and reasoning have no start event, so their first delta opens the block.
    fn extend(
        &mut self,
        index: usize,
        delta: Delta,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<(), ProviderError> {
        let Some(delta) = delta.known() else {
            return Ok(());
        };
        if !self.open.get(&index).is_some_and(|block| block.accepts(&delta)) {
            self.close(index, out);
            let Some(block) = OpenBlock::for_delta(&delta) else {
                return Err(ProviderError::StreamError(format!(
                    "the stream continues block {index}, which is not open"
                )));
            };
            self.open.insert(index, block);
        }
        if let Some(block) = self.open.get_mut(&index) {
            block.extend(delta, self.reader.origin.has_signatures(), out);
        }
        Ok(())
    }

    /// Ends the open block with this index. Does nothing if there is none.
    fn close(&mut self, index: usize, out: &mut VecDeque<StreamEvent>) {
        if let Some(block) = self.open.remove(&index) {
            let block = block.stop(&self.reader, out);
            self.done.extend(block.map(|block| (index, block)));
        }
    }

    /// Ends all open blocks and emits the complete response.
    fn finish(&mut self, out: &mut VecDeque<StreamEvent>) {
        while let Some((index, _)) = self.open.first_key_value() {
            self.close(*index, out);
        }
        let mut done = std::mem::take(&mut self.done);
        // Blocks may end in another order than they began. The sort is stable, so blocks with the same index stay in
        // order.
        done.sort_by_key(|(index, _)| *index);
        let content = done.into_iter().map(|(_, block)| block).collect();
        let end = std::mem::take(&mut self.end);
        complete(end.into_response(content, self.reader.origin.clone()), out);
    }
}

/// Parses the JSON of an event.
fn parse<'a, T: Deserialize<'a>>(
    name: &str,
    payload: &'a [u8],
    secret: &Secret,
) -> Result<T, ProviderError> {
    read_frame(payload).map_err(|error| {
        let shown = secret.excerpt(payload);
        let text = format!("the event {name} is not as expected ({error}): {shown}");
        ProviderError::StreamError(text)
    })
}

/// Parses all bytes of a stream. The API key is removed from errors that quote them.
///
/// # Errors
///
/// The error of the stream, or the server's error if the bytes are one. [`ProviderError::StreamError`] if the response
/// is incomplete.
pub(crate) fn read(
    bytes: &[u8],
    secret: &Secret,
    origin: Origin,
) -> Result<CompletionResponse, ProviderError> {
    let mut decoder = ConverseDecoder::new(origin);
    let mut framing = EventStreamFraming::default();
    let mut events = VecDeque::new();
    let mut has_ended = false;
    let mut on_frame = |frame: &[u8]| {
        if !has_ended {
            events.clear();
            has_ended = decoder.take(frame, secret, &mut events)?;
        }
        Ok(())
    };
    let fed = framing.feed(bytes, &mut on_frame).and_then(|()| framing.finish(&mut on_frame));
    // Some proxies send a JSON error with a successful status instead of a stream.
    fed.map_err(|broken| error::find_in(bytes, "the answer").unwrap_or(broken))?;
    if !has_ended {
        decoder.end(&mut events)?;
    }
    match events.pop_back() {
        Some(StreamEvent::ResponseComplete(response)) => Ok(*response),
        _ => Err(ProviderError::StreamError("the stream has no response".into())),
    }
}

#[cfg(test)]
mod tests;
