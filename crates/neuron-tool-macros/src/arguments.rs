//! The parameters of a function, which are arguments or the context.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Type, TypeReference};

use crate::diagnostics::Diagnostics;

/// A parameter of the function.
pub(crate) enum Parameter {
    /// `&ToolContext`.
    Context,
    /// An argument from the model.
    Argument(Box<Argument>),
}

/// A field of the generated struct of arguments.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// The doc comment, and the attributes for serde, schemars and validation.
    pub(crate) attributes: Vec<Attribute>,
}

/// Attributes that move to the field. Schemars reads `validate` and `garde`.
const FIELD: [&str; 5] = ["doc", "serde", "schemars", "validate", "garde"];

/// Attributes that the compiler accepts on a parameter.
const LINTS: [&str; 5] = ["allow", "deny", "expect", "forbid", "warn"];

/// Parses the parameters, and leaves only the attributes for parameters in the function.
pub(crate) fn take<'a>(
    parameters: impl Iterator<Item = &'a mut FnArg>,
    diagnostics: &mut Diagnostics,
) -> Vec<Parameter> {
    let mut taken = Vec::new();
    let mut has_context = false;
    for parameter in parameters {
        match parameter {
            FnArg::Receiver(receiver) => {
                let message = "a tool has no `self`: move the function out of its `impl`, and hand \
                               state to it in `ToolContext::extensions`; or implement `Tool` for a \
                               struct that has the state";
                diagnostics.add(receiver, message);
            }
            FnArg::Typed(typed) if is_context(&typed.ty) => {
                if has_context {
                    diagnostics.add(&typed.ty, "the context is here twice");
                }
                has_context = true;
                for attribute in split_attributes(typed, diagnostics) {
                    if !attribute.path().is_ident("doc") {
                        let message = "the context is no argument of the model's";
                        diagnostics.add(attribute.path(), message);
                    }
                }
                taken.push(Parameter::Context);
            }
            FnArg::Typed(typed) => {
                let attributes = split_attributes(typed, diagnostics);
                check_type(&typed.ty, diagnostics);
                if let Some(name) = name(&typed.pat, diagnostics) {
                    let ty = Type::clone(&typed.ty);
                    let argument = Argument { name, ty, attributes };
                    taken.push(Parameter::Argument(Box::new(argument)));
                }
            }
        }
    }
    taken
}

/// Removes the attributes for the field and returns them. Lints stay on the parameter.
fn split_attributes(parameter: &mut PatType, diagnostics: &mut Diagnostics) -> Vec<Attribute> {
    let is_one_of = |attribute: &Attribute, names: &[&str]| {
        names.iter().any(|name| attribute.path().is_ident(name))
    };
    let mut field = Vec::new();
    for attribute in std::mem::take(&mut parameter.attrs) {
        if is_one_of(&attribute, &FIELD) {
            field.push(attribute);
        } else if is_one_of(&attribute, &LINTS) {
            parameter.attrs.push(attribute);
        } else {
            let message = "an argument of a tool takes doc comments, lints, and the attributes \
                           `serde`, `schemars`, `validate` and `garde`";
            diagnostics.add(attribute.path(), message);
        }
    }
    field
}

/// Returns the name of an argument.
fn name(pattern: &Pat, diagnostics: &mut Diagnostics) -> Option<Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Some(pattern.ident.clone())
        }
        _ => {
            let message = "an argument of a tool has a plain name, by which the model gives it";
            diagnostics.add(pattern, message);
            None
        }
    }
}

fn is_context(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Reference(TypeReference { lifetime: None, mutability: None, elem, .. }) => {
            is_context_type(elem)
        }
        Type::Reference(TypeReference {
            lifetime: Some(lifetime), mutability: None, elem, ..
        }) => lifetime.ident == "_" && is_context_type(elem),
        _ => false,
    }
}

fn is_context_type(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Path(path) => {
            // A macro sees tokens and no types, so the context is recognised by its name.
            path.path.segments.last().is_some_and(|last| last.ident == "ToolContext")
        }
        _ => false,
    }
}

/// Removes the invisible group that a `macro_rules` puts around a type.
fn ungroup(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungroup(&group.elem),
        Type::Paren(paren) => ungroup(&paren.elem),
        _ => ty,
    }
}

fn check_type(ty: &Type, diagnostics: &mut Diagnostics) {
    let referred = match ungroup(ty) {
        Type::Reference(reference) => &reference.elem,
        _ => ty,
    };
    if is_context_type(referred) {
        diagnostics.add(ty, "the context is borrowed, without a lifetime: `&ToolContext`");
    } else if let Some((tokens, what)) = unnameable(ty.to_token_stream(), Static::Lifetime) {
        let message = format!(
            "{what} in an argument: arguments are made from the model's JSON, so they are owned, of \
             a type that has a name (only the context is borrowed, as `&ToolContext`)"
        );
        diagnostics.add(tokens, message);
    }
}

/// The use of `'static` that a type may have.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Static {
    /// `Cow<'static, str>`, which can be deserialised from JSON.
    Lifetime,
    /// `&'static str` too.
    Reference,
}

/// Finds the first token that cannot occur in an associated type without generics.
pub(crate) fn unnameable(
    tokens: TokenStream,
    allowed: Static,
) -> Option<(TokenTree, &'static str)> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == '&' => {
                let is_lifetime = matches!(
                    tokens.peek(), Some(TokenTree::Punct(next)) if next.as_char() == '\''
                );
                // A result may be a `&'static`, but an argument is owned.
                if allowed == Static::Lifetime || !is_lifetime {
                    return Some((token, "a reference"));
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                if let Some(TokenTree::Ident(lifetime)) = tokens.next()
                    && lifetime != "static"
                {
                    return Some((TokenTree::Ident(lifetime), "a lifetime"));
                }
            }
            TokenTree::Ident(ident) if ident == "impl" => {
                return Some((token, "`impl`"));
            }
            TokenTree::Group(group) => {
                if let Some(found) = unnameable(group.stream(), allowed) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}
