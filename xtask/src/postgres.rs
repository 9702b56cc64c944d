//! PostgreSQL for the tests that need it: the machine's, or out of Debian's packages under `target/`.

// The one place that knows where systems put it. The tests look there by themselves.
#[path = "../../testkit/src/postgres/programs.rs"]
mod programs;

use std::path::{Path, PathBuf};

use crate::debian::{Apt, Programs};
use crate::{means, process, workspace};

/// Depends on the server of the version that the system is made for.
const PACKAGE: &str = "postgresql";

/// What a server needs beyond the C library, without what is for its languages and its compiler.
const NOT_NEEDED: [&str; 5] = ["libc6", "libc-", "libllvm", "libperl", "libz3"];

/// The variable and the value that tell the tests where the programs are; none if they find them by
/// themselves, or if there are none, which is then said.
pub(crate) fn variable() -> Result<Option<(&'static str, PathBuf)>, String> {
    let Err(reason) = programs::find() else {
        return Ok(None);
    };
    let folder = workspace::members()?.target_directory.join("postgres");
    match provide(&folder) {
        Ok(()) => Ok(Some((programs::VARIABLE, folder))),
        Err(why) => {
            means::not_checked("whatever needs PostgreSQL", &format!("{reason}; {why}"))?;
            Ok(None)
        }
    }
}

fn provide(folder: &Path) -> Result<(), String> {
    let server = Programs {
        folder,
        announcement: "fetching PostgreSQL (some 40 MB, once per target folder)",
        verify: &verify,
        packages: &|apt: &Apt<'_>| packages(&apt.all_dependencies(PACKAGE)?),
        programs: &installed,
    };
    server.provide()
}

/// Whether the programs start.
fn verify(folder: &Path) -> Result<(), String> {
    for name in ["postgres", "initdb"] {
        let mut command = process::program(folder.join(name));
        command.arg("--version");
        process::capture(command)?;
    }
    Ok(())
}

/// The server and its libraries, out of all that the package needs.
fn packages(depends: &str) -> Result<Vec<String>, String> {
    let is_server = |name: &str| {
        name.strip_prefix("postgresql-").is_some_and(|version| version.parse::<u32>().is_ok())
    };
    let is_library = |name: &str| {
        name.starts_with("lib")
            && !name.ends_with("-perl")
            && !NOT_NEEDED.iter().any(|prefix| name.starts_with(prefix))
    };
    // Lines that are indented say why a package is needed, lines in angle brackets what is no package.
    let names = depends.lines().filter(|line| is_server(line) || is_library(line));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    if !names.iter().any(|name| is_server(name)) {
        return Err(format!("apt-cache names no server that {PACKAGE} depends on"));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The programs in the unpacked packages, which are in a folder named after their version.
fn installed(root: &Path) -> Result<Vec<String>, String> {
    let parent = root.join("usr/lib/postgresql");
    let versions =
        parent.read_dir().map_err(|error| format!("cannot list {}: {error}", parent.display()))?;
    let version = versions.flatten().map(|entry| entry.file_name()).next();
    let version = version.ok_or_else(|| format!("{} is empty", parent.display()))?;
    let folder = format!("usr/lib/postgresql/{}/bin", version.to_string_lossy());
    Ok(["postgres", "initdb"].map(|name| format!("{folder}/{name}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_and_its_libraries_are_found_through_the_dependencies() {
        let depends = "postgresql\n  Depends: postgresql-15\npostgresql-15\n  Depends: libpq5\nlibpq5\n\
                       libc6\nlibllvm14\nlibjson-perl\nlibssl3\npostgresql-common\n<libc-dev>\nlibpq5\n";
        let expected: Vec<String> =
            ["libpq5", "libssl3", "postgresql-15"].map(str::to_owned).into();
        assert_eq!(packages(depends), Ok(expected));
        assert!(packages("postgresql\npostgresql-common\n").is_err());
    }
}
