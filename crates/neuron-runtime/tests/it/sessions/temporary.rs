//! Temporary directories, which are deleted when their value is dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_runtime::FileSessionStorage;

pub(crate) struct Temporary(PathBuf);

impl Temporary {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("neuron-sessions-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a storage whose directory does not exist yet.
    pub(crate) fn storage(&self) -> FileSessionStorage {
        FileSessionStorage::new(self.join("sessions"))
    }

    /// Returns the path of a session's file in the storage's directory.
    pub(crate) fn file(&self, id: &str) -> PathBuf {
        self.join("sessions").join(format!("{id}.json"))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Converts a session's file to version 1, which has no checksums.
pub(crate) fn as_version_1(text: &str) -> String {
    let is_checksum =
        |line: &&str| line.contains("\"head_checksum\"") || line.contains("\"checksum\"");
    let lines: String = text.split_inclusive('\n').filter(|line| !is_checksum(line)).collect();
    lines.replace("\"version\": 3", "\"version\": 1").replace("  ],\n}\n", "  ]\n}\n")
}

/// Returns all files and directories below a path, relative to the path.
pub(crate) fn names(path: &Path) -> Vec<String> {
    fn visit(root: &Path, path: &Path, names: &mut Vec<String>) {
        for entry in std::fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            names.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            if path.is_dir() && !path.is_symlink() {
                visit(root, &path, names);
            }
        }
    }
    let mut names = Vec::new();
    visit(path, path, &mut names);
    names.sort();
    names
}
