//! The listing of a crate's public surface, `api.txt`: which crates have one, and `cargo xtask
//! api`, which writes them. `tree` reads the sources, `surface` finds what is public, `items` puts
//! one item into lines and `tokens` sets the blanks.
//!
//! The listing is made from the source on a stable compiler. So it does not see items that a macro
//! makes (except those written in its call, as for `pin_project!`), nor traits that a type gets
//! through a blanket implementation or by its fields.

mod items;
mod surface;
mod tokens;
mod tree;

use std::fs;
use std::path::PathBuf;

use crate::process;
use crate::workspace;

/// The public surface of one library crate, as it is and as it is committed.
#[derive(Debug)]
pub(crate) struct Listing {
    /// The committed file, relative to the workspace's root.
    pub(crate) file: PathBuf,
    /// The surface of the present source, one item per line.
    pub(crate) text: String,
}

/// Writes the listings of all crates.
pub(crate) fn rewrite() -> Result<(), String> {
    for listing in listings()? {
        let file = listing.file.display();
        if listing.committed()? == listing.text {
            println!("unchanged {file}");
        } else {
            fs::write(process::root().join(&listing.file), &listing.text)
                .map_err(|error| format!("cannot write {file}: {error}"))?;
            println!("wrote {file}");
        }
    }
    Ok(())
}

/// The listings of all library crates under `crates/`.
pub(crate) fn listings() -> Result<Vec<Listing>, String> {
    let mut listings = Vec::new();
    for package in workspace::members()?.packages.iter().filter(|package| package.is_in_crates()) {
        let Some(library) = package.library() else {
            continue;
        };
        let tree = tree::Tree::load(&library.src_path)?;
        let lines = surface::list(&library.name, &tree);
        let text = lines.iter().map(|line| format!("{line}\n")).collect();
        let file = package.folder().join("api.txt");
        let file = file.strip_prefix(process::root()).unwrap_or(&file).to_owned();
        listings.push(Listing { file, text });
    }
    Ok(listings)
}

impl Listing {
    /// The text of the committed file; empty if there is none.
    pub(crate) fn committed(&self) -> Result<String, String> {
        match fs::read_to_string(process::root().join(&self.file)) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(format!("cannot read {}: {error}", self.file.display())),
        }
    }
}
