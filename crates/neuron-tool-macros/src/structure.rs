//! The macro `#[derive(Tool)]`, which turns a struct of arguments into a tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::{Attribute, Data, DeriveInput, Fields, FieldsNamed, LitStr, Meta, Token};

use crate::arguments::{self, Static};
use crate::attributes::Attributes;
use crate::diagnostics::Diagnostics;
use crate::names;
use crate::options::Options;
use crate::tool::{self, Description, ToolImpl};

/// Expands `#[derive(Tool)]`. Returns the tool, or compile errors.
pub(crate) fn expand(default_path: TokenStream, item: TokenStream) -> TokenStream {
    let input = match syn::parse2::<DeriveInput>(item) {
        Ok(input) => input,
        Err(error) => return error.to_compile_error(),
    };
    let mut diagnostics = Diagnostics::default();
    let mut options = Options { default_path, ..Options::default() };
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("tool")) {
        if let Err(error) = attribute.parse_nested_meta(|meta| options.read(meta)) {
            diagnostics.push(error);
        }
    }
    check_generics(&input, &mut diagnostics);
    check_fields(&input, &mut diagnostics);
    let tool = diagnostics.or(|| expand_tool(options, &input, named_fields(&input)?));
    tool.unwrap_or_else(|error| error.to_compile_error())
}

/// Reports generic parameters and `where` clauses, which a struct of arguments cannot have.
fn check_generics(input: &DeriveInput, diagnostics: &mut Diagnostics) {
    if !input.generics.params.is_empty() {
        let message = "a tool's arguments have no generics: they are described to the model, so \
                       their types are known";
        diagnostics.add(&input.generics.params, message);
    }
    if let Some(clause) = &input.generics.where_clause {
        diagnostics.add(clause.where_token, "a tool's arguments have no `where` clause");
    }
}

/// Reports fields whose types are not owned.
fn check_fields(input: &DeriveInput, diagnostics: &mut Diagnostics) {
    let Data::Struct(data) = &input.data else {
        return;
    };
    // Do not check a field with a serde attribute, which may skip the field or deserialise it in another way.
    let plain = data.fields.iter().filter(|field| !field.attrs.iter().any(is_serde));
    for field in plain {
        if let Some((tokens, what)) =
            arguments::unnameable(field.ty.to_token_stream(), Static::Lifetime)
        {
            let message = format!(
                "{what} in an argument: arguments are made from the model's JSON, so they are owned"
            );
            diagnostics.add(tokens, message);
        }
    }
}

/// Returns the named fields of a struct. Returns an error for any other item.
fn named_fields(input: &DeriveInput) -> syn::Result<&FieldsNamed> {
    let (tokens, hint) = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => return Ok(fields),
            Fields::Unit => (input.ident.to_token_stream(), "; without any, write `{}` for `;`"),
            Fields::Unnamed(fields) => (fields.to_token_stream(), ""),
        },
        Data::Enum(data) => (data.enum_token.to_token_stream(), ""),
        Data::Union(data) => (data.union_token.to_token_stream(), ""),
    };
    let message = format!(
        "a tool's arguments are a struct with named fields, as the model gives them by name{hint}"
    );
    Err(syn::Error::new_spanned(tokens, message))
}

