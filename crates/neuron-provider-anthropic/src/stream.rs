//! Decoding of streams into [`StreamEvent`]s.
//!
//! <https://platform.claude.com/docs/en/build-with-claude/streaming>

use std::collections::{BTreeMap, VecDeque};

use neuron_http::{
    Decoder, Secret, SseDecoder, complete, or_default, read_frame, read_with_arguments,
};
use neuron_model::{ContentBlock, ProviderError, StreamEvent, ToolCall};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::error::{self, ApiError};
use crate::fallback;
use crate::ids::ResponseIds;
use crate::response::{self, WireMessage, WireUsage};

/// Type of a [`DeltaEvent`].
const DELTA: &str = "content_block_delta";

/// The most frequent kind of event, a delta of text, of reasoning or of arguments.
///
/// The decoder tries to deserialise each event as a `DeltaEvent` first. This is much faster than [`WireEvent`]
/// (`benches/README.md`), because a `DeltaEvent` has few fields. If this fails, the event is deserialised as a
/// `WireEvent`. Nearly all events of a response are deltas.
#[derive(Deserialize)]
struct DeltaEvent<'a> {
    /// Type of the event. A borrowed text is deserialised faster than an [`EventKind`], but deserialisation fails if
    /// the text contains escapes.
    #[serde(rename = "type")]
    kind: &'a str,
    index: usize,
    #[serde(borrow)]
    delta: TextFragment<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextFragment<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    /// Text of the delta. The API names the field `text`, `thinking` or `partial_json`, depending on the type.
    #[serde(alias = "thinking", alias = "partial_json")]
    text: String,
}

/// The response in the event `message_start`. Its blocks and its stop reason arrive in later events.
type MessageStart = WireMessage<Option<IgnoredAny>, IgnoredAny>;

/// An event of any type. Each type of event has some of these fields. Large fields are boxed, because an event is moved
/// several times while it is deserialised.
#[derive(Deserialize)]
struct WireEvent {
    #[serde(rename = "type")]
    kind: EventKind,
    #[serde(default)]
    index: usize,
    #[serde(default)]
    delta: Option<Box<WireDelta>>,
    #[serde(default)]
    content_block: Option<Map<String, Value>>,
    #[serde(default)]
    message: Option<Box<MessageStart>>,
    #[serde(default)]
    usage: Option<Box<WireUsage>>,
    #[serde(default)]
    error: Option<Box<ApiError>>,
    #[serde(default)]
    request_id: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    Error,
    /// The event `ping`, or an event that this crate does not know. Such events are ignored.
    #[serde(other)]
    Unknown,
}

