//! Which items of a crate others can reach, and by which name.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::visit::Visit;
use syn::{Item, ItemImpl, ItemMacro, PathArguments, Type, Visibility};

use super::items::{self, Line};
use super::tree::{
    Gates, Import, ModulePath, Target, Tree, gates_of, is_hidden, joined, named, union,
};

/// The lines of a crate's listing, sorted by path.
pub(super) fn list(crate_name: &str, tree: &Tree) -> Vec<String> {
    let mut surface =
        Surface { tree, lines: BTreeSet::new(), names: BTreeMap::new(), visited: BTreeSet::new() };
    surface.reach_module(&[], crate_name, &[]);
    for (path, module) in tree.modules() {
        for (item, gates) in &module.items {
            match item {
                Item::Impl(block) => surface.implementation(path, gates, block),
                Item::Macro(item) => surface.macro_rules(crate_name, gates, item),
                _ => surface.item(path, gates, item),
            }
        }
    }
    surface.lines.into_iter().map(|(_, line)| line).collect()
}

struct Surface<'a> {
    tree: &'a Tree,
    /// The lines, each after the parts of the path that it is sorted by.
    lines: BTreeSet<(Vec<String>, String)>,
    /// The public paths of each item that has any, by its module and name. First comes the one
    /// with the fewest parts, by which the item is listed; the others are listed as its aliases.
    names: BTreeMap<(ModulePath, String), BTreeMap<(usize, String), Gates>>,
    /// The modules seen, with the public path: imports may lead in circles.
    visited: BTreeSet<(ModulePath, String)>,
}

