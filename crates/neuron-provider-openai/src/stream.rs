//! Decoding of streams of Chat Completions into [`StreamEvent`]s.
//!
//! <https://platform.openai.com/docs/api-reference/chat-streaming>

use std::collections::VecDeque;

use neuron_http::{Decoder, Secret, complete, read_frame, read_with_arguments};
use neuron_model::{CompletionResponse, ProviderError, StreamEvent};
use serde_json::Value;

use crate::call;
use crate::dialect::Vendor;
use crate::error::{self, ApiError};
use crate::message_fields::{append_fragment, message_texts};
use crate::metadata::{WireMetadata, add_logprobs};
use crate::response::{self, Parts};
use crate::usage::WireUsage;

use calls::OpenCalls;
use chunk::{DeltaChoice, DeltaChunk, DeltaField, WireChoice, WireChunk, WireDelta};
use framing::ChatFraming;

mod calls;
mod chunk;
mod framing;

/// A decoder of one streamed response. Collects the response while it emits events.
#[derive(Debug, Default)]
pub(crate) struct ChatDecoder {
    id: String,
    model: String,
    created: Option<usize>,
    parts: Parts,
    calls: OpenCalls,
    finish_reason: Option<String>,
    usage: WireUsage,
    wire_metadata: WireMetadata,
    logprobs: Value,
    /// Set after the first chunk with a choice.
    is_begun: bool,
    /// Set if the request asked for token counts.
    expects_usage: bool,
    vendor: Vendor,
}

impl Decoder for ChatDecoder {
    type Framing = ChatFraming;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        match data.trim_ascii() {
            // Proxies send empty events to keep the connection open.
            b"" => return Ok(false),
            b"[DONE]" if self.is_begun => {
                self.finish(events);
                return Ok(true);
            }
            b"[DONE]" => {
                let text = "the stream ended before the answer began";
                return Err(ProviderError::StreamError(text.into()));
            }
            _ => {}
        }
        // The first chunk is decoded in full, because it contains the id and the model.
        if self.is_begun
            && let Ok(DeltaChunk { choices: [DeltaChoice { index: 0, delta, .. }], .. }) =
                read_frame(data)
        {
            match delta {
                DeltaField::Text(text) => self.extend_text(text, events),
                DeltaField::Thinking(thinking) => self.extend_thinking(thinking, events),
            }
            return Ok(false);
        }
        let chunk: WireChunk = read_with_arguments(data).map_err(|error| {
            let shown = secret.excerpt(data);
            let text = format!("a chunk is not as expected ({error}): {shown}");
            ProviderError::StreamError(text)
        })?;
        if let Some(error) = ApiError::read(chunk.error) {
            return Err(error::from_event(&error));
        }
        // A chunk with token counts and without choices is not an error, even if it has unknown fields.
        let is_counted = chunk.usage.is_some();
        self.wire_metadata.update(chunk.wire_metadata);
        self.count(chunk.x_groq.usage);
        self.count(chunk.usage);
        let Some(choices) = chunk.choices else {
            // Some servers send errors without an `error` field.
            let error = ApiError::find_in(data).filter(|_| !is_counted);
            return error.map_or(Ok(false), |error| Err(error::from_event(&error)));
        };
        if self.id.is_empty() {
            self.id = chunk.id;
        }
        if self.model.is_empty() {
            self.model = chunk.model;
        }
        // Some servers send another time with each chunk. Only the first time is kept, because generated ids depend on
        // it.
        self.created = self.created.filter(|created| *created > 0).or(chunk.created);
        if let Some(mut choice) = choices.0 {
            if let Some(error) = choice.error.take().and_then(ApiError::read) {
                return Err(error::from_event(&error));
            }
            self.count(choice.usage.take());
            add_logprobs(&mut self.logprobs, choice.logprobs.take());
            self.extend_by(choice, events);
        }
        Ok(false)
    }

    /// Finishes a stream that ended without `[DONE]`, which some compatible servers omit.
    ///
    /// # Errors
    ///
    /// [`ProviderError::StreamError`] if the stream was truncated. This is the case if the finish reason is missing, or
    /// if requested token counts are missing. A clean end of the connection does not prove that the stream is complete,
    /// because proxies close broken streams cleanly.
    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.finish_reason.is_none() {
            let text = "the stream ended before the answer was complete";
            return Err(ProviderError::StreamError(text.into()));
        }
        if self.expects_usage && !self.usage.counts_anything() {
            let text = "the stream ended before the usage, and without [DONE]";
            return Err(ProviderError::StreamError(text.into()));
        }
        self.finish(events);
        Ok(())
    }
}

