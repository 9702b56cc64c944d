//! The listings of the crates' public API, the files `crates/*/api.txt`.
//!
//! This module writes the listings for `cargo xtask api`. Its child modules have these tasks:
//!
//! - `source` reads the items of a crate.
//! - `surface` decides which items have lines, and under which path.
//! - `items` creates the lines of an item.
//! - `line` formats a line.
//! - `foreign` finds the items of other projects, for the file `crates/foreign-items.txt`.
//!
//! Names are not resolved. Every item, field and method that is plain `pub` counts as reachable, because the workspace
//! denies the lint `unreachable_pub`. The path of an item contains only `pub` modules, so that an item can move between
//! private modules without a change of the listing. A re-export has its own line, under the path where users import it,
//! unless the line of the item has the same path and gates.
//!
//! The listing is not made by cargo-public-api, because that tool reads rustdoc's JSON, whose unstable format
//! changes with the compiler. Our listing is created from the source within seconds, and does not depend on the
//! compiler.
//!
//! # Limits
//!
//! - The printed path of an item in a private module may differ from its import paths, which are in the lines of its
//!   re-exports.
//! - Items of `#[doc(hidden)]` modules are not listed, even if they are re-exported.
//! - Derived traits are not listed.
//! - Items that a macro generates are not listed, except items that are written in the macro call, as in
//!   `pin_project!`. Traits from blanket implementations and auto traits are not listed either.
//! - The type and the trait of an `impl` are looked up in the crate by the last segment of their path. If several items
//!   have this name, the item in the same `pub` module as the `impl` is preferred.
//! - A line contains the gates (`cfg` attributes) of its item, and of the modules and blocks that contain the item. The
//!   gates of a `pub use` are only in the line of the re-export.
//! - The lint checks only the features and targets that clippy is run with. A `pub` item for other features or targets
//!   is listed even if it is unreachable.

mod foreign;
mod items;
mod line;
pub(crate) mod source;
mod surface;

use std::fmt::Write as _;
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

/// Creates the listings of all library crates in `crates/` from the current source, and the common listing of their
/// foreign items.
pub(crate) fn listings() -> Result<Vec<Listing>, String> {
    let mut listings = Vec::new();
    let mut foreign = String::new();
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
        for item in foreign::list(&library.name, &items, &package.foreign_dependencies()) {
            let _ = writeln!(foreign, "{}: {item}", package.name);
        }
    }
    listings.push(Listing { file: "crates/foreign-items.txt".into(), text: foreign });
    Ok(listings)
}

impl Listing {
    /// Returns the text of the committed file, or an empty text if it cannot be read.
    pub(crate) fn committed(&self) -> String {
        fs::read_to_string(process::root().join(&self.file)).unwrap_or_default()
    }
}