/// Generates the tool, the implementations of `Tool` for the tool and for the struct, and the deserialisation.
fn expand_tool(
    options: Options,
    input: &DeriveInput,
    fields: &FieldsNamed,
) -> syn::Result<TokenStream> {
    let neuron_tool = options.neuron_tool();
    let support = quote!(#neuron_tool::macro_support);
    let name = &input.ident;
    let tool = names::item(name, "Tool");
    let visibility = &input.vis;
    let default_name = LitStr::new(&names::snake_case(name), name.span());
    let description = Description::new(options, default_name, &input.attrs)?;
    let Attributes { hidden, deprecated, lints } = Attributes::of(&input.attrs);

    let (args, ctx) = (tool::args(), tool::ctx());
    let span = name.span();
    let run = quote_spanned!(span=> <#name as #neuron_tool::RunTool>);
    let implementation = ToolImpl {
        support: &support,
        tool: &tool,
        description: &description,
        args: quote_spanned!(span=> #support::Parsed<#name>),
        output: quote_spanned!(span=> #run::Output),
        error: quote_spanned!(span=> #run::Error),
        effect_key: Some(quote_spanned!(span=> #run::effect_key(&#args.0))),
        call: quote_spanned!(span=> #run::run(#args.0, #ctx).await),
        span,
    }
    .expand();
    // The struct of arguments implements `Tool` too. All its methods call the methods of the generated unit struct.
    let same = quote_spanned! {span=>
        #[allow(deprecated, #lints)]
        #[automatically_derived]
        impl #support::Tool for #name {
            const NAME: &'static str = <#tool as #support::Tool>::NAME;
            type Args = <#tool as #support::Tool>::Args;
            type Output = <#tool as #support::Tool>::Output;
            type Error = <#tool as #support::Tool>::Error;

            fn definition(&self) -> #support::ToolDefinition {
                #support::Tool::definition(&#tool)
            }

            fn effect(&self) -> #support::ToolEffect {
                #support::Tool::effect(&#tool)
            }

            fn effect_key(
                &self,
                #args: &Self::Args,
            ) -> ::core::option::Option<::std::string::String> {
                #support::Tool::effect_key(&#tool, #args)
            }

            fn runs_alone(&self) -> bool {
                #support::Tool::runs_alone(&#tool)
            }

            async fn call(
                &self,
                #args: Self::Args,
                #ctx: &#support::ToolContext,
            ) -> ::core::result::Result<Self::Output, Self::Error> {
                #support::Tool::call(&#tool, #args, #ctx).await
            }
        }
    };
    let parse = parse(&support, input, fields);
    let tool_doc = format!("The tool that runs [`{name}`](struct@{name}).");
    Ok(quote! {
        #(#hidden)* #(#deprecated)*
        #[doc = #tool_doc]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default)]
        #[allow(#lints)]
        #visibility struct #tool;

        #[allow(deprecated, #lints)]
        #[automatically_derived]
        #implementation

        #same

        #parse
    })
}

/// Generates the deserialisation of the struct, as an implementation of `Parse`.
///
/// The code derives serde's `Deserialize` with `#[serde(remote)]` for a copy of the struct. Therefore the struct itself
/// need not derive `Deserialize`, but may.
fn parse(support: &TokenStream, input: &DeriveInput, fields: &FieldsNamed) -> TokenStream {
    let name = &input.ident;
    let remote = name.to_string();
    let container = input.attrs.iter().filter(|attribute| is_serde(attribute));
    let fields = fields.named.iter().map(|field| {
        let (name, ty) = (&field.ident, &field.ty);
        let attributes = field.attrs.iter().filter(|attribute| is_serde(attribute));
        quote!(#(#attributes)* #name: #ty)
    });
    let names_serde = input.attrs.iter().filter(|attribute| is_serde(attribute)).any(names_crate);
    let serde = (!names_serde).then(|| {
        let serde = format!("{support}::serde").replace(' ', "");
        quote!(#[serde(crate = #serde)])
    });
    quote! {
        const _: () = {
            #[derive(#support::serde::Deserialize)]
            #serde
            // If the struct has `#[serde(default)]`, serde would require `Default` for the copy. The empty `bound`
            // removes this requirement.
            #[serde(remote = #remote, bound(deserialize = ""))]
            #(#container)*
            #[allow(dead_code, deprecated, non_snake_case)]
            struct __Remote { #(#fields),* }

            #[automatically_derived]
            #[allow(deprecated)]
            impl #support::Parse for #name {
                fn parse<'de, D: #support::serde::Deserializer<'de>>(
                    __deserializer: D,
                ) -> ::core::result::Result<Self, D::Error> {
                    __Remote::deserialize(__deserializer)
                }
            }
        };
    }
}

/// Returns `true` for an attribute `#[serde(…)]`.
fn is_serde(attribute: &Attribute) -> bool {
    attribute.path().is_ident("serde")
}

/// Returns `true` if an attribute `#[serde(…)]` contains `crate = …`.
fn names_crate(attribute: &Attribute) -> bool {
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    // Ignore an invalid attribute, which serde reports.
    let metas = attribute.parse_args_with(parser).unwrap_or_default();
    metas.iter().any(|meta| meta.path().is_ident("crate"))
}
