//! A compiler with the sources of its standard library, out of Debian's packages: for machines on
//! which rustup cannot add a target. Everything lives under `target/`; nothing is installed, and
//! the system's own package lists are left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// The compiler; libraries with a version in their name are found through its dependencies.
const COMPILER: &str = "rustc-web";
const SOURCES: &str = "rust-web-src";
const LIBRARY_PREFIXES: [&str; 2] = ["libstd-rust-web", "libllvm"];

/// Runs the unpacked compiler with the unpacked libraries, from wherever the folder is.
const WRAPPER: &str = r#"#!/bin/sh
root=$(dirname "$0")/root
libraries=
for folder in "$root"/usr/lib/*-linux-gnu* "$root"/usr/lib/llvm-*/lib; do
    libraries=$libraries:$folder
done
export LD_LIBRARY_PATH="${libraries#:}"
exec "$root/usr/bin/rustc" "$@"
"#;

/// The compiler's path; fetches it if this target folder has none yet that works.
pub(super) fn rustc(target_directory: &Path) -> Result<PathBuf, String> {
    let folder = target_directory.join("wasm-toolchain");
    let rustc = folder.join("rustc");
    if verify(&rustc).is_err() {
        if !has_apt() {
            return Err("neither `rustup target add wasm32-unknown-unknown` was run, nor can apt \
                        fetch a compiler with sources"
                .to_owned());
        }
        // Nothing half-done gets the final name, so an interrupted download harms no later run.
        let partial = target_directory.join("wasm-toolchain.partial");
        remove(&partial)?;
        fetch(&partial)?;
        verify(&partial.join("rustc"))?;
        remove(&folder)?;
        fs::rename(&partial, &folder)
            .map_err(|error| format!("cannot rename {}: {error}", partial.display()))?;
    }
    Ok(rustc)
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

fn fetch(folder: &Path) -> Result<(), String> {
    let root = folder.join("root");
    let lists = folder.join("lists");
    fs::create_dir_all(&root)
        .and_then(|()| fs::create_dir_all(lists.join("partial")))
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;

    println!("fetching a compiler with sources for wasm32 (some 150 MB, once per target folder)");
    let settings = folder.join("apt.conf");
    fs::write(&settings, apt_settings(&lists, &folder.join("cache")))
        .map_err(|error| format!("cannot write {}: {error}", settings.display()))?;
    let apt = |program: &str, args: &[&str]| -> Command {
        let mut command = process::program(program);
        command.current_dir(folder).env("APT_CONFIG", &settings).args(args);
        command
    };
    process::run(apt("apt-get", &["-qq", "update"]))?;
    let packages = packages(&process::capture(apt("apt-cache", &DEPENDS))?)?;
    let mut arguments = vec!["-qq", "download"];
    arguments.extend(packages.iter().map(String::as_str));
    process::run(apt("apt-get", &arguments))?;

    for archive in archives(folder)? {
        let mut unpack = process::program("dpkg");
        unpack.arg("-x").arg(&archive).arg(&root);
        process::run(unpack)?;
        remove(&archive)?;
    }
    remove(&lists)?;
    remove(&folder.join("cache"))?;

    let wrapper = folder.join("rustc");
    fs::write(&wrapper, WRAPPER)
        .map_err(|error| format!("cannot write {}: {error}", wrapper.display()))?;
    let mut executable = process::program("chmod");
    executable.arg("+x").arg(&wrapper);
    process::run(executable)
}

/// Whether this is a Debian-like system.
fn has_apt() -> bool {
    ["apt-get", "apt-cache", "dpkg"].iter().all(|name| {
        process::program(name).arg("--version").output().is_ok_and(|out| out.status.success())
    })
}

/// Lists of our own: the machine's may be missing or old, and only root may renew those.
fn apt_settings(lists: &Path, cache: &Path) -> String {
    let (lists, cache) = (lists.display(), cache.display());
    // Apt's unprivileged user cannot write into our folder.
    format!(
        "Dir::State::lists \"{lists}\";\nDir::Cache \"{cache}\";\n\
         APT::Sandbox::User \"root\";\nAPT::Update::Error-Mode \"any\";\n"
    )
}

const DEPENDS: [&str; 9] = [
    "depends",
    "--recurse",
    "--no-recommends",
    "--no-suggests",
    "--no-conflicts",
    "--no-breaks",
    "--no-replaces",
    "--no-enhances",
    COMPILER,
];

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

fn archives(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        folder.read_dir().map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let files = entries.flatten().map(|entry| entry.path());
    Ok(files.filter(|path| path.extension().is_some_and(|ending| ending == "deb")).collect())
}

/// Removes a file or folder of ours, if it is there.
fn remove(path: &Path) -> Result<(), String> {
    let result = if path.is_dir() {
        fs::remove_dir_all(path)
    } else if path.exists() {
        fs::remove_file(path)
    } else {
        Ok(())
    };
    result.map_err(|error| format!("cannot remove {}: {error}", path.display()))
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
