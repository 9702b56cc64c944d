//! Lists the files of the workspace with git, and the files that changed since a commit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::nextest::Filter;
use crate::process;
use crate::workspace::{self, Metadata, Package};

/// The files that differ from the commit `base`.
pub(crate) struct Changes {
    /// The hash of the commit with which the files were compared.
    pub(crate) base: String,
    /// Paths of the changed and the untracked files, relative to the workspace's root.
    pub(crate) files: BTreeSet<String>,
}

/// The commit before all commits.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Duration before the last commit, in seconds, whose commits count as the changes of a branch that equals its upstream.
const RECENT: u64 = 12 * 60 * 60;

/// The commit that [`compare_with`] set.
static BASE: OnceLock<String> = OnceLock::new();

/// Lets the changes of this process be those since the commit `base`.
pub(crate) fn compare_with(base: &str) -> Result<(), String> {
    let base = commit(base)?;
    BASE.set(base).map_err(|_| "the changes have a base already".to_owned())
}

/// Returns the changes since the commit of [`compare_with`].
///
/// By default, this is the commit at which the branch left the main branch of `origin`. If that branch is not known, or if
/// nothing changed since that commit, as on CI after a push, the changes are the commits of the last twelve hours before
/// `HEAD`.
pub(crate) fn current() -> Result<&'static Changes, String> {
    static CURRENT: OnceLock<Result<Changes, String>> = OnceLock::new();
    let find = || BASE.get().map_or_else(since_branching, |base| Changes::since(base.clone()));
    CURRENT.get_or_init(find).as_ref().map_err(Clone::clone)
}

fn since_branching() -> Result<Changes, String> {
    // Not `@{upstream}`: for a branch that was pushed, it is the branch's own copy, which has the changes too.
    let merge_base = |main: &str| git(&["merge-base", "HEAD", main]).ok();
    let left = ["origin/HEAD", "origin/main", "origin/master"].into_iter().find_map(merge_base);
    let changes = left.map(Changes::since).transpose()?;
    match changes.filter(|changes| !changes.files.is_empty()) {
        Some(changes) => Ok(changes),
        None => Changes::since(before_recent_commits()?),
    }
}

/// Returns the last commit that is [`RECENT`] older than `HEAD`. If there is none, as in a clone without its history,
/// every file counts as changed.
fn before_recent_commits() -> Result<String, String> {
    let date = git(&["log", "-1", "--format=%ct", "HEAD"])?;
    let date: u64 = date.trim().parse().map_err(|_| format!("git shows no date: {date}"))?;
    let before = format!("--before={}", date.saturating_sub(RECENT));
    let commit = git(&["rev-list", "-1", "--first-parent", &before, "HEAD"])?;
    Ok(if commit.is_empty() { EMPTY_TREE.to_owned() } else { commit })
}

/// What a step checks. A step is left out if none of it changed.
#[derive(Clone, Copy)]
pub(crate) enum Scope {
    Everything,
    /// Files with these paths or names, and files in these folders.
    Files(&'static [&'static str]),
    /// These packages, and the packages of this workspace that they use.
    Packages(&'static [&'static str]),
    /// The packages that must compile for wasm32, and the packages that they use.
    Wasm,
}

/// Set if every scope counts as changed.
static COMPLETE: AtomicBool = AtomicBool::new(false);

/// Lets every scope count as changed in this process.
pub(crate) fn count_all() {
    COMPLETE.store(true, Ordering::Relaxed);
}

impl Scope {
    /// Returns `true` if the current changes may affect the scope, or if they are not known.
    pub(crate) fn is_affected(self) -> Result<bool, String> {
        let check: &dyn Fn(&BTreeSet<String>) -> Result<bool, String> = match self {
            Self::Everything => return Ok(true),
            Self::Files(paths) => {
                &|files| Ok(files.iter().any(|file| paths.iter().any(|path| is_at(file, path))))
            }
            Self::Packages(names) => &|files| affects(files, names),
            Self::Wasm => &|files| {
                let members = workspace::members()?;
                let packages = members.packages.iter().filter(|package| package.wants_wasm());
                let names = packages.map(|package| package.name.as_str());
                // Only this step compiles the test of `neuron-wasm`, which needs `neuron-testing`.
                let names: Vec<&str> = names.chain(["neuron-testing"]).collect();
                affects(files, &names)
            },
        };
        // A change of xtask, or of the downloads, can be a change of the step.
        do_changes(|files| Ok(affects(files, &["xtask"])? || check(files)?))
    }
}

/// Returns `true` if the current changes have a property, if all scopes count as changed, or if git knows no changes, as
/// outside of a repository.
fn do_changes(
    have: impl FnOnce(&BTreeSet<String>) -> Result<bool, String>,
) -> Result<bool, String> {
    match current() {
        Ok(changes) if !COMPLETE.load(Ordering::Relaxed) => have(&changes.files),
        _ => Ok(true),
    }
}

