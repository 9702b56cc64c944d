//! Messages that no strategy drops: the mark, and how to set it.

use serde_json::json;

use crate::{ContentBlock, Message};

/// The `provider` of blocks that are neuron's own marks. No provider has this name, so none sends
/// them.
const OURS: &str = "neuron";

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
            self.content.push(ContentBlock::Raw {
                provider: OURS.to_owned(),
                json: json!({ "type": "pin" }),
                portable: None,
            });
        }
        self
    }

    /// Takes the mark of [`pinned`](Self::pinned) off.
    #[must_use]
    pub fn unpinned(mut self) -> Self {
        self.content.retain(|block| !block.is_pin());
        self
    }

    /// Whether the message is marked by [`pinned`](Self::pinned).
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.content.iter().any(ContentBlock::is_pin)
    }
}

impl ContentBlock {
    /// Whether this is the mark of [`Message::pinned`], which is no content.
    #[must_use]
    pub fn is_pin(&self) -> bool {
        match self {
            Self::Raw { provider, json, portable: None } => {
                provider == OURS && json.get("type").is_some_and(|kind| kind == "pin")
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_vendors_block_is_no_pin() {
        for (provider, kind) in [("openai", "pin"), ("neuron", "other")] {
            let json = json!({ "type": kind });
            let block = ContentBlock::Raw { provider: provider.into(), json, portable: None };
            assert!(!block.is_pin());
        }
    }
}
