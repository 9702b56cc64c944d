//! Checks the tables of causes and fixes in `crates/*/errors`, which have a row for each variant of an error enum.
//!
//! The documentation of the enum and a page of the book include the same table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::assert_none;
use super::sources::files;
use crate::{process, workspace};

/// The page of the book that includes all tables.
const PAGE: &str = "book/pages/understand/errors.md";

/// The beginning of each table.
const HEAD: &str = "| variant | cause | fix |\n|---|---|---|\n";

#[test]
fn each_variant_of_a_public_error_has_a_cause_and_a_fix() {
    let page = fs::read_to_string(process::root().join(PAGE)).unwrap();
    let sources: Vec<(String, String)> = files().collect();
    let (mut problems, mut found) = (Vec::new(), 0);
    let members = workspace::members().unwrap().packages;
    for package in members.iter().filter(|package| package.is_in_crates()) {
        let listing = fs::read_to_string(package.folder().join("api.txt")).unwrap_or_default();
        let mut tables = tables(&package.folder().join("errors"));
        let folder = format!("crates/{}", package.name);
        for (name, variants) in errors(&listing) {
            found += 1;
            let Some((file, table)) = tables.remove(&name.to_lowercase()) else {
                problems.push(format!("{folder}/errors: no table is for {name}"));
                continue;
            };
            let path = format!("{folder}/errors/{file}");
            match rows(&table) {
                Ok(rows) => {
                    let found = differences(&variants, &rows).into_iter();
                    problems.extend(found.map(|problem| format!("{path}: {problem}")));
                }
                Err(line) => problems.push(format!("{path}: not a row of the table: {line}")),
            }
            // The paths in the page are relative to its folder.
            let section = format!("## {name}\n");
            let include = format!("{{{{#include ../../../{path}}}}}\n");
            if !page.contains(&section) || !page.contains(&include) {
                problems.push(format!("{PAGE}: lacks {section}or {include}"));
            }
            let (inside, attribute) = (format!("{folder}/src/"), format!("errors/{file}\")]\n"));
            let definition = format!("pub enum {name} {{\n");
            let is_documented = |(path, text): &(String, String)| {
                path.starts_with(&inside) && text.contains(&attribute) && text.contains(&definition)
            };
            if !sources.iter().any(is_documented) {
                problems.push(format!("{path}: the documentation of {name} does not include it"));
            }
        }
        for (file, _) in tables.into_values() {
            problems.push(format!("{folder}/errors/{file}: no public enum has this name"));
        }
    }
    assert_none(&problems);
    assert!(found >= 20, "only {found} error enums were found");
}

/// Returns the variants of each public enum whose name ends in `Error`, by the name of the enum. `listing` is the text
/// of an `api.txt` file.
fn errors(listing: &str) -> BTreeMap<&str, BTreeSet<&str>> {
    let paths = listing.lines().filter_map(|line| Some(line.split_once("pub enum ")?.1));
    let errors = paths.filter(|path| path.ends_with("Error"));
    let named = errors.map(|path| {
        let name = path.rsplit("::").next().unwrap_or(path);
        (name, variants(listing, path))
    });
    named.collect()
}

/// Returns the variants of the enum with this path, such as `neuron_types::ToolError`.
fn variants<'l>(listing: &'l str, path: &str) -> BTreeSet<&'l str> {
    let begin = format!("pub {path}::");
    let rests = listing.lines().filter_map(|line| Some(line.split_once(begin.as_str())?.1));
    let is_end = |char: char| !char.is_alphanumeric() && char != '_';
    rests.map(|rest| rest.split(is_end).next().unwrap_or(rest)).collect()
}

/// Returns the name and the text of each file in a folder, by the lower-case name of the error. For example,
/// `tool_error.md` is for `toolerror`. Returns an empty map if the folder does not exist.
fn tables(folder: &Path) -> BTreeMap<String, (String, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let tables = entries.map(|entry| {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let error = file.trim_end_matches(".md").replace('_', "");
        (error, (file, fs::read_to_string(&path).unwrap()))
    });
    tables.collect()
}

/// Returns the variants of the rows of a table, in order. Returns the first line that is not valid as an error.
fn rows(table: &str) -> Result<Vec<&str>, &str> {
    let Some(rows) = table.strip_prefix(HEAD) else {
        return Err(table.lines().next().unwrap_or_default());
    };
    let rows = rows.lines().map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let variant = match cells.as_slice() {
            ["", variant, cause, fix, ""] if !cause.is_empty() && !fix.is_empty() => *variant,
            _ => return Err(line),
        };
        let variant = variant.strip_prefix('`').and_then(|name| name.strip_suffix('`'));
        variant.ok_or(line)
    });
    rows.collect()
}

/// Returns a message for each variant without a row, each row without a variant, and each further row of a variant.
fn differences(variants: &BTreeSet<&str>, rows: &[&str]) -> Vec<String> {
    let missing = variants.iter().filter(|variant| !rows.contains(*variant));
    let mut problems: Vec<String> =
        missing.map(|variant| format!("no row is for the variant `{variant}`")).collect();
    let mut known = BTreeSet::new();
    for row in rows {
        if !variants.contains(row) {
            problems.push(format!("the enum has no variant `{row}`"));
        } else if !known.insert(row) {
            problems.push(format!("several rows are for the variant `{row}`"));
        }
    }
    problems
}

#[test]
fn variants_of_errors_are_found() {
    let listing = "\
#[non_exhaustive] pub enum a::ToolError
pub use a::ToolError
impl Error for a::ToolError
pub a::ToolError::Cancelled
#[cfg(feature = \"x\")] pub a::ToolError::NotFound(String)
pub a::ToolError::Late { limit: Duration }
pub fn a::ToolError::kind(&self) -> &'static str
pub enum a::ToolErrorPolicy
pub a::ToolErrorPolicy::EndRun
";
    let expected = BTreeSet::from(["Cancelled", "Late", "NotFound"]);
    assert_eq!(errors(listing), BTreeMap::from([("ToolError", expected)]));
}

#[test]
fn malformed_rows_are_reported() {
    let table = |rows: &str| format!("{HEAD}{rows}");
    assert_eq!(rows(&table("| `A` | why | how |\n| `B` | why | how |\n")), Ok(vec!["A", "B"]));
    for row in ["| A | why | how |", "| `A` | why |", "| `A` | why | |", "", "text"] {
        assert_eq!(rows(&table(&format!("{row}\n"))), Err(row));
    }
    assert_eq!(rows("| variant |\n"), Err("| variant |"));
}

#[test]
fn missing_unknown_and_repeated_rows_are_reported() {
    let variants = BTreeSet::from(["A", "B"]);
    let problems = |rows: &[&str]| differences(&variants, rows).len();
    assert_eq!(problems(&["B", "A"]), 0);
    assert_eq!(problems(&["A"]), 1);
    assert_eq!(problems(&["A", "B", "C"]), 1);
    assert_eq!(problems(&["A", "B", "B"]), 1);
}
