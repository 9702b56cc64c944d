//! Counts the lines of code of each package, for `cargo xtask sizes`.
//!
//! A line of code has at least one token that belongs neither to documentation nor to a test. Modules and items that are
//! compiled only for tests do not count, whatever their names are, and files outside of `src` do not count either.
//! Settings are the public methods `fn(self, …) -> Self` with at least one argument, in the listings of the API.

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Item, ItemMod};

use crate::api::{self, source};
use crate::workspace::{self, Package, Target};

/// The packages that test neuron and other packages. They have a bound of their own, because no user runs them.
const TOOLS: [&str; 5] = [
    "neuron-conformance",
    "neuron-conformance-durable",
    "neuron-testing",
    "neuron-testkit",
    "xtask",
];

/// Prints the lines of code, the lines of the listing and the settings of each package, and their sums.
pub(crate) fn print() -> Result<(), String> {
    let mut product = Size::default();
    let mut tools = Size::default();
    let listings = api::listings()?;
    println!("{:>7} {:>7} {:>8}  package", "code", "listing", "settings");
    for package in &workspace::members()?.packages {
        let is_tool = TOOLS.contains(&package.name.as_str());
        if !is_tool && !package.is_in_crates() {
            continue;
        }
        let file = package.folder().join("api.txt");
        let listing = listings.iter().find(|listing| file.ends_with(&listing.file));
        let size = Size {
            code: lines_of(package)?,
            listing: listing.map_or(0, |listing| listing.text.lines().count()),
            settings: listing.map_or(0, |listing| settings(&listing.text)),
        };
        size.print(&package.name);
        let sum = if is_tool { &mut tools } else { &mut product };
        *sum = sum.plus(size);
    }
    tools.print("all tools for tests");
    product.print("all other packages in crates/");
    tools.plus(product).print("all");
    Ok(())
}

#[derive(Debug, Default, Clone, Copy)]
struct Size {
    code: usize,
    listing: usize,
    settings: usize,
}

impl Size {
    fn plus(self, other: Self) -> Self {
        Self {
            code: self.code + other.code,
            listing: self.listing + other.listing,
            settings: self.settings + other.settings,
        }
    }

    fn print(self, name: &str) {
        let Self { code, listing, settings } = self;
        println!("{code:>7} {listing:>7} {settings:>8}  {name}");
    }
}

/// Counts the settings in the listing of a crate.
fn settings(listing: &str) -> usize {
    let is_setting = |line: &&str| line.contains("(self, ") && line.ends_with(" -> Self");
    listing.lines().filter(is_setting).count()
}

/// Counts the lines of code of a package's library and programs.
fn lines_of(package: &Package) -> Result<usize, String> {
    let is_code =
        |kind: &str| matches!(kind, "lib" | "bin" | "proc-macro" | "cdylib" | "staticlib");
    let targets =
        package.targets.iter().filter(|target| target.kind.iter().any(|kind| is_code(kind)));
    let count = |target: &Target| {
        let items = source::parse_file(&target.src_path)?;
        lines_of_items(&items, target.src_path.parent().unwrap_or(&target.src_path))
    };
    targets.map(count).sum()
}

/// Counts the lines of code of a file's items, and of the files of its child modules, which are in `folder`.
fn lines_of_items(items: &[Item], folder: &Path) -> Result<usize, String> {
    let mut lines = BTreeSet::new();
    let mut children = 0;
    for item in items {
        add_item(item, folder, &mut lines, &mut children)?;
    }
    Ok(lines.len() + children)
}

/// Adds the lines of an item to `lines`, and the number of lines in the files of its child modules to `children`.
fn add_item(
    item: &Item,
    folder: &Path,
    lines: &mut BTreeSet<usize>,
    children: &mut usize,
) -> Result<(), String> {
    let Item::Mod(module) = item else {
        add_lines(item.to_token_stream(), lines);
        return Ok(());
    };
    if source::is_for_tests(&module.attrs) {
        return Ok(());
    }
    let folder = folder.join(module.ident.to_string());
    add_lines(ItemMod { content: None, ..module.clone() }.to_token_stream(), lines);
    let Some((braces, items)) = &module.content else {
        *children += lines_of_items(&source::parse_module(&folder)?, &folder)?;
        return Ok(());
    };
    lines.insert(braces.span.close().end().line);
    items.iter().try_for_each(|item| add_item(item, &folder, lines, children))
}

/// Adds the lines of all tokens that are not documentation, and not an item for tests.
fn add_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                let is_inner = |next: &TokenTree| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '!');
                tokens.next_if(is_inner);
                let is_attribute = |next: &TokenTree| matches!(next, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket);
                let Some(TokenTree::Group(group)) = tokens.next_if(is_attribute) else {
                    lines.insert(sign.span().start().line);
                    continue;
                };
                if is_documentation(group.stream()) {
                    continue;
                }
                lines.insert(sign.span().start().line);
                add_lines(group.stream(), lines);
                lines.insert(group.span_close().end().line);
            }
            TokenTree::Group(group) => {
                lines.insert(group.span_open().start().line);
                add_lines(group.stream(), lines);
                lines.insert(group.span_close().end().line);
            }
            token => lines.extend(token.span().start().line..=token.span().end().line),
        }
    }
}

/// Returns `true` for the content of `#[doc = "…"]`, which is also the form of a documentation comment.
fn is_documentation(attribute: TokenStream) -> bool {
    let mut tokens = attribute.into_iter();
    let is_doc = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "doc");
    is_doc && matches!(tokens.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=')
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn count(text: &str) -> usize {
        let folder = std::env::temp_dir().join(format!("sizes-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("lib.rs");
        fs::write(&path, text).unwrap();
        let found = source::parse_file(&path).and_then(|items| lines_of_items(&items, &folder));
        fs::remove_dir_all(&folder).unwrap();
        found.unwrap()
    }

    #[test]
    fn only_code_counts() {
        assert_eq!(count(""), 0);
        assert_eq!(count("//! A\n\n// b\n/* c\n */\n"), 0);
        let function = "/// Doc.\n#[must_use]\nfn f() -> u8 {\n    // Reason.\n    1\n\n}\n";
        assert_eq!(count(function), 4);
        assert_eq!(count("const A: &str = \"a\nb\nc\";\n"), 3);
        assert_eq!(count("mod a {\n    //! Doc.\n    fn f() {}\n}\n"), 3);
        assert_eq!(count("struct A {\n    /// Doc.\n    b: u8,\n}\n"), 3);
    }

    #[test]
    fn modules_for_tests_do_not_count() {
        for gate in ["cfg(test)", "cfg(all(test, unix))"] {
            let text = format!("fn f() {{}}\n#[{gate}]\nmod checks {{\n    fn g() {{}}\n}}\n");
            assert_eq!(count(&text), 1, "{gate}");
        }
        assert_eq!(count("#[cfg(feature = \"test\")]\nmod a {\n    fn g() {}\n}\n"), 4);
    }

    #[test]
    fn settings_are_methods_that_take_and_return_the_value() {
        let listing = "pub fn a::B::c(self, d: u8) -> Self\npub fn a::B::e(self) -> Self\npub fn a::f(g: u8) -> u8\n";
        assert_eq!(settings(listing), 1);
    }
}
