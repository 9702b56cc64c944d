//! The JSON of the chunks in a stream.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::call::WireCall;
use crate::lenient;
use crate::metadata::WireMetadata;
use crate::response::{ContentParts, REASONING};
use crate::usage::{UsageHolder, WireUsage};

/// A chunk that contains only a delta of text or of reasoning. Most chunks are of this kind.
///
/// The decoder first tries to deserialise each chunk as a `DeltaChunk`, and then as a [`WireChunk`]. A `DeltaChunk` is
/// much faster to deserialise because it has few fields (`benches/README.md`).
#[derive(Deserialize)]
pub(super) struct DeltaChunk {
    pub(super) choices: [DeltaChoice; 1],
    /// Accepts only a missing field or `null`. Deserialisation fails for other values, so that the chunk is
    /// deserialised as a [`WireChunk`].
    #[serde(default, rename = "usage")]
    _usage: (),
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "x_groq")]
    _x_groq: (),
}

/// The choice of a [`DeltaChunk`]. Fields of the type `()` accept only a missing field or `null`.
#[derive(Deserialize)]
pub(super) struct DeltaChoice {
    #[serde(default)]
    pub(super) index: usize,
    pub(super) delta: DeltaField,
    #[serde(default, rename = "finish_reason")]
    _finish_reason: (),
    #[serde(default, rename = "logprobs")]
    _logprobs: (),
    #[serde(default, rename = "error")]
    _error: (),
    #[serde(default, rename = "usage")]
    _usage: (),
}

/// A delta with exactly one field. Deserialisation fails if there are more fields, such as `role`.
#[derive(Deserialize)]
pub(super) enum DeltaField {
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
    /// Object in which Groq sends the token counts if the request did not ask for them.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) x_groq: UsageHolder,
    #[serde(default)]
    pub(super) error: Value,
    #[serde(flatten)]
    pub(super) wire_metadata: WireMetadata,
}

#[derive(Deserialize)]
pub(super) struct WireChoice {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<usize>,
    #[serde(default)]
    pub(super) delta: WireDelta,
    /// Whole message, which some proxies send instead of a delta.
    #[serde(default)]
    pub(super) message: Option<WireDelta>,
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) finish_reason: Option<String>,
    /// Token counts, which Moonshot sends in the choice.
    #[serde(default, deserialize_with = "lenient::or_default")]
    pub(super) usage: Option<WireUsage>,
    #[serde(default)]
    pub(super) logprobs: Value,
    /// Error of a proxy's upstream server.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

/// The choice with index 0. `None` if the chunk has no such choice. Other choices are ignored, because requests ask for
/// one choice.
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
                // serde_json reports an error unless the whole list is consumed.
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

/// The parsed delta of a chunk.
#[derive(Default)]
pub(super) struct WireDelta {
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) tool_calls: Vec<WireCall>,
    /// Names and values of the fields that this crate does not know.
    pub(super) more: Vec<(String, Value)>,
}

impl WireDelta {
    /// Returns `true` if the delta has no content.
    pub(super) fn is_blank(&self) -> bool {
        self.text.is_empty()
            && self.thinking.is_empty()
            && self.tool_calls.is_empty()
            && self.more.is_empty()
    }
}

// Written by hand, because a derived implementation with `flatten` would buffer every field.
impl<'de> Deserialize<'de> for WireDelta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = WireDelta;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a delta")
            }

            // Azure sends chunks with a null delta, which contain results of its content filter.
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
                                let ContentParts { text, thinking, more } =
                                    ContentParts::read(other);
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
                                // A server that sends two reasoning fields sends the same text in both.
                                Value::String(text) if delta.thinking.is_empty() => {
                                    delta.thinking = text;
                                }
                                Value::String(_) | Value::Null => {}
                                other => delta.more.push((key, other)),
                            }
                        }
                        Key::Other(key) => {
                            let value: Value = fields.next_value()?;
                            if !lenient::is_blank(&value) {
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

/// The value of `content` in a delta, a text, `null` or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Nothing(()),
    Other(Value),
}
