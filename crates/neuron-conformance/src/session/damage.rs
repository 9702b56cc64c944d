//! Checks a storage whose files are changed, cut or removed at random.
//!
//! [`check_damage`] copies the files of a storage twice. The first copy is made while the storage is open, as a killed
//! process would leave the files. The second copy is made after the storage was closed.
//!
//! Each trial damages one file of one copy, and loads every session. A load must return exactly the stored session or
//! fail. The suite fails if a load returns an earlier state of a session, or reports an existing session as not found.
//!
//! The seed of a trial determines the copy, the file and the damage. A failure prints the seed.
//!
//! # Example
//!
//! ```no_run
//! # use neuron_types::*;
//! use neuron_conformance::session::damage;
//!
//! # async fn test<S: SessionStorage>(open: impl AsyncFn(std::path::PathBuf) -> Result<S, StorageError>) {
//! let folder = std::env::temp_dir().join(format!("damaged-{}", std::process::id()));
//! // `open` opens the storage whose files are in a folder.
//! let tally = damage::check_damage(&folder, open, 0..500).await;
//! assert!(tally.exact > 0 && tally.refused > 0);
//! # }
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use neuron_types::{Session, SessionStorage, SessionSummary, StorageError};

use super::sample;
use crate::case::Case;
use crate::damaged_files::Files;
use crate::random::Random;

/// The numbers of loads in all trials. A trial damages one file and then loads every session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of loads that returned exactly the stored session.
    pub exact: u64,
    /// Number of loads that failed. If the storage cannot be opened, all its sessions are counted here.
    pub refused: u64,
}

/// The sessions that the storage must contain, by id.
type Stored = BTreeMap<String, Session>;

/// Checks a storage whose files are in one folder, with a trial for each seed.
///
/// `folder` is created, and removed at the end. If a trial removes a file whose name contains a session's id, this
/// session may be missing.
///
/// # Panics
///
/// Panics at the first violation. The message contains the seed and the damage. Panics also if the folder cannot be
/// written.
pub async fn check_damage<S, O>(folder: &Path, open: O, seeds: Range<u64>) -> Tally
where
    S: SessionStorage,
    O: AsyncFn(PathBuf) -> Result<S, StorageError>,
{
    let case = Case::new("session storage", "damage", "setup");
    Files::default().put(&case, folder);
    let mut stored = Stored::new();
    let storage = case.ok(open(folder.to_owned()).await);
    write(&case, &storage, &mut stored).await;
    drop(storage);
    // Closing the storage moved this history into its main files. The next writes may stay in a log.
    let storage = case.ok(open(folder.to_owned()).await);
    write_more(&case, &storage, &mut stored).await;
    let killed = Files::read(&case, folder);
    drop(storage);
    killed.put(&case, folder);
    drop(case.ok(open(folder.to_owned()).await));
    let closed = Files::read(&case, folder);

    let mut tally = Tally::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let whole = if random.below(2) == 0 { &killed } else { &closed };
        let (damaged, damage) = whole.damaged(&case, &mut random);
        let case = Case::new("session storage", "damage", format_args!("seed {seed}, {damage}"));
        damaged.put(&case, folder);
        let lost = |id: &str| whole.len() > damaged.len() && damage.name.contains(id);
        match open(folder.to_owned()).await {
            Err(_) => tally.refused += stored.len() as u64,
            Ok(storage) => {
                check_loads(&case, &storage, &stored, lost, &mut tally).await;
                check_list(&case, &storage, &stored, lost).await;
            }
        }
    }
    case.ok(fs::remove_dir_all(folder));
    tally
}

/// Saves three sessions several times with a growing history, so that each has earlier states.
async fn write(case: &Case, storage: &impl SessionStorage, stored: &mut Stored) {
    for (index, id) in ["first", "second", "third"].into_iter().enumerate() {
        let mut session = sample::written(id, 1, 2, 40);
        for turn in 0..4 + 4 * index as u64 {
            session.messages.extend(sample::messages(turn, 2, 300));
            case.ok(storage.save(&session).await);
        }
        stored.insert(id.into(), session);
    }
}

/// Deletes one session, adds another, and saves all sessions again.
async fn write_more(case: &Case, storage: &impl SessionStorage, stored: &mut Stored) {
    // Damage must not bring this session back.
    case.ok(storage.delete("third").await);
    stored.remove("third");
    stored.insert("fourth".into(), sample::everything("fourth"));
    for session in stored.values_mut() {
        case.ok(storage.save(session).await);
        session.messages.extend(sample::messages(9, 3, 100));
        case.ok(storage.save(session).await);
    }
}

/// Loads every session. Panics if a load returns a changed session or `NotFound`. Other errors are accepted.
///
/// `NotFound` is also accepted if `lost` returns `true` for the session's id, because the test has removed the
/// session's file.
async fn check_loads(
    case: &Case,
    storage: &impl SessionStorage,
    stored: &Stored,
    lost: impl Fn(&str) -> bool,
    tally: &mut Tally,
) {
    for (id, session) in stored {
        match storage.load(id).await {
            Ok(loaded) => {
                case.holds(loaded == *session, format_args!("{id} was loaded as another session"));
                tally.exact += 1;
            }
            Err(StorageError::NotFound(_)) if !lost(id) => {
                case.fail(format_args!("{id} is missing without an error"));
            }
            Err(_) => tally.refused += 1,
        }
    }
    let deleted = storage.load("third").await;
    case.holds(deleted.is_err(), "a deleted session came back");
}

/// Checks that the list contains every session. An entry must have the correct summary or be marked as damaged. An
/// error instead of a list is accepted.
///
/// A session may be missing if `lost` returns `true` for its id, because the test has removed the session's file.
async fn check_list(
    case: &Case,
    storage: &impl SessionStorage,
    stored: &Stored,
    lost: impl Fn(&str) -> bool,
) {
    let Ok(listed) = storage.list().await else {
        return;
    };
    for (id, session) in stored {
        match listed.iter().find(|summary| summary.id == *id) {
            Some(summary) => {
                let is_right = summary.damage.is_some() || *summary == session.summary();
                case.holds(is_right, format_args!("{id} is listed as {summary:?}"));
            }
            None => case.holds(lost(id), format_args!("{id} is not listed")),
        }
    }
    let is_known = |summary: &&SessionSummary| stored.contains_key(&summary.id);
    for other in listed.iter().filter(|summary| !is_known(summary)) {
        case.holds(other.damage.is_some(), format_args!("{other:?} is listed"));
    }
}
