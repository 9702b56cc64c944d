//! Generation of the `impl Tool`, which both macros share.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Ident, LitStr};

use crate::documentation;
use crate::options::Options;

/// The name, title, description and settings of a tool, from its options and its doc comment.
pub(crate) struct Description {
    name: LitStr,
    /// Expression of type `Option<&str>` for the display name of the tool.
    title: TokenStream,
    /// Expression of type `&str` for the description.
    text: TokenStream,
    effect: Option<Ident>,
    runs_alone: bool,
    strict: bool,
}

impl Description {
    /// Creates a description from the options. `name` is the default name. The default description is the doc comment
    /// in `attributes`.
    ///
    /// Returns an error if vendors would reject the default name, or if there is no description.
    pub(crate) fn new(
        options: Options,
        name: LitStr,
        attributes: &[Attribute],
    ) -> syn::Result<Self> {
        let name = match options.name {
            // A name from the options was checked when the options were parsed.
            Some(name) => name,
            None => match crate::names::problem(&name.value()) {
                Some(problem) => {
                    let problem = format!("{problem}: give it one by `name = \"…\"`");
                    return Err(syn::Error::new(name.span(), problem));
                }
                None => name,
            },
        };
        let text = match options.description {
            Some(text) => Some(quote!(#text)),
            None => documentation::description(attributes),
        };
        let Some(text) = text else {
            return Err(syn::Error::new(
                name.span(),
                "a tool needs a description for the model: a doc comment, or `description = \"…\"`",
            ));
        };
        let title = match options.title {
            Some(title) => quote!(::core::option::Option::Some(#title)),
            None => quote!(::core::option::Option::None),
        };
        let Options { effect, runs_alone, strict, .. } = options;
        Ok(Self { name, title, text, effect, runs_alone, strict })
    }
}

/// Returns the identifier of the variable with the arguments of a call.
///
/// All uses must have the same span, because identifiers with different spans may be different variables. This happens
/// if a `macro_rules` macro generates the tool.
pub(crate) fn args() -> Ident {
    Ident::new("__args", Span::mixed_site())
}

/// Returns the identifier of the variable with the context of a call. See [`args`].
pub(crate) fn ctx() -> Ident {
    Ident::new("__ctx", Span::mixed_site())
}

/// The parts of a generated `impl Tool`.
pub(crate) struct ToolImpl<'a> {
    /// Path of `neuron_tool::macro_support`.
    pub(crate) support: &'a TokenStream,
    /// Name of the type that implements `Tool`.
    pub(crate) tool: &'a Ident,
    pub(crate) description: &'a Description,
    /// The type `Tool::Args`.
    pub(crate) args: TokenStream,
    /// The type `Tool::Output`.
    pub(crate) output: TokenStream,
    /// The type `Tool::Error`.
    pub(crate) error: TokenStream,
    /// Expression of the effect key. In this expression, the variable [`args`] is a reference to the arguments. `None`
    /// if the tool has no effect keys.
    pub(crate) effect_key: Option<TokenStream>,
    /// Expression of the call's result, which uses [`args`] and [`ctx`].
    pub(crate) call: TokenStream,
    /// The span at which the compiler reports errors about the future, for example that it is not `Send`.
    pub(crate) span: Span,
}

impl ToolImpl<'_> {
    /// Generates the `impl Tool`.
    pub(crate) fn expand(&self) -> TokenStream {
        let Self { support, tool, description, args, output, error, effect_key, call, span } = self;
        let Description { name, title, text, effect, runs_alone, strict } = description;
        let strict = strict.then(|| quote!(.strict()));
        let effect = effect.as_ref().map(|effect| {
            quote! {
                fn effect(&self) -> #support::ToolEffect {
                    #support::ToolEffect::#effect
                }
            }
        });
        let runs_alone = runs_alone.then(|| {
            quote! {
                fn runs_alone(&self) -> bool {
                    true
                }
            }
        });
        let (own_args, own_ctx) = (self::args(), ctx());
        let effect_key = effect_key.as_ref().map(|key| {
            quote_spanned! {*span=>
                fn effect_key(
                    &self,
                    #own_args: &Self::Args,
                ) -> ::core::option::Option<::std::string::String> {
                    #key
                }
            }
        });
        // With this span, the compiler reports a future that is not `Send` at the user's item.
        let call = quote_spanned! {*span=>
            async fn call(
                &self,
                #own_args: Self::Args,
                #own_ctx: &#support::ToolContext,
            ) -> ::core::result::Result<Self::Output, Self::Error> {
                #call
            }
        };
        quote! {
            impl #support::Tool for #tool {
                const NAME: &'static str = #name;
                type Args = #args;
                type Output = #output;
                type Error = #error;

                fn definition(&self) -> #support::ToolDefinition {
                    #support::definition::<Self>(#title, #text) #strict
                }

                #effect

                #effect_key

                #runs_alone

                #call
            }
        }
    }
}
