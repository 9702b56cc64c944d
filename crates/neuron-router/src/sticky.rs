//! The routes that answered the conversations last.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use neuron_model::{
    ContentBlock, DocumentSource, ImageSource, RequestRef, Role, SystemPrompt, WasmCompatSend,
    WasmCompatSync,
};

/// The key of a conversation.
pub(crate) type Key = u64;

/// A bounded map from conversations to the routes that answered them last.
pub(crate) struct Sticky {
    key: Option<Arc<dyn KeyFunction>>,
    /// The hash function of the conversations' beginnings.
    state: RandomState,
    generations: Mutex<Generations>,
}

/// Two generations of entries. If the younger generation is full, it replaces the older one.
///
/// So the map keeps at least half of its capacity of the conversations that were used last, and no operation scans it.
#[derive(Debug)]
struct Generations {
    /// Maximum number of entries in a generation.
    size: usize,
    young: HashMap<Key, usize>,
    old: HashMap<Key, usize>,
}

impl Sticky {
    /// Creates an empty map for this number of conversations. Without a function, the key is a hash of the beginning of
    /// the conversation.
    pub(crate) fn new(conversations: usize, key: Option<Arc<dyn KeyFunction>>) -> Self {
        let size = conversations.div_ceil(2);
        let generations = Generations { size, young: HashMap::new(), old: HashMap::new() };
        Self { key, state: RandomState::new(), generations: Mutex::new(generations) }
    }

    /// Returns the key of the request's conversation. Returns `None` if the conversation is unknown.
    pub(crate) fn key(&self, request: &RequestRef<'_>) -> Option<Key> {
        match &self.key {
            Some(own) => own.key(request),
            None => self.beginning(request),
        }
    }

    /// Returns a hash of the system prompt and of the first user message. If they change, the vendor's cache is invalid
    /// too. [`RequestRef::history_key`] does not identify a conversation, because a restored conversation has another key.
    fn beginning(&self, request: &RequestRef<'_>) -> Option<Key> {
        let first = request.messages.iter().find(|message| message.role == Role::User)?;
        let mut hasher = self.state.build_hasher();
        match request.system {
            Some(SystemPrompt::Text(text)) => text.hash(&mut hasher),
            Some(SystemPrompt::Blocks(blocks)) => {
                blocks.iter().for_each(|block| block.text.hash(&mut hasher));
            }
            None => {}
        }
        for content in first.content.iter().filter_map(content_of) {
            hash_samples(content.as_bytes(), &mut hasher);
        }
        Some(hasher.finish())
    }

    /// Returns the route that answered the conversation last.
    pub(crate) fn get(&self, key: Key) -> Option<usize> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let route = generations.young.get(&key).or_else(|| generations.old.get(&key)).copied()?;
        generations.set(key, route);
        Some(route)
    }

    /// Sets the route of the conversation.
    pub(crate) fn set(&self, key: Key, route: usize) {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner).set(key, route);
    }
}

/// Returns the text, the data or the URL of a block of a user message. Returns `None` for other blocks.
fn content_of(block: &ContentBlock) -> Option<&str> {
    match block.portable()? {
        ContentBlock::Text(text) => Some(text),
        ContentBlock::Image { source } => match source {
            ImageSource::Base64 { data, .. } => Some(data),
            ImageSource::Url { url } => Some(url),
            _ => None,
        },
        ContentBlock::Document { source } => match source {
            DocumentSource::Base64Pdf { data } | DocumentSource::PlainText { data } => Some(data),
            DocumentSource::Url { url } => Some(url),
            _ => None,
        },
        _ => None,
    }
}

/// Number of samples of a long content, and their length in bytes.
const SAMPLES: usize = 32;
const SAMPLE_BYTES: usize = 64;

/// Hashes the length of a content and samples at equal distances. Every call hashes the beginning of its conversation,
/// and an image has megabytes. Two conversations with equal samples merely stick to the same route.
fn hash_samples(content: &[u8], hasher: &mut impl Hasher) {
    content.len().hash(hasher);
    let distance = (content.len() / SAMPLES).max(SAMPLE_BYTES);
    for part in content.chunks(distance) {
        part.get(..SAMPLE_BYTES).unwrap_or(part).hash(hasher);
    }
}

impl Generations {
    fn set(&mut self, key: Key, route: usize) {
        if self.size == 0 {
            return;
        }
        if self.young.len() >= self.size && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, route);
    }
}

