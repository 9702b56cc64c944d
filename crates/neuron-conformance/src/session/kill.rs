//! Checks a storage whose process is killed while it writes.
//!
//! A test that calls [`check_saves`] runs its own binary again as a child process. The child process writes a session
//! of five megabytes again and again, and is killed at a random moment. The storage must then contain the last write
//! that returned. If the kill interrupted a write, this write must be stored completely or not at all.
//!
//! By default a test kills three processes. Set the environment variable `KILL_ROUNDS`, for example to 500, for more
//! rounds. A failure prints the seed of the random moments. Set `KILL_SEED` to this seed to repeat the moments. The
//! repetition is not exact, because it also depends on the operating system's scheduler.
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

/// Default number of rounds. A round kills one process.
const ROUNDS: u64 = 3;

/// Size of a message, in bytes.
const MESSAGE_BYTES: usize = 10_000;

/// Approximate number of messages in a session. A session has about five megabytes.
const MESSAGES: usize = 500;

/// Time limit for the first report of a child process.
const HANGING: Duration = Duration::from_secs(60);

/// Counts of all rounds of a check. In each round, one process that writes to the storage is killed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Killed {
    /// Number of killed processes.
    pub rounds: u64,
    /// Number of rounds in which the interrupted write was not stored. The storage then had the last completed write.
    pub old: u64,
    /// Number of rounds in which the interrupted write was stored, although its call had not returned.
    pub new: u64,
    /// Number of writes that returned, in all rounds.
    pub writes: u64,
}

/// Checks a storage whose process is killed while it calls [`save`](SessionStorage::save).
///
/// - `test` is the full name of the calling test, as the test runner prints it.
/// - `place` is called once, in the parent process. It returns the location of the sessions, and a guard that keeps the
///   location until the check ends.
/// - `open` is called in every process, and opens the storage at this location.
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

/// Checks a storage whose process is killed while it calls [`update`](VersionedSessionStorage::update).
///
/// The arguments are those of [`check_saves`].
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

/// Checks a storage whose process is killed while it calls [`append`](VersionedSessionStorage::append).
///
/// The arguments are those of [`check_saves`].
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
    // An append sets `updated_at` to the current time, so this time is not compared.
    let compare = |case: &Case, loaded: &Session, expected: &Session| {
        case.equal("created_at", loaded.created_at, expected.created_at);
        same_content(case, loaded, expected);
    };
    check(test, place, open, appended, compare, append).await
}

/// Checks a storage whose process is killed during one of its writes.
///
/// - `version(id, n)` returns the session that must be stored after write `n`. Its `event_count` is `n`.
/// - `compare` checks that a loaded session equals the expected version.
/// - `write(storage, id, n)` performs write `n`.
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
        // The moment of the kill must not depend on the child's progress, so the thread only sleeps.
        std::thread::sleep(Duration::from_micros(random.below(longest.as_micros() as u64)));
        let finished = child.kill().last().map_or(0, |last| case.ok(last.parse::<u64>()));

        // A new storage has no cache of the sessions.
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
        // A lock of the killed process must not block the next writer.
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

/// Returns the session that must be stored after `number` saves or updates.
fn rewritten(id: &str, number: u64) -> Session {
    sample::written(id, number, MESSAGES - 20 + (number % 40) as usize, MESSAGE_BYTES)
}

/// Returns the session that must be stored after `number` appends.
fn appended(id: &str, number: u64) -> Session {
    let mut session = sample::written(id, 0, MESSAGES, MESSAGE_BYTES);
    session.messages.extend((1..=number).flat_map(appended_by));
    session.state.event_count = number;
    session
}

/// Returns the messages of the append with this number.
fn appended_by(number: u64) -> Vec<Message> {
    sample::messages(number, 3, MESSAGE_BYTES)
}
