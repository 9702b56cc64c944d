//! Creates the sorted lines in the listing of a crate's public API. This module decides which `impl` blocks and
//! re-exports are listed, and under which path.

use std::collections::{BTreeMap, BTreeSet};

use quote::{ToTokens, quote};
use syn::{Item, ItemImpl, ItemMacro, ItemUse, Type, TypePath};

use super::items::{self, Declaration, spelled};
use super::line::{self, Line};
use super::source::{SourceItem, flatten, is_hidden, is_public, with_gates};

/// Returns the lines of the listing of a crate's public API, sorted by path.
pub(super) fn list(crate_name: &str, items: &[SourceItem]) -> Vec<String> {
    let (imports, declarations): (Vec<_>, Vec<_>) =
        lines(crate_name, items).partition(|(source, _)| matches!(source.item, Item::Use(_)));
    let mut lines: BTreeSet<Line> = declarations.into_iter().map(|(_, line)| line).collect();
    // The line of an own item already has the path at which it is re-exported.
    let declared: BTreeSet<(&[String], &str)> = lines.iter().map(Line::place).collect();
    let new = imports.into_iter().map(|(_, line)| line);
    let new: Vec<Line> =
        new.filter(|line| line.text.contains(" = ") || !declared.contains(&line.place())).collect();
    lines.extend(new);
    lines.into_iter().map(|line| line.text).collect()
}

/// Returns the lines of the listing of a crate's public API, each with the item to which it belongs.
pub(super) fn lines<'a>(
    crate_name: &'a str,
    items: &'a [SourceItem],
) -> impl Iterator<Item = (&'a SourceItem, Line)> {
    let names = Names::of(items);
    items.iter().flat_map(move |source| {
        let SourceItem { module, gates, item, .. } = source;
        let lines = match item {
            Item::Impl(block) => names.implementation(block, module, gates),
            Item::Use(import) => names.re_exports(import, module, gates),
            Item::Macro(call) => exported_macro(call, crate_name, gates).into_iter().collect(),
            _ => items::lines(item, module, gates),
        };
        lines.into_iter().map(move |line| (source, line))
    })
}

/// Returns the line of a macro with `#[macro_export]` in the listing of the public API. Returns `None` for every other
/// macro.
fn exported_macro(call: &ItemMacro, crate_name: &str, gates: &[String]) -> Option<Line> {
    let is_exported = call.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
    let name = call.ident.as_ref().filter(|_| is_exported && !is_hidden(&call.attrs))?;
    let path = format!("{crate_name}::{name}");
    Some(Line::new(&path, &with_gates(gates, &call.attrs), format!("pub macro {path}!")))
}

/// The names of a crate's own modules, types and traits.
#[derive(Default)]
struct Names {
    modules: Paths,
    types: Paths,
    traits: Paths,
}

impl Names {
    fn of(items: &[SourceItem]) -> Self {
        let mut names = Self::default();
        for SourceItem { module, item, .. } in items {
            let Some(own) = Declaration::of(item) else { continue };
            let paths = match item {
                Item::Struct(_) | Item::Enum(_) => &mut names.types,
                Item::Trait(_) => &mut names.traits,
                Item::Mod(_) => &mut names.modules,
                _ => continue,
            };
            let path = own.is_listed().then(|| format!("{module}::{}", own.name));
            paths.0.entry(own.name).or_default().extend(path);
        }
        names
    }

    /// Returns the lines in the listing of the public API for an `impl` block. A block is listed if its head contains a
    /// public type or trait of this crate, and no private type or trait. `gates` are the `cfg` attributes of the
    /// modules that contain the block.
    fn implementation(&self, block: &ItemImpl, module: &str, gates: &[String]) -> Vec<Line> {
        if is_hidden(&block.attrs) {
            return Vec::new();
        }
        let gates = with_gates(gates, &block.attrs);
        let mut ty = block.self_ty.to_token_stream();
        let mut subject = Subject::Foreign;
        if let Type::Path(TypePath { path, .. }) = &*block.self_ty {
            subject = self.types.find(path, module);
            if let Subject::Public(public) = subject {
                let name = spelled(public);
                let arguments = path.segments.last().map(|segment| &segment.arguments);
                ty = quote!(#name #arguments);
            }
        }
        let of = block.trait_.as_ref().map(|(path, _)| path);
        let trait_ = of.map_or(Subject::Foreign, |path| self.traits.find(path, module));
        let owner = match (subject, trait_) {
            (Subject::Private, _) | (_, Subject::Private) => None,
            (Subject::Public(owner), _) | (_, Subject::Public(owner)) => Some(owner),
            (Subject::Foreign, Subject::Foreign) => {
                let head = line::layout(quote!(#ty #of));
                self.types.first_in(&head).or_else(|| self.traits.first_in(&head))
            }
        };
        owner.map_or(Vec::new(), |owner| items::implementation(block, owner, &ty, &gates))
    }

    /// Returns the lines in the listing of the public API for a `pub use`, one per imported name. `gates` are the `cfg`
    /// attributes of the modules that contain the `pub use`.
    fn re_exports(&self, import: &ItemUse, module: &str, gates: &[String]) -> Vec<Line> {
        if !is_public(&import.vis) || is_hidden(&import.attrs) {
            return Vec::new();
        }
        let gates = with_gates(gates, &import.attrs);
        let mut found = Vec::new();
        flatten(&import.tree, "", &mut found);
        let lines = found.iter().map(|(origin, name)| {
            let path = format!("{module}::{name}");
            let segments: Vec<&str> = origin.split("::").collect();
            let first = segments.first().copied().unwrap_or_default();
            let is_own =
                self.modules.0.contains_key(first) || matches!(first, "crate" | "self" | "super");
            let text = match segments.last() {
                // The modules in the path of a local item may be private, so the path is not printed.
                Some(last) if is_own && last == name && name != "*" => format!("pub use {path}"),
                Some(last) if is_own && name != "*" => format!("pub use {path} = {last}"),
                _ => format!("pub use {path} = {origin}"),
            };
            Line::new(&path, &gates, text)
        });
        lines.collect()
    }
}

/// The paths of the public items, by name. A name that only private items have is mapped to an empty set.
#[derive(Default)]
struct Paths(BTreeMap<String, BTreeSet<String>>);

/// The result of looking up a name in the head of an `impl` block.
enum Subject<'a> {
    /// A public item of this crate, with its path.
    Public(&'a str),
    /// A private item of this crate.
    Private,
    /// An item of another crate.
    Foreign,
}

impl Paths {
    /// Looks up the last segment of `path`. If several items have this name, prefers the item in the module `module`.
    fn find(&self, path: &syn::Path, module: &str) -> Subject<'_> {
        let name = path.segments.last().map(|segment| segment.ident.to_string());
        let Some((name, paths)) = name.and_then(|name| self.0.get_key_value(&name)) else {
            return Subject::Foreign;
        };
        let near = paths.get(&format!("{module}::{name}"));
        near.or_else(|| paths.first()).map_or(Subject::Private, |path| Subject::Public(path))
    }

    /// Returns the path of the first public item whose name occurs in `text` as a word.
    fn first_in(&self, text: &str) -> Option<&str> {
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.find_map(|word| self.0.get(word)?.first()).map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