impl fmt::Debug for Sticky {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sticky").finish_non_exhaustive()
    }
}

/// A function that returns the key of a conversation. The trait exists because closures need no `Send` on wasm.
pub(crate) trait KeyFunction: WasmCompatSend + WasmCompatSync {
    fn key(&self, request: &RequestRef<'_>) -> Option<u64>;
}

impl<F> KeyFunction for F
where
    F: Fn(&RequestRef<'_>) -> Option<u64> + WasmCompatSend + WasmCompatSync,
{
    fn key(&self, request: &RequestRef<'_>) -> Option<u64> {
        self(request)
    }
}

#[cfg(test)]
mod tests {
    use neuron_model::Message;

    use super::*;

    fn key_of(sticky: &Sticky, content: Vec<ContentBlock>) -> Option<Key> {
        let messages = [Message { role: Role::User, content }];
        sticky.key(&RequestRef { messages: &messages, ..RequestRef::default() })
    }

    #[test]
    fn images_and_documents_tell_conversations_apart() {
        let sticky = Sticky::new(8, None);
        let text = ContentBlock::Text("What is this?".into());
        let image = |source| ContentBlock::Image { source };
        let document = |source| ContentBlock::Document { source };
        let png = |data: String| ImageSource::Base64 { media_type: "image/png".into(), data };
        let photo = "a".repeat(1_000_000);
        let mut other_pixel = photo.clone().into_bytes();
        other_pixel[500_000] = b'b';
        let other_pixel = String::from_utf8(other_pixel).unwrap();
        let blocks = [
            image(png(photo.clone())),
            image(png(other_pixel)),
            image(png(photo[1..].to_owned())),
            image(ImageSource::Url { url: "https://a.b/c".into() }),
            document(DocumentSource::PlainText { data: "c".into() }),
            document(DocumentSource::Base64Pdf { data: "d".into() }),
            document(DocumentSource::Url { url: "https://a.b/d".into() }),
        ];
        let key = |block: &ContentBlock| key_of(&sticky, vec![block.clone(), text.clone()]);
        let mut keys: Vec<_> = blocks.iter().map(key).collect();
        assert_eq!(keys, blocks.iter().map(key).collect::<Vec<_>>());
        keys.push(key_of(&sticky, vec![text.clone()]));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), blocks.len() + 1);
    }

    #[test]
    fn map_is_bounded_and_keeps_the_conversations_that_were_used_last() {
        let sticky = Sticky::new(8, None);
        for key in 0..1_000 {
            sticky.set(key, 1);
            assert_eq!(sticky.get(7).is_some(), key >= 7, "{key}");
        }
        let generations = sticky.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 8);
        drop(generations);
        assert_eq!((sticky.get(999), sticky.get(500)), (Some(1), None));
    }

    #[test]
    fn map_without_capacity_stores_nothing_and_a_later_route_replaces_an_earlier_route() {
        let empty = Sticky::new(0, None);
        empty.set(1, 1);
        assert_eq!(empty.get(1), None);
        let sticky = Sticky::new(1, None);
        sticky.set(1, 1);
        sticky.set(1, 2);
        assert_eq!(sticky.get(1), Some(2));
    }

    #[test]
    fn key_is_from_the_function_or_from_the_beginning_of_the_conversation() {
        let (sticky, system) = (Sticky::new(8, None), SystemPrompt::from("Be brief."));
        let mut messages = vec![Message::system("Note."), Message::user("a")];
        let request = RequestRef { messages: &messages, ..RequestRef::default() };
        let key = sticky.key(&request);
        assert!(key.is_some());
        assert_eq!(sticky.key(&RequestRef { model: "m", ..request }), key);
        assert_ne!(sticky.key(&RequestRef { system: Some(&system), ..request }), key);
        let other = [Message::user("b")];
        assert_ne!(sticky.key(&RequestRef { messages: &other, ..request }), key);
        messages.extend([Message::assistant("b"), Message::user("c")]);
        let request = RequestRef { messages: &messages, ..RequestRef::default() };
        assert_eq!(sticky.key(&request), key);
        assert_eq!(sticky.key(&RequestRef::default()), None);
        let own = |request: &RequestRef<'_>| (request.model == "m").then_some(7);
        let sticky = Sticky::new(8, Some(Arc::new(own)));
        assert_eq!(sticky.key(&request), None);
        assert_eq!(sticky.key(&RequestRef { model: "m", ..request }), Some(7));
    }
}
