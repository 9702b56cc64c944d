//! Compiles all deliberate faults into one program, in which an environment variable selects a fault.
//!
//! The smallest block around a fault is compiled once as it is and once with the fault:
//!
//! ```text
//! { match crate::fault::active() { 17 => { the block with fault 17 } _ => { the block } } }
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::source::{Fault, Source};

/// The attribute that a fault can add to a field. The field or its type needs `#[serde(default)]`.
const SKIP: &str = "#[serde(skip)] ";

/// The file in each crate with faults that contains [`module`].
const MODULE: &str = "fault.rs";

/// Returns the texts of the files with all faults, by path, and the generated module of each crate with faults.
pub(super) fn instrument(sources: &[Source]) -> Result<BTreeMap<String, String>, String> {
    let names: Vec<&str> = sources.iter().flat_map(|it| &it.faults).map(|it| &*it.name).collect();
    let mut files = BTreeMap::new();
    let mut roots = BTreeSet::new();
    let mut first = 1;
    for source in sources {
        files.insert(source.path.clone(), with_faults(source, first)?);
        first += source.faults.len();
        let crate_end = source.path.find("/src/").unwrap_or_default();
        roots.extend(source.path.get(..crate_end).map(|folder| format!("{folder}/src/")));
    }
    for root in roots {
        files.insert(format!("{root}{MODULE}"), module(&names));
    }
    Ok(files)
}

/// Changes the text of a crate's `lib.rs` so that it declares the generated module and reports no warnings.
pub(super) fn declare_module(library: &str) -> String {
    format!("#![allow(warnings)]\n{library}\nmod fault;\n")
}

/// Returns the paths of the crates' `lib.rs` that must declare the generated modules in `files`.
pub(super) fn libraries(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let modules = files.keys().filter_map(|path| path.strip_suffix(&format!("/src/{MODULE}")));
    modules.map(|folder| format!("{folder}/src/lib.rs")).collect()
}

/// Returns the source of the module `fault`. It panics if the environment variable has another value than the name of
/// a fault.
fn module(names: &[&str]) -> String {
    format!(
        "//! Reads the selected fault.\n\n\
         const NAMES: &[&str] = &{names:?};\n\n\
         pub(crate) fn active() -> usize {{\n\
         \x20   static ACTIVE: std::sync::OnceLock<usize> = std::sync::OnceLock::new();\n\
         \x20   *ACTIVE.get_or_init(|| match std::env::var(\"{}\") {{\n\
         \x20       Ok(active) => 1 + NAMES.iter().position(|name| *name == active).unwrap(),\n\
         \x20       Err(_) => 0,\n\
         \x20   }})\n\
         }}\n\n\
         pub(crate) fn skips<const FAULT: usize, T>(_: &T) -> bool {{\n\
         \x20   active() == FAULT\n\
         }}\n",
        super::VARIABLE
    )
}

/// The parts of a source that are replaced, by start and end. An outer part is before the parts inside of it.
type Parts<'s> = BTreeMap<(usize, Reverse<usize>), Part<'s>>;

enum Part<'s> {
    /// A block, with the numbers of the faults that it contains directly.
    Block(Vec<(usize, &'s Fault)>),
    Attribute(String),
}

/// Returns the text of a source with all of its faults. They have consecutive numbers, beginning with `first`.
fn with_faults(source: &Source, first: usize) -> Result<String, String> {
    let mut parts = Parts::new();
    for (number, fault) in (first..).zip(&source.faults) {
        let edits = fault.edits.as_slice();
        let (Some((start, _)), Some((end, _))) = (edits.first(), edits.last()) else {
            continue;
        };
        if let [(place, put)] = edits
            && put == SKIP
        {
            let attribute =
                format!("#[serde(skip_serializing_if = \"crate::fault::skips::<{number}, _>\")] ");
            parts.insert((place.start, Reverse(place.end)), Part::Attribute(attribute));
            continue;
        }
        let range = start.start..end.end;
        let block = source.braces_around(&range).find(|braces| braces.statements().is_some());
        let block = block.ok_or_else(|| {
            format!("{}: no block is around the fault `{}`", source.path, fault.name)
        })?;
        let key = (block.range.start, Reverse(block.range.end));
        match parts.entry(key).or_insert(Part::Block(Vec::new())) {
            Part::Block(faults) => faults.push((number, fault)),
            Part::Attribute(_) => {}
        }
    }
    Ok(instrumented(source, 0..source.text.len(), &parts))
}

/// Returns the text of a range with the replaced parts inside of it.
fn instrumented(source: &Source, range: Range<usize>, parts: &Parts<'_>) -> String {
    let text = |range: Range<usize>| source.text.get(range).unwrap_or_default();
    let (mut result, mut place) = (String::new(), range.start);
    for (&(start, Reverse(end)), part) in parts.range((range.start, Reverse(range.end))..) {
        // The part is the range itself, inside of the previous part, or behind the range.
        if (start..end) == range || start < place || end > range.end {
            continue;
        }
        result.push_str(text(place..start));
        place = end;
        match part {
            Part::Attribute(attribute) => result.push_str(attribute),
            Part::Block(faults) => {
                result.push_str("\nmatch crate::fault::active() {\n");
                for (number, fault) in faults {
                    let block = broken(source, start..end, fault);
                    result.push_str(&format!("// {}\n{number} => {{{block}\n}}\n", fault.name));
                }
                let block = instrumented(source, start..end, parts);
                result.push_str(&format!("_ => {{{block}\n}}\n}}\n"));
            }
        }
    }
    result.push_str(text(place..range.end));
    result
}

/// Returns the text of a range with one fault.
fn broken(source: &Source, range: Range<usize>, fault: &Fault) -> String {
    let text = |range: Range<usize>| source.text.get(range).unwrap_or_default();
    let (mut result, mut place) = (String::new(), range.start);
    for (edit, put) in &fault.edits {
        result.push_str(text(place..edit.start));
        result.push_str(put);
        place = edit.end;
    }
    result.push_str(text(place..range.end));
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_block_around_a_fault_is_compiled_twice() {
        let text = "\
struct S {
    // FAULT a: add `#[serde(skip)]`
    count: usize,
}
fn f(s: S) {
    // FAULT b: `match a` -> `match b`
    match a {
        x => {
            // FAULT c: without the line
            c();
        }
    }
}
";
        let source = Source::parse("crates/x/src/a.rs".into(), text.into()).unwrap();
        let files = instrument(&[source]).unwrap();
        assert!(files["crates/x/src/fault.rs"].contains(r#"&["a", "b", "c"]"#));
        assert_eq!(libraries(&files), BTreeSet::from(["crates/x/src/lib.rs".to_owned()]));
        let expected = "\
struct S { #[serde(skip_serializing_if = \"crate::fault::skips::<1, _>\")] count: usize, } \
fn f(s: S) { match crate::fault::active() { \
2 => { match b { x => { c(); } } } \
_ => { match a { x => { match crate::fault::active() { 3 => { } _ => { c(); } } } } } } }";
        let lines = files["crates/x/src/a.rs"].lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
        let found = lines.collect::<Vec<_>>().join(" ");
        assert_eq!(found, expected);
    }
}
