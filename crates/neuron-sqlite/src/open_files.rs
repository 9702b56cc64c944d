//! Checks that the paths of an open database still name the same files ([`OpenFiles`]).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::SqliteError;

/// The identities of the database file and its write-ahead log file at the time when the database was opened.
///
/// Only Unix files have an identity. On Windows an open file cannot be deleted or replaced.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    path: PathBuf,
    database: Option<FileId>,
    log: Option<(PathBuf, FileId)>,
}

impl OpenFiles {
    /// Stores the identities of a database's files. The database must have been read before, so that its write-ahead
    /// log file exists.
    pub(crate) fn of(path: &Path) -> Self {
        let log = beside(&real_path(path), "-wal");
        let id = |path: &Path| Some(FileId::of(&fs::metadata(path).ok()?));
        Self { path: path.into(), database: id(path), log: id(&log).map(|id| (log, id)) }
    }

    /// Checks that the paths of the database and its write-ahead log still name the open files. Also checks that the
    /// database file has no other hard link.
    ///
    /// # Errors
    ///
    /// [`SqliteError::Replaced`] with the reason.
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

/// Returns an error if a database file has more than one hard link. SQLite would use a separate write-ahead log for
/// each link. A missing file is not an error.
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

/// The identity of a file, independent of its name.
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

/// Returns the number of hard links of a file.
#[cfg(unix)]
fn links(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(metadata)
}

/// Returns 1, because the standard library counts hard links only on Unix.
#[cfg(not(unix))]
fn links(_metadata: &fs::Metadata) -> u64 {
    1
}

/// Returns a path without symbolic links, which determines where SQLite puts its other files. The file itself need not
/// exist.
pub(crate) fn real_path(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.into())
}

/// Returns a path with `ending` appended, for a file beside another.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(ending);
    beside.into()
}

/// Creates the folder of a file, and the folders around it, if they do not exist.
pub(crate) fn make_folder(path: &Path) -> Result<(), SqliteError> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    // Only the owner can read the files in it.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    // The names of the new folders must survive a crash, as the commits in them do.
    builder
        .create(folder)
        .and_then(|()| missing.into_iter().try_for_each(sync_folder))
        .map_err(|source| SqliteError::Io { path: folder.into(), source })
}

/// Syncs the folder of a file, so that the file's name survives a crash. Does nothing on other systems than Unix.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
