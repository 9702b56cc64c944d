//! I/O errors that name the failed operation and the path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use neuron_types::StorageError;

#[derive(Debug)]
struct PathError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.source)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Returns a function that adds the operation `doing` and the path to an I/O error. The error keeps its kind.
pub(super) fn naming(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StorageError {
    let path = path.to_owned();
    move |source| {
        let kind = source.kind();
        StorageError::Io(io::Error::new(kind, PathError { doing, path, source }))
    }
}
