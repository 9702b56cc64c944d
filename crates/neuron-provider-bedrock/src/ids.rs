//! Ids of tool calls, which are unique in a conversation.
//!
//! Some vendors restart the numbering of their calls in every response. [`Ids`] replaces repeated and invalid ids in
//! requests. [`ResponseIds`] replaces missing and repeated ids in a response.

use std::borrow::Cow;

use neuron_http::{CallIds, UniqueTexts};
use neuron_model::Message;

use crate::PROVIDER;
use crate::allowed::{self, MAX_CHARS};

/// The mapping from call ids in the conversation to call ids in the request.
pub(crate) struct Ids<'a>(CallIds<'a>);

impl<'a> Ids<'a> {
    /// Creates an empty mapping with room for the calls in `messages`.
    pub(crate) fn new(messages: &[Message]) -> Self {
        Self(CallIds::new(PROVIDER, allowed::id, MAX_CHARS, messages))
    }

    /// See [`CallIds::enter_message`].
    pub(crate) fn enter_message(&mut self, message: &'a Message) {
        self.0.enter_message(message);
    }

    /// Returns the id that the request contains instead of `id`.
    pub(crate) fn of(&self, id: &'a str) -> Cow<'a, str> {
        match self.0.of(id) {
            // The result of a tool may have no call.
            same if same == id => allowed::id(id),
            other => other.to_owned().into(),
        }
    }
}

/// The ids of all tool calls of one response.
#[derive(Debug)]
pub(crate) struct ResponseIds {
    given: UniqueTexts<'static>,
}

impl Default for ResponseIds {
    fn default() -> Self {
        Self { given: UniqueTexts::new(MAX_CHARS) }
    }
}

impl ResponseIds {
    /// Returns an id that no earlier call of the response has. This is the server's id, with a number if an earlier
    /// call has that id. For a call without an id, a new id is made from the id of the response.
    pub(crate) fn next(&mut self, server_id: &str, response_id: &str) -> String {
        let id = match (server_id, response_id) {
            ("", "") => "tooluse".to_owned(),
            ("", response) => allowed::id(&format!("tooluse_{response}")).into_owned(),
            (id, _) => id.to_owned(),
        };
        // A long id that is not repeated is kept as it is.
        if self.given.insert(id.clone().into()) {
            return id;
        }
        self.given.give(allowed::id(&id).into_owned().into()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::ContentBlock;
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
        let mut ids = Ids::new(&messages);
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
