//! The prefix of a request that a vendor caches, as JSON, and its comparison with the previous prefix.

use std::iter::zip;

use neuron_types::{
    ContentBlock, ContextManagement, HistoryKey, Message, ReasoningEffort, RequestRef,
    ResponseFormat, Role, SystemPrompt, ThinkingConfig, ToolChoice,
};
use serde::Serialize;
use serde_json::{Result, Value};

use super::report::{PrefixChange, PrefixPart};

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
    pub(super) messages: usize,
    key: Option<HistoryKey>,
}

/// The prefix of a request, compared with the prefix of the previous request.
#[derive(Debug)]
pub(super) enum Followed {
    /// The prefix starts with the whole previous prefix, which these messages extend.
    Extended { json: Vec<u8>, messages: usize, key: Option<HistoryKey> },
    /// The prefixes differ.
    Different(Prefix),
}

impl Prefix {
    /// Serialises the prefix of a request.
    pub(super) fn of(request: RequestRef<'_>) -> Result<Self> {
        let mut json = head(request)?;
        let messages_start = json.len();
        write_messages(&mut json, request.messages, 0)?;
        let (messages, key) = (request.messages.len(), request.history_key());
        Ok(Self { json, messages_start, messages, key })
    }

    /// Serialises the prefix of the next request and compares it. If the two requests have the same
    /// [key](RequestRef::history_key), only the new messages are serialised.
    pub(super) fn follow(&self, request: RequestRef<'_>) -> Result<Followed> {
        let (messages, key) = (request.messages.len(), request.history_key());
        // The key guarantees that the request starts with the messages of the previous request.
        if key.is_some()
            && (key, self.messages) == (self.key, self.messages.min(messages))
            && self.json.get(..self.messages_start) == Some(&*head(request)?)
        {
            let mut json = Vec::new();
            write_messages(&mut json, request.messages, self.messages)?;
            return Ok(Followed::Extended { json, messages, key });
        }
        let mut next = Self::of(request)?;
        if !next.json.starts_with(&self.json) {
            return Ok(Followed::Different(next));
        }
        Ok(Followed::Extended { json: next.json.split_off(self.json.len()), messages, key })
    }

    /// Returns the prefix after a call.
    pub(super) fn followed_by(mut self, followed: Followed) -> Self {
        match followed {
            Followed::Different(prefix) => prefix,
            Followed::Extended { json, messages, key } => {
                self.json.extend(json);
                Self { messages, key, ..self }
            }
        }
    }

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

    /// Returns the first difference between two prefixes that differ.
    pub(super) fn change(&self, current: &Self) -> PrefixChange {
        let values = [self, current].map(|prefix| {
            serde_json::from_slice::<Value>(&[&prefix.json, &b"]}"[..]].concat()).ok()
        });
        let [previous, new] = values.each_ref().map(Option::as_ref);
        let mut path = Vec::new();
        let offset_in_value = descend(previous, new, &mut path);
        let part = match &path[..] {
            [Step::Key("tools"), Step::Index(index), ..] => {
                let tool = |json: &Value| {
                    let tool = json.get("tools")?.get(*index)?;
                    Some(tool.get("name")?.as_str()?.to_owned())
                };
                let name = new.and_then(tool).or_else(|| previous.and_then(tool));
                PrefixPart::Tool { name: name.unwrap_or_default() }
            }
            [Step::Key("settings"), rest @ ..] => PrefixPart::Setting {
                name: rest.first().map_or_else(String::new, |step| step.text(true)),
            },
            [Step::Key("messages"), Step::Index(index), ..] => {
                PrefixPart::Message { index: *index }
            }
            _ => PrefixPart::System,
        };
        let offset = common(&self.json, &current.json);
        let path = path.iter().enumerate().map(|(at, step)| step.text(at == 0)).collect();
        PrefixChange { part, offset, path, offset_in_value }
    }
}

/// A step from a JSON value to a value inside it.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl Step<'_> {
    fn text(&self, is_first: bool) -> String {
        let is_plain = |key: &str| key.chars().all(|char| char.is_alphanumeric() || char == '_');
        match self {
            Self::Index(index) => format!("[{index}]"),
            Self::Key(key) if key.is_empty() || !is_plain(key) => format!("[\"{key}\"]"),
            Self::Key(key) if is_first => (*key).to_owned(),
            Self::Key(key) => format!(".{key}"),
        }
    }
}

