//! The modules of a crate with their items and imports, and what a path means in one of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

use super::tokens;

/// The names from the crate's root to a module; none for the root itself.
pub(super) type ModulePath = Vec<String>;

/// All modules of a crate, private ones included, without those for tests alone.
#[derive(Default)]
pub(super) struct Tree {
    modules: BTreeMap<ModulePath, Module>,
}

/// `cfg` attributes, as text, from the outermost to the innermost.
pub(super) type Gates = Vec<String>;

/// One module; if there are several of one name, for different platforms, all of them.
#[derive(Default)]
pub(super) struct Module {
    /// The items, with the gates of their module. Their own are still among their attributes.
    pub(super) items: Vec<(Item, Gates)>,
    pub(super) imports: Vec<Import>,
}

/// One name, or a star, of a `use` declaration.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    /// The name it gets here; none for a star.
    pub(super) name: Option<String>,
    pub(super) public: bool,
    /// The gates of the declaration and its module.
    pub(super) gates: Gates,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Target {
    Module(ModulePath),
    /// An item by its module and name.
    Item(ModulePath, String),
    /// Something in another crate, or that a macro made.
    Elsewhere(Vec<String>),
}

impl Tree {
    /// Reads a crate from its root file, usually `lib.rs`.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let mut tree = Self::default();
        let folder = root.parent().unwrap_or(root);
        tree.add(Vec::new(), parse_file(root)?, Vec::new(), folder)?;
        Ok(tree)
    }

    fn add(
        &mut self,
        path: ModulePath,
        items: Vec<Item>,
        gates: Gates,
        folder: &Path,
    ) -> Result<(), String> {
        let mut module = self.modules.remove(&path).unwrap_or_default();
        for item in items.into_iter().flat_map(written_out) {
            match &item {
                Item::Mod(child) if is_test(&child.attrs) => continue,
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let folder = folder.join(&name);
                    let items = match &child.content {
                        Some((_, items)) => items.clone(),
                        None => parse_module(&folder)?,
                    };
                    let gates = union(&gates, &gates_of(&child.attrs));
                    self.add(joined(&path, &name), items, gates, &folder)?;
                }
                Item::Use(import) if !is_hidden(&import.attrs) => {
                    let public = matches!(import.vis, Visibility::Public(_));
                    let gates = union(&gates, &gates_of(&import.attrs));
                    flatten(&import.tree, &[], &mut |path, name| {
                        let gates = gates.clone();
                        module.imports.push(Import { path, name, public, gates });
                    });
                }
                _ => {}
            }
            module.items.push((item, gates.clone()));
        }
        self.modules.insert(path, module);
        Ok(())
    }

    /// All modules by their path.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&ModulePath, &Module)> {
        self.modules.iter()
    }

    /// The module of this path.
    pub(super) fn module(&self, path: &[String]) -> Option<&Module> {
        self.modules.get(path)
    }

    /// What a path means when it is written in a module.
    pub(super) fn resolve(&self, module: &[String], path: &[String]) -> Target {
        // Imports can lead in circles; real ones are never this deep.
        self.resolve_within(module, path, 16)
    }

    fn resolve_within(&self, module: &[String], path: &[String], depth: usize) -> Target {
        let elsewhere = || Target::Elsewhere(path.to_vec());
        let mut target = Target::Module(module.to_vec());
        for (index, name) in path.iter().enumerate() {
            let here = match (target, name.as_str()) {
                (Target::Module(_), "crate") if index == 0 => {
                    target = Target::Module(Vec::new());
                    continue;
                }
                (Target::Module(here), "self") => {
                    target = Target::Module(here);
                    continue;
                }
                (Target::Module(mut here), "super") => {
                    here.pop();
                    target = Target::Module(here);
                    continue;
                }
                (Target::Module(here), _) => here,
                (Target::Elsewhere(mut origin), _) => {
                    origin.push(name.clone());
                    target = Target::Elsewhere(origin);
                    continue;
                }
                // A variant or an associated item.
                (Target::Item(..), _) => return elsewhere(),
            };
            target = match self.look_up(&here, name, depth) {
                Some(found) => found,
                None => Target::Elsewhere(path.iter().take(index + 1).cloned().collect()),
            };
        }
        target
    }

    fn look_up(&self, path: &[String], name: &str, depth: usize) -> Option<Target> {
        let depth = depth.checked_sub(1)?;
        let module = self.modules.get(path)?;
        let child = joined(path, name);
        if self.modules.contains_key(&child) {
            return Some(Target::Module(child));
        }
        if module.items.iter().any(|(item, _)| named(item).is_some_and(|(own, ..)| own == name)) {
            return Some(Target::Item(path.to_vec(), name.to_owned()));
        }
        for import in &module.imports {
            match &import.name {
                // `use serde;` and, of a macro, `use serde::serde;` name another crate, not themselves.
                Some(own)
                    if own == name && import.path.first().is_none_or(|first| first != name) =>
                {
                    return Some(self.resolve_within(path, &import.path, depth));
                }
                Some(_) => {}
                None => {
                    if let Target::Module(star) = self.resolve_within(path, &import.path, depth)
                        && star != path
                        && let Some(found) = self.look_up(&star, name, depth)
                    {
                        return Some(found);
                    }
                }
            }
        }
        None
    }
}

