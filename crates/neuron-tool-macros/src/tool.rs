//! `impl Tool`, which is the same for a function and a struct.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Attribute, Ident, LitStr};

use crate::documentation;
use crate::options::Options;

/// What is known of a tool before it is written out.
pub(crate) struct Description {
    name: LitStr,
    title: TokenStream,
    text: TokenStream,
    effect: Option<Ident>,
    runs_alone: bool,
    strict: bool,
}

impl Description {
    /// Fills in for the options that were not given: `name` and the doc comments among the
    /// attributes.
    pub(crate) fn new(
        options: Options,
        name: LitStr,
        attributes: &[Attribute],
    ) -> syn::Result<Self> {
        let name = match options.name {
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

/// The arguments of the call. A name has one span wherever it stands: where the tool itself comes
/// from a `macro_rules`, two spans would be two names.
pub(crate) fn args() -> Ident {
    Ident::new("__args", Span::mixed_site())
}

/// The context of the call; see [`args`].
pub(crate) fn ctx() -> Ident {
    Ident::new("__ctx", Span::mixed_site())
}

/// The parts of an `impl Tool`.
pub(crate) struct ToolImpl<'a> {
    /// The path to `neuron-tool`'s support for these macros.
    pub(crate) support: &'a TokenStream,
    pub(crate) tool: &'a Ident,
    pub(crate) description: &'a Description,
    pub(crate) args: TokenStream,
    pub(crate) output: TokenStream,
    pub(crate) error: TokenStream,
    /// The key of the effect, from a reference to [`args`], if the tool can have keys.
    pub(crate) effect_key: Option<TokenStream>,
    /// The result, from [`args`] and [`ctx`].
    pub(crate) call: TokenStream,
    /// Where the compiler shows what is wrong with the future.
    pub(crate) span: Span,
}

impl ToolImpl<'_> {
    /// Writes it out.
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
