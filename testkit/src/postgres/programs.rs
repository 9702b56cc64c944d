//! Where the programs of PostgreSQL are on this machine.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Names the folder with the programs.
pub(super) const VARIABLE: &str = "NEURON_POSTGRES_BIN";

/// Folders that hold one folder per version, with the programs in its `bin`: Debian's, Red Hat's.
const VERSIONED: [&str; 2] = ["/usr/lib/postgresql", "/usr"];

/// Folders that hold the programs of one version.
const PLAIN: [&str; 4] = [
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql/bin",
    "/usr/local/opt/postgresql/bin",
    "/usr/libexec/postgresql",
];

/// The folder of the programs.
pub(super) fn find() -> io::Result<PathBuf> {
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        return match has_programs(&folder) {
            true => Ok(folder),
            false => Err(missing(format!(
                "{VARIABLE} is {}, and there are no initdb and postgres",
                folder.display()
            ))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(installed()).find(|folder| has_programs(folder)).ok_or_else(
        || {
            missing(format!(
                "no initdb and postgres in PATH or where systems put them; install PostgreSQL, or \
                 set {VARIABLE} to the folder that has them"
            ))
        },
    )
}

fn missing(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, reason)
}

fn has_programs(folder: &Path) -> bool {
    // A relative folder in PATH would be another one for the shell that starts the server.
    folder.is_absolute() && ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}

/// The folders of installed versions, the newest first.
fn installed() -> Vec<PathBuf> {
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

/// `15` of `15`, `16` of `pgsql-16`.
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
