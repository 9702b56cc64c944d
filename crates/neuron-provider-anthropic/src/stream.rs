//! The API's events as ours: bytes in, [`StreamEvent`]s out.
//! <https://platform.claude.com/docs/en/build-with-claude/streaming>

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use neuron_http::{Answer, Secret, SseDecoder, complete};
use neuron_types::{
    CompletionResponse, ContentBlock, Message, ProviderError, Role, StreamEvent, TokenUsage,
    ToolCall,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{self, ApiError};
use crate::response::{self, WireMessage, WireUsage};

/// Any of the API's events: each has some of these fields. Borrowed from the event's text where
/// that has no escapes.
#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: usize,
    #[serde(borrow, default)]
    delta: Option<WireDelta<'a>>,
    #[serde(default)]
    content_block: Option<Map<String, Value>>,
    #[serde(default)]
    message: Option<WireMessage>,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<ApiError>,
    #[serde(borrow, default)]
    request_id: Option<Cow<'a, str>>,
}

/// Any of the API's deltas: each has one of these fields, more or less.
#[derive(Deserialize)]
struct WireDelta<'a> {
    /// Empty in a `message_delta`, and where compatible servers leave it out.
    #[serde(borrow, default, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    signature: Option<Cow<'a, str>>,
    #[serde(default)]
    citation: Option<Value>,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    encrypted_content: Option<Value>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
}

impl WireDelta<'_> {
    fn is_read(&self) -> bool {
        self.kind.is_empty() || DELTAS.contains(&&*self.kind)
    }
}

/// The events and the deltas that are read; others are passed over.
const EVENTS: [&str; 7] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
];
const DELTAS: [&str; 6] = [
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "signature_delta",
    "citations_delta",
    "compaction_delta",
];

/// Whether this is JSON, but an event or a delta that is not read.
fn is_unknown(data: &[u8]) -> bool {
    let Ok(event) = serde_json::from_slice::<Value>(data) else {
        return false;
    };
    let is_other = |kind: Option<&Value>, known: &[&str]| {
        let kind = kind.and_then(Value::as_str);
        kind.is_some_and(|kind| !known.contains(&kind))
    };
    let kind = event.get("type");
    is_other(kind, &EVENTS)
        || kind.is_some_and(|kind| kind == "content_block_delta")
            && is_other(event.pointer("/delta/type"), &DELTAS)
}

/// An answer as far as it has come.
#[derive(Default)]
pub(crate) struct MessageAnswer {
    begun: bool,
    id: String,
    model: String,
    usage: WireUsage,
    stop_reason: Option<String>,
    open: BTreeMap<usize, OpenBlock>,
    /// Blocks with their indices, in the order in which they ended. Compatible servers use an index
    /// more than once.
    done: Vec<(usize, ContentBlock)>,
}

impl Answer for MessageAnswer {
    type Framing = SseDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        out: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        // Proxies send such events to keep a connection open.
        if data.trim_ascii().is_empty() {
            return Ok(false);
        }
        let event: WireEvent<'_> = match serde_json::from_slice(data) {
            Ok(event) => event,
            // What the API adds may give our fields other types.
            Err(_) if is_unknown(data) => return Ok(false),
            Err(error) => {
                let shown = secret.excerpt(data);
                let text = format!("an event is not as expected ({error}): {shown}");
                return Err(ProviderError::StreamError(text));
            }
        };
        match &*event.kind {
            "message_start" => {
                self.begun = true;
                if let Some(message) = event.message {
                    (self.id, self.model) = (message.id, message.model);
                    self.usage = message.usage.unwrap_or_default();
                }
            }
            "content_block_start" => {
                if let Some(fields) = event.content_block {
                    self.close(event.index, out);
                    self.open.insert(event.index, OpenBlock::start(fields, out));
                }
            }
            "content_block_delta" => {
                let delta = event.delta.filter(WireDelta::is_read);
                if let Some(delta) = delta {
                    let Some(block) = self.open.get_mut(&event.index) else {
                        return Err(ProviderError::StreamError(format!(
                            "the stream continues block {}, which is not open",
                            event.index
                        )));
                    };
                    block.extend(delta, out);
                }
            }
            "content_block_stop" => {
                self.close(event.index, out);
            }
            "message_delta" => {
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop_reason = Some(reason.into_owned());
                }
                if let Some(usage) = event.usage {
                    self.usage.update(usage);
                }
            }
            "message_stop" if !self.begun => {
                let text = "the stream ends an answer that it did not begin";
                return Err(ProviderError::StreamError(text.into()));
            }
            "message_stop" => {
                self.finish(out);
                return Ok(true);
            }
            "error" => {
                let Some(error) = event.error else {
                    return Err(ProviderError::StreamError("the server reports an error".into()));
                };
                return Err(error::from_event(&error, event.request_id.as_deref()));
            }
            // `ping`, and whatever the API adds.
            _ => {}
        }
        Ok(false)
    }
}