/// Adds the path of the innermost value that contains the first difference of two values. Returns the offset of the
/// difference in the JSON of this value. The quote at the start of a text does not count.
fn descend<'a>(
    previous: Option<&'a Value>,
    current: Option<&'a Value>,
    path: &mut Vec<Step<'a>>,
) -> usize {
    let differ = |a: Option<&Value>, b: Option<&Value>| match (a, b) {
        // The order of keys counts, which the comparison of values ignores.
        (Some(a), Some(b)) => serde_json::to_vec(a).ok() != serde_json::to_vec(b).ok(),
        _ => true,
    };
    match (previous, current) {
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            let index = (0..a.len().max(b.len())).find(|at| differ(a.get(*at), b.get(*at)));
            let index = index.unwrap_or_default();
            path.push(Step::Index(index));
            return descend(a.get(index), b.get(index), path);
        }
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut fields = zip(a, b);
            let different = fields.find(|(a, b)| a.0 != b.0 || differ(Some(a.1), Some(b.1)));
            if let Some(((key, a), (other, b))) = different
                && key == other
            {
                path.push(Step::Key(key));
                return descend(Some(a), Some(b), path);
            }
        }
        _ => {}
    }
    let text = |value: Option<&Value>| value.map(Value::to_string).unwrap_or_default();
    let is_text = matches!((previous, current), (Some(Value::String(_)), Some(Value::String(_))));
    common(text(previous).as_bytes(), text(current).as_bytes()).saturating_sub(is_text.into())
}

/// Returns the number of equal bytes at the beginning of two slices.
fn common(a: &[u8], b: &[u8]) -> usize {
    zip(a, b).take_while(|(a, b)| a == b).count()
}

/// Serialises messages as in a prefix.
pub(super) fn messages_json(messages: &[Message]) -> Result<Vec<u8>> {
    let mut json = Vec::new();
    write_messages(&mut json, messages, 0)?;
    Ok(json)
}

/// Returns the number of content blocks that vendors receive for these messages.
pub(super) fn blocks(messages: &[Message]) -> usize {
    messages.iter().map(|message| sent(message).count()).sum()
}

/// Serialises everything before the first message.
fn head(request: RequestRef<'_>) -> Result<Vec<u8>> {
    let tools = request.tools.iter().map(|tool| Tool {
        name: &tool.name,
        description: &tool.description,
        input_schema: &tool.input_schema,
    });
    let system = match request.system {
        None => Vec::new(),
        Some(SystemPrompt::Text(text)) => vec![&**text],
        Some(SystemPrompt::Blocks(blocks)) => blocks.iter().map(|block| &*block.text).collect(),
    };
    let settings = Settings {
        response_format: request.response_format,
        tool_choice: request.tool_choice,
        thinking: request.thinking,
        reasoning_effort: request.reasoning_effort,
        context_management: request.context_management,
        extra: request.extra,
    };
    let mut json = serde_json::to_vec(&Head { tools: tools.collect(), system, settings })?;
    json.pop();
    json.extend_from_slice(b",\"messages\":[");
    Ok(json)
}

/// Writes messages, except the first `skipped` messages, which are already written.
fn write_messages(json: &mut Vec<u8>, messages: &[Message], skipped: usize) -> Result<()> {
    for (index, message) in messages.iter().enumerate().skip(skipped) {
        if index > 0 {
            json.push(b',');
        }
        let message = SentMessage { role: message.role, content: sent(message).collect() };
        serde_json::to_writer(&mut *json, &message)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Head<'a> {
    tools: Vec<Tool<'a>>,
    /// The texts of the system prompt, without cache breakpoints.
    system: Vec<&'a str>,
    settings: Settings<'a>,
}

/// The definition of a tool, with the fields that providers send.
#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    // The schema contains vendor-specific fields.
    input_schema: &'a Value,
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

/// A message without marker blocks, which no provider sends.
#[derive(Serialize)]
struct SentMessage<'a> {
    role: Role,
    content: Vec<&'a ContentBlock>,
}

fn sent(message: &Message) -> impl Iterator<Item = &ContentBlock> {
    message.content.iter().filter(|block| !block.is_mark())
}
