//! Ids of tool calls. The API requires ids that are unique in the conversation and consist of letters, digits, `_` and
//! `-`.
//!
//! A conversation may begin with another vendor and continue here. The ids of other vendors may contain other
//! characters, such as `functions.look:0`. They may also repeat, because some vendors restart the numbering in every
//! response. [`Ids`] replaces such ids in requests. Compatible servers may omit ids, or repeat them within a response.
//! [`ResponseIds`] replaces such ids in responses.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use neuron_types::{ContentBlock, Message};
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// The mapping from call ids in the conversation to call ids in the request. The new id of a call depends only on
/// earlier messages. The JSON of a message therefore stays the same while the conversation grows.
pub(crate) struct Ids<'a> {
    /// All ids that the request contains so far.
    sent: HashSet<Cow<'a, str>>,
    /// Replacements of ids that are invalid or that an earlier call has.
    renamed: HashMap<&'a str, String>,
    /// Last number that was appended to each repeated id, by id.
    numbers: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Ids<'a> {
    /// Creates an empty mapping with room for the calls in `messages`.
    pub(crate) fn new(messages: &[Message]) -> Self {
        let calls = messages.iter().flat_map(Message::tool_uses).count();
        Self {
            sent: HashSet::with_capacity(calls),
            renamed: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// Assigns ids to the tool calls of the next message. Must be called for every message in order, because a tool
    /// result refers to the latest call with its id.
    pub(crate) fn enter_message(&mut self, message: &'a Message) {
        for block in &message.content {
            let Some(call) = block.as_tool_use() else {
                continue;
            };
            let id = match block {
                // Anthropic's API generated this id, so the id is valid.
                ContentBlock::Raw { provider, .. } if provider == PROVIDER => call.id.into(),
                _ => self.unique(allowed(call.id)),
            };
            // Later results refer to this call, so an earlier replacement of the same id no longer applies.
            match &id {
                Cow::Borrowed(_) => drop(self.renamed.remove(call.id)),
                Cow::Owned(id) => drop(self.renamed.insert(call.id, id.clone())),
            }
            self.sent.insert(id);
        }
    }

    /// Returns the id that the request contains instead of `id`, or `id` itself if it is not replaced.
    pub(crate) fn of<'i>(&'i self, id: &'i str) -> &'i str {
        self.renamed.get(id).map_or(id, String::as_str)
    }

    /// Returns `id`, with a number appended if an earlier call has the same id.
    fn unique(&mut self, id: Cow<'a, str>) -> Cow<'a, str> {
        if !self.sent.contains(&id) {
            return id;
        }
        let number = self.numbers.entry(id.clone()).or_insert(1);
        loop {
            *number += 1;
            let numbered = Cow::Owned(format!("{id}_{number}"));
            if !self.sent.contains(&numbered) {
                return numbered;
            }
        }
    }
}

/// The ids of all tool calls of one response. Ensures that all ids differ.
#[derive(Debug, Default)]
pub(crate) struct ResponseIds {
    given: HashSet<String>,
}

impl ResponseIds {
    /// Replaces the id of a tool call if the id is empty, or if an earlier call of the response has the same id. Does
    /// not change any other block.
    ///
    /// The new id depends on `message_id` and the number of earlier calls. A response therefore has the same ids
    /// whether it is streamed or not.
    pub(crate) fn complete(&mut self, block: &mut Map<String, Value>, message_id: &str) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("type") != "tool_use" {
            return;
        }
        let id = text("id").to_owned();
        if !id.is_empty() && self.given.insert(id.clone()) {
            return;
        }
        let (base, mut number) = match id.as_str() {
            "" if message_id.is_empty() => ("toolu".to_owned(), self.given.len()),
            "" => (format!("toolu_{}", allowed(message_id)), self.given.len()),
            _ => (id, 2),
        };
        let mut made = format!("{base}_{number}");
        while !self.given.insert(made.clone()) {
            number += 1;
            made = format!("{base}_{number}");
        }
        block.insert("id".to_owned(), Value::String(made));
    }
}

/// Returns an id with `_` in place of each character that the API rejects.
fn allowed(id: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(is_allowed) {
        return id.into();
    }
    id.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect::<String>().into()
}
