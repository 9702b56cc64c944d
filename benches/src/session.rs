//! Appends turns to stored sessions. Each storage is compared with its floor, which is a plain insert of the same bytes
//! with the same durability.

pub mod postgres;
pub mod sqlite;

use std::time::{Duration, Instant};

use neuron_types::{Message, Session, SessionRevision, StorageError, VersionedSessionStorage};

/// Lengths of the sessions, in messages.
pub const LENGTHS: [usize; 2] = [10, 10_000];

/// Returns a message of about 1 KiB.
fn message(index: usize) -> Message {
    let text = format!("{index}: {}", "All human beings are born free. ".repeat(32));
    match index % 2 {
        0 => Message::user(text),
        _ => Message::assistant(text),
    }
}

/// Returns the turn that the benchmark appends, which is a user message and a model message.
#[must_use]
pub fn turn() -> [Message; 2] {
    [message(0), message(1)]
}

/// Returns the JSON of each message.
fn texts(messages: impl IntoIterator<Item = Message>) -> serde_json::Result<Vec<String>> {
    messages.into_iter().map(|message| serde_json::to_string(&message)).collect()
}

/// Stored sessions to which turns are appended in rotation. Each session grows by at most a fifth, or by one turn if
/// that is more. The sessions therefore keep about the same length.
#[derive(Debug)]
pub struct Growing<S> {
    storage: S,
    turn: [Message; 2],
    sessions: Vec<(String, SessionRevision)>,
    next: usize,
}

impl<S: VersionedSessionStorage> Growing<S> {
    /// Stores enough sessions of `length` messages for `turns` turns.
    ///
    /// # Errors
    ///
    /// Returns the error of the storage.
    pub async fn new(storage: S, length: usize, turns: usize) -> Result<Self, StorageError> {
        let mut sessions = Vec::new();
        // Each session gets at most a tenth of its length in turns, and a turn has two messages.
        for number in 0..turns.div_ceil((length / 10).max(1)) {
            let mut session = Session::new(format!("session-{number}"), ".".into());
            session.messages = (0..length).map(message).collect();
            let revision = storage.create(&session).await?;
            sessions.push((session.id, revision));
        }
        Ok(Self { storage, turn: turn(), sessions, next: 0 })
    }

    /// Appends a turn to the next session, and returns the duration.
    ///
    /// # Errors
    ///
    /// Returns the error of the storage.
    pub async fn append(&mut self) -> Result<Duration, StorageError> {
        let count = self.sessions.len().max(1);
        let Some((id, revision)) = self.sessions.get_mut(self.next % count) else {
            return Ok(Duration::ZERO);
        };
        self.next += 1;
        let start = Instant::now();
        *revision = self.storage.append(id, &self.turn, None, revision).await?;
        Ok(start.elapsed())
    }
}
