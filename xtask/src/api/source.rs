//! Reads the items of a crate from its source files, each with its public module.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use syn::{Attribute, Item, Meta, UseName, UseRename, UseTree, Visibility};

use super::line;

/// An item of a crate. Items in hidden modules and in test modules are not included.
pub(super) struct SourceItem {
    /// Path of the innermost `pub` module around the item. The first segment is the crate's name.
    pub(super) module: String,
    /// `cfg` attributes of the modules around the item, from the outermost to the innermost.
    pub(super) gates: Vec<String>,
    pub(super) item: Item,
    /// The imports of the module that contains the item, as pairs of name and path.
    pub(super) imports: Rc<BTreeMap<String, String>>,
}

/// Reads all items of a crate. `root` is the crate's root file, usually `lib.rs`.
pub(super) fn read(root: &Path, crate_name: &str) -> Result<Vec<SourceItem>, String> {
    let mut found = Vec::new();
    add(parse_file(root)?, crate_name, &[], root.parent().unwrap_or(root), &mut found)?;
    Ok(found)
}

/// Adds the items of a module and of its child modules to `found`. `gates` are the `cfg` attributes of the module and
/// of all modules that contain it. `folder` contains the files of the child modules.
fn add(
    items: Vec<Item>,
    module: &str,
    gates: &[String],
    folder: &Path,
    found: &mut Vec<SourceItem>,
) -> Result<(), String> {
    let imports = Rc::new(imports(&items));
    for mut item in items.into_iter().flat_map(written_out) {
        if let Item::Mod(child) = &mut item {
            if is_hidden(&child.attrs) {
                continue;
            }
            let name = child.ident.to_string();
            let folder = folder.join(&name);
            let items = match child.content.take() {
                Some((_, items)) => items,
                None => parse_module(&folder)?,
            };
            let path =
                if is_public(&child.vis) { format!("{module}::{name}") } else { module.into() };
            add(items, &path, &with_gates(gates, &child.attrs), &folder, found)?;
        }
        let (module, gates, imports) = (module.to_owned(), gates.to_vec(), imports.clone());
        found.push(SourceItem { module, gates, item, imports });
    }
    Ok(())
}

/// Returns the names that the `use` declarations among the items import, each with its path.
fn imports(items: &[Item]) -> BTreeMap<String, String> {
    let mut found = Vec::new();
    for item in items {
        if let Item::Use(import) = item {
            flatten(&import.tree, "", &mut found);
        }
    }
    found.into_iter().map(|(path, name)| (name, path)).collect()
}

/// Adds the imports of a `use` declaration to `found`, as pairs of the imported path and the new name.
pub(super) fn flatten(tree: &UseTree, prefix: &str, found: &mut Vec<(String, String)>) {
    match tree {
        UseTree::Path(tree) => flatten(&tree.tree, &format!("{prefix}{}::", tree.ident), found),
        UseTree::Name(UseName { ident }) => {
            found.push((format!("{prefix}{ident}"), ident.to_string()))
        }
        UseTree::Rename(UseRename { ident, rename, .. }) => {
            found.push((format!("{prefix}{ident}"), rename.to_string()));
        }
        UseTree::Glob(_) => found.push((format!("{prefix}*"), "*".to_owned())),
        UseTree::Group(tree) => tree.items.iter().for_each(|tree| flatten(tree, prefix, found)),
    }
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns `true` if the attributes contain `#[doc(hidden)]`, or a `cfg` for tests only.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    is_for_tests(attributes) || lists(attributes).any(|list| list == "#[doc(hidden)]")
}

/// Returns `true` if the attributes contain a `cfg` for tests only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    lists(attributes).any(|list| list == "#[cfg(test)]" || list.starts_with("#[cfg(all(test,"))
}

/// Returns the attributes that are lists. Most attributes are doc comments, which are not. Skipping them saves time.
fn lists(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    attributes.iter().filter(|attribute| matches!(attribute.meta, Meta::List(_))).map(line::layout)
}

/// Returns the gates in `outer`, which are `cfg` attributes, followed by further `cfg` attributes in `attributes`.
/// Duplicates are left out.
pub(super) fn with_gates(outer: &[String], attributes: &[Attribute]) -> Vec<String> {
    let mut gates = outer.to_vec();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")) {
        let gate = line::layout(attribute);
        if !gates.contains(&gate) {
            gates.push(gate);
        }
    }
    gates
}

/// Returns the items that are written inside a call of a macro such as `pin_project!`. Returns any other item
/// unchanged.
fn written_out(item: Item) -> Vec<Item> {
    if let Item::Macro(call) = &item
        && call.ident.is_none()
        && let Ok(file) = syn::parse2::<syn::File>(call.mac.tokens.clone())
    {
        return file.items;
    }
    vec![item]
}

/// Parses the file of a module. For the path `folder`, the file is `folder.rs` or `folder/mod.rs`.
pub(crate) fn parse_module(folder: &Path) -> Result<Vec<Item>, String> {
    let inside = folder.join("mod.rs");
    parse_file(&if inside.exists() { inside } else { folder.with_extension("rs") })
}

pub(crate) fn parse_file(path: &Path) -> Result<Vec<Item>, String> {
    let source = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file = syn::parse_file(&source)
        .map_err(|error| format!("cannot parse {}: {error}", path.display()))?;
    Ok(file.items)
}

/// Reads the items of a crate with the name `c` from a source text. All modules must be inline.
#[cfg(test)]
pub(super) fn from_text(text: &str) -> Vec<SourceItem> {
    let mut found = Vec::new();
    let file = syn::parse_file(text).unwrap();
    add(file.items, "c", &[], Path::new("none"), &mut found).unwrap();
    found
}
