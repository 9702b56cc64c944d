//! A collection of errors about the macro's input, so that the compiler reports all of them together.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The errors that have been found so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<Error>);

impl Diagnostics {
    /// Adds an error with a message at the position of these tokens.
    pub(crate) fn add(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.push(Error::new_spanned(tokens, message));
    }

    /// Adds an existing error.
    pub(crate) fn push(&mut self, error: Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            none => *none = Some(error),
        }
    }

    /// Calls `value` and returns its result if no errors were collected. Otherwise returns all collected errors as one
    /// error.
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
