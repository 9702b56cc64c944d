//! Doc comments as descriptions.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// An expression for the text of the doc comments, as schemars makes it of a field's: lines stay
/// lines. None if there is no text.
pub(crate) fn description(attributes: &[Attribute]) -> Option<TokenStream> {
    let lines: Vec<&Expr> = attributes.iter().filter_map(line).collect();
    let texts: Option<Vec<String>> = lines.iter().map(|line| text(line)).collect();
    if let Some(texts) = texts {
        let text = texts.join("\n");
        let text = text.trim();
        return (!text.is_empty()).then(|| quote!(#text));
    }
    // `#[doc = include_str!("…")]` has its text only when the macro in it is expanded.
    let lines = lines.iter().map(|line| match text(line) {
        Some(text) => quote!(#text),
        None => quote!(#line),
    });
    Some(quote!(::core::concat!(#(#lines, "\n"),*).trim()))
}

/// A comment for programmers on a field that has none, of which the model is not told. Allowing that
/// there is none would be an error where a crate forbids it.
pub(crate) fn own(attributes: &[Attribute], text: &str) -> Option<TokenStream> {
    if attributes.iter().any(|attribute| line(attribute).is_some()) {
        return None;
    }
    let describes = |attribute: &Attribute| {
        attribute.path().is_ident("schemars")
            && attribute.to_token_stream().to_string().contains("description")
    };
    let description =
        (!attributes.iter().any(describes)).then(|| quote!(#[schemars(description = "")]));
    Some(quote!(#[doc = #text] #description))
}

/// The value of `#[doc = …]`, which every line of a doc comment is.
fn line(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

/// A line's text, without the blank after `///`.
fn text(line: &Expr) -> Option<String> {
    match line {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let text = text.value();
            Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
        }
        _ => None,
    }
}