impl MessageAnswer {
    /// Ends a block, if it is open.
    fn close(&mut self, index: usize, out: &mut VecDeque<StreamEvent>) {
        if let Some(block) = self.open.remove(&index) {
            self.done.push((index, block.stop(out)));
        }
    }

    fn finish(&mut self, out: &mut VecDeque<StreamEvent>) {
        for (index, block) in std::mem::take(&mut self.open) {
            self.done.push((index, block.stop(out)));
        }
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|(index, _)| *index);
        let content = done.into_iter().map(|(_, block)| block).collect();
        let message = Message { role: Role::Assistant, content };
        let usage = TokenUsage::from(std::mem::take(&mut self.usage));
        let response = CompletionResponse {
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            stop_reason: response::stop_reason(self.stop_reason.as_deref(), &message),
            message,
            usage,
        };
        complete(response, out);
    }
}

/// A block whose end has not come.
struct OpenBlock {
    /// The block as it began; what the deltas add is put in at the end.
    fields: Map<String, Value>,
    /// The id, if this is a call of a tool that we run.
    call_id: Option<String>,
    text: String,
    thinking: String,
    arguments: String,
    signature: Option<String>,
    citations: Vec<Value>,
}

impl OpenBlock {
    fn start(fields: Map<String, Value>, out: &mut VecDeque<StreamEvent>) -> Self {
        let field = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let call_id = (field("type") == "tool_use").then(|| field("id").to_owned());
        if let Some(id) = &call_id {
            let (id, name) = (id.clone(), field("name").to_owned());
            out.push_back(StreamEvent::ToolUseStart { id, name });
        }
        let (text, thinking) = (field("text").to_owned(), field("thinking").to_owned());
        if !text.is_empty() {
            out.push_back(StreamEvent::TextDelta(text.clone()));
        }
        if !thinking.is_empty() {
            out.push_back(StreamEvent::ThinkingDelta(thinking.clone()));
        }
        Self {
            fields,
            call_id,
            text,
            thinking,
            arguments: String::new(),
            signature: None,
            citations: Vec::new(),
        }
    }

    fn extend(&mut self, delta: WireDelta<'_>, out: &mut VecDeque<StreamEvent>) {
        if let Some(text) = delta.text {
            self.text.push_str(&text);
            out.push_back(StreamEvent::TextDelta(text.into_owned()));
        }
        if let Some(thinking) = delta.thinking {
            self.thinking.push_str(&thinking);
            out.push_back(StreamEvent::ThinkingDelta(thinking.into_owned()));
        }
        if let Some(piece) = delta.partial_json {
            self.arguments.push_str(&piece);
            if let (Some(id), false) = (&self.call_id, piece.is_empty()) {
                let (id, delta) = (id.clone(), piece.into_owned());
                out.push_back(StreamEvent::ToolUseInputDelta { id, delta });
            }
        }
        if let Some(signature) = delta.signature {
            // The whole signature each time.
            let signature = signature.into_owned();
            out.push_back(StreamEvent::SignatureDelta(signature.clone()));
            self.signature = Some(signature);
        }
        self.citations.extend(delta.citation);
        // A compaction's summary, whole each time.
        for (key, value) in
            [("content", delta.content), ("encrypted_content", delta.encrypted_content)]
        {
            if let Some(value) = value {
                self.fields.insert(key.to_owned(), value);
            }
        }
    }

    fn stop(mut self, out: &mut VecDeque<StreamEvent>) -> ContentBlock {
        let is_kind = |kind: &str| self.fields.get("type").is_some_and(|field| field == kind);
        let (is_text, is_thinking) = (is_kind("text"), is_kind("thinking"));
        let mut set = |key: &str, value: Value| self.fields.insert(key.to_owned(), value);
        if is_text || !self.text.is_empty() {
            set("text", Value::String(self.text));
        }
        if is_thinking || !self.thinking.is_empty() {
            set("thinking", Value::String(self.thinking));
        }
        if let Some(signature) = self.signature {
            set("signature", Value::String(signature));
        }
        if !self.arguments.is_empty() {
            set("input", ToolCall::parse_input(&self.arguments));
        }
        if !self.citations.is_empty() {
            match self.fields.get_mut("citations") {
                Some(Value::Array(citations)) => citations.append(&mut self.citations),
                _ => {
                    self.fields.insert("citations".to_owned(), Value::Array(self.citations));
                }
            }
        }
        let block = response::block(Value::Object(self.fields));
        if let Some(id) = self.call_id {
            out.push_back(StreamEvent::ToolUseEnd { id });
            if let Some(call) = block.as_tool_use()
                && ToolCall::invalid_json(call.input).is_none()
            {
                out.push_back(StreamEvent::ToolUse {
                    id: call.id.to_owned(),
                    name: call.name.to_owned(),
                    input: call.input.clone(),
                });
            }
        }
        block
    }
}

#[cfg(test)]
mod tests;
