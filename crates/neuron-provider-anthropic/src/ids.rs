//! Ids of tool calls. The API requires ids that are unique in the conversation and consist of letters, digits, `_` and
//! `-`.
//!
//! A conversation may begin with another vendor and continue here. The ids of other vendors may contain other
//! characters, such as `functions.look:0`. They may also repeat, because some vendors restart the numbering in every
//! response. [`CallIds`] replaces such ids in requests. Compatible servers may omit ids, or repeat them within a response.
//! [`ResponseIds`] replaces such ids in responses.

use std::borrow::Cow;

use neuron_http::{CallIds, UniqueTexts};
use neuron_model::Message;
use serde_json::{Map, Value};

use crate::request::PROVIDER;

/// Creates an empty mapping from call ids in the conversation to call ids in the request, with room for the calls in
/// `messages`.
pub(crate) fn ids(messages: &[Message]) -> CallIds<'_> {
    // The API has no maximum length.
    CallIds::new(PROVIDER, allowed, usize::MAX, messages)
}

/// The ids of all tool calls of one response. Ensures that all ids differ.
#[derive(Debug, Default)]
pub(crate) struct ResponseIds {
    given: UniqueTexts<'static>,
}

impl ResponseIds {
    /// Replaces the id of a tool call if the id is empty, or if an earlier call of the response has the same id. Does
    /// not change any other block.
    ///
    /// The new id depends only on `message_id` and the earlier calls. A response therefore has the same ids whether it
    /// is streamed or not.
    pub(crate) fn complete(&mut self, block: &mut Map<String, Value>, message_id: &str) {
        let text = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("type") != "tool_use" {
            return;
        }
        let id = self.given.give_id(text("id"), || match message_id {
            "" => "toolu".to_owned(),
            message_id => format!("toolu_{}", allowed(message_id)),
        });
        block.insert("id".to_owned(), Value::String(id));
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
