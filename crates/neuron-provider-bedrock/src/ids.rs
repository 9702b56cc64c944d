//! Ids of tool calls, which are unique in a conversation.
//!
//! Some vendors restart the numbering of their calls in every response. [`Ids`] replaces repeated and invalid ids in
//! requests. [`ResponseIds`] replaces missing and repeated ids in a response.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use neuron_types::{ContentBlock, Message};

use crate::PROVIDER;
use crate::allowed;

/// The mapping from call ids in the conversation to call ids in the request. The new id of a call depends only on
/// earlier messages, so the JSON of a message stays the same while the conversation grows.
#[derive(Default)]
pub(crate) struct Ids<'a> {
    /// All ids that the request contains so far.
    sent: HashSet<Cow<'a, str>>,
    /// Replacements of ids that are invalid or that an earlier call has.
    renamed: HashMap<&'a str, Cow<'a, str>>,
}

impl<'a> Ids<'a> {
    /// Assigns ids to the tool calls of the next message. Must be called for every message in order, because a tool
    /// result refers to the latest call with its id.
    pub(crate) fn enter_message(&mut self, message: &'a Message) {
        for block in &message.content {
            let Some(call) = block.as_tool_use() else {
                continue;
            };
            let id = match block {
                // A block in the API's own JSON is sent with its own id.
                ContentBlock::Raw { provider, .. } if provider == PROVIDER => call.id.into(),
                _ => allowed::unique(allowed::id(call.id), &self.sent),
            };
            // Later results refer to this call, so an earlier replacement of the same id no longer applies.
            match &id {
                Cow::Borrowed(same) if *same == call.id => drop(self.renamed.remove(call.id)),
                id => drop(self.renamed.insert(call.id, id.clone())),
            }
            self.sent.insert(id);
        }
    }

    /// Returns the id that the request contains instead of `id`.
    pub(crate) fn of(&self, id: &'a str) -> Cow<'a, str> {
        self.renamed.get(id).cloned().unwrap_or_else(|| allowed::id(id))
    }
}

/// The ids of all tool calls of one response.
#[derive(Debug, Default)]
pub(crate) struct ResponseIds {
    given: HashSet<String>,
}

impl ResponseIds {
    /// Returns an id that no earlier call of the response has. This is the server's id, with a number if an earlier
    /// call has that id. For a call without an id, a new id is made from the id of the response.
    pub(crate) fn next(&mut self, server_id: &str, response_id: &str) -> String {
        let id = match (server_id, response_id) {
            ("", "") => Cow::Borrowed("tooluse"),
            ("", response) => allowed::id(&format!("tooluse_{response}")).into_owned().into(),
            (id, _) => Cow::Borrowed(id),
        };
        // A long id that is not repeated is kept as it is.
        let id = match self.given.contains(id.as_ref()) {
            true => allowed::unique(allowed::id(&id), &self.given).into_owned(),
            false => id.into_owned(),
        };
        self.given.insert(id.clone());
        id
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str) -> Message {
        let content =
            vec![ContentBlock::ToolUse { id: id.into(), name: "f".into(), input: json!({}) }];
        Message { content, ..Message::assistant("") }
    }

    #[test]
    fn repeated_and_invalid_ids_are_replaced() {
        let messages = ["a/b", "a_b", "a/b", "ok"].map(call);
        let mut ids = Ids::default();
        let mut sent = Vec::new();
        for message in &messages {
            ids.enter_message(message);
            sent.push(ids.of(message.tool_uses().next().unwrap().id).into_owned());
        }
        assert_eq!(sent, ["a_b", "a_b_2", "a_b_3", "ok"]);
        assert_eq!(ids.of("result/without/call"), "result_without_call");
    }

    #[test]
    fn calls_of_a_response_have_unique_ids() {
        let mut ids = ResponseIds::default();
        let given = ["a", "", "a", "", "b"].map(|id| ids.next(id, "r/1"));
        assert_eq!(given, ["a", "tooluse_r_1", "a_2", "tooluse_r_1_2", "b"]);
    }
}
