//! Ids of tool calls. The API requires unique ids of letters, digits, `_` and `-`.
//!
//! Other vendors guarantee neither. `functions.look:0` is a valid id there, and some servers restart numbering in every
//! response. A conversation may begin with another vendor and continue here. Compatible servers may omit ids or repeat
//! them within a response ([`ResponseIds`]).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use neuron_types::{ContentBlock, Message};
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// The mapping from ids in the conversation to ids that are sent. An id depends only on earlier messages, so that the
/// bytes of a growing conversation are stable.
pub(crate) struct Ids<'a> {
    sent: HashSet<Cow<'a, str>>,
    /// Replacements of ids that are invalid or that another call has.
    renamed: HashMap<&'a str, String>,
    /// The next suffix for a repeated id.
    numbers: HashMap<Cow<'a, str>, usize>,
}

impl<'a> Ids<'a> {
    pub(crate) fn new(messages: &[Message]) -> Self {
        let calls = messages.iter().flat_map(Message::tool_uses).count();
        Self {
            sent: HashSet::with_capacity(calls),
            renamed: HashMap::new(),
            numbers: HashMap::new(),
        }
    }

    /// Moves to the calls of the next message. Tool results refer to the calls of the current message.
    pub(crate) fn enter_message(&mut self, message: &'a Message) {
        for block in &message.content {
            let Some(call) = block.as_tool_use() else {
                continue;
            };
            let id = match block {
                // The API generated this id, so it is valid.
                ContentBlock::Raw { provider, .. } if provider == PROVIDER => call.id.into(),
                _ => self.unique(allowed(call.id)),
            };
            // An id that is sent unchanged ends an earlier replacement of the same id.
            match &id {
                Cow::Borrowed(_) => drop(self.renamed.remove(call.id)),
                Cow::Owned(id) => drop(self.renamed.insert(call.id, id.clone())),
            }
            self.sent.insert(id);
        }
    }

    /// Returns the id that is sent for `id`.
    pub(crate) fn of<'i>(&'i self, id: &'i str) -> &'i str {
        self.renamed.get(id).map_or(id, String::as_str)
    }

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

/// The ids of the tool calls of one response.
#[derive(Debug, Default)]
pub(crate) struct ResponseIds {
    given: HashSet<String>,
}

impl ResponseIds {
    /// Replaces the id of a tool call if it is empty or an earlier call of the response has it.
    ///
    /// A streamed response gets the same ids as a whole response.
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

fn allowed(id: &str) -> Cow<'_, str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(is_allowed) {
        return id.into();
    }
    id.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect::<String>().into()
}
