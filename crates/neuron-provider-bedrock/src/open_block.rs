//! Blocks of a streamed response whose deltas are still arriving.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use neuron_model::{ContentBlock, StreamEvent, ToolCall};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::content::Reader;

/// The JSON of a delta. Each delta has one of these fields.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[derive(Default)]
pub(crate) struct Delta {
    text: Option<String>,
    tool_use: Option<ToolUseDelta>,
    reasoning_content: Option<ReasoningDelta>,
    citation: Option<Value>,
    tool_result: Option<Value>,
    image: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolUseDelta {
    input: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReasoningDelta {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

/// A delta of a known kind.
#[derive(Debug)]
pub(crate) enum KnownDelta {
    Text(String),
    Citation(Value),
    Arguments(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    /// Content of a block that the server made with a tool of its own, with the name of its field.
    Server(&'static str, Value),
}

impl Delta {
    /// Returns the delta. Returns `None` for a delta of an unknown kind.
    pub(crate) fn known(self) -> Option<KnownDelta> {
        if let Some(text) = self.text {
            return Some(KnownDelta::Text(text));
        }
        if let Some(call) = self.tool_use {
            return Some(KnownDelta::Arguments(call.input.unwrap_or_default()));
        }
        if let Some(reasoning) = self.reasoning_content {
            return Some(match reasoning.redacted_content {
                Some(content) => KnownDelta::Redacted(content),
                None => KnownDelta::Thinking {
                    text: reasoning.text.unwrap_or_default(),
                    signature: reasoning.signature.unwrap_or_default(),
                },
            });
        }
        if let Some(citation) = self.citation {
            return Some(KnownDelta::Citation(citation));
        }
        let result = self.tool_result.map(|value| KnownDelta::Server("toolResult", value));
        result.or_else(|| Some(KnownDelta::Server("image", self.image?)))
    }
}

/// A block whose deltas are still arriving.
#[derive(Debug)]
pub(crate) enum OpenBlock {
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        text: String,
        signature: String,
    },
    /// Encrypted reasoning, as parts in base64.
    Redacted(Vec<String>),
    /// A call of the request's tools.
    Call {
        id: String,
        fields: Map<String, Value>,
        arguments: String,
    },
    /// Any other block.
    Server {
        fields: Map<String, Value>,
        arguments: String,
    },
}

impl OpenBlock {
    /// Begins a block with the fields of its first event, and emits the events for it. Returns `None` if the fields are
    /// empty, as for a text.
    pub(crate) fn start(
        mut start: Map<String, Value>,
        reader: &mut Reader,
        out: &mut VecDeque<StreamEvent>,
    ) -> Option<Self> {
        if start.is_empty() {
            return None;
        }
        let call = start.get_mut("toolUse").and_then(Value::as_object_mut);
        let arguments = String::new();
        if let Some((id, name)) = call.and_then(|call| reader.complete(call)) {
            out.push_back(StreamEvent::ToolUseStart { id: id.clone(), name });
            return Some(Self::Call { id, fields: start, arguments });
        }
        Some(Self::Server { fields: start, arguments })
    }

    /// Creates the block that a first delta opens. Returns `None` if such a block needs a start event.
    pub(crate) fn for_delta(delta: &KnownDelta) -> Option<Self> {
        match delta {
            KnownDelta::Text(_) | KnownDelta::Citation(_) => {
                Some(Self::Text { text: String::new(), citations: Vec::new() })
            }
            KnownDelta::Thinking { .. } => {
                Some(Self::Thinking { text: String::new(), signature: String::new() })
            }
            KnownDelta::Redacted(_) => Some(Self::Redacted(Vec::new())),
            KnownDelta::Server(..) => {
                Some(Self::Server { fields: Map::new(), arguments: String::new() })
            }
            KnownDelta::Arguments(_) => None,
        }
    }

    /// Returns `true` if a delta continues the block.
    pub(crate) fn accepts(&self, delta: &KnownDelta) -> bool {
        match self {
            Self::Text { .. } => matches!(delta, KnownDelta::Text(_) | KnownDelta::Citation(_)),
            Self::Thinking { .. } => matches!(delta, KnownDelta::Thinking { .. }),
            Self::Redacted(_) => matches!(delta, KnownDelta::Redacted(_)),
            Self::Call { .. } => matches!(delta, KnownDelta::Arguments(_)),
            Self::Server { .. } => {
                matches!(delta, KnownDelta::Arguments(_) | KnownDelta::Server(..))
            }
        }
    }

    /// Adds a delta that the block [accepts](Self::accepts), and emits the events for it. `has_signatures` enables
    /// events for signatures.
    pub(crate) fn extend(
        &mut self,
        delta: KnownDelta,
        has_signatures: bool,
        out: &mut VecDeque<StreamEvent>,
    ) {
        match (self, delta) {
            (Self::Text { text, .. }, KnownDelta::Text(more)) if !more.is_empty() => {
                text.push_str(&more);
                out.push_back(StreamEvent::TextDelta(more));
            }
            (Self::Text { citations, .. }, KnownDelta::Citation(citation)) => {
                citations.push(citation);
            }
            (
                Self::Thinking { text, signature },
                KnownDelta::Thinking { text: more, signature: more_signature },
            ) => {
                if !more.is_empty() {
                    text.push_str(&more);
                    out.push_back(StreamEvent::ThinkingDelta(more));
                }
                if !more_signature.is_empty() {
                    signature.push_str(&more_signature);
                    if has_signatures {
                        out.push_back(StreamEvent::SignatureDelta(more_signature));
                    }
                }
            }
            (Self::Redacted(parts), KnownDelta::Redacted(part)) => parts.push(part),
            (Self::Call { id, arguments, .. }, KnownDelta::Arguments(delta))
                if !delta.is_empty() =>
            {
                arguments.push_str(&delta);
                out.push_back(StreamEvent::ToolUseInputDelta { id: id.clone(), delta });
            }
            (Self::Server { arguments, .. }, KnownDelta::Arguments(delta)) => {
                arguments.push_str(&delta);
            }
            (Self::Server { fields, .. }, KnownDelta::Server(key, content)) => {
                add(fields, key, content);
            }
            _ => {}
        }
    }

    /// Ends the block and emits the events for its end. Returns `None` for a block without content.
    pub(crate) fn stop(
        self,
        reader: &Reader,
        out: &mut VecDeque<StreamEvent>,
    ) -> Option<ContentBlock> {
        match self {
            Self::Text { text, citations } if citations.is_empty() => {
                reader.read(json!({ "text": text }))
            }
            Self::Text { text, citations } => {
                let content = json!({"content": [{ "text": text }], "citations": citations});
                reader.read(json!({ "citationsContent": content }))
            }
            Self::Thinking { text, signature } => {
                let reasoning = match signature.is_empty() {
                    true => json!({ "text": text }),
                    false => json!({"text": text, "signature": signature}),
                };
                reader.read(json!({"reasoningContent": {"reasoningText": reasoning}}))
            }
            Self::Redacted(parts) => {
                reader.read(json!({"reasoningContent": {"redactedContent": joined(parts)}}))
            }
            Self::Call { id, mut fields, arguments } => {
                set_input(&mut fields, &arguments);
                let block = reader.read(fields.into());
                out.push_back(StreamEvent::ToolUseEnd { id });
                let call = block.as_ref().and_then(ContentBlock::as_tool_use);
                out.extend(call.and_then(StreamEvent::tool_use));
                block
            }
            Self::Server { mut fields, arguments } => {
                if fields.contains_key("toolUse") {
                    set_input(&mut fields, &arguments);
                }
                reader.read(fields.into())
            }
        }
    }
}

/// Sets the arguments of a call. No text means that the call has no arguments.
fn set_input(fields: &mut Map<String, Value>, arguments: &str) {
    if let Some(call) = fields.get_mut("toolUse").and_then(Value::as_object_mut) {
        call.insert("input".to_owned(), ToolCall::parse_input(arguments));
    }
}

/// Adds content that the server made. A list continues the content of a result, and an object is merged.
fn add(fields: &mut Map<String, Value>, key: &str, content: Value) {
    let field = fields.entry(key).or_insert_with(|| Value::Object(Map::new()));
    match (field, content) {
        (Value::Object(field), Value::Array(mut items)) => {
            let known = field.entry("content").or_insert_with(|| Value::Array(Vec::new()));
            match known {
                Value::Array(known) => known.append(&mut items),
                known => *known = Value::Array(items),
            }
        }
        (Value::Object(field), Value::Object(content)) => field.extend(content),
        (field, content) => *field = content,
    }
}

/// Joins parts of encrypted reasoning. The bytes are joined, because the base64 of a part may end with padding.
fn joined(mut parts: Vec<String>) -> String {
    if parts.len() < 2 {
        return parts.pop().unwrap_or_default();
    }
    let bytes: Result<Vec<_>, _> = parts.iter().map(|part| STANDARD.decode(part)).collect();
    // Parts that are not in base64 on their own are parts of a longer text.
    bytes.map_or_else(|_| parts.concat(), |bytes| STANDARD.encode(bytes.concat()))
}
