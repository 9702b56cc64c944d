//! Marks in messages that are no content, and the mark of a message that no strategy drops.

use serde_json::{Map, Value};

use crate::{ContentBlock, Message};

/// The `provider` of blocks that are neuron's own marks. No provider has this name, so none sends
/// them.
const OURS: &str = "neuron";

/// The kind of the mark of [`Message::pinned`].
const PIN: &str = "pin";

impl Message {
    /// Marks the message as one that must survive every compaction: a
    /// [`ContextStrategy`](crate::ContextStrategy) keeps it as it is, and with it the results of its
    /// calls, or the calls of its results.
    ///
    /// The mark is a block at the end of the content that no provider sends to a model. It is stored
    /// with the message.
    ///
    /// # Example
    ///
    /// ```
    /// use neuron_types::Message;
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

    /// Takes the mark of [`pinned`](Self::pinned) off.
    #[must_use]
    pub fn unpinned(mut self) -> Self {
        self.content.retain(|block| content(block, PIN).is_none());
        self
    }

    /// Returns `true` if the message has a block beside its marks. A model is never sent a message without content.
    #[must_use]
    pub fn has_content(&self) -> bool {
        !self.content.iter().all(ContentBlock::is_mark)
    }

    /// Whether the message is marked by [`pinned`](Self::pinned).
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.content.iter().any(|block| content(block, PIN).is_some())
    }
}

/// Creates a mark of a kind.
pub(crate) fn block(kind: &str, mut fields: Map<String, Value>) -> ContentBlock {
    fields.insert("type".to_owned(), kind.into());
    let json = Value::Object(fields);
    ContentBlock::Raw { provider: OURS.to_owned(), json, portable: None }
}

/// Returns the fields of a block that is a mark of this kind.
pub(crate) fn content<'a>(block: &'a ContentBlock, kind: &str) -> Option<&'a Value> {
    match block {
        ContentBlock::Raw { provider, json, portable: None } if provider == OURS => {
            json.get("type").is_some_and(|found| found == kind).then_some(json)
        }
        _ => None,
    }
}

/// Like [`content`], to change the fields.
pub(crate) fn content_mut<'a>(block: &'a mut ContentBlock, kind: &str) -> Option<&'a mut Value> {
    content(block, kind)?;
    match block {
        ContentBlock::Raw { json, .. } => Some(json),
        _ => None,
    }
}

impl ContentBlock {
    /// Returns `true` if the block is a mark of neuron's own, which is no content and is never sent to a model:
    /// the mark of [`Message::pinned`], or the [metadata](crate::AnswerMetadata) of an answer.
    #[must_use]
    pub fn is_mark(&self) -> bool {
        matches!(self, Self::Raw { provider, portable: None, .. } if provider == OURS)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Role;

    #[test]
    fn a_pin_is_set_once_and_stored_with_the_message() {
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
    fn a_vendors_block_is_no_mark() {
        for (provider, kind, is_mark) in [("openai", "pin", false), ("neuron", "other", true)] {
            let json = json!({ "type": kind });
            let block = ContentBlock::Raw { provider: provider.into(), json, portable: None };
            assert_eq!(block.is_mark(), is_mark);
            assert!(!Message { role: Role::User, content: vec![block] }.is_pinned());
        }
    }
}
