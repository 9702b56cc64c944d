//! What the user's crate calls `neuron-tool`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Ident, Path};

/// The path to `neuron-tool`: the one that was given, or what the manifest says.
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
    // Without a manifest (other build systems) or an entry: the compiler will say what is missing.
    quote!(::neuron_tool)
}

fn name_of(package: &str) -> Option<Ident> {
    let name = match crate_name(package).ok()? {
        FoundCrate::Name(name) => name,
        // Its tests, examples and documentation look alike from here, and have its name. The library
        // itself makes no tools.
        FoundCrate::Itself => package.replace('-', "_"),
    };
    syn::parse_str(&name).ok()
}
