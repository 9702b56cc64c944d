//! The chunks of Chat Completions as our events: bytes in, [`StreamEvent`]s out.
//! <https://platform.openai.com/docs/api-reference/chat-streaming>

use std::collections::VecDeque;
use std::fmt;

use neuron_http::{Answer, Secret, SseDecoder, complete, read_frame};
use neuron_types::{CompletionResponse, ContentBlock, ProviderError, StreamEvent, ToolCall};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::error::{self, ApiError};
use crate::lenient;
use crate::response::{self, Parts, Pieces, REASONING, WireUsage};

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(crate) struct ChatAnswer {
    id: String,
    model: String,
    parts: Parts,
    calls: Vec<OpenCall>,
    finish_reason: Option<String>,
    usage: WireUsage,
    /// Whether a choice has come.
    is_begun: bool,
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
        if self.is_begun
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
        if let Some(error) = ApiError::read(chunk.error) {
            return Err(error::from_event(&error));
        }
        let Some(choices) = chunk.choices else {
            // Some servers send their errors without a field of that name.
            let error = ApiError::find_in(data).filter(|_| chunk.usage.is_none());
            self.usage = chunk.usage.unwrap_or(std::mem::take(&mut self.usage));
            return error.map_or(Ok(false), |error| Err(error::from_event(&error)));
        };
        if self.id.is_empty() {
            self.id = chunk.id;
        }
        if self.model.is_empty() {
            self.model = chunk.model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        if let Some(mut choice) = choices.0 {
            if let Some(error) = choice.error.take().and_then(ApiError::read) {
                return Err(error::from_event(&error));
            }
            self.extend_by(choice, events);
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
    fn extend_by(&mut self, choice: WireChoice, events: &mut VecDeque<StreamEvent>) {
        // Some proxies stream an answer that they have whole.
        let delta = match choice.message {
            Some(whole) if !self.is_begun => whole,
            _ => choice.delta,
        };
        self.is_begun = true;
        self.extend(delta, events);
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason);
        }
    }

    fn extend(&mut self, delta: WireDelta, events: &mut VecDeque<StreamEvent>) {
        self.extend_thinking(delta.thinking, events);
        self.extend_text(delta.text, events);
        if !delta.more.is_empty() {
            self.extend_more(delta.more, events);
        }
        for (position, call) in delta.tool_calls.into_iter().enumerate() {
            self.extend_call(call, position > 0, events);
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

    /// What is said in other ways than by text is shown as text.
    fn extend_more(&mut self, more: Vec<(String, Value)>, events: &mut VecDeque<StreamEvent>) {
        let lengths = response::said(&self.parts.more).map(str::len);
        for (key, piece) in more {
            response::grow(&mut self.parts.more, key, piece);
        }
        for (said, length) in response::said(&self.parts.more).into_iter().zip(lengths) {
            if let Some(piece) = said.get(length..).filter(|piece| !piece.is_empty()) {
                events.push_back(StreamEvent::TextDelta(piece.to_owned()));
            }
        }
    }

    /// `is_later` says that another piece came in the same delta.
    fn extend_call(&mut self, delta: WireCall, is_later: bool, events: &mut VecDeque<StreamEvent>) {
        let WireCall { index, id, function, custom } = delta;
        let is_custom = custom.is_some();
        let function = function
            .or(custom.map(|custom| WireFunction { name: custom.name, arguments: custom.input }));
        let WireFunction { name, arguments } = function.unwrap_or_default();
        let piece = match arguments {
            Value::String(piece) => piece,
            Value::Null => String::new(),
            whole => whole.to_string(),
        };
        if id.is_empty() && name.is_empty() && piece.is_empty() {
            return;
        }
        let mut place = self.place_of(index, &id);
        if let Some(call) = place.and_then(|place| self.calls.get(place)) {
            // Some servers say the name with every piece.
            let may_repeat = index.is_some() || !is_later;
            match call.relation(&id, &name, &piece, may_repeat) {
                Relation::Continues => {}
                Relation::IsAnother => place = None,
                Relation::Repeats => return,
            }
        }
        let place = place.unwrap_or_else(|| {
            self.calls.push(OpenCall { index, ..OpenCall::default() });
            self.calls.len() - 1
        });
        let begun = self.calls.iter().filter(|call| call.begun.is_some()).count();
        if let Some(call) = self.calls.get_mut(place) {
            call.is_custom |= is_custom;
            call.extend(id, name, piece, events);
            if call.begun.is_none() && !call.name.is_empty() {
                if call.id.is_empty() {
                    (call.id, call.is_made) = (response::made_id(place, &self.id), true);
                }
                call.begin(begun, events);
            }
        }
    }

    /// Finds the call that a piece belongs to; `None` for a new one.
    ///
    /// Some servers give no index, or the same to several calls: then an id that differs begins
    /// another call.
    fn place_of(&self, index: Option<usize>, id: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let at_index = |call: &OpenCall| index.is_none() || call.index == index;
        if id.is_empty() {
            let place = self.calls.iter().rposition(at_index);
            // The index may be left out in some pieces.
            return place.or(
                last.filter(|last| self.calls.get(*last).is_some_and(|call| call.index.is_none()))
            );
        }
        let is_same = |call: &OpenCall| at_index(call) && call.id == id;
        let has_no_id = |call: &OpenCall| at_index(call) && (call.id.is_empty() || call.is_made);
        let calls = &self.calls;
        calls.iter().rposition(is_same).or_else(|| {
            // An id may come after the name.
            let place = calls.iter().rposition(at_index)?;
            calls.get(place).is_some_and(has_no_id).then_some(place)
        })
    }

    fn finish(&mut self, events: &mut VecDeque<StreamEvent>) {
        let mut parts = std::mem::take(&mut self.parts);
        if let Some(old) = response::take_old_call(&mut parts.more) {
            let function = serde_json::from_value(old).ok();
            self.extend_call(WireCall { function, ..WireCall::default() }, true, events);
        }
        let mut calls: Vec<_> = std::mem::take(&mut self.calls).into_iter().enumerate().collect();
        // In the order in which readers heard of them.
        calls.sort_by_key(|(_, call)| call.begun.unwrap_or(usize::MAX));
        for (place, mut call) in calls {
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
                usage: std::mem::take(&mut self.usage).into(),
            },
            events,
        );
    }
}

/// A call whose end has not come.
#[derive(Debug, Default)]
struct OpenCall {
    index: Option<usize>,
    id: String,
    name: String,
    arguments: String,
    /// Its id is ours.
    is_made: bool,
    /// Its input is free text.
    is_custom: bool,
    /// Its start was announced, after so many others.
    begun: Option<usize>,
}

/// What a piece is to a call.
enum Relation {
    Continues,
    /// Servers that give neither index nor id send their calls whole.
    IsAnother,
    /// Some servers send a call once more at the end.
    Repeats,
}

impl OpenCall {
    /// What a piece means that has this call's place.
    fn relation(&self, id: &str, name: &str, piece: &str, may_repeat: bool) -> Relation {
        // Only what begins a call says its name.
        if name.is_empty() || self.name.is_empty() {
            return Relation::Continues;
        }
        let has_id = !id.is_empty() && id == self.id;
        let is_whole = piece.starts_with('{')
            && self.arguments.starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok();
        match is_whole {
            true if has_id && piece == self.arguments => Relation::Repeats,
            true => Relation::IsAnother,
            false if has_id || (may_repeat && name == self.name) => Relation::Continues,
            false => Relation::IsAnother,
        }
    }

    fn extend(
        &mut self,
        id: String,
        name: String,
        piece: String,
        events: &mut VecDeque<StreamEvent>,
    ) {
        if self.id.is_empty() {
            self.id = id;
        }
        if self.name.is_empty() {
            self.name = name;
        }
        self.arguments.push_str(&piece);
        if self.begun.is_some() && !piece.is_empty() {
            let id = self.id.clone();
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta: piece });
        }
    }

    fn begin(&mut self, number: usize, events: &mut VecDeque<StreamEvent>) {
        self.begun = Some(number);
        let (id, name) = (self.id.clone(), self.name.clone());
        events.push_back(StreamEvent::ToolUseStart { id, name });
        if !self.arguments.is_empty() {
            let (id, delta) = (self.id.clone(), self.arguments.clone());
            events.push_back(StreamEvent::ToolUseInputDelta { id, delta });
        }
    }

    fn finish(mut self, events: &mut VecDeque<StreamEvent>) -> ContentBlock {
        if self.begun.is_none() {
            self.begin(usize::MAX, events);
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
/// It is read first and alone: a struct with few fields is read much faster than [`WireChunk`] with its
/// many (`benches/README.md`). Whatever has another form is read again as that.
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
    #[serde(default, rename = "error")]
    _error: (),
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
    #[serde(default, deserialize_with = "lenient::or_default")]
    id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    model: String,
    #[serde(default)]
    choices: Option<FirstChoice>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    usage: Option<WireUsage>,
    #[serde(default)]
    error: Value,
}

#[derive(Deserialize)]
struct WireChoice {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<usize>,
    #[serde(default)]
    delta: WireDelta,
    /// The whole answer in place of a delta.
    #[serde(default)]
    message: Option<WireDelta>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    finish_reason: Option<String>,
    /// Proxies tell here of an answer that their own server broke off.
    #[serde(default)]
    error: Option<Value>,
}

/// The first of the choices: a request asks for no more.
struct FirstChoice(Option<WireChoice>);

impl<'de> Deserialize<'de> for FirstChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choices;

        impl<'de> Visitor<'de> for Choices {
            type Value = FirstChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of choices")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut choices: A) -> Result<FirstChoice, A::Error> {
                let mut first = None;
                while let Some(choice) = choices.next_element::<WireChoice>()? {
                    if choice.index.unwrap_or(0) == 0 && first.is_none() {
                        first = Some(choice);
                    }
                }
                Ok(FirstChoice(first))
            }
        }

        deserializer.deserialize_seq(Choices)
    }
}

