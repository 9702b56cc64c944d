//! Creates the lines of one item in the listing of the public API. The lines are for its declaration, fields, variants and
//! associated items.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{
    Attribute, Fields, FnArg, Generics, ImplItem, ImplItemConst, ImplItemFn, Item, ItemConst,
    ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStatic, ItemStruct, ItemTrait, ItemType, Pat,
    PatIdent, Signature, TraitItem, TraitItemConst, TraitItemFn, TraitItemType, Variant,
};

use super::line::{self, Line};
use super::source::{is_hidden, is_public, with_gates};

/// Returns the lines in the listing of the public API for an item of `module`. A private or hidden item has no lines.
pub(super) fn lines(item: &Item, module: &str, gates: &[String]) -> Vec<Line> {
    let Some(own) = Declaration::of(item).filter(Declaration::is_listed) else {
        return Vec::new();
    };
    let path = format!("{module}::{}", own.name);
    let gates = with_gates(gates, own.attributes);
    let mut lines = vec![own.line(module, &spelled(module), &gates)];
    let members = match item {
        Item::Struct(item) => fields(&item.fields),
        Item::Enum(item) => item.variants.iter().map(variant).collect(),
        Item::Trait(item) => item.items.iter().filter_map(trait_item).collect(),
        _ => Vec::new(),
    };
    let members = members.iter().filter(|member| member.is_listed());
    lines.extend(members.map(|member| member.line(&path, &spelled(&path), &gates)));
    lines
}