/// Returns `true` if a file is `path` itself, has this name, or is in the folder `path`.
fn is_at(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        || file.strip_suffix(path).is_some_and(|folder| folder.ends_with('/'))
}

/// Returns `true` if the current changes may affect the package or its tests.
pub(crate) fn affect(package: &Package) -> Result<bool, String> {
    do_changes(|files| affects(files, &with_tests(package)))
}

/// Returns the name of the package, and the names of the packages of this workspace that only its tests use.
fn with_tests(package: &Package) -> Vec<&str> {
    let ours = package.dependencies.iter().filter(|entry| entry.path.is_some());
    ours.map(|entry| entry.name.as_str()).chain([package.name.as_str()]).collect()
}

/// Returns `true` if one of the files belongs to the packages `names`, to a package that they use outside of their tests,
/// or to the whole workspace.
fn affects(files: &BTreeSet<String>, names: &[&str]) -> Result<bool, String> {
    let members = workspace::members()?;
    Ok(match packages(files, &members) {
        Filter::All => true,
        Filter::DependentsOf(changed) => !members.used_by(names).is_disjoint(&changed),
    })
}

impl Changes {
    fn since(base: String) -> Result<Self, String> {
        // `--no-renames` lists both the old and the new name of a renamed file.
        let diff = ["diff", "--no-renames", "--relative", "--name-only", "-z", &base, "--"];
        let mut files: BTreeSet<String> = list(&diff)?.into_iter().collect();
        files.extend(list(&["ls-files", "-z", "--others", "--exclude-standard"])?);
        Ok(Self { base, files })
    }
}

/// Returns the hash of the commit that `name` refers to, such as `HEAD`. Returns an error if there is none.
pub(crate) fn commit(name: &str) -> Result<String, String> {
    let commit = format!("{name}^{{commit}}");
    git(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit])
        .map_err(|_| format!("git knows no commit `{name}`"))
}

/// Returns the name of the last tag before `HEAD`. Returns `None` if there is no tag.
pub(crate) fn last_tag() -> Option<String> {
    let tag = git(&["describe", "--tags", "--abbrev=0"]).ok()?;
    Some(tag.trim().to_owned())
}

/// Returns the tracked files, and the untracked files that git does not ignore, relative to the workspace's root.
pub(crate) fn files() -> Result<Vec<String>, String> {
    let mut files = list(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    // Git also lists tracked files that were deleted without `git rm`.
    files.retain(|file| process::root().join(file).is_file());
    Ok(files)
}

/// Runs a git command that lists files separated by NUL. Returns the files, without those in cargo's target folder.
fn list(args: &[&str]) -> Result<Vec<String>, String> {
    let target = workspace::members()?.target_directory;
    let output = git(args)?;
    let files = output.split('\0').filter(|file| !file.is_empty()).map(str::to_owned);
    Ok(files.filter(|file| !process::root().join(file).starts_with(&target)).collect())
}

/// Returns the packages whose tests must run after a change of these files.
///
/// The result is all packages if one of the files may affect every package. Other files outside of all packages count
/// only if a test reads them.
pub(crate) fn packages(files: &BTreeSet<String>, members: &Metadata) -> Filter {
    match files.iter().any(|file| is_for_all(file)) {
        true => Filter::All,
        false => Filter::DependentsOf(changed_packages(files, members)),
    }
}

/// Returns the packages that have one of these files, or a test that reads one of them.
pub(crate) fn changed_packages(files: &BTreeSet<String>, members: &Metadata) -> BTreeSet<String> {
    let holder = |file: &String| {
        let path = process::root().join(file);
        let holders = members.packages.iter().filter(|package| path.starts_with(package.folder()));
        let holder = holders.max_by_key(|package| package.folder().as_os_str().len());
        match holder {
            Some(package) => Some(package.name.clone()),
            // Tests of this package compare the code on these pages with the programs.
            None if ["README.md", "book/pages/guides/testing.md"].contains(&file.as_str()) => {
                Some("neuron-example-programs".to_owned())
            }
            None => None,
        }
    };
    files.iter().filter_map(holder).collect()
}

/// Returns `true` if a file outside of the packages can change the behaviour of every package.
fn is_for_all(file: &str) -> bool {
    let file = PathBuf::from(file);
    let is_manifest = ["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml"]
        .iter()
        .any(|name| file.as_os_str() == *name);
    is_manifest || file.starts_with(".cargo") || file.starts_with(".config")
}

/// Returns `count` items at equal distances, or all items if there are fewer. Different commits get different items.
pub(crate) fn sample<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let commit = commit("HEAD").unwrap_or_default();
    let digits = commit.get(..6).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    part_of(items, count, digits.unwrap_or_default())
}

/// Returns `count` items at equal distances, or all items if there are fewer. Rotates the items by `offset` before.
fn part_of<T>(mut items: Vec<T>, count: usize, offset: usize) -> Vec<T> {
    let all = items.len();
    if let Some(offset) = offset.checked_rem(all) {
        items.rotate_left(offset);
    }
    // An item is taken whenever the share of the items up to it reaches the next whole number.
    let share = |index: usize| (index * count.min(all)).checked_div(all).unwrap_or_default();
    let chosen = (0..).zip(items).filter(|(index, _)| share(index + 1) > share(*index));
    chosen.map(|(_, item)| item).collect()
}

