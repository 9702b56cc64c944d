//! The API's lines as our events: bytes in, [`StreamEvent`]s out.
//! <https://docs.ollama.com/api/streaming>

use std::collections::VecDeque;

use neuron_http::{Answer, LineDecoder, Secret, complete};
use neuron_types::{ContentBlock, ProviderError, StreamEvent, ToolCall};

use crate::error;
use crate::response::{Collected, WireLine};

/// An answer as far as it has come.
#[derive(Default)]
pub(crate) struct ChatAnswer {
    collected: Collected,
}

impl Answer for ChatAnswer {
    type Framing = LineDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        let mut line: WireLine = serde_json::from_slice(data).map_err(|error| {
            let shown = secret.excerpt(data);
            ProviderError::StreamError(format!("a line is not as expected ({error}): {shown}"))
        })?;
        if let Some(error) = &line.error {
            return Err(error::from_line(error));
        }
        if let Some(message) = line.message.take() {
            if let Some(thinking) = message.thinking.as_ref().filter(|text| !text.is_empty()) {
                out.push_back(StreamEvent::ThinkingDelta(thinking.clone()));
            }
            if let Some(text) = message.content.as_ref().filter(|text| !text.is_empty()) {
                out.push_back(StreamEvent::TextDelta(text.clone()));
            }
            for call in self.collected.take(message) {
                announce(call, out);
            }
        }
        if line.done != Some(true) {
            return Ok(false);
        }
        complete(std::mem::take(&mut self.collected).into_response(line), out);
        Ok(true)
    }
}

/// The API sends calls whole: all their events come at once.
fn announce(call: &ContentBlock, out: &mut VecDeque<StreamEvent>) {
    let Some(call) = call.as_tool_use() else {
        return;
    };
    let (id, name) = (call.id.to_owned(), call.name.to_owned());
    let delta = match ToolCall::invalid_json(call.input) {
        Some(text) => text.to_owned(),
        None => call.input.to_string(),
    };
    out.push_back(StreamEvent::ToolUseStart { id: id.clone(), name: name.clone() });
    out.push_back(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
    out.push_back(StreamEvent::ToolUseEnd { id: id.clone() });
    if ToolCall::invalid_json(call.input).is_none() {
        out.push_back(StreamEvent::ToolUse { id, name, input: call.input.clone() });
    }
}

#[cfg(test)]
mod tests;
