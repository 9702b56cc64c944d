//! The prefix of a request that a vendor caches, as JSON, and its comparison with the previous prefix.

use std::io::{self, Write};

use neuron_types::{
    ContentBlock, ContextManagement, HistoryKey, Message, ReasoningEffort, RequestRef,
    ResponseFormat, Role, SystemPrompt, ThinkingConfig, ToolChoice, ToolDefinition,
};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The part of a request that a vendor caches, as JSON.
///
/// The JSON is an object with the fields `tools`, `system`, `settings` and `messages`. The array of messages is not
/// closed, so the JSON of a request starts with the JSON of an earlier request of the same conversation.
#[derive(Debug, Clone)]
pub(super) struct Prefix {
    json: Vec<u8>,
    /// Offset of the first message in `json`.
    messages_start: usize,
    /// Number of messages in `json`.
    messages: usize,
    key: Option<HistoryKey>,
}

/// The prefix of a request, compared with the prefix of the previous request.
#[derive(Debug)]
pub(super) enum Followed {
    /// The prefix starts with the whole previous prefix.
    Extended {
        prefix: Prefix,
        /// Length of the previous prefix in bytes, its number of messages and its key.
        previous: (usize, usize, Option<HistoryKey>),
    },
    /// The prefixes differ.
    Different {
        prefix: Prefix,
        previous: Prefix,
        /// Offset of the first byte that differs. If one prefix starts with the other, the length of the shorter.
        offset: usize,
    },
}

impl Prefix {
    /// Serialises the prefix of a request.
    pub(super) fn of(request: RequestRef<'_>) -> serde_json::Result<Self> {
        let mut json = Vec::new();
        write_head(&mut json, request)?;
        let messages_start = json.len();
        write_messages(&mut json, request.messages, 0)?;
        let (messages, key) = (request.messages.len(), request.history_key());
        Ok(Self { json, messages_start, messages, key })
    }

    /// Serialises the prefix of the next request and compares it.
    ///
    /// While the prefixes are equal, nothing is copied. If the two requests have the same
    /// [key](RequestRef::history_key), only the new messages are serialised.
    pub(super) fn follow(self, request: RequestRef<'_>) -> serde_json::Result<Followed> {
        let Self { json, messages_start, messages, key } = self;
        let (length, history) = (json.len(), request.history_key());
        let mut writer = Comparison { json, matched: 0, new: None };
        write_head(&mut writer, request)?;
        let new_start = writer.position();
        // The key guarantees that the request starts with the messages of the previous request.
        let is_known = key.is_some() && key == history && messages <= request.messages.len();
        let skipped = match is_known && (writer.new.is_some() || new_start == messages_start) {
            true => {
                writer.keep_from(messages_start);
                messages
            }
            false => 0,
        };
        write_messages(&mut writer, request.messages, skipped)?;
        let Comparison { json, matched, new } = writer;
        let new_messages = request.messages.len();
        let of =
            |json| Self { json, messages_start: new_start, messages: new_messages, key: history };
        let (new, offset) = match new {
            Some((new, offset)) => (new, offset),
            None if matched >= length => {
                return Ok(Followed::Extended {
                    prefix: of(json),
                    previous: (length, messages, key),
                });
            }
            // The request ends inside the previous prefix.
            None => (json.get(..matched).unwrap_or_default().to_vec(), matched),
        };
        let previous = Self { json, messages_start, messages, key };
        Ok(Followed::Different { prefix: of(new), previous, offset })
    }

    /// Returns the JSON of the prefix.
    pub(super) fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns `true` if messages that [`messages_json`] serialised start with all messages of this prefix, and have
    /// further messages.
    pub(super) fn begins(&self, messages_json: &[u8]) -> bool {
        let own = self.json.get(self.messages_start..).unwrap_or_default();
        // A message is a JSON object, so its text cannot be the beginning of another message.
        let rest = messages_json.strip_prefix(own).unwrap_or_default();
        !own.is_empty() && !rest.is_empty()
    }

    /// Returns the number of messages.
    pub(super) fn messages(&self) -> usize {
        self.messages
    }
}

impl Followed {
    /// Returns the new prefix.
    pub(super) fn into_prefix(self) -> Prefix {
        match self {
            Self::Extended { prefix, .. } | Self::Different { prefix, .. } => prefix,
        }
    }

    /// Returns the previous prefix.
    pub(super) fn into_previous(self) -> Prefix {
        match self {
            Self::Extended { mut prefix, previous: (length, messages, key) } => {
                prefix.json.truncate(length);
                Prefix { messages, key, ..prefix }
            }
            Self::Different { previous, .. } => previous,
        }
    }
}

/// Serialises messages as in a prefix.
pub(super) fn messages_json(messages: &[Message]) -> serde_json::Result<Vec<u8>> {
    let mut json = Vec::new();
    write_messages(&mut json, messages, 0)?;
    Ok(json)
}