impl Surface<'_> {
    /// Finds what is public in a module that is itself public as `public`.
    fn reach_module(&mut self, path: &[String], public: &str, gates: &[String]) {
        let Some(module) = self.tree.module(path) else {
            return;
        };
        if !self.visited.insert((path.to_vec(), public.to_owned())) {
            return;
        }
        for (item, own) in &module.items {
            let Some((name, Visibility::Public(_), attributes)) = named(item) else {
                continue;
            };
            let gates = union(gates, own);
            let public = format!("{public}::{name}");
            match item {
                Item::Mod(_) if is_hidden(attributes) => {}
                Item::Mod(_) => {
                    self.add(&gates, items::lines(item, &public));
                    self.reach_module(&joined(path, &name), &public, &gates);
                }
                _ => self.reach_item(path, &name, public, gates),
            }
        }
        for import in module.imports.iter().filter(|import| import.public) {
            self.reach_import(import, path, public, &union(gates, &import.gates));
        }
    }

    fn reach_item(&mut self, home: &[String], name: &str, public: String, gates: Gates) {
        let Some(module) = self.tree.module(home) else {
            return;
        };
        let is_shown = module
            .items
            .iter()
            .filter_map(|(item, _)| named(item))
            .any(|(own, _, attributes)| own == name && !is_hidden(attributes));
        if is_shown {
            let key = (public.matches("::").count(), public);
            self.names.entry((home.to_vec(), name.to_owned())).or_default().insert(key, gates);
        }
    }

    fn reach_import(&mut self, import: &Import, path: &[String], public: &str, gates: &[String]) {
        let name = import.name.as_deref().unwrap_or("*");
        let public_name = format!("{public}::{name}");
        let origin = match (self.tree.resolve(path, &import.path), &import.name) {
            (Target::Module(module), None) => return self.reach_module(&module, public, gates),
            (Target::Module(module), Some(_)) => {
                let line = format!("pub mod {public_name}");
                self.add(gates, vec![(public_name.clone(), line)]);
                return self.reach_module(&module, &public_name, gates);
            }
            (Target::Item(home, item), Some(_)) => {
                return self.reach_item(&home, &item, public_name, gates.to_vec());
            }
            (Target::Elsewhere(origin), Some(_)) => origin.join("::"),
            (Target::Elsewhere(origin), None) => format!("{}::*", origin.join("::")),
            // The variants of an enum.
            (Target::Item(_, item), None) => format!("{item}::*"),
        };
        let line = format!("pub use {public_name} = {origin}");
        self.add(gates, vec![(public_name, line)]);
    }

    /// Lists an item by its first public path, and says so at the others.
    fn item(&mut self, home: &[String], gates: &[String], item: &Item) {
        let Some((name, _, attributes)) = named(item) else {
            return;
        };
        let Some(names) = self.names.get(&(home.to_vec(), name)).cloned() else {
            return;
        };
        let mut names = names.into_iter().map(|((_, public), gates)| (public, gates));
        let Some((first, outer)) = names.next() else {
            return;
        };
        if is_hidden(attributes) {
            return;
        }
        self.add(&union(&outer, gates), items::lines(item, &first));
        for (alias, gates) in names {
            let line = format!("pub use {alias} = {first}");
            self.add(&gates, vec![(alias, line)]);
        }
    }

    /// Lists an `impl` block if a public type or trait of ours is in its head, and no private one
    /// is its subject.
    fn implementation(&mut self, path: &[String], gates: &[String], block: &ItemImpl) {
        if is_hidden(&block.attrs) {
            return;
        }
        let owner = self.subject(path, &block.self_ty);
        let ty = self.spelled_type(path, &block.self_ty);
        let lines = match (&block.trait_, owner) {
            (_, Subject::Private) => return,
            (None, Subject::Public(owner)) => items::inherent(block, &owner, &ty),
            (None, Subject::Foreign) => return,
            (Some((of, _)), owner) => {
                let trait_ = self.classify(path, of);
                let mentioned = self.first_public(path, block);
                let key = match (owner, trait_, mentioned) {
                    (_, Subject::Private, _) => return,
                    (Subject::Public(owner), ..) => owner,
                    (_, Subject::Public(name), _) | (.., Some(name)) => name,
                    _ => return,
                };
                vec![(items::impl_key(&key), items::implementation(block, &ty))]
            }
        };
        self.add(gates, lines);
    }

    fn macro_rules(&mut self, crate_name: &str, gates: &[String], item: &ItemMacro) {
        let exported = item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export"));
        if let (true, Some(name)) = (exported && !is_hidden(&item.attrs), &item.ident) {
            let path = format!("{crate_name}::{name}");
            let line = format!("pub macro {path}!");
            let gates = union(gates, &gates_of(&item.attrs));
            self.add(&gates, vec![(path, line)]);
        }
    }

    /// What an `impl` is for, references aside.
    fn subject(&self, path: &[String], ty: &Type) -> Subject {
        match ty {
            Type::Path(ty) if ty.qself.is_none() => self.classify(path, &ty.path),
            Type::Reference(ty) => self.subject(path, &ty.elem),
            Type::Paren(ty) => self.subject(path, &ty.elem),
            _ => Subject::Foreign,
        }
    }

    fn classify(&self, path: &[String], name: &syn::Path) -> Subject {
        let written: Vec<String> =
            name.segments.iter().map(|part| part.ident.to_string()).collect();
        match self.tree.resolve(path, &written) {
            Target::Item(home, name) => {
                match self.names.get(&(home, name)).and_then(BTreeMap::first_key_value) {
                    Some(((_, public), _)) => Subject::Public(public.clone()),
                    None => Subject::Private,
                }
            }
            _ => Subject::Foreign,
        }
    }

    /// The type with its public path, if it is ours, as the `impl` may know it by another.
    fn spelled_type(&self, path: &[String], ty: &Type) -> TokenStream {
        if let Type::Path(own) = ty
            && let Subject::Public(public) = self.subject(path, ty)
        {
            let name = items::spelled(&public);
            let arguments = own.path.segments.last().map(|part| &part.arguments);
            let arguments = arguments.unwrap_or(&PathArguments::None);
            return quote!(#name #arguments);
        }
        ty.to_token_stream()
    }

    /// The first public item of ours in the types of an `impl`'s head.
    fn first_public(&self, path: &[String], block: &ItemImpl) -> Option<String> {
        let mut paths = Paths::default();
        paths.visit_type(&block.self_ty);
        if let Some((of, _)) = &block.trait_ {
            paths.visit_path(of);
        }
        paths.0.iter().find_map(|name| match self.classify(path, name) {
            Subject::Public(public) => Some(public),
            _ => None,
        })
    }

    fn add(&mut self, gates: &[String], lines: Vec<Line>) {
        for (path, line) in lines {
            // An item's own gates are in its line already.
            let outer = gates.iter().filter(|gate| !line.contains(gate.as_str()));
            let mut parts: Vec<&str> = outer.map(String::as_str).collect();
            parts.push(&line);
            let line = parts.join(" ");
            self.lines.insert((path.split("::").map(str::to_owned).collect(), line));
        }
    }
}

enum Subject {
    /// Ours, with its public path.
    Public(String),
    /// Ours, but nobody outside can name it.
    Private,
    Foreign,
}

/// All paths in a piece of syntax.
#[derive(Default)]
struct Paths(Vec<syn::Path>);

impl Visit<'_> for Paths {
    fn visit_path(&mut self, path: &syn::Path) {
        self.0.push(path.clone());
        syn::visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests;
