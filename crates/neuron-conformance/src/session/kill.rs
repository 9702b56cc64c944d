//! Storages whose process is killed while it writes.
//!
//! A test that calls [`check_saves`] starts itself again, as a process that writes a session of five
//! megabytes over and over; it kills that process at a random moment, and looks at what is there:
//! every write that was finished, the one that had begun whole or not at all, and nothing else.
//!
//! Some rounds are part of every test run; `KILL_ROUNDS=500` asks for more. A failure prints the seed
//! with which `KILL_SEED` repeats the moments, as far as moments can be repeated.
//!
//! # Example
//!
//! ```no_run
//! # use neuron_types::*;
//! # #[derive(Clone)] struct MyStorage;
//! # impl MyStorage { fn open(_: String) -> Self { Self } }
//! # impl SessionStorage for MyStorage {
//! #     async fn save(&self, _: &Session) -> Result<(), StorageError> { Ok(()) }
//! #     async fn load(&self, _: &str) -> Result<Session, StorageError> { Err(StorageError::NotFound(String::new())) }
//! #     async fn list(&self) -> Result<Vec<SessionSummary>, StorageError> { Ok(vec![]) }
//! #     async fn delete(&self, _: &str) -> Result<(), StorageError> { Ok(()) }
//! # }
//! use neuron_conformance::session::kill;
//!
//! // In a file of your tests that is called `storage`: this is `cargo test --test storage`.
//! # /*
//! #[tokio::test(flavor = "multi_thread")]
//! # */
//! async fn killed_saves() {
//!     let place = async || {
//!         let directory = std::env::temp_dir().join(format!("killed-{}", std::process::id()));
//!         (directory.display().to_string(), ())
//!     };
//!     kill::check_saves("killed_saves", place, async |place| MyStorage::open(place)).await;
//! }
//! ```

use std::time::{Duration, Instant};

use neuron_types::{
    Message, Session, SessionRevision, SessionStorage, StorageError, VersionedSessionStorage,
};

use super::context::{same, same_content};
use super::sample;
use crate::case::Case;
use crate::child_process::{self, ChildProcess};
use crate::random::{Random, unique};

/// How many rounds there are if nobody asks for more.
const ROUNDS: u64 = 3;

/// The size of a message, and how many a session has about: together five megabytes.
const MESSAGE_BYTES: usize = 10_000;
const MESSAGES: usize = 500;

/// How long a killed process may take to begin, or a write to end. Nothing waits for it to pass.
const HANGING: Duration = Duration::from_secs(60);

/// How the rounds went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// How often a process was killed.
    pub rounds: u64,
    /// How often the last write that was finished was there.
    pub old: u64,
    /// How often the write after it was.
    pub new: u64,
    /// How many writes were finished.
    pub writes: u64,
}

/// Checks a storage whose process is killed while it saves.
///
/// `test` is the full name of the test that calls this, as the test runner prints it. `place` makes
/// where the sessions are, and what keeps it until the end; it is called once. `open` opens the storage
/// at that place; it is called in every process.
///
/// # Panics
///
/// At the first thing that does not hold; also when the process does not start.
pub async fn check_saves<S: SessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    check(test, place, open, &Save).await
}

/// Checks a storage whose process is killed while it updates; see [`check_saves`].
///
/// # Panics
///
/// As [`check_saves`].
pub async fn check_updates<S: VersionedSessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    check(test, place, open, &Update).await
}

/// Checks a storage whose process is killed while it appends; see [`check_saves`].
///
/// # Panics
///
/// As [`check_saves`].
pub async fn check_appends<S: VersionedSessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    check(test, place, open, &Append).await
}

async fn check<S: SessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
    write: &impl Write<S>,
) -> Killed {
    if let Some(task) = child_process::task() {
        let (id, place) = task.split_once(' ').unwrap_or_default();
        write_forever(&open(place.to_owned()).await, id, write).await
    }
    let (place, _guard) = place().await;
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed: u64 = number("KILL_SEED").unwrap_or_else(unique);
    let rounds = number("KILL_ROUNDS").unwrap_or(ROUNDS);
    let mut random = Random::new(seed);
    let mut killed = Killed::default();
    let prefix = format!("killed-{:016x}", unique());
    for round in 0..rounds {
        let name = format!("round {round} of {test} with KILL_SEED={seed}");
        let case = Case::new("session storage", "kill", name);
        let storage = open(place.clone()).await;
        let id = format!("{prefix}-{round}");
        let begin = Instant::now();
        case.ok(case.soon(storage.save(&write.version(&id, 0))).await);
        let longest =
            (begin.elapsed() * 4).clamp(Duration::from_millis(40), Duration::from_secs(2));

        let mut child = ChildProcess::start(test, &format!("{id} {place}"));
        case.some("the process did not begin to write", child.next_report(HANGING));
        // A moment that nothing else determines.
        std::thread::sleep(Duration::from_micros(random.below(longest.as_micros() as u64)));
        let reports = child.kill();
        let finished = reports.last().map_or(0, |last| case.ok(last.parse::<u64>()));

        // As a process would that knows nothing of the other one.
        let storage = open(place.clone()).await;
        let loaded = case.ok(case.soon(storage.load(&id)).await);
        let found = loaded.state.event_count;
        case.holds(
            found == finished || found == finished + 1,
            format_args!("write {finished} was the last to finish, and {found} is there"),
        );
        write.compare(&case, &loaded, &write.version(&id, found));
        let listed = case.ok(case.soon(storage.list()).await);
        let listed = listed.iter().find(|summary| summary.id == id);
        case.equal("what is listed", listed, Some(&loaded.summary()));
        // Nothing is left that stands in the way of the next writer.
        let after = write.version(&id, found + 7);
        case.ok(case.soon(storage.save(&after)).await);
        same(&case, &case.ok(case.soon(storage.load(&id)).await), &after);
        case.ok(case.soon(storage.delete(&id)).await);

        killed.rounds += 1;
        killed.writes += finished;
        match found == finished {
            true => killed.old += 1,
            false => killed.new += 1,
        }
    }
    killed
}

