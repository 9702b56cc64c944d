//! The path of `neuron-tool` in the user's crate.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, Path};

/// Returns the given path of `neuron-tool`, or looks it up in the manifest.
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
    // There is no manifest (with other build systems) or no entry, so let the compiler report the missing crate.
    quote!(::neuron_tool)
}

fn name_of(package: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        // Tests, examples and doctests of a crate are also `Itself` and use its name. The library `neuron-tool` itself
        // defines no tools.
        FoundCrate::Itself => package.replace('-', "_"),
    };
    syn::parse_str(&name).ok()
}
