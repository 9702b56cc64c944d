//! Finds PostgreSQL in the folders in which systems install it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folders in which Debian and Red Hat install one folder per version. The programs are in `bin` of the version's
/// folder.
const VERSIONED: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

/// Folders with the programs of a single version.
const PLAIN: [&str; 4] = [
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql/bin",
    "/usr/local/opt/postgresql/bin",
    "/usr/libexec/postgresql",
];

/// Returns the path of an installed `postgres` program that has `initdb` in the same folder. Returns `None` if there is
/// none.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(folders());
    folders.find(|folder| has_programs(folder)).map(|folder| folder.join("postgres"))
}

fn has_programs(folder: &Path) -> bool {
    // The server starts in its own folder, where a relative folder of PATH is another folder.
    folder.is_absolute() && ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

/// Returns the folders in which PostgreSQL may be installed. Newer versions come first.
fn folders() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = VERSIONED
        .iter()
        .filter_map(|parent| std::fs::read_dir(parent).ok())
        .flatten()
        .flatten()
        .filter_map(|entry| Some((version(&entry.file_name())?, entry.path().join("bin"))))
        .collect();
    versions.sort_by(|(left, _), (right, _)| right.cmp(left));
    versions.into_iter().map(|(_, folder)| folder).chain(PLAIN.map(PathBuf::from)).collect()
}

/// Parses the major version in the name of a folder, such as `15` or `pgsql-16`. Returns `None` for other names.
fn version(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?;
    name.strip_prefix("pgsql-").unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_parses_the_names_of_folders() {
        assert_eq!(version(OsStr::new("15")), Some(15));
        assert_eq!(version(OsStr::new("pgsql-16")), Some(16));
        assert_eq!(version(OsStr::new("lib")), None);
    }
}
