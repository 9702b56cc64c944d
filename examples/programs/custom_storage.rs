//! Implements a session storage over a key-value store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuron::prelude::*;
use neuron::types::{
    Session, SessionStorage, SessionSummary, StorageError, check_session_id, stored_json,
};

// ANCHOR: storage
/// Stores sessions as JSON in a key-value store. A clone is a handle to the same sessions.
#[derive(Clone, Default)]
struct KeyValueSessions {
    // Your storage has a client of a database here.
    store: Arc<Mutex<BTreeMap<String, Vec<u8>>>>,
}

impl KeyValueSessions {
    fn store(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(id: &str, json: &[u8]) -> Result<Session, StorageError> {
    stored_json::read(json).map_err(|error| StorageError::Corrupt {
        location: id.to_owned(),
        reason: error.to_string(),
    })
}

impl SessionStorage for KeyValueSessions {
    async fn save(&self, session: &Session) -> Result<(), StorageError> {
        // All storages accept the same ids, so that a session can move to another storage.
        check_session_id(&session.id)?;
        // `stored_json` keeps all numbers, and reads everything that it has written.
        let json = stored_json::to_string(session)
            .map_err(|error| StorageError::Serialization(error.to_string()))?;
        let mut store = self.store();
        // A damaged session is never overwritten. A person may want to repair it.
        if let Some(old) = store.get(&session.id) {
            read(&session.id, old)?;
        }
        // One write, so that a crash leaves the old or the new session.
        store.insert(session.id.clone(), json.into_bytes());
        Ok(())
    }

    async fn load(&self, id: &str) -> Result<Session, StorageError> {
        check_session_id(id)?;
        let json = self.store().get(id).cloned();
        read(id, &json.ok_or_else(|| StorageError::NotFound(id.to_owned()))?)
    }

    async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> {
        // A `BTreeMap` has the order that `list` promises.
        let summary = |(id, json): (&String, &Vec<u8>)| match read(id, json) {
            Ok(session) => session.summary(),
            Err(error) => SessionSummary::damaged(id, &error),
        };
        Ok(self.store().iter().map(summary).collect())
    }

    async fn delete(&self, id: &str) -> Result<(), StorageError> {
        check_session_id(id)?;
        let removed = self.store().remove(id);
        removed.map(drop).ok_or_else(|| StorageError::NotFound(id.to_owned()))
    }
}
// ANCHOR_END: storage

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let storage = KeyValueSessions::default();
    let mut conversation = Conversation::new();
    conversation.push("What is Rust?");

    let mut session = Session::new("chat-42", ".".into());
    conversation.write_session(&mut session)?;
    storage.save(&session).await?;

    for summary in storage.list().await? {
        println!("{}: {} message", summary.id, summary.message_count);
    }
    let conversation = Conversation::from_session(storage.load("chat-42").await?);
    println!("{}", conversation.messages().iter().map(Message::text).collect::<String>());
    if let Err(error) = storage.load("chat-43").await {
        println!("error: {error}");
    }
    Ok(())
}

// ANCHOR: tests
#[cfg(test)]
mod tests {
    use neuron_conformance::session;

    use super::KeyValueSessions;

    /// Makes a test of each part of the conformance suite.
    macro_rules! tests {
        ($($part:ident)*) => {$(
            #[tokio::test(flavor = "multi_thread")]
            async fn $part() {
                session::$part(&KeyValueSessions::default()).await;
            }
        )*};
    }

    tests! { round_trips sizes missing rewriting ids listing dropping writers }
}
// ANCHOR_END: tests
