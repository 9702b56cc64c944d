//! Calls of the server's own tools that have no result, after a pause in which the conversation went on elsewhere.

use std::collections::HashSet;

use neuron_model::{ContentBlock, Message, Role};
use serde_json::Value;

use crate::request::PROVIDER;

/// The calls of the server's own tools that must be left out, because they have no result.
///
/// The server may pause a response between the call of its tool and the result, and the next response of the server has
/// the result. If another provider or the user continues the conversation instead, then the result never comes, and the
/// API rejects the call in every later request (<https://github.com/gsd-build/gsd-2/issues/2869>).
pub(crate) struct OpenCalls<'a>(HashSet<&'a str>);

impl<'a> OpenCalls<'a> {
    /// Collects the calls without a result, except for the calls of a response that the request continues.
    pub(crate) fn new(messages: &'a [Message]) -> Self {
        let is_over = |message: &Message| message.role != Role::Assistant;
        let continued = messages.iter().rposition(is_over).map_or(0, |last| last + 1);
        let over = messages.get(..continued).unwrap_or_default();
        let mut open: HashSet<&str> = jsons(over).filter_map(call_id).collect();
        // Most conversations have no such calls.
        if !open.is_empty() {
            for json in jsons(messages) {
                if let Some(id) = json.get("tool_use_id").and_then(Value::as_str) {
                    open.remove(id);
                }
            }
        }
        Self(open)
    }

    /// Returns `true` if the JSON of a raw block is one of the calls.
    pub(crate) fn contains(&self, json: &Value) -> bool {
        !self.0.is_empty() && call_id(json).is_some_and(|id| self.0.contains(id))
    }
}

/// Returns the JSON of all raw blocks of this provider.
fn jsons(messages: &[Message]) -> impl Iterator<Item = &Value> {
    messages.iter().flat_map(|message| &message.content).filter_map(|block| match block {
        ContentBlock::Raw { provider, json, .. } if provider == PROVIDER => Some(json),
        _ => None,
    })
}

/// Returns the id of a call of a server's tool. Returns `None` for any other block.
fn call_id(json: &Value) -> Option<&str> {
    let kind = json.get("type")?.as_str()?;
    let is_call = kind == "server_tool_use" || kind == "mcp_tool_use";
    json.get("id").filter(|_| is_call)?.as_str()
}
