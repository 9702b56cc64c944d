//! The content blocks of a request. Each block is a JSON object with one field.
//!
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html>

use std::borrow::Cow;

use neuron_http::ObjectInput;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::cache::CachePoint;
use crate::media::{Document, Image};

/// Name of the field that the crate adds to the raw blocks of a response. It contains the
/// [origin](crate::model::Model::origin) of the block, and is never sent.
pub(crate) const ORIGIN: &str = "neuron:origin";

/// A content block of a message or of a tool result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Block<'a> {
    Text(Cow<'a, str>),
    /// The JSON of a tool result, for models that accept no text there.
    Json(Map<String, Value>),
    Image(Image<'a>),
    Document(Document<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    ReasoningContent(Reasoning<'a>),
    CachePoint(CachePoint),
    #[serde(untagged)]
    Own(Own<'a>),
}

impl<'a> Block<'a> {
    /// Creates a text block. Returns `None` for a text that is empty or consists of white space, because the API or its
    /// models reject it.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        (!text.trim().is_empty()).then_some(Self::Text(text))
    }

    /// Returns `true` if the field of the block is one of these.
    pub(crate) fn is(&self, kinds: &[&str]) -> bool {
        let kind = match self {
            Self::Text(_) => "text",
            Self::Json(_) => "json",
            Self::Image(_) => "image",
            Self::Document(_) => "document",
            Self::ToolUse(_) => "toolUse",
            Self::ToolResult(_) => "toolResult",
            Self::ReasoningContent(_) => "reasoningContent",
            Self::CachePoint(_) => "cachePoint",
            Self::Own(own) => return kinds.iter().any(|kind| own.0.contains_key(*kind)),
        };
        kinds.contains(&kind)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolUse<'a> {
    pub(crate) tool_use_id: Cow<'a, str>,
    pub(crate) name: &'a str,
    pub(crate) input: ObjectInput<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult<'a> {
    pub(crate) tool_use_id: Cow<'a, str>,
    pub(crate) content: Vec<Block<'a>>,
    /// Set for a failed call. The default of the API is `success`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reasoning<'a> {
    ReasoningText {
        text: &'a str,
        signature: &'a str,
    },
    /// Encrypted reasoning in base64.
    RedactedContent(String),
}

/// A block in the API's own JSON, without [`ORIGIN`].
#[derive(Debug)]
pub(crate) struct Own<'a>(pub(crate) OwnFields<'a>);

/// The fields of a block in the API's own JSON, changed only where the API would reject them.
pub(crate) type OwnFields<'a> = Cow<'a, Map<String, Value>>;

impl Serialize for Own<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(key, _)| *key != ORIGIN))
    }
}
