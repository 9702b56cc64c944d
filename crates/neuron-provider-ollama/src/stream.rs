//! Decoding of streams into [`StreamEvent`]s.
//!
//! <https://docs.ollama.com/api/streaming>

use std::collections::VecDeque;

use neuron_http::{Decoder, LineDecoder, Secret, complete, read_frame, read_with_arguments};
use neuron_model::{ProviderError, StreamEvent};

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error;
use crate::response::{PartialResponse, WireLine};

/// A decoder of one streamed response. Collects the response while it emits events.
#[derive(Default)]
pub(crate) struct ChatDecoder {
    collected: PartialResponse,
    /// Set after the first line with a message.
    has_message: bool,
}

impl Decoder for ChatDecoder {
    type Framing = LineDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        // The last line (`done: true`) is decoded in full, because it contains the token counts.
        if let Ok(DeltaLine { message, done: false, .. }) = read_frame(data) {
            self.has_message = true;
            self.extend(message.thinking, message.content, out);
            return Ok(false);
        }
        let mut line: WireLine = read_with_arguments(data).map_err(|error| {
            let shown = secret.excerpt(data);
            ProviderError::StreamError(format!("a line is not as expected ({error}): {shown}"))
        })?;
        if let Some(error) = &line.error {
            return Err(error::from_line(error));
        }
        if let Some(mut message) = line.message.take() {
            self.has_message = true;
            let (thinking, text) = (message.thinking.take(), message.content.take());
            self.extend(thinking.unwrap_or_default(), text.unwrap_or_default(), out);
            // The API never splits a call into fragments.
            for call in self.collected.take(message) {
                out.extend(call.as_tool_use().into_iter().flat_map(StreamEvent::whole_call));
            }
        }
        if line.done != Some(true) {
            // `into_response` adds the log probabilities of the last line.
            self.collected.add_logprobs(&line);
            return Ok(false);
        }
        // A stream of another API has no `message`. Without this check it would be an empty response.
        if !self.has_message && !line.is_end() {
            return Err(ProviderError::StreamError("the stream ended without a message".into()));
        }
        complete(std::mem::take(&mut self.collected).into_response(line), out);
        Ok(true)
    }
}

impl ChatDecoder {
    /// Adds a delta of reasoning and a delta of text to the response, and emits them. Either may be empty.
    fn extend(&mut self, thinking: String, text: String, out: &mut VecDeque<StreamEvent>) {
        if !thinking.is_empty() {
            self.collected.thinking.push_str(&thinking);
            out.push_back(StreamEvent::ThinkingDelta(thinking));
        }
        if !text.is_empty() {
            self.collected.text.push_str(&text);
            out.push_back(StreamEvent::TextDelta(text));
        }
    }
}

/// The most frequent kind of line in a stream, with a delta of text or of reasoning.
///
/// The decoder tries to deserialise each line as a `DeltaLine` first. This is much faster than [`WireLine`]
/// (`benches/README.md`), because a `DeltaLine` has few fields. If this fails, the line is deserialised as a
/// `WireLine`.
#[derive(Deserialize)]
struct DeltaLine {
    message: DeltaMessage,
    #[serde(default)]
    done: bool,
    /// Makes deserialisation fail if the line has an error, because `()` accepts only a missing field or `null`. The
    /// line is then deserialised as a [`WireLine`].
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaMessage {
    #[serde(default, rename = "role")]
    _role: IgnoredAny,
    #[serde(default)]
    content: String,
    #[serde(default)]
    thinking: String,
}

#[cfg(test)]
mod tests;
