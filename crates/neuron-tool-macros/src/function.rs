//! `#[neuron_tool]`: a tool from an async function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::{Attribute, Item, ItemFn, LitStr, ReturnType, Safety, Signature};

use crate::arguments::{self, Argument, Parameter, Static};
use crate::attributes::Attributes;
use crate::options::Options;
use crate::problems::Problems;
use crate::tool::{self, Description, ToolImpl};
use crate::{crate_path, documentation, names};

/// The function, and the tool that calls it; or the function and what is wrong with it.
pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Fn(function)) => function,
        Ok(_) | Err(_) => return not_a_function(&item),
    };
    let mut problems = Problems::default();
    let mut read = Options::default();
    if let Err(error) = syn::meta::parser(|meta| read.read(meta)).parse2(options) {
        problems.push(error);
    }
    let container = take_container_attributes(&mut function.attrs);
    check_signature(&function.sig, &mut problems);
    let parameters = arguments::take(function.sig.inputs.iter_mut(), &mut problems);
    let tool = problems.or(|| expand_tool(read, &function, &container, &parameters));
    // The function stays in any case, so that its callers are not wrong as well.
    let tool = tool.unwrap_or_else(|error| error.to_compile_error());
    // What these ask for is not the author's to give: a tool is `async` and has no generics, and its
    // documentation is the model's.
    quote! {
        #[allow(clippy::implicit_hasher, clippy::missing_errors_doc, clippy::unused_async)]
        #function
        #tool
    }
}

fn not_a_function(item: &TokenStream) -> TokenStream {
    let message = "`#[neuron_tool]` stands before an `async fn`; for a struct there is \
                   `#[derive(Tool)]`";
    let error = syn::Error::new(proc_macro2::Span::call_site(), message).to_compile_error();
    quote!(#error #item)
}

/// `#[serde(rename_all = "…")]` and the like, which are for the struct of arguments.
fn take_container_attributes(attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
    let is_container = |attribute: &mut Attribute| {
        ["serde", "schemars"].iter().any(|name| attribute.path().is_ident(name))
    };
    attributes.extract_if(.., is_container).collect()
}

fn check_signature(signature: &Signature, problems: &mut Problems) {
    if signature.asyncness.is_none() {
        problems.add(signature.fn_token, "a tool is an `async fn`");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        problems.add(token, "a tool is not `unsafe`: its arguments are a model's");
    }
    if let Some(abi) = &signature.abi {
        problems.add(abi, "a tool has Rust's own ABI");
    }
    if let Some(variadic) = &signature.variadic {
        problems.add(variadic, "a tool has a fixed number of arguments");
    }
    if !signature.generics.params.is_empty() {
        let message = "a tool has no generics: its arguments are described to the model, so their \
                       types are known";
        problems.add(&signature.generics.params, message);
    }
    if let Some(clause) = &signature.generics.where_clause {
        problems.add(clause.where_token, "a tool has no `where` clause");
    }
    match &signature.output {
        ReturnType::Default => {
            problems.add(&signature.ident, "a tool returns a `Result`, and this returns nothing");
        }
        ReturnType::Type(_, ty) => {
            let tokens = ty.to_token_stream();
            if let Some((tokens, what)) = arguments::unnameable(tokens, Static::Reference) {
                let message =
                    format!("{what} in the result of a tool, which is owned and has a name");
                problems.add(tokens, message);
            }
        }
    }
}

fn expand_tool(
    options: Options,
    function: &ItemFn,
    container: &[Attribute],
    parameters: &[Parameter],
) -> syn::Result<TokenStream> {
    let neuron_tool = crate_path::neuron_tool(options.crate_path.as_ref());
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
            let doc = documentation::own(attributes, &format!("The argument `{name}`."));
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
    // Where the compiler shows that it is no `Result`, or what its types do not implement.
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
        // The model is not told of our comment above.
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

/// Asks of each argument's type what serde and schemars will ask, in words that say what to do. Where
/// an attribute says otherwise, they may ask for less.
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
