//! Storages whose process is killed while it writes.
//!
//! A test that calls [`check_saves`] starts its own binary again. The child process writes a session of five megabytes
//! repeatedly, and is killed at a random moment. The storage must then hold every finished write. The write that had
//! begun must be stored completely or not at all.
//!
//! Every test run includes some rounds. Set `KILL_ROUNDS=500` for more. A failure prints the seed. `KILL_SEED` repeats
//! the moments of a seed, as far as the operating system allows.
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
//! // In a test file with the name `storage`. Run it with `cargo test --test storage`.
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

use neuron_types::{Message, Session, SessionStorage, StorageError, VersionedSessionStorage};

use super::context::{same, same_content};
use super::sample;
use crate::case::Case;
use crate::child_process::{self, ChildProcess};
use crate::random::{Random, from_env, unique};

/// Default number of rounds.
const ROUNDS: u64 = 3;

/// Size of a message.
const MESSAGE_BYTES: usize = 10_000;

/// Approximate number of messages in a session, which are five megabytes together.
const MESSAGES: usize = 500;

/// Time limit for the first report of a child. A passing test never waits for it.
const HANGING: Duration = Duration::from_secs(60);

/// Result of the rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// Number of killed processes.
    pub rounds: u64,
    /// Number of rounds after which the last finished write was stored.
    pub old: u64,
    /// Number of rounds after which the next write was stored.
    pub new: u64,
    /// Number of finished writes.
    pub writes: u64,
}

/// Checks a storage whose process is killed while it saves.
///
/// `test` is the full name of the calling test, as the test runner prints it. `place` is called once. It returns the
/// place of the sessions, and a guard that keeps the place until the end. `open` is called in every process. It opens
/// the storage at that place.
///
/// # Panics
///
/// Panics at the first violation, and if the process does not start.
pub async fn check_saves<S: SessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    let save = async |storage: &S, id: &str, number| storage.save(&rewritten(id, number)).await;
    check(test, place, open, rewritten, same, save).await
}

/// Checks a storage whose process is killed while it updates. See [`check_saves`].
///
/// # Panics
///
/// Panics like [`check_saves`].
pub async fn check_updates<S: VersionedSessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    let update = async |storage: &S, id: &str, number| {
        let newest = storage.revision(id).await?;
        storage.update(&rewritten(id, number), &newest).await.map(drop)
    };
    check(test, place, open, rewritten, same, update).await
}

/// Checks a storage whose process is killed while it appends. See [`check_saves`].
///
/// # Panics
///
/// Panics like [`check_saves`].
pub async fn check_appends<S: VersionedSessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
) -> Killed {
    let append = async |storage: &S, id: &str, number| {
        let newest = storage.revision(id).await?;
        let mut state = sample::small(id).state;
        state.event_count = number;
        storage.append(id, &appended_by(number), Some(&state), &newest).await.map(drop)
    };
    // An append sets `updated_at` by the clock.
    let compare = |case: &Case, loaded: &Session, expected: &Session| {
        case.equal("created_at", loaded.created_at, expected.created_at);
        same_content(case, loaded, expected);
    };
    check(test, place, open, appended, compare, append).await
}

/// Checks a storage whose process is killed in one of its writes.
///
/// `version` returns the session after this many writes. Its `event_count` is the number of the last write. `compare`
/// compares a loaded session with its version. `write` writes the version with this number.
async fn check<S: SessionStorage, G>(
    test: &str,
    place: impl AsyncFnOnce() -> (String, G),
    open: impl AsyncFn(String) -> S,
    version: fn(&str, u64) -> Session,
    compare: fn(&Case, &Session, &Session),
    write: impl AsyncFn(&S, &str, u64) -> Result<(), StorageError>,
) -> Killed {
    if let Some(task) = child_process::task() {
        let case = Case::new("session storage", "kill", "the process that is killed");
        let (id, place) = task.split_once(' ').unwrap_or_default();
        let storage = open(place.to_owned()).await;
        child_process::report("0");
        for number in 1.. {
            case.ok(write(&storage, id, number).await);
            child_process::report(&number.to_string());
        }
    }
    let (place, _guard) = place().await;
    let seed = from_env("KILL_SEED").unwrap_or_else(unique);
    let mut random = Random::new(seed);
    let mut killed = Killed::default();
    let prefix = format!("killed-{:016x}", unique());
    for round in 0..from_env("KILL_ROUNDS").unwrap_or(ROUNDS) {
        let name = format!("round {round} of {test} with KILL_SEED={seed}");
        let case = Case::new("session storage", "kill", name);
        let storage = open(place.clone()).await;
        let id = format!("{prefix}-{round}");
        let begin = Instant::now();
        case.ok(case.soon(storage.save(&version(&id, 0))).await);
        let longest =
            (begin.elapsed() * 4).clamp(Duration::from_millis(40), Duration::from_secs(2));

        let mut child = ChildProcess::start(test, &format!("{id} {place}"));
        case.some("the process did not begin to write", child.next_report(HANGING));
        // The kill must not depend on any event, so the thread sleeps.
        std::thread::sleep(Duration::from_micros(random.below(longest.as_micros() as u64)));
        let finished = child.kill().last().map_or(0, |last| case.ok(last.parse::<u64>()));

        // A new client without the memory of the first client.
        let storage = open(place.clone()).await;
        let loaded = case.ok(case.soon(storage.load(&id)).await);
        let found = loaded.state.event_count;
        case.holds(
            found == finished || found == finished + 1,
            format_args!("write {finished} was the last to finish, and {found} is there"),
        );
        compare(&case, &loaded, &version(&id, found));
        let listed = case.ok(case.soon(storage.list()).await);
        let listed = listed.iter().find(|summary| summary.id == id);
        case.equal("what is listed", listed, Some(&loaded.summary()));
        // The dead writer does not block the next one.
        let after = version(&id, found + 7);
        case.ok(case.soon(storage.save(&after)).await);
        same(&case, &case.ok(case.soon(storage.load(&id)).await), &after);
        case.ok(case.soon(storage.delete(&id)).await);

        killed.rounds += 1;
        killed.writes += finished;
        killed.old += u64::from(found == finished);
        killed.new += u64::from(found != finished);
    }
    killed
}

/// Returns the session after this many saves or updates.
fn rewritten(id: &str, number: u64) -> Session {
    sample::written(id, number, MESSAGES - 20 + (number % 40) as usize, MESSAGE_BYTES)
}

/// Returns the session after this many appends.
fn appended(id: &str, number: u64) -> Session {
    let mut session = sample::written(id, 0, MESSAGES, MESSAGE_BYTES);
    session.messages.extend((1..=number).flat_map(appended_by));
    session.state.event_count = number;
    session
}

/// Returns the messages of one append.
fn appended_by(number: u64) -> Vec<Message> {
    sample::messages(number, 3, MESSAGE_BYTES)
}
