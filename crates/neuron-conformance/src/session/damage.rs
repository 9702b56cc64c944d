//! Storages whose files are changed, cut or removed at random.
//!
//! [`check_damage`] copies the files of a storage while it is open, as a killed process leaves them, and after it was
//! closed. Each trial damages one file of such a copy. Every session must then be loaded exactly as it was, or its load
//! must fail. An earlier state of a session is a violation, and so is a session that is missing without an error.
//!
//! The seed of a trial decides everything. A failure prints the seed.
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
use crate::random::Random;

/// Result of the trials.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of sessions that were loaded exactly as they were.
    pub exact: u64,
    /// Number of sessions whose load failed.
    pub refused: u64,
}

/// The files of a storage, by their path in its folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Sessions that must be stored, by id.
type Stored = BTreeMap<String, Session>;

/// Checks a storage whose files are in one folder, with a trial for each seed.
///
/// `folder` is created, and removed at the end. A file that is named after one session may be its only witness: if such
/// a file is removed, the session may be missing.
///
/// # Panics
///
/// Panics at the first violation. The message names the seed and the damage. Panics if the folder cannot be written.
pub async fn check_damage<S, O>(folder: &Path, open: O, seeds: Range<u64>) -> Tally
where
    S: SessionStorage,
    O: AsyncFn(PathBuf) -> Result<S, StorageError>,
{
    let case = Case::new("session storage", "damage", "setup");
    put(&case, folder, &Files::new());
    let mut stored = Stored::new();
    let storage = case.ok(open(folder.to_owned()).await);
    write(&case, &storage, &mut stored).await;
    drop(storage);
    // Some of the history is in the main files now, and some will be in a log.
    let storage = case.ok(open(folder.to_owned()).await);
    write_more(&case, &storage, &mut stored).await;
    let killed = files(&case, folder);
    drop(storage);
    put(&case, folder, &killed);
    drop(case.ok(open(folder.to_owned()).await));
    let closed = files(&case, folder);

    let mut tally = Tally::default();
    for seed in seeds {
        let mut random = Random::new(seed);
        let whole = if random.below(2) == 0 { &killed } else { &closed };
        let (damaged, damage) = damage(&case, whole, &mut random);
        let case = Case::new("session storage", "damage", format_args!("seed {seed}, {damage}"));
        put(&case, folder, &damaged);
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

/// Saves sessions that grow, so that each has earlier states.
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

async fn write_more(case: &Case, storage: &impl SessionStorage, stored: &mut Stored) {
    // Its earlier state must not come back.
    case.ok(storage.delete("third").await);
    stored.remove("third");
    stored.insert("fourth".into(), sample::everything("fourth"));
    for session in stored.values_mut() {
        case.ok(storage.save(session).await);
        session.messages.extend(sample::messages(9, 3, 100));
        case.ok(storage.save(session).await);
    }
}

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

/// A damage, as a failure prints it.
struct Damage {
    name: String,
    what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.what)
    }
}

/// Damages one of the files that have content.
fn damage(case: &Case, whole: &Files, random: &mut Random) -> (Files, Damage) {
    let mut files = whole.clone();
    let full: Vec<_> = whole.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let chosen = full.get(random.below(full.len() as u64) as usize).copied();
    let (path, bytes) = case.some("the storage has no files", chosen);
    let mut bytes = bytes.clone();
    let length = bytes.len() as u64;
    let what = match random.below(8) {
        0 => {
            files.remove(path);
            "removed".to_owned()
        }
        1 | 2 => {
            let length = random.below(length);
            bytes.truncate(length as usize);
            files.insert(path.clone(), bytes);
            format!("cut to {length} bytes")
        }
        _ => {
            let (at, bit) = (random.below(length), random.below(8));
            if let Some(byte) = bytes.get_mut(at as usize) {
                *byte ^= 1 << bit;
            }
            files.insert(path.clone(), bytes);
            format!("bit {bit} of byte {at} changed")
        }
    };
    (files, Damage { name: path.display().to_string(), what })
}

fn files(case: &Case, folder: &Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in case.ok(fs::read_dir(next)) {
            let path = case.ok(entry).path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
            files.insert(name, case.ok(fs::read(&path)));
        }
    }
    files
}

/// Puts files in the place of all that is in a folder.
fn put(case: &Case, folder: &Path, files: &Files) {
    if folder.exists() {
        case.ok(fs::remove_dir_all(folder));
    }
    case.ok(fs::create_dir_all(folder));
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            case.ok(fs::create_dir_all(parent));
        }
        case.ok(fs::write(path, bytes));
    }
}
