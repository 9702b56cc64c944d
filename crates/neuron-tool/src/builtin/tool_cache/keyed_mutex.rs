//! A map of mutexes, in which a mutex exists only while its key is in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A map with a fair mutex for each key in use.
pub(super) struct KeyedMutex<K> {
    keys: Mutex<HashMap<K, Entry>>,
}

/// The mutex of a key.
struct Entry {
    mutex: Arc<tokio::sync::Mutex<()>>,
    /// Number of [`Ticket`]s for this key. Each call that holds or waits for the mutex has a ticket. The entry is
    /// removed when the last ticket is dropped.
    calls: usize,
}

impl<K> Default for KeyedMutex<K> {
    fn default() -> Self {
        Self { keys: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone> KeyedMutex<K> {
    /// Creates a [`Ticket`], with which a call can lock the mutex of a key. Creates the mutex if no other ticket for
    /// the key exists.
    pub(super) fn queue(&self, key: K) -> Ticket<'_, K> {
        let mut keys = self.keys();
        let entry =
            keys.entry(key.clone()).or_insert_with(|| Entry { mutex: Arc::default(), calls: 0 });
        entry.calls += 1;
        let mutex = entry.mutex.clone();
        drop(keys);
        Ticket { owner: self, key, mutex }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Entry>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's right to lock the mutex of a key. The mutex exists at least as long as the ticket.
pub(super) struct Ticket<'a, K: Eq + Hash + Clone> {
    owner: &'a KeyedMutex<K>,
    key: K,
    mutex: Arc<tokio::sync::Mutex<()>>,
}

impl<K: Eq + Hash + Clone> Ticket<'_, K> {
    /// Waits for the mutex of the key and locks it until the guard is dropped.
    pub(super) async fn lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.mutex.lock().await
    }
}

impl<K: Eq + Hash + Clone> Drop for Ticket<'_, K> {
    fn drop(&mut self) {
        let mut keys = self.owner.keys();
        if let Some(entry) = keys.get_mut(&self.key) {
            entry.calls -= 1;
            if entry.calls == 0 {
                keys.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn calls_run_in_order_and_unused_keys_are_removed() {
        let mutex = KeyedMutex::default();
        let [first, second, third, other] = ["a", "a", "a", "b"].map(|key| mutex.queue(key));
        let guard = first.lock().await;
        drop(other.lock().await);
        let mut second_waits = Box::pin(second.lock());
        let mut third_waits = Box::pin(third.lock());
        assert!(poll!(&mut second_waits).is_pending() && poll!(&mut third_waits).is_pending());
        drop(guard);
        assert!(poll!(&mut third_waits).is_pending());
        // The second call is dropped when the mutex is free for it, before it has locked the mutex.
        drop(second_waits);
        assert!(poll!(&mut third_waits).is_ready());
        drop(third_waits);
        drop((first, second));
        assert_eq!(mutex.keys().len(), 2);
        drop((third, other));
        assert!(mutex.keys().is_empty());
    }
}
