//! Conversion of doc comments to descriptions for the model.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns an expression for the text of the doc comments, or `None` if there is no text. Line breaks are kept, as
/// schemars does for fields.
pub(crate) fn description(attributes: &[Attribute]) -> Option<TokenStream> {
    let lines: Vec<&Expr> = attributes.iter().filter_map(line).collect();
    let texts: Option<Vec<String>> = lines.iter().map(|line| text(line)).collect();
    if let Some(texts) = texts {
        let text = texts.join("\n");
        let text = text.trim();
        return (!text.is_empty()).then(|| quote!(#text));
    }
    // At least one line is not a literal, as in `#[doc = include_str!("…")]`. Its text is not known before the inner
    // macro is expanded, so generate code that joins the lines.
    let lines = lines.iter().map(|line| match text(line) {
        Some(text) => quote!(#text),
        None => quote!(#line),
    });
    Some(quote!(::core::concat!(#(#lines, "\n"),*).trim()))
}

/// Returns attributes that give a field the doc comment `text`. Returns `None` if the field already has a doc comment.
///
/// The doc comment satisfies the lint `missing_docs`. The generated code cannot allow the lint, because a crate may
/// forbid it. The attributes also set an empty description, so that `text` does not appear in the schema.
pub(crate) fn field_doc(attributes: &[Attribute], text: &str) -> Option<TokenStream> {
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

/// Returns the value of an attribute `#[doc = …]`, or `None` for any other attribute. Each line of a doc comment is
/// such an attribute.
fn line(attribute: &Attribute) -> Option<&Expr> {
    match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => Some(&meta.value),
        _ => None,
    }
}

/// Returns the text of a line, without the space after `///`. Returns `None` if the value is not a string literal.
fn text(line: &Expr) -> Option<String> {
    match line {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => {
            let text = text.value();
            Some(text.strip_prefix(' ').unwrap_or(&text).to_owned())
        }
        _ => None,
    }
}
