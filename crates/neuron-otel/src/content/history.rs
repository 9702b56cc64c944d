//! [`History`], which serialises a conversation incrementally.

use neuron_types::{HistoryKey, RequestRef};

use super::message;

/// The serialised conversation of a run. For a later request of the same conversation, only the new messages are
/// serialised.
#[derive(Default)]
pub(crate) struct History {
    /// Key that identifies the serialised conversation, and the number of its messages that are serialised.
    known: Option<(HistoryKey, usize)>,
    /// Serialised messages, as a JSON array without its closing bracket.
    text: String,
}

impl History {
    /// Returns the value of `gen_ai.input.messages` for a request.
    ///
    /// Serialises only the new messages if the request belongs to the same conversation as the previous request.
    /// Otherwise, or if the conversation has no [key](RequestRef::history_key), serialises all messages.
    pub(crate) fn input_messages(&mut self, request: &RequestRef<'_>) -> String {
        let key = request.history_key();
        let known = self.known.take().filter(|(known, _)| Some(*known) == key);
        let new = known.and_then(|(_, count)| request.messages.get(count..));
        let new = new.unwrap_or_else(|| {
            self.text.clear();
            request.messages
        });
        for message_of in new {
            self.text.push(if self.text.is_empty() { '[' } else { ',' });
            self.text.push_str(&message(message_of).to_string());
        }
        self.known = key.map(|key| (key, request.messages.len()));
        match self.text.is_empty() {
            true => "[]".to_owned(),
            false => [&self.text, "]"].concat(),
        }
    }
}
