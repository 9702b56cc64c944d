//! Restate's server, out of its npm package.

use super::pins;
use crate::fetched::{Folders, rename};
use crate::npm;

pub(super) fn fetch(folders: &Folders) -> Result<(), String> {
    eprintln!("fetching Restate's server (some 60 MB, once per target folder)");
    npm::install(&pins().join("restate"), &folders.work, &folders.work)?;
    let name = format!("@restatedev/restate-server-{}", npm::platform());
    let program = folders.work.join("node_modules").join(&name).join("bin/restate-server");
    if !program.is_file() {
        // It is optional for npm: without a package for this platform, or if the hash is another, there is none.
        return Err(format!("npm installed no {name}"));
    }
    rename(&program, &folders.result.join("restate-server"))
}
