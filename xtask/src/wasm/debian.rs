//! A compiler with the sources of its standard library, out of Debian's packages: for machines on
//! which rustup cannot add a target.

use std::path::{Path, PathBuf};

use crate::debian::{Apt, Programs};
use crate::process;

/// The compiler; libraries with a version in their name are found through its dependencies.
const COMPILER: &str = "rustc-web";
const SOURCES: &str = "rust-web-src";
const LIBRARY_PREFIXES: [&str; 2] = ["libstd-rust-web", "libllvm"];

/// The compiler's path; fetches it if this target folder has none yet that works.
pub(super) fn rustc(target_directory: &Path) -> Result<PathBuf, String> {
    let folder = target_directory.join("wasm-toolchain");
    let compiler = Programs {
        folder: &folder,
        announcement: "fetching a compiler with sources for wasm32 (some 150 MB, once per target folder)",
        verify: &|folder| verify(&folder.join("rustc")),
        packages: &|apt: &Apt<'_>| packages(&apt.all_dependencies(COMPILER)?),
        programs: &|_| Ok(vec!["usr/bin/rustc".to_owned()]),
    };
    compiler.provide().map_err(|reason| {
        format!("`rustup target add wasm32-unknown-unknown` was not run, and {reason}")
    })?;
    Ok(folder.join("rustc"))
}

/// Whether the compiler starts and is new enough for the workspace.
fn verify(rustc: &Path) -> Result<(), String> {
    let mut command = process::program(rustc);
    command.arg("--version");
    let answer = process::capture(command)?;
    let minor = |version: &str| version.split('.').nth(1)?.parse::<u32>().ok();
    match (minor(&answer), minor(env!("CARGO_PKG_RUST_VERSION"))) {
        (Some(have), Some(need)) if have >= need => Ok(()),
        _ => Err(format!("Debian's {COMPILER} is too old: {}", answer.trim())),
    }
}

/// The packages to fetch, out of the compiler's dependencies. The C library and the linker are
/// the machine's own.
fn packages(depends: &str) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = depends
        .lines()
        .filter(|line| LIBRARY_PREFIXES.iter().any(|prefix| line.starts_with(prefix)))
        .map(str::to_owned)
        .collect();
    if names.is_empty() {
        return Err(format!("apt-cache names no libraries of {COMPILER}"));
    }
    names.extend([COMPILER.to_owned(), SOURCES.to_owned()]);
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versioned_libraries_are_found_through_the_dependencies() {
        let depends = "rustc-web\n  Depends: libc6\n  Depends: libstd-rust-web-dev\nlibc6\n\
                       libstd-rust-web-dev\n  Depends: libstd-rust-web-1.96\n\
                       libstd-rust-web-1.96\n  Depends: libllvm22\nlibllvm22\nzlib1g\n";
        let expected =
            ["libllvm22", "libstd-rust-web-1.96", "libstd-rust-web-dev", SOURCES, COMPILER];
        let expected: Vec<String> = expected.map(str::to_owned).into();
        assert_eq!(packages(depends), Ok(expected));
    }

    #[test]
    fn an_archive_without_the_compiler_is_an_error() {
        assert!(packages("").is_err());
    }
}
