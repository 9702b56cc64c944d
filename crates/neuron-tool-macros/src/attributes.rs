//! Which of a function's or struct's attributes apply to what is made of it too. `#[cfg(…)]` is none
//! of them: the compiler heeds it before it calls the macros, wherever it stands.

use proc_macro2::TokenStream;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// The attributes, by their use.
pub(crate) struct Attributes<'a> {
    /// `#[doc(hidden)]`: for every item with a name.
    pub(crate) hidden: Vec<&'a Attribute>,
    /// `#[deprecated]`: for the tool, which is what others name.
    pub(crate) deprecated: Vec<&'a Attribute>,
    /// The lints that are allowed or expected, in a list.
    pub(crate) lints: TokenStream,
}

impl<'a> Attributes<'a> {
    /// Finds them. All stay where they are, too.
    pub(crate) fn of(attributes: &'a [Attribute]) -> Self {
        let is = |name| move |attribute: &&Attribute| attribute.path().is_ident(name);
        let mut lints = TokenStream::new();
        for attribute in
            attributes.iter().filter(is("allow")).chain(attributes.iter().filter(is("expect")))
        {
            let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
            // What is not a list is an error of the compiler's, on the function.
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
