//! Sessions to which a turn is added: in a storage, and as bare inserts that write the same bytes with
//! the same care, as the floor of each database.

pub mod postgres;
pub mod sqlite;

use std::time::{Duration, Instant};

use neuron_types::{Message, Session, SessionRevision, StorageError, VersionedSessionStorage};

/// How long the sessions are, in messages.
pub const LENGTHS: [usize; 2] = [10, 10_000];

/// A message of about 1 KiB.
fn message(index: usize) -> Message {
    let text = format!("{index}: {}", "All human beings are born free. ".repeat(32));
    match index % 2 {
        0 => Message::user(text),
        _ => Message::assistant(text),
    }
}

/// What is added: a question and its answer.
#[must_use]
pub fn turn() -> [Message; 2] {
    [message(0), message(1)]
}

/// The JSON of so many messages.
fn texts(messages: impl IntoIterator<Item = Message>) -> serde_json::Result<Vec<String>> {
    messages.into_iter().map(|message| serde_json::to_string(&message)).collect()
}

/// Sessions in a storage that get one turn after the other, and hardly grow: by a fifth at the most,
/// or one turn.
#[derive(Debug)]
pub struct Growing<S> {
    storage: S,
    turn: [Message; 2],
    sessions: Vec<(String, SessionRevision)>,
    next: usize,
}

impl<S: VersionedSessionStorage> Growing<S> {
    /// Stores sessions of so many messages each, as many as so many turns need.
    ///
    /// # Errors
    ///
    /// The storage's.
    pub async fn new(storage: S, length: usize, turns: usize) -> Result<Self, StorageError> {
        let mut sessions = Vec::new();
        for number in 0..turns.div_ceil((length / 10).max(1)) {
            let mut session = Session::new(format!("session-{number}"), ".".into());
            session.messages = (0..length).map(message).collect();
            let revision = storage.create(&session).await?;
            sessions.push((session.id, revision));
        }
        Ok(Self { storage, turn: turn(), sessions, next: 0 })
    }

    /// Adds a turn, and returns how long that took.
    ///
    /// # Errors
    ///
    /// The storage's.
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
