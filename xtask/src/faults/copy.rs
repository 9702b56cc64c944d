//! Copies of some crates, in which some files have another text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::{changes, process};

/// A folder with copies of crates.
pub(super) struct Copy {
    pub(super) folder: PathBuf,
    /// The locked file. Without the lock, two processes could write into the same files.
    _lock: File,
}

impl Copy {
    /// Creates or updates the copies in `folder`, of the crates whose files are in `texts`. These files get these texts.
    /// Only files that differ are written, so that cargo rebuilds only these.
    pub(super) fn make(folder: PathBuf, texts: &BTreeMap<String, String>) -> Result<Self, String> {
        fs::create_dir_all(&folder).map_err(|error| cannot("create", &folder, &error))?;
        let lock = folder.join("lock");
        let lock = File::create(&lock)
            .and_then(|file| file.lock().map(|()| file))
            .map_err(|error| cannot("lock", &lock, &error))?;
        let copy = Self { folder, _lock: lock };
        let crates: BTreeSet<&str> =
            texts.keys().filter_map(|file| Some(file.split_once("/src/")?.0)).collect();
        let is_of_crate = |file: &String| {
            let is_in = |folder: &&str| {
                file.strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'))
            };
            crates.iter().any(is_in) && !file.contains("/tests/")
        };
        let mut files = changes::files()?;
        files.retain(is_of_crate);
        files.extend(texts.keys().filter(|file| !process::root().join(file).exists()).cloned());
        let listing = copy.folder.join("files.txt");
        let last = fs::read_to_string(&listing).unwrap_or_default();
        let is_gone = |file: &&str| !file.is_empty() && files.iter().all(|other| other != file);
        for gone in last.split('\0').filter(is_gone) {
            copy.remove(gone)?;
        }
        for file in &files {
            let bytes = match texts.get(file) {
                Some(text) => text.clone().into_bytes(),
                None => read(&process::root().join(file))?,
            };
            let to = copy.folder.join(file);
            if fs::read(&to).is_ok_and(|present| present == bytes) {
                continue;
            }
            let parent = to.parent().unwrap_or(&to);
            fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
            fs::write(&to, bytes).map_err(|error| cannot("write", &to, &error))?;
        }
        fs::write(&listing, files.join("\0")).map_err(|error| cannot("write", &listing, &error))?;
        Ok(copy)
    }

    /// Removes a file that the workspace no longer has from the copy, and also the folders that become empty.
    fn remove(&self, file: &str) -> Result<(), String> {
        let path = self.folder.join(file);
        if path.is_file() {
            fs::remove_file(&path).map_err(|error| cannot("remove", &path, &error))?;
        }
        let folders = path.ancestors().skip(1).take_while(|folder| *folder != self.folder);
        // `remove_dir` fails for a folder that is not empty, so the error is ignored.
        folders.for_each(|folder| drop(fs::remove_dir(folder)));
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| cannot("read", path, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}
