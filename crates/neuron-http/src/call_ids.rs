//! The ids of tool calls in a request.

use std::borrow::Cow;
use std::collections::HashMap;

use neuron_model::{ContentBlock, Message};

use crate::UniqueTexts;

/// The mapping from ids of tool calls in a conversation to ids in a request. No two calls of the request have the same
/// id.
///
/// A conversation may begin with another vendor. Its ids may contain characters that a vendor rejects, such as
/// `functions.look:0`. They may also repeat, because some vendors restart the numbering in every response.
///
/// The new id of a call depends only on earlier messages. The JSON of a message therefore stays the same while the
/// conversation grows.
#[derive(Debug)]
pub struct CallIds<'a> {
    provider: &'static str,
    fit: fn(&str) -> Cow<'_, str>,
    sent: UniqueTexts<'a>,
    /// Replacements of ids that are invalid or that an earlier call has.
    renamed: HashMap<&'a str, String>,
}

impl<'a> CallIds<'a> {
    /// Creates an empty mapping with room for the calls in `messages`.
    ///
    /// `provider` is the name of the provider in [`ContentBlock::Raw`]. Its own blocks are sent with their own ids.
    /// `fit` replaces what the vendor rejects in an id. An id with a number has at most `most` characters.
    pub fn new(
        provider: &'static str,
        fit: fn(&str) -> Cow<'_, str>,
        most: usize,
        messages: &[Message],
    ) -> Self {
        let calls = messages.iter().flat_map(Message::tool_uses).count();
        let sent = UniqueTexts::with_capacity(most, calls);
        Self { provider, fit, sent, renamed: HashMap::new() }
    }

    /// Assigns ids to the tool calls of the next message. Must be called for every message in order, because a tool
    /// result refers to the latest call with its id.
    pub fn enter_message(&mut self, message: &'a Message) {
        for block in &message.content {
            let Some(call) = block.as_tool_use() else {
                continue;
            };
            let id = match block {
                // The vendor's own API generated this id, so the id is valid.
                ContentBlock::Raw { provider, .. } if *provider == self.provider => {
                    self.sent.insert(call.id.into());
                    call.id.into()
                }
                _ => self.sent.give((self.fit)(call.id)),
            };
            // Later results refer to this call, so an earlier replacement of the same id no longer applies.
            match id == call.id {
                true => drop(self.renamed.remove(call.id)),
                false => drop(self.renamed.insert(call.id, id.into_owned())),
            }
        }
    }

    /// Returns the id that the request contains instead of `id`, or `id` itself if it is not replaced.
    #[must_use]
    pub fn of<'i>(&'i self, id: &'i str) -> &'i str {
        self.renamed.get(id).map_or(id, String::as_str)
    }
}
