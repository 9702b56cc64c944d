//! Collected errors about the input, reported together.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::Error;

/// The errors so far.
#[derive(Default)]
pub(crate) struct Diagnostics(Option<Error>);

impl Diagnostics {
    /// Adds an error at these tokens.
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

    /// Returns the value if there are no errors. Otherwise returns all errors.
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
