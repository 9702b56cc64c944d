//! One call at a time for each key.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One call at a time for each key: the others wait, in order.
pub(super) struct Turns<K> {
    keys: Mutex<HashMap<K, Waiting>>,
}

struct Waiting {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// How many wait for their turn or have it.
    calls: usize,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { keys: Mutex::default() }
    }
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// Takes a place behind the other calls of a key; dropping it gives it up.
    pub(super) fn queue(&self, key: K) -> Place<'_, K> {
        let mut keys = self.keys();
        let waiting =
            keys.entry(key.clone()).or_insert_with(|| Waiting { turn: Arc::default(), calls: 0 });
        waiting.calls += 1;
        let turn = waiting.turn.clone();
        drop(keys);
        Place { turns: self, key, turn }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<K, Waiting>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place behind the other calls of a key.
pub(super) struct Place<'a, K: Eq + Hash + Clone> {
    turns: &'a Turns<K>,
    key: K,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl<K: Eq + Hash + Clone> Place<'_, K> {
    /// Waits until it is this call's turn, which lasts as long as the guard.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }
}

impl<K: Eq + Hash + Clone> Drop for Place<'_, K> {
    fn drop(&mut self) {
        let mut keys = self.turns.keys();
        if let Some(waiting) = keys.get_mut(&self.key) {
            waiting.calls -= 1;
            if waiting.calls == 0 {
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
    async fn the_first_has_its_turn_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let [first, second, third, other] = ["a", "a", "a", "b"].map(|key| turns.queue(key));
        let guard = first.turn().await;
        drop(other.turn().await);
        let mut waits = Box::pin(second.turn());
        let mut waits_longer = Box::pin(third.turn());
        assert!(poll!(&mut waits).is_pending() && poll!(&mut waits_longer).is_pending());
        drop(guard);
        assert!(poll!(&mut waits_longer).is_pending());
        // Given up when it was its turn.
        drop(waits);
        assert!(poll!(&mut waits_longer).is_ready());
        drop(waits_longer);
        drop((first, second));
        assert_eq!(turns.keys().len(), 2);
        drop((third, other));
        assert!(turns.keys().is_empty());
    }
}
