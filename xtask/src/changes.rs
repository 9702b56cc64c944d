//! The files of the workspace, as git lists them, and the files that changed since a base.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::nextest::Filter;
use crate::process;
use crate::workspace::Metadata;

/// Returns the default base for a comparison. This is the commit where the branch left its upstream, or `HEAD` if it
/// has no upstream.
pub(crate) fn base() -> Result<String, String> {
    let merge_base = git(&["merge-base", "HEAD", "@{upstream}"]);
    Ok(merge_base.or_else(|_| git(&["rev-parse", "HEAD"]))?.trim().to_owned())
}

/// Returns the files that differ from a commit, including untracked files, relative to the workspace's root.
pub(crate) fn since(base: &str) -> Result<BTreeSet<String>, String> {
    let tracked = git(&["diff", "--name-only", "-z", base])?;
    let untracked = git(&["ls-files", "-z", "--others", "--exclude-standard"])?;
    Ok(split(&tracked).chain(split(&untracked)).collect())
}

/// Returns the tracked files and the files that could be tracked, relative to the workspace's root.
pub(crate) fn files() -> Result<Vec<String>, String> {
    let listed = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    // Git still lists a tracked file that was removed without git.
    Ok(split(&listed).filter(|file| process::root().join(file).is_file()).collect())
}

/// Returns the packages that contain these files, or all packages if every package depends on a file. Files that no
/// test reads belong to no package.
pub(crate) fn packages(files: &BTreeSet<String>, members: &Metadata) -> Filter {
    let mut packages = BTreeSet::new();
    for file in files {
        let path = process::root().join(file);
        let holder = members
            .packages
            .iter()
            .filter(|package| path.starts_with(package.folder()))
            .max_by_key(|package| package.folder().as_os_str().len());
        match holder {
            Some(package) => drop(packages.insert(package.name.clone())),
            None if is_for_all(file) => return Filter::All,
            None => {}
        }
    }
    Filter::DependentsOf(packages)
}

/// Returns `true` for a file outside of the packages that may change the behaviour of any package.
fn is_for_all(file: &str) -> bool {
    let file = PathBuf::from(file);
    let is_manifest = ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"]
        .iter()
        .any(|name| file.as_os_str() == *name);
    is_manifest || file.starts_with(".cargo") || file.starts_with(".config")
}

fn git(args: &[&str]) -> Result<String, String> {
    let mut command = process::program("git");
    command.args(args);
    process::quietly(command)
}

fn split(list: &str) -> impl Iterator<Item = String> {
    list.split('\0').filter(|file| !file.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[track_caller]
    fn check(files: &[&str], expected: Filter) {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(packages(&files, &workspace::members().unwrap()), expected);
    }

    fn named(names: &[&str]) -> Filter {
        Filter::DependentsOf(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn files_belong_to_the_innermost_package() {
        check(&[], named(&[]));
        check(&["crates/neuron-loop/src/lib.rs", "README.md"], named(&["neuron-loop"]));
        check(&["xtask/src/main.rs", "e2e/answers.py"], named(&["neuron-e2e", "xtask"]));
        check(&["fuzz/properties/src/lib.rs"], named(&["neuron-fuzz-properties"]));
        check(
            &["crates/neuron-tool-macros/tests/names/renamed/src/lib.rs"],
            named(&["neuron-tool-macros-renamed"]),
        );
    }

    #[test]
    fn a_file_of_the_whole_workspace_changes_every_package() {
        for file in ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".config/nextest.toml"] {
            check(&[file], Filter::All);
        }
        check(&["README.md", "ARCHITECTURE.md"], named(&[]));
    }

    #[test]
    fn the_files_of_the_workspace_are_listed() {
        let files = files().unwrap();
        assert!(files.iter().any(|file| file == "crates/neuron-loop/src/lib.rs"));
        assert!(!files.iter().any(|file| file.starts_with("target/")));
    }
}