/// Runs git in the workspace's root, and returns its standard output.
fn git(args: &[&str]) -> Result<String, String> {
    let mut command = process::program("git");
    command.args(args);
    process::quietly(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[&str], expected: Filter) {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(packages(&files, &workspace::members().unwrap()), expected);
    }

    fn named(names: &[&str]) -> Filter {
        Filter::DependentsOf(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn packages_assigns_a_file_to_the_innermost_package() {
        check(&[], named(&[]));
        check(&["crates/neuron-loop/src/lib.rs", "CHANGELOG.md"], named(&["neuron-loop"]));
        for page in ["README.md", "book/pages/guides/testing.md"] {
            check(&[page], named(&["neuron-example-programs"]));
        }
        check(&["xtask/src/main.rs", "e2e/answers.py"], named(&["neuron-e2e", "xtask"]));
        check(&["fuzz/properties/src/lib.rs"], named(&["neuron-fuzz-properties"]));
        check(
            &["crates/neuron-tool-macros/tests/packages/renamed/src/lib.rs"],
            named(&["neuron-tool-macros-renamed"]),
        );
    }

    #[test]
    fn packages_returns_all_for_a_file_of_the_whole_workspace() {
        for file in ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", ".config/nextest.toml"] {
            check(&[file], Filter::All);
        }
        check(&["CONTRIBUTING.md", "ARCHITECTURE.md"], named(&[]));
    }

    #[test]
    fn an_unknown_commit_is_no_base() {
        for base in ["no-such-branch", "crates/neuron-loop", "--all", ""] {
            let error = compare_with(base).unwrap_err();
            assert_eq!(error, format!("git knows no commit `{base}`"));
        }
    }

    #[test]
    fn paths_are_files_folders_and_names() {
        for (file, path, expected) in [
            ("deny.toml", "deny.toml", true),
            ("book/pages/a.md", "book", true),
            ("crates/a/Cargo.toml", "Cargo.toml", true),
            ("bookshelf/a.md", "book", false),
            ("crates/a/my-Cargo.toml", "Cargo.toml", false),
        ] {
            assert_eq!(is_at(file, path), expected, "{file} {path}");
        }
    }

    #[test]
    fn a_package_is_affected_by_what_it_uses() {
        let affected = |file: &str, name| affects(&[file.to_owned()].into(), &[name]).unwrap();
        let types = "crates/neuron-types/src/lib.rs";
        assert!(affected(types, "neuron-types") && affected(types, "neuron-durable-temporal"));
        for without_runs in
            ["neuron-provider-openai", "neuron-router", "neuron-catalog", "neuron-tower"]
        {
            assert!(!affected(types, without_runs), "{without_runs}");
        }
        assert!(affected("Cargo.lock", "neuron-durable-temporal"));
        for other in ["crates/neuron-provider-openai/src/lib.rs", "CHANGELOG.md"] {
            assert!(!affected(other, "neuron-durable-temporal"), "{other}");
        }
        assert!(affected("testkit/src/fetch.rs", "xtask"));
    }

    #[test]
    fn a_package_on_request_is_affected_by_what_its_tests_use() {
        let members = workspace::members().unwrap();
        let package = members.packages.iter().find(|it| it.name == "neuron-durable-temporal");
        let names = with_tests(package.unwrap());
        let affected = |file: &str| affects(&[file.to_owned()].into(), &names).unwrap();
        for used in
            ["crates/neuron-loop/src/lib.rs", "crates/neuron-conformance-durable/src/lib.rs"]
        {
            assert!(affected(used), "{used}");
        }
        assert!(!affected("crates/neuron-provider-openai/src/lib.rs"));
    }

    #[test]
    fn commits_before_the_recent_ones_are_found() {
        let base = before_recent_commits().unwrap();
        assert_ne!(base, commit("HEAD").unwrap());
        assert!(Changes::since(base).is_ok() && Changes::since(EMPTY_TREE.to_owned()).is_ok());
    }

    #[test]
    fn files_lists_sources_but_not_the_target_folder() {
        let files = files().unwrap();
        assert!(files.iter().any(|file| file == "crates/neuron-loop/src/lib.rs"));
        assert!(!files.iter().any(|file| file.starts_with("target/")));
    }

    #[test]
    fn a_part_has_equal_distances() {
        assert_eq!(part_of(vec![0, 1, 2, 3, 4, 5], 3, 0), [1, 3, 5]);
        assert_eq!(part_of(vec![0, 1, 2, 3, 4, 5], 3, 7), [2, 4, 0]);
        assert_eq!(part_of(vec![0, 1], 3, 0), [0, 1]);
        assert!(part_of(vec![0, 1], 0, 0).is_empty());
        assert!(part_of(Vec::<u8>::new(), 3, 5).is_empty());
    }
}
