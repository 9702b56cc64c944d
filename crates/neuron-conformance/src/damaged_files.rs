//! Copies of a storage's files, and random damage to such a copy.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::case::Case;
use crate::random::Random;

/// A copy of all files of a storage. The keys are paths relative to the storage's folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(BTreeMap<PathBuf, Vec<u8>>);

/// The damage to one file. `Display` formats it for a panic message.
#[derive(Debug, Clone)]
pub struct Damage {
    /// Path of the damaged file, relative to the storage's folder.
    pub name: String,
    what: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.name, self.what)
    }
}

impl Files {
    /// Reads all files in `folder` and its subfolders. Panics if a file cannot be read.
    pub fn read(case: &Case, folder: &Path) -> Self {
        let mut files = Self::default();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in case.ok(fs::read_dir(next)) {
                let path = case.ok(entry).path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                files.0.insert(name, case.ok(fs::read(&path)));
            }
        }
        files
    }

    /// Replaces the content of `folder` with these files. Panics if the folder cannot be written.
    pub fn put(&self, case: &Case, folder: &Path) {
        if folder.exists() {
            case.ok(fs::remove_dir_all(folder));
        }
        case.ok(fs::create_dir_all(folder));
        for (name, bytes) in &self.0 {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                case.ok(fs::create_dir_all(parent));
            }
            case.ok(fs::write(path, bytes));
        }
    }

    /// Returns the number of files.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a storage has files")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns a copy of the files in which one random file is damaged, and a description of the damage.
    ///
    /// The damaged file is removed, is cut, or has one bit flipped. Empty files are never damaged. Panics if all files
    /// are empty.
    #[must_use]
    pub fn damaged(&self, case: &Case, random: &mut Random) -> (Self, Damage) {
        let mut files = self.clone();
        let full: Vec<_> = self.0.iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
        let chosen = full.get(random.below(full.len() as u64) as usize).copied();
        let (path, bytes) = case.some("the storage has no files", chosen);
        let mut bytes = bytes.clone();
        let length = bytes.len() as u64;
        let what = match random.below(8) {
            0 => {
                files.0.remove(path);
                "removed".to_owned()
            }
            1 | 2 => {
                let length = random.below(length);
                bytes.truncate(length as usize);
                files.0.insert(path.clone(), bytes);
                format!("cut to {length} bytes")
            }
            _ => {
                let (at, bit) = (random.below(length), random.below(8));
                if let Some(byte) = bytes.get_mut(at as usize) {
                    *byte ^= 1 << bit;
                }
                files.0.insert(path.clone(), bytes);
                format!("bit {bit} of byte {at} changed")
            }
        };
        (files, Damage { name: path.display().to_string(), what })
    }
}
