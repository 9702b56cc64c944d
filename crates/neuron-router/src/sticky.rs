//! The routes that answered the conversations last.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_types::{HistoryKey, RequestRef, WasmCompatSend, WasmCompatSync};

/// The key of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// The agent loop sets this key. It changes when earlier messages change, which also invalidates a vendor's cache.
    History(HistoryKey),
    /// The user's function returned this key.
    Own(u64),
}

/// A bounded map from conversations to the routes that answered them last.
pub(crate) struct Sticky {
    key: Option<Arc<dyn KeyFunction>>,
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
    /// Creates an empty map for this number of conversations. Without a function, the key is that of the agent loop.
    pub(crate) fn new(conversations: usize, key: Option<Arc<dyn KeyFunction>>) -> Self {
        let size = conversations.div_ceil(2);
        let generations = Generations { size, young: HashMap::new(), old: HashMap::new() };
        Self { key, generations: Mutex::new(generations) }
    }

    /// Returns the key of the request's conversation. Returns `None` if the conversation is unknown.
    pub(crate) fn key(&self, request: &RequestRef<'_>) -> Option<Key> {
        match &self.key {
            Some(own) => own.key(request).map(Key::Own),
            None => request.history_key().map(Key::History),
        }
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
    use super::*;

    #[test]
    fn map_is_bounded_and_keeps_the_conversations_that_were_used_last() {
        let sticky = Sticky::new(8, None);
        for key in 0..1_000 {
            sticky.set(Key::Own(key), 1);
            assert_eq!(sticky.get(Key::Own(7)).is_some(), key >= 7, "{key}");
        }
        let generations = sticky.generations.lock().unwrap();
        assert!(generations.young.len() + generations.old.len() <= 8);
        drop(generations);
        assert_eq!((sticky.get(Key::Own(999)), sticky.get(Key::Own(500))), (Some(1), None));
    }

    #[test]
    fn map_without_capacity_stores_nothing_and_a_later_route_replaces_an_earlier_route() {
        let empty = Sticky::new(0, None);
        empty.set(Key::Own(1), 1);
        assert_eq!(empty.get(Key::Own(1)), None);
        let sticky = Sticky::new(1, None);
        sticky.set(Key::Own(1), 1);
        sticky.set(Key::Own(1), 2);
        assert_eq!(sticky.get(Key::Own(1)), Some(2));
    }

    #[test]
    fn key_is_the_history_key_or_from_the_function() {
        let request = RequestRef::default();
        let key = HistoryKey::unique();
        let sticky = Sticky::new(8, None);
        assert_eq!(sticky.key(&request), None);
        assert_eq!(sticky.key(&request.with_history(key)), Some(Key::History(key)));
        let own = |request: &RequestRef<'_>| (request.model == "m").then_some(7);
        let sticky = Sticky::new(8, Some(Arc::new(own)));
        assert_eq!(sticky.key(&request.with_history(key)), None);
        assert_eq!(sticky.key(&RequestRef { model: "m", ..request }), Some(Key::Own(7)));
    }
}
