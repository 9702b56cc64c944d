//! What is wrong with the input: everything is said at once.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// Errors so far.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    /// Adds an error that points at these tokens.
    pub(crate) fn add(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Adds an error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// The value, or all errors so far.
    pub(crate) fn or(
        self,
        value: impl FnOnce() -> syn::Result<TokenStream>,
    ) -> syn::Result<TokenStream> {
        match self.0 {
            Some(error) => Err(error),
            None => value(),
        }
    }
}
