//! Virtual environments with pinned Python packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::quietly;

/// Creates a virtual environment in a folder. The folder may be moved later, if scripts of its packages are run as
/// modules.
pub(super) fn install(requirements: &str, folder: &Path) -> Result<(), String> {
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(folder);
    quietly(create)?;
    let file = folder.join("requirements.txt");
    fs::write(&file, requirements)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut install = Command::new(folder.join("bin/python"));
    // Only wheels, so nothing is built and no code of the packages runs during the installation.
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--no-input", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", "-r"])
        .arg(&file);
    quietly(install).map(drop)
}
