//! Finds the target folder, and fills a folder in it only once.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Returns the target folder of cargo that contains the running program.
#[must_use]
pub fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo puts this file into its target folders.
    if let Some(folder) = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()) {
        return folder.to_owned();
    }
    // The program of a doctest is not in the target folder.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    package.parent().unwrap_or(package).join(named.unwrap_or_else(|| "target".into()))
}

/// Calls `fill` to create a folder, unless the folder exists and passes the check `works`. Other processes that need
/// the folder wait.
///
/// `fill` gets the path of an empty temporary folder, which is renamed to `folder` if it passes `works`. An interrupted
/// attempt therefore does not affect later attempts.
///
/// # Errors
///
/// Returns the error of `fill` or of `works`, or an error if the folder cannot be created.
pub fn fill_once(
    folder: &Path,
    works: impl Fn(&Path) -> Result<(), String>,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    // `with_extension` would replace the end of a version such as `1.2.3`.
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", folder.display()));
    let failed = |error| format!("cannot make {}: {error}", folder.display());
    fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(failed)?;
    // The file is locked until `lock` is dropped at the end of the function.
    let lock = File::create(beside("lock")).map_err(failed)?;
    lock.lock().map_err(failed)?;
    if works(folder).is_ok() {
        return Ok(());
    }
    let partial = beside("partial");
    remove(&partial).map_err(failed)?;
    fs::create_dir(&partial).map_err(failed)?;
    fill(&partial)?;
    works(&partial)?;
    remove(folder).map_err(failed)?;
    fs::rename(&partial, folder).map_err(failed)
}

/// Removes a folder. A folder that does not exist is not an error.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    fn works(folder: &Path) -> Result<(), String> {
        match folder.join("program").is_file() {
            true => Ok(()),
            false => Err("no program".to_owned()),
        }
    }

    fn fill(folder: &Path) -> Result<(), String> {
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
        fs::write(folder.join("program"), "").map_err(|error| error.to_string())
    }

    #[test]
    fn fill_once_fills_once_for_concurrent_callers() {
        let target = tempfile::tempdir().unwrap();
        let folder = target.path().join("testkit/program-1.2.3");
        let fills = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let filled = fill_once(&folder, works, |folder| {
                        fills.fetch_add(1, Ordering::Relaxed);
                        fill(folder)
                    });
                    assert_eq!(filled, Ok(()));
                    assert_eq!(works(&folder), Ok(()));
                });
            }
        });
        assert_eq!(fills.into_inner(), 1);
    }

    #[test]
    fn failed_fill_leaves_no_folder_and_can_be_repeated() {
        let target = tempfile::tempdir().unwrap();
        let folder = target.path().join("program");
        let interrupted = |folder: &Path| {
            fill(folder)?;
            Err("no network".to_owned())
        };
        assert_eq!(fill_once(&folder, works, interrupted), Err("no network".to_owned()));
        assert!(!folder.exists());
        // `fill` returns no error, but leaves the folder incomplete.
        assert_eq!(fill_once(&folder, works, |_| Ok(())), Err("no program".to_owned()));
        assert!(!folder.exists());
        assert_eq!(fill_once(&folder, works, fill), Ok(()));
        assert_eq!(works(&folder), Ok(()));
    }

    #[test]
    fn folder_that_does_not_work_is_replaced() {
        let target = tempfile::tempdir().unwrap();
        let folder = target.path().join("program");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("other"), "").unwrap();
        assert_eq!(fill_once(&folder, works, fill), Ok(()));
        assert!(!folder.join("other").exists());
    }
}
