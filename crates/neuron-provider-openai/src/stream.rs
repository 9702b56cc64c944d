//! The chunks of Chat Completions as our events: bytes in, [`StreamEvent`]s out.
//! <https://platform.openai.com/docs/api-reference/chat-streaming>

use std::collections::VecDeque;
use std::fmt;

use neuron_http::{Answer, Secret, SseDecoder, complete, read_frame};
use neuron_types::{CompletionResponse, ContentBlock, ProviderError, StreamEvent, ToolCall};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::error::{self, ApiError};
use crate::response::{self, Parts, REASONING, WireUsage};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct ChatAnswer {
    id: String,
    model: String,
    parts: Parts,
    calls: Vec<OpenCall>,
    finish_reason: Option<String>,
    usage: Option<WireUsage>,
}

impl Answer for ChatAnswer {
    type Framing = SseDecoder;

    fn take(
        &mut self,
        data: &[u8],
        secret: &Secret,
        events: &mut VecDeque<StreamEvent>,
    ) -> Result<bool, ProviderError> {
        match data.trim_ascii() {
            // Proxies send such events to keep a connection open.
            b"" => return Ok(false),
            b"[DONE]" => {
                self.finish(events);
                return Ok(true);
            }
            _ => {}
        }
        if !self.id.is_empty()
            && !self.model.is_empty()
            && let Ok(PieceChunk { choices: [PieceChoice { index: 0, delta, .. }], .. }) =
                read_frame(data)
        {
            match delta {
                PieceDelta::Text(text) => self.extend_text(text, events),
                PieceDelta::Thinking(thinking) => self.extend_thinking(thinking, events),
            }
            return Ok(false);
        }
        let chunk: WireChunk = read_frame(data).map_err(|error| {
            let shown = secret.excerpt(data);
            let text = format!("a chunk is not as expected ({error}): {shown}");
            ProviderError::StreamError(text)
        })?;
        if let Some(error) = chunk.error.and_then(ApiError::read) {
            return Err(error::from_event(&error));
        }
        if self.id.is_empty() {
            self.id = chunk.id.unwrap_or_default();
        }
        if self.model.is_empty() {
            self.model = chunk.model.unwrap_or_default();
        }
        self.usage = chunk.usage.or(self.usage.take());
        if let Some(choice) = chunk.choices.0 {
            self.extend(choice.delta, events);
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        Ok(false)
    }

    /// Some compatible servers send no `[DONE]`: an answer that says why it stopped is complete.
    fn end(&mut self, events: &mut VecDeque<StreamEvent>) -> Result<(), ProviderError> {
        if self.finish_reason.is_none() {
            let text = "the stream ended before the answer was complete";
            return Err(ProviderError::StreamError(text.into()));
        }
        self.finish(events);
        Ok(())
    }
}

impl ChatAnswer {
    fn extend(&mut self, delta: WireDelta, events: &mut VecDeque<StreamEvent>) {
        if let Some(thinking) = delta.thinking {
            self.extend_thinking(thinking, events);
        }
        if let Some(text) = delta.text {
            self.extend_text(text, events);
        }
        for (key, value) in delta.more {
            if let ("refusal", Value::String(text)) = (key.as_str(), &value)
                && !text.is_empty()
            {
                events.push_back(StreamEvent::TextDelta(text.clone()));
            }
            grow(&mut self.parts.more, key, value);
        }
        for call in delta.tool_calls {
            self.extend_call(call, events);
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

    fn extend_call(&mut self, delta: WireCall, events: &mut VecDeque<StreamEvent>) {
        let place = self.place_of(&delta);
        let known = self.calls.len();
        let Some(call) = (match place {
            Some(place) => self.calls.get_mut(place),
            None => {
                self.calls.push(OpenCall { index: delta.index, ..OpenCall::default() });
                self.calls.last_mut()
            }
        }) else {
            return;
        };
        if let (true, Some(id)) = (call.id.is_empty(), delta.id) {
            call.id = id;
        }
        let function = delta.function.or(delta.custom.map(|custom| {
            call.is_custom = true;
            WireFunction { name: custom.name, arguments: custom.input }
        }));
        let WireFunction { name, arguments } = function.unwrap_or_default();
        // Names come whole; some servers repeat them with every piece.
        if let (true, Some(name)) = (call.name.is_empty(), name) {
            call.name = name;
        }
        let piece = match arguments {
            Some(Value::String(piece)) => piece,
            None | Some(Value::Null) => String::new(),
            Some(whole) => whole.to_string(),
        };
        call.arguments.push_str(&piece);
        if call.is_begun {
            if !piece.is_empty() {
                let id = call.id.clone();
                events.push_back(StreamEvent::ToolUseInputDelta { id, delta: piece });
            }
        } else if !call.name.is_empty() {
            if call.id.is_empty() {
                call.id = response::made_id(place.unwrap_or(known), &self.id);
            }
            call.begin(events);
        }
    }

    /// Finds the call that a piece belongs to; `None` for a new one.
    ///
    /// Some servers give no index, or the same to several calls: then an id that differs begins
    /// another call.
    fn place_of(&self, delta: &WireCall) -> Option<usize> {
        let id = delta.id.as_deref().unwrap_or_default();
        let place = match delta.index {
            Some(_) => self.calls.iter().rposition(|call| call.index == delta.index),
            None if id.is_empty() => self.calls.len().checked_sub(1),
            None => self.calls.iter().rposition(|call| call.id == id),
        }?;
        let other_id = self.calls.get(place).map(|call| call.id.as_str()).unwrap_or_default();
        let is_another = !id.is_empty() && !other_id.is_empty() && id != other_id;
        (!is_another).then_some(place)
    }

    fn finish(&mut self, events: &mut VecDeque<StreamEvent>) {
        let mut parts = std::mem::take(&mut self.parts);
        for (place, mut call) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            if call.id.is_empty() {
                call.id = response::made_id(place, &self.id);
            }
            parts.calls.push(call.finish(events));
        }
        let message = parts.into_message();
        complete(
            CompletionResponse {
                id: std::mem::take(&mut self.id),
                model: std::mem::take(&mut self.model),
                stop_reason: response::stop_reason(self.finish_reason.as_deref(), &message),
                message,
                usage: self.usage.take().unwrap_or_default().into(),
            },
            events,
        );
    }
}

/// Adds a piece of a field that we do not model: texts and lists grow, others are replaced.
fn grow(fields: &mut Map<String, Value>, key: String, piece: Value) {
    match (fields.get_mut(&key), piece) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(piece)) => text.push_str(&piece),
        (Some(Value::Array(items)), Value::Array(mut more)) => items.append(&mut more),
        (Some(Value::Object(fields)), Value::Object(more)) => {
            for (key, piece) in more {
                grow(fields, key, piece);
            }
        }
        (_, piece) => {
            fields.insert(key, piece);
        }
    }
}

