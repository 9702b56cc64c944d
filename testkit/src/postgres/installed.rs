//! The folders in which systems install the programs of PostgreSQL.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Folders of Debian and Red Hat with one folder per version. The programs are in its `bin`.
const VERSIONED: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

/// Folders with the programs of one version.
const PLAIN: [&str; 4] = [
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql/bin",
    "/usr/local/opt/postgresql/bin",
    "/usr/libexec/postgresql",
];

/// Returns the path of the installed server, if `initdb` is in the same folder.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain(folders());
    folders.find(|folder| has_programs(folder)).map(|folder| folder.join("postgres"))
}

fn has_programs(folder: &Path) -> bool {
    // For the shell that starts the server, a relative folder in PATH would be another folder.
    folder.is_absolute() && ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

/// Returns the usual folders. The newest version comes first.
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

/// Parses a version, which is `15` for `15` and `16` for `pgsql-16`.
fn version(name: &OsStr) -> Option<u32> {
    let name = name.to_str()?;
    name.strip_prefix("pgsql-").unwrap_or(name).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_known_by_their_version() {
        assert_eq!(version(OsStr::new("15")), Some(15));
        assert_eq!(version(OsStr::new("pgsql-16")), Some(16));
        assert_eq!(version(OsStr::new("lib")), None);
    }
}
