//! The chunks of a stream as they are on the wire.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::call::WireCall;
use crate::facts::Facts;
use crate::lenient;
use crate::response::{Pieces, REASONING};
use crate::usage::{UsageHolder, WireUsage};

/// The chunk of which a stream has thousands: a piece of text or of reasoning, and nothing else that
/// is read.
///
/// It is read first and alone: a struct with few fields is read much faster than [`WireChunk`] with its
/// many (`benches/README.md`). Whatever has another form is read again as that.
#[derive(Deserialize)]
pub(super) struct PieceChunk {
    pub(super) choices: [PieceChoice; 1],
    /// Only `null`.
    #[serde(default, rename = "usage")]
    _usage: (),
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "x_groq")]
    _x_groq: (),
}

#[derive(Deserialize)]
pub(super) struct PieceChoice {
    #[serde(default)]
    pub(super) index: usize,
    pub(super) delta: PieceDelta,
    #[serde(default, rename = "finish_reason")]
    _finish_reason: (),
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "usage")]
    _usage: (),
}

/// An object with one field.
#[derive(Deserialize)]
pub(super) enum PieceDelta {
    #[serde(rename = "content")]
    Text(String),
    #[serde(rename = "reasoning_content", alias = "reasoning")]
    Thinking(String),
}

#[derive(Deserialize)]
pub(super) struct WireChunk {
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) model: String,
    #[serde(default, deserialize_with = "lenient::count")]
    pub(super) created: Option<usize>,
    #[serde(default)]
    pub(super) choices: Option<FirstChoice>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) usage: Option<WireUsage>,
    /// Groq counts here if nobody asked for the usage.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) x_groq: UsageHolder,
    #[serde(default)]
    pub(super) error: Value,
    #[serde(flatten)]
    pub(super) facts: Facts,
}

#[derive(Deserialize)]
pub(super) struct WireChoice {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<usize>,
    #[serde(default)]
    pub(super) delta: WireDelta,
    /// The whole answer in place of a delta.
    #[serde(default)]
    pub(super) message: Option<WireDelta>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) finish_reason: Option<String>,
    /// Moonshot counts here.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) usage: Option<WireUsage>,
    #[serde(default)]
    pub(super) logprobs: Value,
    /// Proxies tell here of an answer that their own server broke off.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// The first of the choices: a request asks for no more.
pub(super) struct FirstChoice(pub(super) Option<WireChoice>);

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
pub(super) struct WireDelta {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) tool_calls: Vec<WireCall>,
    /// What is not modelled.
    pub(super) more: Vec<(String, Value)>,
}

impl WireDelta {
    pub(super) fn says_nothing(&self) -> bool {
        self.text.is_empty()
            && self.thinking.is_empty()
            && self.tool_calls.is_empty()
            && self.more.is_empty()
    }
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
                            let calls = fields.next_value::<Option<Vec<Option<WireCall>>>>()?;
                            delta.tool_calls = calls.into_iter().flatten().flatten().collect();
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
                            if !lenient::says_nothing(&value) {
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
