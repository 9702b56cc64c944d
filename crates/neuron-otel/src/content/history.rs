//! [`History`], an incremental serialisation of a conversation.

use neuron_types::{HistoryKey, RequestRef};

use super::message;

/// The JSON of a run's conversation. A later request of the same conversation appends only its new messages.
#[derive(Default)]
pub(crate) struct History {
    /// The key of the conversation, and the number of serialised messages.
    known: Option<(HistoryKey, usize)>,
    /// The beginning of a JSON array.
    text: String,
}

impl History {
    /// Returns `gen_ai.input.messages` of a request. Serialises all messages if the conversation has no
    /// [key](RequestRef::history_key).
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
