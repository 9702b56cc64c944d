//! The target folder, and folders in it that are filled once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Returns the target folder of this build.
#[must_use]
pub fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo marks its target folders.
    if let Some(folder) = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file()) {
        return folder.to_owned();
    }
    // A documentation test lies elsewhere.
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = std::env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    package.parent().unwrap_or(package).join(named.unwrap_or_else(|| "target".into()))
}

/// Fills a folder unless it works. Other processes that want the folder wait meanwhile.
///
/// `fill` gets an empty folder, which is renamed if it works. An interrupted attempt therefore harms no later one.
///
/// # Errors
///
/// Returns the reason if the folder cannot be filled, or does not work afterwards.
pub fn fill_once(
    folder: &Path,
    works: impl Fn(&Path) -> Result<(), String>,
    fill: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    // Not by `with_extension`, which would replace the end of a version.
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", folder.display()));
    create(folder.parent().unwrap_or(folder))?;
    let (lock, partial) = (beside("lock"), beside("partial"));
    let in_lock = |error| format!("cannot lock {}: {error}", lock.display());
    let lock = File::create(&lock).map_err(in_lock)?;
    lock.lock().map_err(in_lock)?;
    if works(folder).is_ok() {
        return Ok(());
    }
    remove(&partial)?;
    create(&partial)?;
    fill(&partial)?;
    works(&partial)?;
    remove(folder)?;
    fs::rename(&partial, folder)
        .map_err(|error| format!("cannot rename {}: {error}", partial.display()))
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
