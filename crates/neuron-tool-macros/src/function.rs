//! The macro `#[neuron_tool]`, which turns an async function into a tool.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Attribute, Item, ItemFn, LitStr, ReturnType, Safety, Signature};

use crate::arguments::{self, Argument, Parameter, Static};
use crate::attributes::Attributes;
use crate::diagnostics::Diagnostics;
use crate::options::Options;
use crate::tool::{self, Description, ToolImpl};
use crate::{documentation, names};

/// Expands `#[neuron_tool]`. Returns the function followed by its tool, or by compile errors.
pub(crate) fn expand(
    default_path: TokenStream,
    options: TokenStream,
    item: TokenStream,
) -> TokenStream {
    let mut function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => function,
        Ok(_) | Err(_) => return not_a_function(&item),
    };
    let mut diagnostics = Diagnostics::default();
    let mut read = Options { default_path, ..Options::default() };
    if let Err(error) = syn::meta::parser(|meta| read.read(meta)).parse2(options) {
        diagnostics.push(error);
    }
    let container = take_container_attributes(&mut function.attrs);
    check_signature(&function.sig, &mut diagnostics);
    let parameters = arguments::take(function.sig.inputs.iter_mut(), &mut diagnostics);
    let tool = diagnostics.or(|| expand_tool(read, &function, &container, &parameters));
    // After an error, still return the function, so that its callers do not report further errors.
    let tool = tool.unwrap_or_else(|error| error.to_compile_error());
    // The author of a tool cannot comply with these lints. A tool must be `async` without generics, and its
    // documentation is for the model.
    quote! {
        #[allow(clippy::implicit_hasher, clippy::missing_errors_doc, clippy::unused_async)]
        #function
        #tool
    }
}

/// Returns the item followed by the error that it is not a function.
fn not_a_function(item: &TokenStream) -> TokenStream {
    let message = "`#[neuron_tool]` stands before an `async fn`; for a struct there is \
                   `#[derive(Tool)]`";
    let error = syn::Error::new(proc_macro2::Span::call_site(), message).to_compile_error();
    quote!(#error #item)
}

/// Removes the serde and schemars attributes from a function and returns them. They apply to the struct of arguments.
fn take_container_attributes(attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
    let is_container = |attribute: &mut Attribute| {
        ["serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
    };
    attributes.extract_if(.., is_container).collect()
}

/// Reports all parts of a signature that a tool cannot have.
fn check_signature(signature: &Signature, diagnostics: &mut Diagnostics) {
    if signature.asyncness.is_none() {
        diagnostics.add(signature.fn_token, "a tool is an `async fn`");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        diagnostics.add(token, "a tool is not `unsafe`: its arguments are a model's");
    }
    if let Some(abi) = &signature.abi {
        diagnostics.add(abi, "a tool has Rust's own ABI");
    }
    if let Some(variadic) = &signature.variadic {
        diagnostics.add(variadic, "a tool has a fixed number of arguments");
    }
    if !signature.generics.params.is_empty() {
        let message = "a tool has no generics: its arguments are described to the model, so their \
                       types are known";
        diagnostics.add(&signature.generics.params, message);
    }
    if let Some(clause) = &signature.generics.where_clause {
        diagnostics.add(clause.where_token, "a tool has no `where` clause");
    }
    match &signature.output {
        ReturnType::Default => {
            diagnostics
                .add(&signature.ident, "a tool returns a `Result`, and this returns nothing");
        }
        ReturnType::Type(_, ty) => {
            let tokens = ty.to_token_stream();
            if let Some((tokens, what)) = arguments::unnameable(tokens, Static::Reference) {
                let message =
                    format!("{what} in the result of a tool, which is owned and has a name");
                diagnostics.add(tokens, message);
            }
        }
    }
}

/// Generates the struct of arguments, the tool and its implementation.
fn expand_tool(
    options: Options,
    function: &ItemFn,
    container: &[Attribute],
    parameters: &[Parameter],
) -> syn::Result<TokenStream> {
    let neuron_tool = options.neuron_tool();
    let support = quote!(#neuron_tool::macro_support);
    let name = &function.sig.ident;
    let [tool, args] = ["Tool", "Args"].map(|suffix| names::item(name, suffix));
    let visibility = &function.vis;
    let default_name = LitStr::new(&syn::ext::IdentExt::unraw(name).to_string(), name.span());
    let description = Description::new(options, default_name, &function.attrs)?;
    let Attributes { hidden, deprecated, lints } = Attributes::of(&function.attrs);

    let fields = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Context => None,
        Parameter::Argument(argument) => {
            let Argument { name, ty, attributes } = &**argument;
            let doc = documentation::field_doc(attributes, &format!("The argument `{name}`."));
            Some(quote!(#(#attributes)* #doc #visibility #name: #ty))
        }
    });
    let (own_args, own_ctx) = (tool::args(), tool::ctx());
    let values = parameters.iter().map(|parameter| match parameter {
        Parameter::Context => quote!(#own_ctx),
        Parameter::Argument(argument) => {
            let name = &argument.name;
            quote!(#own_args.#name)
        }
    });
    let result = match &function.sig.output {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    };
    // The compiler reports errors about the result type at this span, for example that it is not a `Result`.
    let span = result.span();
    let as_result = quote_spanned!(span=> <#result as #support::ToolResult>);
    let implementation = ToolImpl {
        support: &support,
        tool: &tool,
        description: &description,
        args: quote!(#args),
        output: quote_spanned!(span=> #as_result::Output),
        error: quote_spanned!(span=> #as_result::Error),
        effect_key: None,
        call: quote_spanned!(span=> #as_result::into_result(#name(#(#values),*).await)),
        span: name.span(),
    }
    .expand();

    let checks = argument_checks(&support, container, parameters);
    let serde = format!("{support}::serde").replace(' ', "");
    let schemars = format!("{support}::schemars").replace(' ', "");
    let args_doc = format!("The arguments of [`{tool}`].");
    let tool_doc = format!("The tool that calls [`{name}`](fn@{name}).");
    Ok(quote! {
        #[allow(deprecated, #lints)]
        const _: () = { #(#checks)* };

        #(#hidden)*
        #[doc = #args_doc]
        #[derive(#support::serde::Deserialize, #support::schemars::JsonSchema)]
        // The empty description keeps the generated doc comment out of the schema.
        #[serde(crate = #serde)]
        #[schemars(crate = #schemars, description = "")]
        #(#container)*
        #[allow(missing_debug_implementations, non_snake_case, clippy::pub_underscore_fields, #lints)]
        #visibility struct #args { #(#fields),* }

        #(#hidden)* #(#deprecated)*
        #[doc = #tool_doc]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug, ::core::default::Default)]
        #[allow(#lints)]
        #visibility struct #tool;

        #[allow(deprecated, #lints)]
        #[automatically_derived]
        #implementation
    })
}

/// Generates code that checks the type of each argument.
///
/// An unsuitable type would also break a bound of serde or schemars, but the error message of a check explains the fix.
/// Arguments with attributes are not checked, because attributes may make a bound unnecessary.
fn argument_checks(
    support: &TokenStream,
    container: &[Attribute],
    parameters: &[Parameter],
) -> Vec<TokenStream> {
    let is_plain = |argument: &Argument| {
        container.is_empty() && argument.attributes.iter().all(|a| a.path().is_ident("doc"))
    };
    let types = parameters.iter().filter_map(|parameter| match parameter {
        Parameter::Argument(argument) if is_plain(argument) => Some(&argument.ty),
        _ => None,
    });
    types.map(|ty| quote_spanned!(ty.span()=> #support::is_argument::<#ty>();)).collect()
}
