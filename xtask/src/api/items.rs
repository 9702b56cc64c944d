//! The lines for one public item: itself, its fields, variants and associated items. Which items
//! are public, and by which name, is not known here.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Fields, FnArg, ImplItem, Item, ItemImpl, Meta, Signature, Token, TraitItem, Variant,
    Visibility,
};

use super::tokens;
use super::tree::{gates_of, is_hidden};

/// A line and the path that it is sorted by.
pub(super) type Line = (String, String);

/// Sorts the `impl` lines of a type between itself and its items.
pub(super) fn impl_key(path: &str) -> String {
    format!("{path}:: impl")
}

/// The lines for an item that is public as `path`.
pub(super) fn lines(item: &Item, path: &str) -> Vec<Line> {
    let name = spelled(path);
    let mut lines = Vec::new();
    let mut own = |tokens| lines.push((path.to_owned(), tokens::line(tokens)));
    match item {
        Item::Const(item) => {
            let (kept, ty) = (kept(&item.attrs), &item.ty);
            own(quote!(#kept pub const #name: #ty));
        }
        Item::Static(item) => {
            let (kept, mutability, ty) = (kept(&item.attrs), &item.mutability, &item.ty);
            own(quote!(#kept pub static #mutability #name: #ty));
        }
        Item::Fn(item) => {
            let signature = signature(&item.sig, &name);
            let kept = kept(&item.attrs);
            own(quote!(#kept pub #signature));
        }
        Item::Mod(item) => {
            let kept = kept(&item.attrs);
            own(quote!(#kept pub mod #name));
        }
        Item::Type(item) => {
            let (kept, generics, ty) = (kept(&item.attrs), &item.generics, &item.ty);
            let bounds = &generics.where_clause;
            own(quote!(#kept pub type #name #generics = #ty #bounds));
        }
        Item::Struct(item) => {
            let (kept, generics) = (kept(&item.attrs), &item.generics);
            let bounds = &generics.where_clause;
            let (public, all) = public_fields(&item.fields, path);
            // Whether others can build it by its fields is part of the surface.
            let rest = match &item.fields {
                Fields::Unit => quote!(;),
                _ if all => quote!(),
                _ => quote!({ .. }),
            };
            own(quote!(#kept pub struct #name #generics #bounds #rest));
            lines.extend(public);
            lines.extend(derived(&item.attrs, path));
        }
        Item::Enum(item) => {
            let (kept, generics) = (kept(&item.attrs), &item.generics);
            let bounds = &generics.where_clause;
            own(quote!(#kept pub enum #name #generics #bounds));
            let public = item.variants.iter().filter(|variant| !is_hidden(&variant.attrs));
            lines.extend(public.map(|variant| variant_line(variant, path)));
            lines.extend(derived(&item.attrs, path));
        }
        Item::Trait(item) => {
            let (kept, unsafety, generics) = (kept(&item.attrs), &item.unsafety, &item.generics);
            let bounds = &generics.where_clause;
            let supertraits = colon(&item.supertraits);
            own(quote!(#kept pub #unsafety trait #name #generics #supertraits #bounds));
            lines.extend(item.items.iter().filter_map(|item| trait_item(item, path)));
        }
        _ => {}
    }
    lines
}

/// The public associated items of an inherent `impl` for the type `owner`, which is written as
/// `ty` there.
pub(super) fn inherent(block: &ItemImpl, owner: &str, ty: &TokenStream) -> Vec<Line> {
    let mut lines = Vec::new();
    let generics = &block.generics;
    if !generics.params.is_empty() {
        let bounds = &generics.where_clause;
        lines.push((impl_key(owner), tokens::line(quote!(impl #generics #ty #bounds))));
    }
    let is_public = |vis: &Visibility| matches!(vis, Visibility::Public(_));
    for item in &block.items {
        let (name, tokens) = match item {
            ImplItem::Fn(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let (name, kept) = (&item.sig.ident, kept(&item.attrs));
                let signature = signature(&item.sig, &quote!(#ty::#name));
                (name, quote!(#kept pub #signature))
            }
            ImplItem::Const(item) if is_public(&item.vis) && !is_hidden(&item.attrs) => {
                let (name, kept, of) = (&item.ident, kept(&item.attrs), &item.ty);
                (name, quote!(#kept pub const #ty::#name: #of))
            }
            _ => continue,
        };
        lines.push((format!("{owner}::{name}"), tokens::line(tokens)));
    }
    lines
}

/// The line of a trait's `impl` for a type that is written as `ty`.
pub(super) fn implementation(block: &ItemImpl, ty: &TokenStream) -> String {
    let (kept, unsafety, generics) = (kept(&block.attrs), &block.unsafety, &block.generics);
    let bounds = &generics.where_clause;
    // The trait's name alone, as for derived ones: how the source imports it is no matter.
    let name = block.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    let of = name.map(|name| quote!(#name for));
    let types = block.items.iter().filter_map(|item| match item {
        ImplItem::Type(item) => {
            let (name, generics, ty) = (&item.ident, &item.generics, &item.ty);
            Some(quote!(type #name #generics = #ty;))
        }
        _ => None,
    });
    let types: TokenStream = types.collect();
    let types = if types.is_empty() { types } else { quote!({ #types }) };
    tokens::line(quote!(#kept #unsafety impl #generics #of #ty #bounds #types))
}

/// A path as tokens. Names can be keywords in no crate of ours; then the text stands for itself.
pub(super) fn spelled(path: &str) -> TokenStream {
    path.parse().unwrap_or_else(|_| path.to_token_stream())
}

/// The attributes that matter to users.
fn kept(attributes: &[Attribute]) -> TokenStream {
    const KEPT: [&str; 5] =
        ["cfg", "non_exhaustive", "proc_macro", "proc_macro_attribute", "proc_macro_derive"];
    let is_kept = |attribute: &&Attribute| KEPT.iter().any(|kept| attribute.path().is_ident(kept));
    attributes.iter().filter(is_kept).map(ToTokens::to_token_stream).collect()
}

fn signature(signature: &Signature, name: &TokenStream) -> TokenStream {
    let Signature { constness, asyncness, safety, abi, generics, output, .. } = signature;
    let bounds = &generics.where_clause;
    let inputs = signature.inputs.iter().map(|input| match input {
        FnArg::Receiver(receiver) => {
            // `mut self` is the same as `self` to a caller.
            let mut receiver = receiver.clone();
            receiver.mutability = None;
            receiver.attrs.clear();
            receiver.to_token_stream()
        }
        FnArg::Typed(input) => {
            let ty = &input.ty;
            match &*input.pat {
                syn::Pat::Ident(pattern) => {
                    let name = &pattern.ident;
                    quote!(#name: #ty)
                }
                _ => quote!(_: #ty),
            }
        }
    });
    quote!(#constness #asyncness #safety #abi fn #name #generics (#(#inputs),*) #output #bounds)
}

/// The lines of the public fields, and whether these are all.
fn public_fields(fields: &Fields, path: &str) -> (Vec<Line>, bool) {
    let mut lines = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if matches!(field.vis, Visibility::Public(_)) && !is_hidden(&field.attrs) {
            let name = field.ident.as_ref().map_or(index.to_string(), ToString::to_string);
            let (kept, ty) = (kept(&field.attrs), &field.ty);
            let (kept, ty) = (tokens::line(kept), tokens::line(quote!(#ty)));
            let path = format!("{path}::{name}");
            lines.push((path.clone(), format!("{kept} pub {path}: {ty}").trim_start().to_owned()));
        }
    }
    let all = lines.len() == fields.len();
    (lines, all)
}

fn variant_line(variant: &Variant, path: &str) -> Line {
    let path = format!("{path}::{}", variant.ident);
    let (kept, name) = (kept(&variant.attrs), spelled(&path));
    let fields = variant.fields.iter().map(|field| {
        let ty = &field.ty;
        field.ident.as_ref().map_or(quote!(#ty), |name| quote!(#name: #ty))
    });
    let fields = match &variant.fields {
        Fields::Named(_) => quote!({ #(#fields),* }),
        Fields::Unnamed(_) => quote!((#(#fields),*)),
        Fields::Unit => quote!(),
    };
    (path, tokens::line(quote!(#kept pub #name #fields)))
}

fn trait_item(item: &TraitItem, path: &str) -> Option<Line> {
    // What has a default need not be written by implementers.
    let (name, attributes, tokens) = match item {
        TraitItem::Fn(item) => {
            let name = &item.sig.ident;
            let signature = signature(&item.sig, &spelled(&format!("{path}::{name}")));
            let default = item.default.as_ref().map(|_| quote!({ .. }));
            (name, &item.attrs, quote!(pub #signature #default))
        }
        TraitItem::Const(item) => {
            let (name, ty) = (&item.ident, &item.ty);
            let path = spelled(&format!("{path}::{name}"));
            let default = item.default.as_ref().map(|_| quote!(= ..));
            (name, &item.attrs, quote!(pub const #path: #ty #default))
        }
        TraitItem::Type(item) => {
            let (name, generics, bounds) = (&item.ident, &item.generics, colon(&item.bounds));
            let path = spelled(&format!("{path}::{name}"));
            let default = item.default.as_ref().map(|(_, ty)| quote!(= #ty));
            let conditions = &generics.where_clause;
            (name, &item.attrs, quote!(pub type #path #generics #bounds #default #conditions))
        }
        _ => return None,
    };
    let kept = kept(attributes);
    let line = (format!("{path}::{name}"), tokens::line(quote!(#kept #tokens)));
    (!is_hidden(attributes)).then_some(line)
}

fn colon(bounds: &impl ToTokens) -> TokenStream {
    let bounds = bounds.to_token_stream();
    if bounds.is_empty() { bounds } else { quote!(: #bounds) }
}

/// The derived traits, in the form of written ones.
fn derived(attributes: &[Attribute], path: &str) -> Vec<Line> {
    let gate = gates_of(attributes).join(" ");
    let mut lines = Vec::new();
    let mut add = |meta: &Meta, gate: &str| {
        let Meta::List(list) = meta else { return };
        let traits = list.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated);
        for name in traits.iter().flatten().filter_map(|path| path.segments.last()) {
            let line = format!("{gate} impl {} for {path}", name.ident);
            lines.push((impl_key(path), line.trim_start().to_owned()));
        }
    };
    for attribute in attributes {
        if attribute.path().is_ident("derive") {
            add(&attribute.meta, &gate);
        } else if attribute.path().is_ident("cfg_attr")
            && let Ok(metas) =
                attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            && let Some(condition) = metas.first()
        {
            let gate = format!("{gate} {}", tokens::line(quote!(#[cfg(#condition)])));
            metas.iter().filter(|meta| meta.path().is_ident("derive")).for_each(|meta| {
                add(meta, &gate);
            });
        }
    }
    lines
}
