//! Installs pinned Python packages into a virtual environment.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::quietly;

/// Creates a virtual environment in `folder` and installs the packages of `requirements`.
///
/// The folder can be renamed later. Its scripts contain the old path, so run them as modules with `python -m`.
pub(super) fn install(requirements: &str, folder: &Path) -> Result<(), String> {
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(folder);
    quietly(create)?;
    let file = folder.join("requirements.txt");
    fs::write(&file, requirements)
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    let mut install = Command::new(folder.join("bin/python"));
    // With wheels only, no package is built, so none of its code runs during the installation. The file lists the
    // dependencies too, also where one package asks for another version of them.
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--no-input", "--retries", "1", "--timeout", "20", "--only-binary", ":all:", "-r"])
        .arg(&file);
    quietly(install).map(drop)
}
