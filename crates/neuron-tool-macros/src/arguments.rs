//! Parsing of a tool function's parameters, which are arguments or the context.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Type, TypeReference};

use crate::diagnostics::Diagnostics;

/// A parameter of a tool function.
pub(crate) enum Parameter {
    /// The context, `&ToolContext`.
    Context,
    /// An argument of the tool, which the model supplies.
    Argument(Box<Argument>),
}

/// An argument of a tool function, which becomes a field of the generated struct of arguments.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// The attributes of the field, which are the doc comment and the attributes for serde, schemars and validation.
    pub(crate) attributes: Vec<Attribute>,
}

/// Names of the attributes that move from a parameter to its field. schemars reads `validate` and `garde`.
const FIELD: [&str; 5] = ["doc", "serde", "schemars", "validate", "garde"];

/// Names of the attributes that stay on a parameter, because the compiler accepts them there.
const LINTS: [&str; 5] = ["allow", "deny", "expect", "forbid", "warn"];

/// Parses the parameters of a function. Attributes that move to a field are removed from the function.
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
                    // A doc comment on the context is allowed and ignored. Other attributes would have no field.
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

/// Removes from a parameter the attributes that belong to the generated field, and returns them. Lint attributes stay
/// on the parameter. All other attributes are reported as errors.
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

/// Returns the name of an argument. Reports an error and returns `None` for a pattern that is not a plain name.
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

/// Returns `true` for a reference to a `ToolContext`, without a lifetime or with the lifetime `'_`.
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

/// Returns `true` for a type whose last path segment is `ToolContext`.
fn is_context_type(ty: &Type) -> bool {
    match ungroup(ty) {
        Type::Path(path) => {
            // A macro receives only tokens, not types. Therefore the context is recognised by its name.
            path.path.segments.last().is_some_and(|last| last.ident == "ToolContext")
        }
        _ => false,
    }
}

/// Removes parentheses around a type, and the invisible group that a `macro_rules` puts around a type.
fn ungroup(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungroup(&group.elem),
        Type::Paren(paren) => ungroup(&paren.elem),
        _ => ty,
    }
}

/// Reports an error if the type of an argument is borrowed, or cannot be named (such as `impl Trait`). Also reports an
/// error if the context has another type than `&ToolContext`.
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

/// The places where a type may use the lifetime `'static`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Static {
    /// Allowed only as a parameter of a type, such as `Cow<'static, str>`. This applies to arguments, which must be
    /// owned.
    Lifetime,
    /// Allowed as a parameter of a type, and also in a reference such as `&'static str`. This applies to results.
    Reference,
}

/// Finds a part of a type, such as a lifetime, that prevents its use as an associated type of the generated `impl`.
///
/// Returns the first token of this part, and a description for an error message. Returns `None` if there is no such
/// part.
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
                // A result may be a `&'static` reference. An argument must be owned.
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