/// Returns the number of content blocks that vendors receive for these messages.
pub(super) fn blocks(messages: &[Message]) -> usize {
    messages.iter().map(|message| sent(message).count()).sum()
}

/// Compares the written JSON with earlier JSON. JSON that only extends the earlier JSON is appended to it.
struct Comparison {
    /// The earlier JSON, and behind it the JSON that extends it.
    json: Vec<u8>,
    /// Number of bytes in `json` that are equal to the written JSON.
    matched: usize,
    /// The written JSON and the offset of the first difference. `None` as long as there is no difference.
    new: Option<(Vec<u8>, usize)>,
}

impl Comparison {
    /// Number of bytes that were written.
    fn position(&self) -> usize {
        self.new.as_ref().map_or(self.matched, |(new, _)| new.len())
    }

    /// Writes the earlier JSON from an offset to its end.
    fn keep_from(&mut self, start: usize) {
        match &mut self.new {
            Some((new, _)) => new.extend_from_slice(self.json.get(start..).unwrap_or_default()),
            None => self.matched = self.json.len(),
        }
    }
}

impl Write for Comparison {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((new, _)) = &mut self.new {
            new.extend_from_slice(bytes);
            return Ok(bytes.len());
        }
        let rest = self.json.get(self.matched..).unwrap_or_default();
        let common = common_length(rest, bytes);
        let is_end = common == rest.len();
        self.matched = self.matched.saturating_add(common);
        let left = bytes.get(common..).unwrap_or_default();
        if is_end {
            self.json.extend_from_slice(left);
            self.matched = self.json.len();
        } else if !left.is_empty() {
            let mut new = Vec::with_capacity(self.json.len());
            new.extend_from_slice(self.json.get(..self.matched).unwrap_or_default());
            new.extend_from_slice(left);
            self.new = Some((new, self.matched));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the number of equal bytes at the beginning of two slices.
fn common_length(a: &[u8], b: &[u8]) -> usize {
    // Usually the written bytes are equal, and the comparison of whole slices is faster.
    if a.starts_with(b) {
        return b.len();
    }
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Writes everything before the first message.
fn write_head(out: &mut impl Write, request: RequestRef<'_>) -> serde_json::Result<()> {
    let text = |text: &str, out: &mut dyn Write| {
        out.write_all(text.as_bytes()).map_err(serde_json::Error::io)
    };
    text("{\"tools\":", out)?;
    serde_json::to_writer(&mut *out, &Tools(request.tools))?;
    text(",\"system\":", out)?;
    serde_json::to_writer(&mut *out, &System(request.system))?;
    text(",\"settings\":", out)?;
    serde_json::to_writer(&mut *out, &Settings::of(request))?;
    text(",\"messages\":[", out)
}

/// Writes messages, except the first `skipped` messages, which are already written.
fn write_messages(
    out: &mut impl Write,
    messages: &[Message],
    skipped: usize,
) -> serde_json::Result<()> {
    for (index, message) in messages.iter().enumerate().skip(skipped) {
        if index > 0 {
            out.write_all(b",").map_err(serde_json::Error::io)?;
        }
        serde_json::to_writer(&mut *out, &SentMessage::of(message))?;
    }
    Ok(())
}

/// The definitions of tools, with the fields that providers send.
struct Tools<'a>(&'a [ToolDefinition]);

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tool<'a> {
            name: &'a str,
            description: &'a str,
            // The schema contains vendor-specific fields.
            input_schema: &'a Value,
        }
        serializer.collect_seq(self.0.iter().map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.input_schema,
        }))
    }
}

/// The texts of a system prompt, without cache breakpoints.
struct System<'a>(Option<&'a SystemPrompt>);

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.collect_seq([(); 0]),
            Some(SystemPrompt::Text(text)) => serializer.collect_seq([text]),
            Some(SystemPrompt::Blocks(blocks)) => {
                serializer.collect_seq(blocks.iter().map(|block| &block.text))
            }
        }
    }
}

/// The settings that vendors render into the prompt, or whose change discards cached messages.
///
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>
#[derive(Serialize)]
struct Settings<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<&'a ResponseFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_management: Option<&'a ContextManagement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a Value>,
}

impl<'a> Settings<'a> {
    fn of(request: RequestRef<'a>) -> Self {
        Self {
            response_format: request.response_format,
            tool_choice: request.tool_choice,
            thinking: request.thinking,
            reasoning_effort: request.reasoning_effort,
            context_management: request.context_management,
            extra: request.extra,
        }
    }
}

/// A message without marker blocks, which no provider sends.
#[derive(Serialize)]
struct SentMessage<'a> {
    role: Role,
    content: SentContent<'a>,
}

struct SentContent<'a>(&'a Message);

impl<'a> SentMessage<'a> {
    fn of(message: &'a Message) -> Self {
        Self { role: message.role, content: SentContent(message) }
    }
}

impl Serialize for SentContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(sent(self.0))
    }
}

fn sent(message: &Message) -> impl Iterator<Item = &ContentBlock> {
    message.content.iter().filter(|block| !block.is_mark())
}
