//! The files of an open database, and checks that the paths still lead to them.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::SqliteError;

/// The database file and its log, as they were when the database was opened.
///
/// Only Unix tells files apart. On Windows nobody can delete or replace a file that SQLite has open.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    path: PathBuf,
    database: Option<FileId>,
    log: Option<(PathBuf, FileId)>,
}

impl OpenFiles {
    /// Remembers the files of a database. It must have been read, so that it has its log.
    pub(crate) fn of(path: &Path) -> Self {
        let log = beside(&real_path(path), "-wal");
        let id = |path: &Path| Some(FileId::of(&fs::metadata(path).ok()?));
        Self { path: path.into(), database: id(path), log: id(&log).map(|id| (log, id)) }
    }

    /// Checks that the paths lead to the open files, and that nobody can reach the database file by another name.
    ///
    /// # Errors
    ///
    /// [`SqliteError::Replaced`].
    pub(crate) fn check(&self) -> Result<(), SqliteError> {
        let is_open = |path: &Path, id: FileId| {
            fs::metadata(path).is_ok_and(|metadata| FileId::of(&metadata) == id)
        };
        if let Some(id) = self.database
            && !is_open(&self.path, id)
        {
            return Err(replaced(
                &self.path,
                "it was deleted or replaced since it was opened; open it again",
            ));
        }
        if let Some((path, id)) = &self.log
            && !is_open(path, *id)
        {
            return Err(replaced(
                &self.path,
                "its log was deleted or replaced since it was opened; close it and open it again",
            ));
        }
        check_links(&self.path)
    }
}

/// Checks that a database file, if it is there, has one name.
pub(crate) fn check_links(path: &Path) -> Result<(), SqliteError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && links(&metadata) > 1 => Err(replaced(
            path,
            "it has another hard link, which has its own log; remove one of the names",
        )),
        _ => Ok(()),
    }
}

fn replaced(path: &Path, reason: &'static str) -> SqliteError {
    SqliteError::Replaced { path: path.into(), reason }
}

/// Identifies a file, whatever its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    #[cfg(unix)]
    id: (u64, u64),
}

#[cfg(unix)]
impl FileId {
    pub(crate) fn of(metadata: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { id: (metadata.dev(), metadata.ino()) }
    }
}

#[cfg(not(unix))]
impl FileId {
    fn of(_metadata: &fs::Metadata) -> Self {
        Self {}
    }
}

#[cfg(unix)]
fn links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

#[cfg(not(unix))]
fn links(_metadata: &fs::Metadata) -> u64 {
    1
}

/// The path without symbolic links, beside which SQLite has its files. The file need not exist.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.into())
}

/// The path of a file beside another.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ending);
    beside.into()
}

/// Makes the name of a file last. Elsewhere than on Unix that cannot be asked for.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