/// Name, visibility and attributes of an item that others can refer to.
pub(super) fn named(item: &Item) -> Option<(String, &Visibility, &[Attribute])> {
    let (name, visibility, attributes) = match item {
        Item::Const(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Fn(item) => (&item.sig.ident, &item.vis, &item.attrs),
        Item::Mod(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Static(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Type(item) => (&item.ident, &item.vis, &item.attrs),
        _ => return None,
    };
    Some((name.to_string(), visibility, attributes))
}

/// Whether an item is not part of the surface: `#[doc(hidden)]`, or compiled for tests alone.
pub(super) fn is_hidden(attributes: &[Attribute]) -> bool {
    let hidden = attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "hidden")
    });
    hidden || is_test(attributes)
}

/// The path of a module's child.
pub(super) fn joined(path: &[String], name: &str) -> ModulePath {
    let mut child = path.to_vec();
    child.push(name.to_owned());
    child
}

/// The outer gates, then those of the inner that are not among them.
pub(super) fn union(outer: &[String], inner: &[String]) -> Gates {
    let mut all = outer.to_vec();
    all.extend(inner.iter().filter(|gate| !outer.contains(gate)).cloned());
    all
}

/// The `cfg` attributes among these, as text.
pub(super) fn gates_of(attributes: &[Attribute]) -> Gates {
    let gates = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    gates.map(|gate| tokens::line(gate.to_token_stream())).collect()
}

fn is_test(attributes: &[Attribute]) -> bool {
    gates_of(attributes)
        .iter()
        .any(|gate| gate == "#[cfg(test)]" || gate.starts_with("#[cfg(all(test,"))
}

/// Calls back for each name of a `use` declaration.
fn flatten(tree: &UseTree, prefix: &[String], found: &mut impl FnMut(Vec<String>, Option<String>)) {
    let with = |name: &syn::Ident| {
        let mut path = prefix.to_vec();
        // `use module::{self}` means the module.
        if name != "self" || path.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(tree) => flatten(&tree.tree, &with(&tree.ident), found),
        UseTree::Name(tree) => {
            let path = with(&tree.ident);
            let name = path.last().cloned();
            found(path, name);
        }
        UseTree::Rename(tree) if tree.rename == "_" => {}
        UseTree::Rename(tree) => found(with(&tree.ident), Some(tree.rename.to_string())),
        UseTree::Glob(_) => found(prefix.to_vec(), None),
        UseTree::Group(tree) => tree.items.iter().for_each(|tree| flatten(tree, prefix, found)),
    }
}

/// The items in a macro's call, as of `pin_project!`, instead of the call.
fn written_out(item: Item) -> Vec<Item> {
    if let Item::Macro(call) = &item
        && call.ident.is_none()
        && let Ok(file) = syn::parse2::<syn::File>(call.mac.tokens.clone())
    {
        return file.items;
    }
    vec![item]
}

/// Reads the module `folder`, which is `folder.rs` or `folder/mod.rs`.
fn parse_module(folder: &Path) -> Result<Vec<Item>, String> {
    let inside = folder.join("mod.rs");
    parse_file(&if inside.exists() { inside } else { folder.with_extension("rs") })
}

fn parse_file(path: &Path) -> Result<Vec<Item>, String> {
    let source = fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let file = syn::parse_file(&source)
        .map_err(|error| format!("cannot parse {}: {error}", path.display()))?;
    Ok(file.items)
}

#[cfg(test)]
impl Tree {
    /// A crate in one string, with all modules inline.
    pub(super) fn from_source(source: &str) -> Self {
        let mut tree = Self::default();
        let file = syn::parse_file(source).unwrap();
        tree.add(Vec::new(), file.items, Vec::new(), Path::new("none")).unwrap();
        tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_followed_through_imports() {
        let tree = Tree::from_source(
            "mod a { pub mod b { pub struct S; } pub use self::b::*; use serde::Serialize as Ser; }
             use a::S as Renamed; use a::Ser;
             mod circle { pub use super::circle::*; pub use other::X as Y; pub use Y as X; }",
        );
        let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
        let check = |from: &[String], written: &str, expected: Target| {
            assert_eq!(tree.resolve(from, &path(written)), expected, "{written}");
        };
        let found = Target::Item(path("a::b"), "S".to_owned());
        check(&[], "a::b::S", found.clone());
        check(&[], "crate::a::S", found.clone());
        check(&[], "Renamed", found.clone());
        check(&path("a"), "super::Renamed", found);
        check(&[], "a::b", Target::Module(path("a::b")));
        check(&[], "Ser", Target::Elsewhere(path("serde::Serialize")));
        check(&[], "std::fmt::Debug", Target::Elsewhere(path("std::fmt::Debug")));
        check(&path("circle"), "nothing", Target::Elsewhere(path("nothing")));
    }
}
