//! [`History`]: the JSON of a conversation, of which each message is written once.

use neuron_types::{HistoryKey, RequestRef};

use super::message;

/// The JSON of a run's conversation. A request of the same conversation adds the messages that are new to it.
#[derive(Default)]
pub(crate) struct History {
    /// The name of the conversation, and the number of its messages that are written.
    known: Option<(HistoryKey, usize)>,
    /// The beginning of a JSON array.
    text: String,
}

impl History {
    /// Returns `gen_ai.input.messages` of a request. Without a [name](RequestRef::history_key) for its conversation, all of
    /// its messages are written.
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