/// Writes until the process is killed, and tells each write that is finished.
async fn write_forever<S: SessionStorage>(storage: &S, id: &str, write: &impl Write<S>) -> ! {
    let case = Case::new("session storage", "kill", "the process that is killed");
    let mut revision = case.ok(write.begin(storage, id).await);
    child_process::report("0");
    for number in 1.. {
        revision = case.ok(write.write(storage, id, number, revision).await);
        child_process::report(&number.to_string());
    }
    case.fail("ended")
}

/// What is repeated until the process is killed. The number of the last write is the session's
/// `event_count`.
trait Write<S> {
    /// What is stored after so many writes.
    fn version(&self, id: &str, number: u64) -> Session {
        sample::written(id, number, MESSAGES - 20 + (number % 40) as usize, MESSAGE_BYTES)
    }

    /// What the writer must know before the first write.
    async fn begin(&self, storage: &S, id: &str) -> Result<Option<SessionRevision>, StorageError>;

    /// Writes once.
    async fn write(
        &self,
        storage: &S,
        id: &str,
        number: u64,
        known: Option<SessionRevision>,
    ) -> Result<Option<SessionRevision>, StorageError>;

    fn compare(&self, case: &Case, loaded: &Session, expected: &Session) {
        same(case, loaded, expected);
    }
}

struct Save;

impl<S: SessionStorage> Write<S> for Save {
    async fn begin(&self, _: &S, _: &str) -> Result<Option<SessionRevision>, StorageError> {
        Ok(None)
    }

    async fn write(
        &self,
        storage: &S,
        id: &str,
        number: u64,
        _: Option<SessionRevision>,
    ) -> Result<Option<SessionRevision>, StorageError> {
        storage.save(&Write::<S>::version(self, id, number)).await?;
        Ok(None)
    }
}

struct Update;

impl<S: VersionedSessionStorage> Write<S> for Update {
    async fn begin(&self, storage: &S, id: &str) -> Result<Option<SessionRevision>, StorageError> {
        storage.revision(id).await.map(Some)
    }

    async fn write(
        &self,
        storage: &S,
        id: &str,
        number: u64,
        known: Option<SessionRevision>,
    ) -> Result<Option<SessionRevision>, StorageError> {
        let known = known.ok_or_else(|| StorageError::NotFound(id.to_owned()))?;
        storage.update(&Write::<S>::version(self, id, number), &known).await.map(Some)
    }
}

struct Append;

impl Append {
    /// What the write of this number adds.
    fn messages(number: u64) -> Vec<Message> {
        (0..3).map(|index| sample::message(number, index, MESSAGE_BYTES)).collect()
    }
}

impl<S: VersionedSessionStorage> Write<S> for Append {
    fn version(&self, id: &str, number: u64) -> Session {
        let mut session = sample::written(id, 0, MESSAGES, MESSAGE_BYTES);
        session.messages.extend((1..=number).flat_map(Self::messages));
        session.state.event_count = number;
        session
    }

    async fn begin(&self, storage: &S, id: &str) -> Result<Option<SessionRevision>, StorageError> {
        storage.revision(id).await.map(Some)
    }

    async fn write(
        &self,
        storage: &S,
        id: &str,
        number: u64,
        known: Option<SessionRevision>,
    ) -> Result<Option<SessionRevision>, StorageError> {
        let known = known.ok_or_else(|| StorageError::NotFound(id.to_owned()))?;
        let mut state = sample::small(id).state;
        state.event_count = number;
        storage.append(id, &Self::messages(number), Some(&state), &known).await.map(Some)
    }

    /// An append sets the time by the clock.
    fn compare(&self, case: &Case, loaded: &Session, expected: &Session) {
        case.equal("created_at", loaded.created_at, expected.created_at);
        same_content(case, loaded, expected);
    }
}
