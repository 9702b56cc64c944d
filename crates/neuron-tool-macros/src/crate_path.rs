//! The path of `neuron-tool` in the user's crate.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, Path};

/// Returns the path of `neuron-tool` for the generated code. If `given` is `None`, the path is derived from the
/// manifest of the user's crate.
pub(crate) fn neuron_tool(given: Option<&Path>) -> TokenStream {
    if let Some(path) = given {
        return quote!(#path);
    }
    if let Some(name) = name_of("neuron-tool") {
        return quote!(::#name);
    }
    if let Some(umbrella) = name_of("neuron") {
        return quote!(::#umbrella::tool);
    }
    // The manifest has no entry, or there is no manifest, as with other build systems. Let the compiler report the
    // missing crate.
    quote!(::neuron_tool)
}

/// Returns the name by which the user's crate refers to a package. Returns `None` if the crate does not depend on the
/// package.
fn name_of(package: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        // `Itself` also stands for tests, examples and doctests of the package, which refer to it by its name. The
        // library `neuron-tool` itself defines no tools.
        FoundCrate::Itself => package.replace('-', "_"),
    };
    syn::parse_str(&name).ok()
}