/// Returns the lines in the listing of the public API for an `impl` block. They are the public items of the block, and
/// its head if the block has a trait or generics. For the `impl` of a trait, only the head and the associated types are
/// listed.
///
/// - `owner` is the path of the type or trait under which the lines are sorted.
/// - `ty` is the type as it is printed.
/// - `gates` are the `cfg` attributes that precede each line.
pub(super) fn implementation(
    block: &ItemImpl,
    owner: &str,
    ty: &TokenStream,
    gates: &[String],
) -> Vec<Line> {
    let (mut types, mut members) = (Vec::new(), Vec::new());
    for item in &block.items {
        match item {
            ImplItem::Fn(ImplItemFn { attrs, vis, sig, .. }) => {
                members.push(Declaration::of_fn(attrs, is_public(vis), sig));
            }
            ImplItem::Const(ImplItemConst { attrs, vis, ident, ty, .. }) => {
                let rest = quote!(: #ty);
                members.push(Declaration::new(attrs, is_public(vis), ident, quote!(const), rest));
            }
            ImplItem::Type(item) => {
                let (name, generics, ty) = (&item.ident, &item.generics, &item.ty);
                types.push(quote!(type #name #generics = #ty;));
            }
            _ => {}
        }
    }
    let members = members.iter().filter(|member| member.is_listed());
    let mut lines: Vec<Line> = members.map(|member| member.line(owner, ty, gates)).collect();
    let ItemImpl { unsafety, generics, .. } = block;
    let bounds = &generics.where_clause;
    // Only the last segment of the trait's path is printed. How the source imports the trait
    // makes no difference.
    let of = block.trait_.as_ref().and_then(|(path, _)| path.segments.last());
    let of = of.map(|name| quote!(#name for));
    if of.is_some() || !generics.params.is_empty() {
        let types = (!types.is_empty()).then(|| quote!({ #(#types)* }));
        let head = quote!(#unsafety impl #generics #of #ty #bounds #types);
        lines.push(Line::of_impl(owner, gates, head));
    }
    lines
}

/// Converts a path to tokens. A path that is not valid Rust becomes a string.
pub(super) fn spelled(path: &str) -> TokenStream {
    path.parse().unwrap_or_else(|_| path.to_token_stream())
}

/// The declaration of an item, a field, a variant or an associated item, split into the parts of its line.
pub(super) struct Declaration<'a> {
    attributes: &'a [Attribute],
    is_public: bool,
    pub(super) name: String,
    /// The tokens between `pub` and the name, such as `async fn`.
    keyword: TokenStream,
    /// The tokens after the name.
    rest: TokenStream,
}

impl<'a> Declaration<'a> {
    fn new(
        attributes: &'a [Attribute],
        is_public: bool,
        name: impl ToString,
        keyword: TokenStream,
        rest: TokenStream,
    ) -> Self {
        Self { attributes, is_public, name: name.to_string(), keyword, rest }
    }

    /// Returns the declaration of an item, or `None` for an `impl`, an import or a macro.
    pub(super) fn of(item: &'a Item) -> Option<Self> {
        let (attrs, vis, name, keyword, rest) = match item {
            Item::Const(ItemConst { attrs, vis, ident, ty, .. }) => {
                (attrs, vis, ident, quote!(const), quote!(: #ty))
            }
            Item::Static(ItemStatic { attrs, vis, mutability, ident, ty, .. }) => {
                (attrs, vis, ident, quote!(static #mutability), quote!(: #ty))
            }
            Item::Fn(ItemFn { attrs, vis, sig, .. }) => {
                return Some(Self::of_fn(attrs, is_public(vis), sig));
            }
            Item::Mod(ItemMod { attrs, vis, ident, .. }) => {
                (attrs, vis, ident, quote!(mod), quote!())
            }
            Item::Type(ItemType { attrs, vis, ident, generics, ty, .. }) => {
                (attrs, vis, ident, quote!(type), with_generics(generics, quote!(= #ty)))
            }
            Item::Struct(ItemStruct { attrs, vis, ident, generics, fields: all, .. }) => {
                let bounds = &generics.where_clause;
                // `{ .. }` marks a struct that users cannot create with a struct literal.
                let rest = match all {
                    Fields::Unit => quote!(;),
                    _ if fields(all).iter().all(Self::is_listed) => quote!(),
                    _ => quote!({ .. }),
                };
                (attrs, vis, ident, quote!(struct), quote!(#generics #bounds #rest))
            }
            Item::Enum(ItemEnum { attrs, vis, ident, generics, .. }) => {
                (attrs, vis, ident, quote!(enum), with_generics(generics, quote!()))
            }
            Item::Trait(item) => {
                let ItemTrait { unsafety, colon_token, supertraits, .. } = item;
                let rest = with_generics(&item.generics, quote!(#colon_token #supertraits));
                (&item.attrs, &item.vis, &item.ident, quote!(#unsafety trait), rest)
            }
            _ => return None,
        };
        Some(Self::new(attrs, is_public(vis), name, keyword, rest))
    }

    fn of_fn(attributes: &'a [Attribute], is_public: bool, signature: &Signature) -> Self {
        let Signature { constness, asyncness, safety, abi, ident, generics, output, .. } =
            signature;
        let inputs = signature.inputs.iter().map(|input| match input {
            FnArg::Receiver(receiver) => {
                // `mut self` is printed as `self`, because callers see no difference.
                let mut receiver = receiver.clone();
                receiver.mutability = None;
                receiver.to_token_stream()
            }
            FnArg::Typed(input) => {
                let ty = &input.ty;
                match &*input.pat {
                    Pat::Ident(PatIdent { ident, .. }) => quote!(#ident: #ty),
                    _ => quote!(_: #ty),
                }
            }
        });
        let keyword = quote!(#constness #asyncness #safety #abi fn);
        let rest = with_generics(generics, quote!((#(#inputs),*) #output));
        Self::new(attributes, is_public, ident, keyword, rest)
    }

    /// Returns `true` unless the item is private or hidden.
    pub(super) fn is_listed(&self) -> bool {
        self.is_public && !is_hidden(self.attributes)
    }

    /// Returns the line of the declaration. `owner` is the path of the module or type that contains it, and `shown` is
    /// this path as it is printed. `gates` are the `cfg` attributes of the module or type.
    fn line(&self, owner: &str, shown: &TokenStream, gates: &[String]) -> Line {
        const KEPT: [&str; 4] =
            ["non_exhaustive", "proc_macro", "proc_macro_attribute", "proc_macro_derive"];
        let Self { attributes, name, keyword, rest, .. } = self;
        let is_kept = |attribute: &&Attribute| KEPT.iter().any(|k| attribute.path().is_ident(k));
        let kept = attributes.iter().filter(is_kept);
        let path = spelled(&format!("{shown}::{name}"));
        let text = line::layout(quote!(#(#kept)* pub #keyword #path #rest));
        Line::new(&format!("{owner}::{name}"), &with_gates(gates, attributes), text)
    }
}

fn with_generics(generics: &Generics, middle: TokenStream) -> TokenStream {
    let bounds = &generics.where_clause;
    quote!(#generics #middle #bounds)
}

fn fields(fields: &Fields) -> Vec<Declaration<'_>> {
    let fields = fields.iter().enumerate().map(|(index, field)| {
        let (name, ty) = (field.ident.as_ref(), &field.ty);
        let name = name.map_or(index.to_string(), ToString::to_string);
        Declaration::new(&field.attrs, is_public(&field.vis), name, quote!(), quote!(: #ty))
    });
    fields.collect()
}

fn variant(variant: &Variant) -> Declaration<'_> {
    let mut fields = variant.fields.clone();
    fields.iter_mut().for_each(|field| field.attrs.clear());
    Declaration::new(&variant.attrs, true, &variant.ident, quote!(), quote!(#fields))
}

/// Returns the declaration of an associated item of a trait. The default of an item is printed as `..`. Returns `None`
/// for a macro call.
fn trait_item(item: &TraitItem) -> Option<Declaration<'_>> {
    Some(match item {
        TraitItem::Fn(TraitItemFn { attrs, sig, default, .. }) => {
            let mut function = Declaration::of_fn(attrs, true, sig);
            function.rest.extend(default.as_ref().map(|_| quote!({ .. })));
            function
        }
        TraitItem::Const(TraitItemConst { attrs, ident, ty, default, .. }) => {
            let default = default.as_ref().map(|_| quote!(= ..));
            Declaration::new(attrs, true, ident, quote!(const), quote!(: #ty #default))
        }
        TraitItem::Type(item) => {
            let TraitItemType { colon_token, bounds, default, .. } = item;
            let default = default.as_ref().map(|(_, ty)| quote!(= #ty));
            let rest = with_generics(&item.generics, quote!(#colon_token #bounds #default));
            Declaration::new(&item.attrs, true, &item.ident, quote!(type), rest)
        }
        _ => return None,
    })
}