/// A call whose end has not come.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
    /// Its input is free text.
    is_custom: bool,
    /// Its start was announced.
    is_begun: bool,
}

impl OpenCall {
    fn begin(&mut self, events: &mut VecDeque<StreamEvent>) {
        self.is_begun = true;
        let (id, name) = (self.id.clone(), self.name.clone());
        events.push_back(StreamEvent::ToolUseStart { id, name });
        if !self.arguments.is_empty() {
            let (id, delta) = (self.id.clone(), self.arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
    }

    fn finish(mut self, events: &mut VecDeque<StreamEvent>) -> ContentBlock {
        if !self.is_begun {
            self.begin(events);
        }
        events.push_back(StreamEvent::ToolUseEnd { id: self.id.clone() });
        let block = if self.is_custom {
            let json = json!({"id": self.id, "type": "custom", "custom": {"name": self.name, "input": self.arguments}});
            response::custom_call(json, self.id, self.name, self.arguments)
        } else {
            let input = ToolCall::parse_input(&self.arguments);
            ContentBlock::ToolUse { id: self.id, name: self.name, input }
        };
        if let Some(call) = block.as_tool_use()
            && ToolCall::invalid_json(call.input).is_none()
        {
            events.push_back(StreamEvent::ToolUse {
                id: call.id.to_owned(),
                name: call.name.to_owned(),
                input: call.input.clone(),
            });
        }
        block
    }
}

/// The chunk of which a stream has thousands: a piece of text or of reasoning, and nothing else that
/// is read.
///
/// It is read first and alone, because it is much smaller than [`WireChunk`], and moving that from one
/// function to the next takes as long as reading it. Whatever has another form is read again as that.
#[derive(Deserialize)]
struct PieceChunk {
    choices: [PieceChoice; 1],
    /// Only `null`.
    #[serde(default, rename = "usage")]
    _usage: (),
    #[serde(default, rename = "error")]
    _error: (),
}

#[derive(Deserialize)]
struct PieceChoice {
    #[serde(default)]
    index: usize,
    delta: PieceDelta,
    #[serde(default, rename = "finish_reason")]
    _finish_reason: (),
}

/// An object with one field.
#[derive(Deserialize)]
enum PieceDelta {
    #[serde(rename = "content")]
    Text(String),
    #[serde(rename = "reasoning_content", alias = "reasoning")]
    Thinking(String),
}

#[derive(Deserialize)]
struct WireChunk {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: FirstChoice,
    #[serde(default)]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct WireChoice {
    #[serde(default)]
    index: usize,
    #[serde(default)]
    delta: WireDelta,
    #[serde(default)]
    finish_reason: Option<String>,
}

/// The first of the choices: a request asks for no more.
#[derive(Default)]
struct FirstChoice(Option<WireChoice>);

impl<'de> Deserialize<'de> for FirstChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choices;

        impl<'de> Visitor<'de> for Choices {
            type Value = FirstChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_unit<E>(self) -> Result<FirstChoice, E> {
                Ok(FirstChoice(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<FirstChoice, A::Error> {
                let mut first = None;
                while let Some(choice) = choices.next_element::<WireChoice>()? {
                    if choice.index == 0 && first.is_none() {
                        first = Some(choice);
                    }
                }
                Ok(FirstChoice(first))
            }
        }

        deserializer.deserialize_any(Choices)
    }
}

/// What a chunk adds.
#[derive(Default)]
struct WireDelta {
    text: Option<String>,
    thinking: Option<String>,
    tool_calls: Vec<WireCall>,
    /// What is not modelled.
    more: Vec<(String, Value)>,
}

/// By hand, because a derived one with `flatten` would build every field twice.
impl<'de> Deserialize<'de> for WireDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = WireDelta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a delta")
            }

            fn visit_unit<E>(self) -> Result<WireDelta, E> {
                Ok(WireDelta::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<WireDelta, A::Error> {
                let mut delta = WireDelta::default();
                while let Some(key) = fields.next_key::<Key>()? {
                    match key {
                        Key::Role => {
                            fields.next_value::<IgnoredAny>()?;
                        }
                        Key::Content => match fields.next_value::<Content>()? {
                            Content::Text(text) => delta.text = Some(text),
                            Content::Pieces(pieces) => {
                                let texts = pieces.iter().filter_map(|piece| piece.get("text"));
                                delta.text = Some(texts.filter_map(Value::as_str).collect());
                            }
                            Content::Nothing(()) => {}
                        },
                        Key::ToolCalls => {
                            let calls = fields.next_value::<Option<Vec<WireCall>>>()?;
                            delta.tool_calls = calls.unwrap_or_default();
                        }
                        Key::Other(key) if REASONING.contains(&key.as_str()) => {
                            match fields.next_value()? {
                                // Both hold the same where both are there.
                                Value::String(text) => delta.thinking = Some(text),
                                Value::Null => {}
                                other => delta.more.push((key, other)),
                            }
                        }
                        Key::Other(key) => {
                            let value: Value = fields.next_value()?;
                            if !value.is_null() {
                                delta.more.push((key, value));
                            }
                        }
                    }
                }
                Ok(delta)
            }
        }

        deserializer.deserialize_any(Fields)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Key {
    Role,
    Content,
    ToolCalls,
    #[serde(untagged)]
    Other(String),
}

/// A piece of the answer's text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Nothing(()),
    Pieces(Vec<Value>),
}

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCall {
    index: Option<usize>,
    id: Option<String>,
    function: Option<WireFunction>,
    custom: Option<WireCustom>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction {
    name: Option<String>,
    /// A piece of text, or on some servers the whole object.
    arguments: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCustom {
    name: Option<String>,
    input: Option<Value>,
}

#[cfg(test)]
mod tests;
