//! A payload store in files ([`FilePayloadStore`]).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io, process};

use neuron_types::{BoxError, WasmBoxedFuture};

use super::PayloadStore;

/// Stores payloads as files of a directory, which all workers of a task queue must share. Each file is synced to the
/// disk, and is never left half-written.
///
/// On Unix, only the user of the worker can read new files and a new directory (modes 0600 and 0700). Run all workers
/// and clients as the same user.
#[derive(Debug, Clone)]
pub struct FilePayloadStore {
    directory: PathBuf,
}

impl FilePayloadStore {
    /// Creates a store in this directory. The directory is created with the first payload.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Returns the directory of the files.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl PayloadStore for FilePayloadStore {
    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: &'a [u8],
    ) -> WasmBoxedFuture<'a, Result<(), BoxError>> {
        let (directory, key, bytes) = (self.directory.clone(), key.to_owned(), bytes.to_vec());
        Box::pin(async move {
            tokio::task::spawn_blocking(move || write(&directory, &key, &bytes)).await??;
            Ok(())
        })
    }

    fn get<'a>(&'a self, key: &'a str) -> WasmBoxedFuture<'a, Result<Option<Vec<u8>>, BoxError>> {
        let file = self.directory.join(key);
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || fs::read(file)).await? {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }
}

/// Writes a file for the key, or does nothing if the file exists. A crash never leaves a partial file under the key,
/// because a temporary file is written first and then renamed.
fn write(directory: &Path, key: &str, bytes: &[u8]) -> io::Result<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let file = directory.join(key);
    if file.exists() {
        return Ok(());
    }
    create_directory(directory)?;
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = directory.join(format!(".{key}.{}.{number}", process::id()));
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut open = options.open(&beside)?;
    io::Write::write_all(&mut open, bytes)?;
    open.sync_all()?;
    fs::rename(&beside, &file)?;
    // The directory is synced too, so the new name survives a power failure.
    fs::File::open(directory)?.sync_all()
}

/// Creates a directory that only its owner can read, and all missing directories above it.
fn create_directory(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn new_files_and_directories_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("above/payloads");
        write(&directory, "0a1b", b"payload").unwrap();
        for (name, expected) in [("", 0o700), ("payloads", 0o700), ("payloads/0a1b", 0o600)] {
            let path = folder.path().join("above").join(name);
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{name}");
        }
    }
}
