//! Marker blocks in messages. They store data about a message and are never sent to a model.

use serde_json::{Map, Value};

use crate::{ContentBlock, Message};

/// The value of `provider` in marker blocks, which store data about a message. No provider has this name, so marker
/// blocks are never sent to a model.
const NEURON: &str = "neuron";

/// The value of `type` in the block that marks a message as pinned.
const PIN: &str = "pin";

impl Message {
    /// Pins the message, so that every `ContextStrategy` keeps it unchanged.
    ///
    /// If a pinned message has tool calls, the message with their results is kept too. If it has tool results, the
    /// message with their calls is kept. The pin is stored in a block at the end of the message, and is never sent to a
    /// model.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_model::Message;
    ///
    /// let message = Message::user("Never push to main.").pinned();
    /// assert!(message.is_pinned());
    /// assert_eq!(message.text(), "Never push to main.");
    /// assert_eq!(message.unpinned(), Message::user("Never push to main."));
    /// ```
    #[must_use]
    pub fn pinned(mut self) -> Self {
        if !self.is_pinned() {
            self.content.push(block(PIN, Map::new()));
        }
        self
    }

    /// Removes the pin from the message. Does nothing if the message is not pinned.
    #[must_use]
    pub fn unpinned(mut self) -> Self {
        self.content.retain(|block| content(block, PIN).is_none());
        self
    }

    /// Returns `true` if the message has at least one block that is sent to a model.
    ///
    /// Marker blocks are never sent. They store neuron's data about a message, for example that it is
    /// [pinned](Self::pinned).
    #[must_use]
    pub fn has_content(&self) -> bool {
        !self.content.iter().all(ContentBlock::is_mark)
    }

    /// Returns `true` if the message is [pinned](Self::pinned).
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.content.iter().any(|block| content(block, PIN).is_some())
    }
}

/// Creates a marker block, which stores `fields` in a message and is never sent to a model. Its type is `kind`.
pub(crate) fn block(kind: &str, mut fields: Map<String, Value>) -> ContentBlock {
    fields.insert("type".to_owned(), kind.into());
    let json = Value::Object(fields);
    ContentBlock::Raw { provider: NEURON.to_owned(), json, portable: None }
}

/// Returns the JSON object of a block that [`block`](fn@block) created with this `kind`. Returns `None` for any other
/// block.
pub(crate) fn content<'a>(block: &'a ContentBlock, kind: &str) -> Option<&'a Value> {
    match block {
        ContentBlock::Raw { provider, json, portable: None } if provider == NEURON => {
            json.get("type").is_some_and(|found| found == kind).then_some(json)
        }
        _ => None,
    }
}

/// Returns the JSON object of a block that [`block`](fn@block) created with this `kind`, mutably. Returns `None` for
/// any other block.
pub(crate) fn content_mut<'a>(block: &'a mut ContentBlock, kind: &str) -> Option<&'a mut Value> {
    content(block, kind)?;
    match block {
        ContentBlock::Raw { json, .. } => Some(json),
        _ => None,
    }
}

impl ContentBlock {
    /// Returns `true` if the block is a marker block, which is never sent to a model.
    ///
    /// A marker block stores that a message is [pinned](Message::pinned), or stores the
    /// [metadata](crate::AnswerMetadata) of a response.
    #[must_use]
    pub fn is_mark(&self) -> bool {
        matches!(self, Self::Raw { provider, portable: None, .. } if provider == NEURON)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Role;

    #[test]
    fn pin_is_set_once_and_stored_with_the_message() {
        let pinned = Message::assistant("hello").pinned().pinned();
        assert_eq!(pinned.content.len(), 2);
        let stored = serde_json::to_value(&pinned).unwrap();
        assert_eq!(
            stored,
            json!({
                "role": "assistant",
                "content": [
                    { "type": "text", "text": "hello" },
                    { "type": "raw", "provider": "neuron", "json": { "type": "pin" } },
                ],
            })
        );
        assert!(serde_json::from_value::<Message>(stored).unwrap().is_pinned());
        assert_eq!(pinned.unpinned(), Message::assistant("hello"));
        assert!(!Message::user("[pin]").is_pinned());
    }

    #[test]
    fn vendor_block_is_no_mark() {
        for (provider, kind, is_mark) in [("openai", "pin", false), ("neuron", "other", true)] {
            let json = json!({ "type": kind });
            let block = ContentBlock::Raw { provider: provider.into(), json, portable: None };
            assert_eq!(block.is_mark(), is_mark);
            assert!(!Message { role: Role::User, content: vec![block] }.is_pinned());
        }
    }
}