impl ChatDecoder {
    pub(crate) fn new(expects_usage: bool, vendor: Vendor) -> Self {
        Self { expects_usage, vendor, ..Self::default() }
    }

    /// Stores the token counts of a chunk. Counts are cumulative, so later counts replace earlier counts. Zeros are
    /// ignored, because some servers send them in chunks without counts.
    fn count(&mut self, usage: Option<WireUsage>) {
        if let Some(usage) = usage.filter(WireUsage::counts_anything) {
            self.usage = usage;
        }
    }

    /// Adds the choice of a chunk to the response, and emits the events for it.
    fn extend_by(&mut self, choice: WireChoice, events: &mut VecDeque<StreamEvent>) {
        // Some proxies stream a complete response as one message, without deltas. Perplexity sends a delta and, beside
        // it, the whole message received so far. A message is therefore used only if nothing else has arrived.
        let is_new = choice.delta.is_blank() && self.parts.is_empty() && self.calls.is_empty();
        let delta = choice.message.filter(|_| is_new).unwrap_or(choice.delta);
        self.is_begun = true;
        self.extend(delta, events);
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason);
        }
    }

    /// Adds a delta to the response, and emits the events for it.
    fn extend(&mut self, delta: WireDelta, events: &mut VecDeque<StreamEvent>) {
        self.extend_thinking(delta.thinking, events);
        self.extend_text(delta.text, events);
        if !delta.more.is_empty() {
            self.extend_more(delta.more, events);
        }
        let seed = call::seed(&self.id, self.created);
        for (position, call) in delta.tool_calls.into_iter().enumerate() {
            self.calls.extend(call.index, call.into(), position > 0, &seed, events);
        }
    }

    fn extend_text(&mut self, text: String, events: &mut VecDeque<StreamEvent>) {
        if !text.is_empty() {
            self.parts.text.push_str(&text);
            events.push_back(StreamEvent::TextDelta(text));
        }
    }

    fn extend_thinking(&mut self, thinking: String, events: &mut VecDeque<StreamEvent>) {
        if !thinking.is_empty() {
            self.parts.thinking.push_str(&thinking);
            events.push_back(StreamEvent::ThinkingDelta(thinking));
        }
    }

    /// Adds unknown fields of a delta. A refusal and the transcript of speech in these fields are emitted as text
    /// deltas.
    fn extend_more(&mut self, more: Vec<(String, Value)>, events: &mut VecDeque<StreamEvent>) {
        // Only the text after these lengths belongs to this delta.
        let lengths = message_texts(&self.parts.more).map(str::len);
        for (key, piece) in more {
            append_fragment(&mut self.parts.more, key, piece);
        }
        for (message_texts, length) in message_texts(&self.parts.more).into_iter().zip(lengths) {
            if let Some(piece) = message_texts.get(length..).filter(|piece| !piece.is_empty()) {
                events.push_back(StreamEvent::TextDelta(piece.to_owned()));
            }
        }
    }

    /// Ends all open calls and emits the complete response.
    fn finish(&mut self, events: &mut VecDeque<StreamEvent>) {
        let mut parts = std::mem::take(&mut self.parts);
        let seed = call::seed(&self.id, self.created).into_owned();
        if let Some(old) = response::take_function_call(&mut parts.more) {
            self.calls.extend(None, old, true, &seed, events);
        }
        std::mem::take(&mut self.calls).finish(&mut parts, events);
        let message = parts.into_message();
        let wire = std::mem::take(&mut self.wire_metadata);
        let metadata = wire.into_metadata(&self.usage, self.logprobs.take(), &message);
        let mut message = message.with_metadata(&metadata);
        let stop_reason = response::stop_reason(self.finish_reason.as_deref(), &message);
        self.vendor.sign(&mut message);
        complete(
            CompletionResponse {
                id: std::mem::take(&mut self.id),
                model: std::mem::take(&mut self.model),
                stop_reason,
                message,
                usage: self.usage.counts(self.vendor),
            },
            events,
        );
    }
}

#[cfg(test)]
mod tests;
