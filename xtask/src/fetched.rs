//! Programs for the tests that need them: pinned by version and hash, fetched by npm and pip, under `target/`.

// The one place that knows what they are called. The tests look there by themselves.
#[path = "../../testkit/src/fetched/program.rs"]
pub(crate) mod program;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use program::{NONE, Program};

use crate::{means, process, workspace};

/// A program, and how it is fetched.
pub(crate) struct Fetched {
    pub(crate) program: Program,
    /// Fetches the program and what belongs to it.
    pub(crate) fetch: fn(&Folders) -> Result<(), String>,
    /// Arguments with which the program ends well at once, if it works.
    pub(crate) trial: &'static [&'static str],
}

/// Two fresh folders, in one file system.
pub(crate) struct Folders {
    /// For whatever is not needed in the end.
    pub(crate) work: PathBuf,
    /// Becomes the program's folder.
    pub(crate) result: PathBuf,
}

/// Prints where the programs are, or the one with this name; fetches what is not there.
pub(crate) fn print(known: &[Fetched], name: Option<&str>) -> Result<(), String> {
    let names = || known.iter().map(|fetched| fetched.program.command[1]);
    if let Some(name) = name
        && !names().any(|known| known == name)
    {
        let known = names().collect::<Vec<_>>().join(" and ");
        return Err(format!("there is no `{name}`: {known} are known"));
    }
    for fetched in known {
        if name.is_none_or(|name| name == fetched.program.command[1]) {
            println!("{}", fetched.provide()?.display());
        }
    }
    Ok(())
}

/// The variables that tell tests and examples where programs are.
pub(crate) type Variables = Vec<(&'static str, PathBuf)>;

/// The variables of these programs. Keeping them says only once that there is none.
pub(crate) fn variables(
    known: &[Fetched],
    kept: &OnceLock<Result<Variables, String>>,
) -> Result<Variables, String> {
    kept.get_or_init(|| known.iter().filter_map(Fetched::variable).collect()).clone()
}

impl Fetched {
    /// The variable that tells tests and examples where the program is, or that there is none, which is then
    /// said. No variable if somebody has set it.
    fn variable(&self) -> Option<Result<(&'static str, PathBuf), String>> {
        let Program { name, variable, .. } = self.program;
        if std::env::var_os(variable).is_some_and(|value| !value.is_empty()) {
            return None;
        }
        Some(match self.provide() {
            Ok(path) => Ok((variable, path)),
            Err(reason) => means::not_checked(&format!("whatever needs {name}"), &reason)
                .map(|()| (variable, NONE.into())),
        })
    }

    /// Where the program is; fetches it if it is not there, or does not work.
    fn provide(&self) -> Result<PathBuf, String> {
        let folder = workspace::members()?.target_directory.join(self.program.folder);
        // Not by `with_extension`, which would take the end of the version for one.
        let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", folder.display()));
        create(folder.parent().unwrap_or(&folder))?;
        // Tests that run at the same time may all want it.
        let _lock = lock(&beside("lock"))?;
        let path = folder.join(self.program.file);
        if self.verify(&path).is_ok() {
            return Ok(path);
        }
        // Nothing half-done gets the final name, so an interrupted download harms no later run.
        let partial = beside("partial");
        remove(&partial)?;
        let folders = Folders { work: partial.join("work"), result: partial.join("result") };
        create(&folders.work)?;
        create(&folders.result)?;
        (self.fetch)(&folders)?;
        self.verify(&folders.result.join(self.program.file))?;
        remove(&folder)?;
        rename(&folders.result, &folder)?;
        remove(&partial)?;
        Ok(path)
    }

    /// Whether the program works.
    fn verify(&self, path: &Path) -> Result<(), String> {
        let mut command = process::program(path);
        command.args(self.trial);
        process::quietly(command).map(drop)
    }
}

/// Holds the file until the answer is dropped.
fn lock(path: &Path) -> Result<File, String> {
    let in_lock = |error| format!("cannot lock {}: {error}", path.display());
    let file = File::create(path).map_err(in_lock)?;
    file.lock().map_err(in_lock)?;
    Ok(file)
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), String> {
    fs::rename(from, to).map_err(|error| format!("cannot rename {}: {error}", from.display()))
}
