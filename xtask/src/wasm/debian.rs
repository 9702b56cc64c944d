//! Provides a compiler with the sources of its standard library, for machines on which rustup cannot add a target.
//! Debian's packages are downloaded and unpacked into the target folder. The system is not changed.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use neuron_testkit::fetch::debian::apt_settings;
use neuron_testkit::fetch::fill_once;

use crate::{compiler, process};

/// Name of Debian's package of the compiler. The packages of its libraries have versions in their names, and are found
/// as dependencies of this package.
const COMPILER: &str = "rustc-web";
const SOURCES: &str = "rust-web-src";
const LIBRARY_PREFIXES: [&str; 2] = ["libstd-rust-web", "libllvm"];

/// A shell script that runs the unpacked compiler with the unpacked libraries. It finds them relative to itself, so the
/// folder can be renamed.
const WRAPPER: &str = r#"#!/bin/sh
root=$(dirname "$0")/root
libraries=
for folder in "$root"/usr/lib/*-linux-gnu* "$root"/lib/*-linux-gnu* "$root"/usr/lib/llvm-*/lib; do
    libraries=$libraries:$folder
done
export LD_LIBRARY_PATH="${libraries#:}"
exec "$root/usr/bin/rustc" "$@"
"#;

/// Arguments of `apt-cache` that list all direct and indirect dependencies of a package.
const DEPENDS: &str = "depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances";

/// Returns the path of the compiler. Downloads the compiler if the target folder has no working compiler.
pub(super) fn rustc(target_directory: &Path) -> Result<PathBuf, String> {
    let folder = target_directory.join("wasm-toolchain");
    fill_once(&folder, |folder| verify(&folder.join("rustc")), fetch).map_err(|reason| {
        format!("`rustup target add wasm32-unknown-unknown` was not run, and {reason}")
    })?;
    Ok(folder.join("rustc"))
}

/// Returns an error if the compiler does not start, or is too old for the workspace.
fn verify(rustc: &Path) -> Result<(), String> {
    let version = compiler::version(process::program(rustc))?;
    if compiler::numbers(&version) < compiler::numbers(env!("CARGO_PKG_RUST_VERSION")) {
        return Err(format!("Debian's {COMPILER} is too old: {version}"));
    }
    Ok(())
}

/// Downloads the compiler, its libraries and its sources, and unpacks them into `folder`.
fn fetch(folder: &Path) -> Result<(), String> {
    println!("fetching a compiler with sources for wasm32 (some 150 MB, once per target folder)");
    let in_folder = |error| format!("cannot write in {}: {error}", folder.display());
    let (root, lists, cache) = (folder.join("root"), folder.join("lists"), folder.join("cache"));
    let settings = folder.join("apt.conf");
    fs::create_dir(&root).map_err(in_folder)?;
    fs::create_dir_all(lists.join("partial")).map_err(in_folder)?;
    fs::write(&settings, apt_settings(&lists, &cache)).map_err(in_folder)?;
    let apt = |program: &str| {
        let mut command = process::program(program);
        command.current_dir(folder).env("APT_CONFIG", &settings);
        command
    };
    let run = |mut command: Command, args: &[&str]| {
        command.args(args);
        process::run(command)
    };
    run(apt("apt-get"), &["-qq", "update"])?;
    let mut depends = apt("apt-cache");
    depends.args(DEPENDS.split(' ')).arg(COMPILER);
    let packages = packages(&process::capture(depends)?)?;
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    run(apt("apt-get"), &[&["-qq", "download"], packages.as_slice()].concat())?;

    for entry in folder.read_dir().map_err(in_folder)?.flatten() {
        let archive = entry.path();
        if archive.extension().is_some_and(|ending| ending == "deb") {
            let mut unpack = process::program("dpkg");
            unpack.arg("-x").arg(&archive).arg(&root);
            process::run(unpack)?;
            fs::remove_file(&archive).map_err(in_folder)?;
        }
    }
    // Only the standard library's sources are needed. They are less than a quarter of all sources.
    for sources in root.join("usr/src").read_dir().map_err(in_folder)?.flatten() {
        for unused in ["compiler", "src"].map(|name| sources.path().join(name)) {
            if unused.is_dir() {
                fs::remove_dir_all(unused).map_err(in_folder)?;
            }
        }
    }
    // Apt may have created only one of the two folders.
    for leftover in [lists, cache].iter().filter(|leftover| leftover.exists()) {
        fs::remove_dir_all(leftover).map_err(in_folder)?;
    }
    let wrapper = folder.join("rustc");
    fs::write(&wrapper, WRAPPER).map_err(in_folder)?;
    fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).map_err(in_folder)
}

/// Returns the packages to download. `depends` is the output of `apt-cache depends`. The C library and the linker are
/// excluded, because the machine already has them.
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