/// A delta of any type. Each type of delta has some of these fields.
#[derive(Deserialize)]
struct WireDelta {
    #[serde(default, rename = "type")]
    kind: DeltaKind,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    citation: Option<Value>,
    #[serde(default)]
    content: Option<Value>,
    #[serde(default)]
    encrypted_content: Option<Value>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    stop_sequence: Option<String>,
    #[serde(default)]
    stop_details: Option<Value>,
    #[serde(default)]
    container: Option<Value>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeltaKind {
    TextDelta,
    InputJsonDelta,
    ThinkingDelta,
    SignatureDelta,
    CitationsDelta,
    CompactionDelta,
    /// No type. The delta belongs to a `message_delta` event, or a compatible server omitted the type.
    #[default]
    #[serde(rename = "")]
    None,
    /// A type that this crate does not know. Such deltas are ignored.
    #[serde(other)]
    Unknown,
}

/// Returns `true` if the JSON of an event names its type.
fn has_type(data: &[u8]) -> bool {
    read_frame::<Value>(data).is_ok_and(|event| event.get("type").is_some())
}

/// Returns `true` if `data` is a JSON event whose type, or whose delta's type, this crate does not know.
fn is_unknown(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct OfEvent {
        r#type: EventKind,
    }
    #[derive(Deserialize)]
    struct WithDelta {
        delta: OfDelta,
    }
    #[derive(Deserialize)]
    struct OfDelta {
        r#type: DeltaKind,
    }
    let has_unknown_delta = || {
        let event = read_frame::<WithDelta>(data);
        event.is_ok_and(|event| event.delta.r#type == DeltaKind::Unknown)
    };
    match read_frame(data) {
        Ok(OfEvent { r#type: EventKind::Unknown }) => true,
        Ok(OfEvent { r#type: EventKind::ContentBlockDelta }) => has_unknown_delta(),
        _ => false,
    }
}

/// A decoder of one streamed response. Collects the response while it emits events.
#[derive(Default)]
pub(crate) struct MessageDecoder {
    /// Set to `true` when the event `message_start` has arrived.
    begun: bool,
    head: MessageStart,
    ids: ResponseIds,
    stop_reason: Option<String>,
    /// Blocks that have not ended, by index. Boxed, because the map allocates room for eleven values at once.
    open: BTreeMap<usize, Box<OpenBlock>>,
    /// Complete blocks with their indices, in the order in which they ended. Compatible servers reuse indices, so an
    /// index may occur more than once.
    done: Vec<(usize, ContentBlock)>,
}

impl Decoder for MessageDecoder {
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
        if let Ok(DeltaEvent { kind: DELTA, index, delta }) = read_frame(data)
            // A delta of another type, or of a block that is not open, is decoded in full.
            && let Some(block) = self.open.get_mut(&index)
            && block.extend_by(delta, out)
        {
            return Ok(false);
        }
        let event: WireEvent = match read_with_arguments(data) {
            Ok(event) => event,
            // An event of an unknown type may use the names of known fields for values of other types.
            Err(_) if is_unknown(data) => return Ok(false),
            Err(error) => {
                // Proxies send errors in OpenAI's form, without a type of the event.
                if let Some(error) = ApiError::find_in(data).filter(|_| !has_type(data)) {
                    return Err(error::from_event(&error, error.request_id()));
                }
                let shown = secret.excerpt(data);
                let text = format!("an event is not as expected ({error}): {shown}");
                return Err(ProviderError::StreamError(text));
            }
        };
        match event.kind {
            EventKind::MessageStart => {
                self.begun = true;
                if let Some(head) = event.message {
                    self.head = *head;
                }
            }
            EventKind::ContentBlockStart => {
                if let Some(mut fields) = event.content_block {
                    // Some servers begin a new block with the index of a block that has not ended.
                    self.close(event.index, out);
                    self.ids.complete(&mut fields, self.head.id.as_deref().unwrap_or_default());
                    // After a fallback, `message_start` has named the model that declined.
                    if let Some(model) = fallback::next_model(&fields) {
                        self.head.model = Some(model.to_owned());
                    }
                    self.open.insert(event.index, Box::new(OpenBlock::start(fields, out)));
                }
            }
            EventKind::ContentBlockDelta => {
                if let Some(delta) = event.delta
                    && delta.kind != DeltaKind::Unknown
                {
                    let Some(block) = self.open.get_mut(&event.index) else {
                        return Err(ProviderError::StreamError(format!(
                            "the stream continues block {}, which is not open",
                            event.index
                        )));
                    };
                    block.extend(*delta, out);
                }
            }
            EventKind::ContentBlockStop => {
                self.close(event.index, out);
            }
            EventKind::MessageDelta => {
                if let Some(delta) = event.delta {
                    // A later `message_delta` without a value keeps the earlier value.
                    self.stop_reason = delta.stop_reason.or(self.stop_reason.take());
                    let head = &mut self.head;
                    head.stop_sequence = delta.stop_sequence.or(head.stop_sequence.take());
                    head.stop_details = delta.stop_details.or(head.stop_details.take());
                    head.container = delta.container.or(head.container.take());
                }
                if let Some(usage) = event.usage {
                    self.head.usage.get_or_insert_default().update(*usage);
                }
            }
            EventKind::MessageStop => {
                self.finish(out)?;
                return Ok(true);
            }
            EventKind::Error => {
                let Some(error) = event.error else {
                    let shown = secret.excerpt(data);
                    let text = format!("the server reports an error: {shown}");
                    return Err(ProviderError::StreamError(text));
                };
                return Err(error::from_event(&error, event.request_id.as_deref()));
            }
            EventKind::Unknown => {}
        }
        Ok(false)
    }

    /// Completes the response at the end of a stream without `message_stop`, if the stop reason has arrived. Returns an
    /// error otherwise.
    ///
    /// Some servers and proxies send `message_stop` without the blank line that ends an event. The event has no
    /// content, so nothing is lost.
    fn end(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.stop_reason.is_none() {
            let text = "the stream ended before the answer was complete";
            return Err(ProviderError::StreamError(text.into()));
        }
        self.finish(out)
    }
}

impl MessageDecoder {
    /// Ends the open block with this index. Does nothing if there is none.
    fn close(&mut self, index: usize, out: &mut VecDeque<StreamEvent>) {
        if let Some(block) = self.open.remove(&index) {
            self.done.push((index, block.stop(out)));
        }
    }

    /// Ends all open blocks and emits the complete response. Returns an error if `message_start` is missing.
    fn finish(&mut self, out: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if !self.begun {
            let text = "the stream ended a message without a `message_start` event";
            return Err(ProviderError::StreamError(text.into()));
        }
        // Some servers end the stream without `content_block_stop` events.
        for (index, block) in std::mem::take(&mut self.open) {
            self.done.push((index, block.stop(out)));
        }
        let mut done = std::mem::take(&mut self.done);
        // Blocks may end in another order than they began. The sort is stable, so blocks with the same index stay in
        // order.
        done.sort_by_key(|(index, _)| *index);
        let content = done.into_iter().map(|(_, block)| block).collect();
        let mut head = std::mem::take(&mut self.head);
        // `usage.iterations` also names the model that generated the response.
        let served = head.usage.as_ref().and_then(WireUsage::fallback_model);
        if let Some(model) = served.map(str::to_owned) {
            head.model = Some(model);
        }
        complete(head.into_response(content, self.stop_reason.take()), out);
        Ok(())
    }
}

/// A block whose deltas are still arriving.
struct OpenBlock {
    /// The JSON of the block in its first event. The deltas are merged into these fields when the block ends.
    fields: Map<String, Value>,
    /// Id of the tool call. Set if the block is a call of the request's tools.
    call_id: Option<String>,
    /// Set if the block is a text block. The text of any other type of block is not emitted.
    is_text: bool,
    /// Set if the block is a thinking block.
    is_thinking: bool,
    text: String,
    thinking: String,
    arguments: String,
    signature: Option<String>,
    citations: Vec<Value>,
}

impl OpenBlock {
    /// Begins a block with the fields of its first event, and emits the events for it.
    fn start(fields: Map<String, Value>, out: &mut VecDeque<StreamEvent>) -> Self {
        let field = |key: &str| fields.get(key).and_then(Value::as_str).unwrap_or_default();
        let call_id = (field("type") == "tool_use").then(|| field("id").to_owned());
        if let Some(id) = &call_id {
            let (id, name) = (id.clone(), field("name").to_owned());
            out.push_back(StreamEvent::ToolUseStart { id, name });
        }
        let (is_text, is_thinking) = (field("type") == "text", field("type") == "thinking");
        let (text, thinking) = (field("text").to_owned(), field("thinking").to_owned());
        // Some compatible servers send the beginning of the text in the first event.
        if is_text && !text.is_empty() {
            out.push_back(StreamEvent::TextDelta(text.clone()));
        }
        if is_thinking && !thinking.is_empty() {
            out.push_back(StreamEvent::ThinkingDelta(thinking.clone()));
        }
        Self {
            fields,
            call_id,
            is_text,
            is_thinking,
            text,
            thinking,
            arguments: String::new(),
            signature: None,
            citations: Vec::new(),
        }
    }

    /// Adds a delta to the block, and emits the events for it.
    fn extend(&mut self, delta: WireDelta, out: &mut VecDeque<StreamEvent>) {
        if let Some(text) = delta.text {
            self.extend_text(text, out);
        }
        if let Some(thinking) = delta.thinking {
            self.extend_thinking(thinking, out);
        }
        if let Some(piece) = delta.partial_json {
            self.extend_arguments(piece, out);
        }
        if let Some(signature) = delta.signature {
            // Each delta contains the whole signature, so the latest signature is used.
            out.push_back(StreamEvent::SignatureDelta(signature.clone()));
            self.signature = Some(signature);
        }
        self.citations.extend(delta.citation);
        // Each delta of a compaction contains the whole summary, so the latest summary is used.
        for (key, value) in
            [("content", delta.content), ("encrypted_content", delta.encrypted_content)]
        {
            if let Some(value) = value {
                self.fields.insert(key.to_owned(), value);
            }
        }
    }

    /// Adds a delta of text, reasoning or arguments. Returns `false`, without a change, for a delta of another type.
    fn extend_by(&mut self, delta: TextFragment<'_>, out: &mut VecDeque<StreamEvent>) -> bool {
        match delta.kind {
            "text_delta" => self.extend_text(delta.text, out),
            "thinking_delta" => self.extend_thinking(delta.text, out),
            "input_json_delta" => self.extend_arguments(delta.text, out),
            _ => return false,
        }
        true
    }

    fn extend_text(&mut self, text: String, out: &mut VecDeque<StreamEvent>) {
        self.text.push_str(&text);
        if self.is_text {
            out.push_back(StreamEvent::TextDelta(text));
        }
    }

    fn extend_thinking(&mut self, thinking: String, out: &mut VecDeque<StreamEvent>) {
        self.thinking.push_str(&thinking);
        if self.is_thinking {
            out.push_back(StreamEvent::ThinkingDelta(thinking));
        }
    }

    fn extend_arguments(&mut self, piece: String, out: &mut VecDeque<StreamEvent>) {
        self.arguments.push_str(&piece);
        if let (Some(id), false) = (&self.call_id, piece.is_empty()) {
            let id = id.clone();
            out.push_back(StreamEvent::ToolUseInputDelta { id, delta: piece });
        }
    }

    /// Ends the block, merges its deltas and returns its content block.
    fn stop(mut self, out: &mut VecDeque<StreamEvent>) -> ContentBlock {
        // If no arguments arrived in deltas, the first event may contain them.
        if let (Some(id), true) = (&self.call_id, self.arguments.trim().is_empty())
            && let Some(delta) = input_at_start(&self.fields)
        {
            out.push_back(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
        }
        let mut set = |key: &str, value: Value| self.fields.insert(key.to_owned(), value);
        if self.is_text || !self.text.is_empty() {
            set("text", Value::String(self.text));
        }
        if self.is_thinking || !self.thinking.is_empty() {
            set("thinking", Value::String(self.thinking));
        }
        if let Some(signature) = self.signature {
            set("signature", Value::String(signature));
        }
        if !self.arguments.trim().is_empty() {
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
            out.extend(block.as_tool_use().and_then(StreamEvent::tool_use));
        }
        block
    }
}

/// Returns the arguments in the first event of a call as a text, or `None` if there are none. Compatible servers may
/// send all arguments in the first event. Anthropic sends `{}` there, and the arguments in deltas.
fn input_at_start(call: &Map<String, Value>) -> Option<String> {
    match call.get("input")? {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Object(fields) if fields.is_empty() => None,
        input => Some(input.to_string()),
    }
}

#[cfg(test)]
mod tests;
