//! Attributes of a function or struct that are copied to the generated items.
//!
//! `#[cfg(…)]` need not be copied, because the compiler evaluates it before it calls the macros.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// The attributes to copy to the generated items, by purpose.
pub(crate) struct Attributes<'a> {
    /// The attribute `#[doc(hidden)]`, for every generated item with a name.
    pub(crate) hidden: Vec<&'a Attribute>,
    /// The attribute `#[deprecated]`, for the generated tool, which is the only generated item that users name.
    pub(crate) deprecated: Vec<&'a Attribute>,
    /// The lints that the original item allows or expects, as a comma-separated list for `#[allow(…)]`.
    pub(crate) lints: TokenStream,
}

impl<'a> Attributes<'a> {
    /// Collects the attributes to copy from the original item, which keeps them.
    pub(crate) fn of(attributes: &'a [Attribute]) -> Self {
        let is = |name| move |attribute: &&Attribute| attribute.path().is_ident(name);
        let mut lints = TokenStream::new();
        for attribute in
            attributes.iter().filter(is("allow")).chain(attributes.iter().filter(is("expect")))
        {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            // Ignore an attribute that is not a list. The compiler reports it on the original item.
            for lint in attribute.parse_args_with(parser).unwrap_or_default() {
                if let Meta::Path(lint) = lint {
                    lints.extend(quote!(#lint,));
                }
            }
        }
        Self {
            hidden: attributes.iter().filter(is_hidden).collect(),
            deprecated: attributes.iter().filter(is("deprecated")).collect(),
            lints,
        }
    }
}

/// Returns `true` for `#[doc(hidden)]`.
fn is_hidden(attribute: &&Attribute) -> bool {
    attribute.path().is_ident("doc")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden")
}