/// What a chunk adds.
#[derive(Default)]
struct WireDelta {
    text: String,
    thinking: String,
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
                            Content::Text(text) => delta.text = text,
                            Content::Nothing(()) => {}
                            Content::Other(other) => {
                                let Pieces { text, thinking, more } = Pieces::read(other);
                                delta.text = text;
                                delta.thinking.push_str(&thinking);
                                delta.more.extend(more);
                            }
                        },
                        Key::ToolCalls => {
                            let calls = fields.next_value::<Option<Vec<WireCall>>>()?;
                            delta.tool_calls = calls.unwrap_or_default();
                        }
                        Key::Other(key) if REASONING.contains(&key.as_str()) => {
                            match fields.next_value()? {
                                // Both hold the same where both are there.
                                Value::String(text) if delta.thinking.is_empty() => {
                                    delta.thinking = text;
                                }
                                Value::String(_) | Value::Null => {}
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
    Other(Value),
}

/// A piece of a tool call.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCall {
    #[serde(deserialize_with = "lenient::count")]
    index: Option<usize>,
    #[serde(deserialize_with = "lenient::or_default")]
    id: String,
    function: Option<WireFunction>,
    custom: Option<WireCustom>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFunction {
    #[serde(deserialize_with = "lenient::or_default")]
    name: String,
    /// A piece of text, or on some servers the whole object.
    arguments: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireCustom {
    #[serde(deserialize_with = "lenient::or_default")]
    name: String,
    input: Value,
}

#[cfg(test)]
mod tests;
