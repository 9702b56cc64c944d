//! Attributes of a function or struct that also apply to the generated items. `#[cfg(…)]` is not among them, because
//! the compiler evaluates it before it calls the macros.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// The attributes by purpose.
pub(crate) struct Attributes<'a> {
    /// `#[doc(hidden)]`, for every generated item with a name.
    pub(crate) hidden: Vec<&'a Attribute>,
    /// `#[deprecated]`, for the tool, which is the item that other code uses.
    pub(crate) deprecated: Vec<&'a Attribute>,
    /// The allowed or expected lints, as a list.
    pub(crate) lints: TokenStream,
}

impl<'a> Attributes<'a> {
    /// Collects the attributes. They also stay on the original item.
    pub(crate) fn of(attributes: &'a [Attribute]) -> Self {
        let is = |name| move |attribute: &&Attribute| attribute.path().is_ident(name);
        let mut lints = TokenStream::new();
        for attribute in
            attributes.iter().filter(is("allow")).chain(attributes.iter().filter(is("expect")))
        {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            // The compiler reports an attribute that is not a list, on the function.
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

fn is_hidden(attribute: &&Attribute) -> bool {
    attribute.path().is_ident("doc")
        && attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden")
}
