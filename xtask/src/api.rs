//! The listings of the crates' public API, the files `crates/*/api.txt`.
//!
//! This module finds the crates that have a listing, and writes the listings for `cargo xtask api`. The module `source`
//! reads the items of a crate. `surface` decides which items have lines, and at which path. `items` creates the lines
//! of one item. `line` formats a line.
//!
//! The listing does not resolve names. The workspace denies the lint `unreachable_pub`, so every item, field and method
//! that is plain `pub` is reachable. The path of an item contains only the `pub` modules around it, so an item can move
//! between private modules without a change of the listing. A re-export has its own line, at the path where users
//! import it.
//!
//! We have our own listing because cargo-public-api and cargo-semver-checks read rustdoc's JSON, whose format is
//! unstable and changes with the compiler. This listing is created from the source within seconds, and does not depend
//! on the compiler.
//!
//! # Limits
//!
//! - The printed path of an item in a private module may differ from its import paths. The `pub use` lines show the
//!   import paths.
//! - Items of `#[doc(hidden)]` modules are not listed, even if they are re-exported.
//! - Items that a macro generates are not listed, except those written in its call, as in `pin_project!`. Traits from
//!   blanket implementations and auto traits are not listed either.
//! - The type and the trait of an `impl` are matched by their last path segment with the names of this crate. If
//!   several items have this name, the item in the `pub` module of the `impl` is used, otherwise the first.
//! - A line has the gates (`cfg` attributes) of its item, and of the modules and blocks around the item. The gates of a
//!   `pub use` are only in the line of the re-export.
//! - The lint sees the features and targets that clippy is run with. Code for other features and targets is listed
//!   although it may be unreachable.

mod items;
mod line;
mod source;
mod surface;

use std::fs;
use std::path::PathBuf;

use crate::process;
use crate::workspace;

/// The listing of a library crate, and the file that contains its committed version.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Path of the committed file, relative to the workspace's root.
    pub(crate) file: PathBuf,
    /// The listing of the current source, one item per line.
    pub(crate) text: String,
}

/// Writes the listings of all library crates to their files.
pub(crate) fn rewrite() -> Result<(), String> {
    for listing in listings()? {
        let file = listing.file.display();
        if listing.committed() == listing.text {
            println!("unchanged {file}");
        } else {
            fs::write(process::root().join(&listing.file), &listing.text)
                .map_err(|error| format!("cannot write {file}: {error}"))?;
            println!("wrote {file}");
        }
    }
    Ok(())
}

/// Creates the listings of all library crates in `crates/` from the current source.
pub(crate) fn listings() -> Result<Vec<Listing>, String> {
    let mut listings = Vec::new();
    for package in workspace::members()?.packages.iter().filter(|package| package.is_in_crates()) {
        let Some(library) = package.library() else {
            continue;
        };
        let items = source::read(&library.src_path, &library.name)?;
        let lines = surface::list(&library.name, &items);
        let text = lines.iter().map(|line| format!("{line}\n")).collect();
        let file = package.folder().join("api.txt");
        let file = file.strip_prefix(process::root()).unwrap_or(&file).to_owned();
        listings.push(Listing { file, text });
    }
    Ok(listings)
}

impl Listing {
    /// Returns the text of the committed file, or an empty text if it cannot be read.
    pub(crate) fn committed(&self) -> String {
        fs::read_to_string(process::root().join(&self.file)).unwrap_or_default()
    }
}
