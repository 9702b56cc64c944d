//! A function's parameters: which are arguments, and which is the context.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, FnArg, Ident, Pat, PatType, Type, TypeReference};

use crate::problems::Problems;

/// One parameter of the function.
pub(crate) enum Parameter {
    /// `&ToolContext`.
    Context,
    /// What the model gives.
    Argument(Box<Argument>),
}

/// A field of the arguments' struct.
pub(crate) struct Argument {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    /// The doc comment, and the attributes of those who make a schema of the field or read it.
    pub(crate) attributes: Vec<Attribute>,
}

/// Attributes of a field. `validate` and `garde` are read by schemars.
const FIELD: [&str; 5] = ["doc", "serde", "schemars", "validate", "garde"];

/// Attributes that the compiler takes on a parameter.
const LINTS: [&str; 5] = ["allow", "deny", "expect", "forbid", "warn"];

/// Takes the parameters apart, and leaves in the function only those attributes that may be there.
pub(crate) fn take<'a>(
    parameters: impl Iterator<Item = &'a mut FnArg>,
    problems: &mut Problems,
) -> Vec<Parameter> {
    let mut taken = Vec::new();
    let mut has_context = false;
    for parameter in parameters {
        match parameter {
            FnArg::Receiver(receiver) => {
                let message = "a tool has no `self`: move the function out of its `impl`, and hand \
                               state to it in `ToolContext::extensions`; or implement `Tool` for a \
                               struct that has the state";
                problems.add(receiver, message);
            }
            FnArg::Typed(typed) if is_context(&typed.ty) => {
                if has_context {
                    problems.add(&typed.ty, "the context is here twice");
                }
                has_context = true;
                for attribute in split_attributes(typed, problems) {
                    if !attribute.path().is_ident("doc") {
                        let message = "the context is no argument of the model's";
                        problems.add(attribute.path(), message);
                    }
                }
                taken.push(Parameter::Context);
            }
            FnArg::Typed(typed) => {
                let attributes = split_attributes(typed, problems);
                check_type(&typed.ty, problems);
                if let Some(name) = name(&typed.pat, problems) {
                    let ty = Type::clone(&typed.ty);
                    let argument = Argument { name, ty, attributes };
                    taken.push(Parameter::Argument(Box::new(argument)));
                }
            }
        }
    }
    taken
}

/// The attributes for the field; those for the parameter stay.
fn split_attributes(parameter: &mut PatType, problems: &mut Problems) -> Vec<Attribute> {
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
            problems.add(attribute.path(), message);
        }
    }
    field
}

/// The name by which the model gives an argument.
fn name(pattern: &Pat, problems: &mut Problems) -> Option<Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Some(pattern.ident.clone())
        }
        _ => {
            let message = "an argument of a tool has a plain name, by which the model gives it";
            problems.add(pattern, message);
            None
        }
    }
}

fn is_context(ty: &Type) -> bool {
    match inner(ty) {
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
    match inner(ty) {
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|last| last.ident == "ToolContext")
        }
        _ => false,
    }
}

/// The type inside the invisible brackets that a `macro_rules` puts around one.
fn inner(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => inner(&group.elem),
        Type::Paren(paren) => inner(&paren.elem),
        _ => ty,
    }
}

fn check_type(ty: &Type, problems: &mut Problems) {
    let referred = match inner(ty) {
        Type::Reference(reference) => &reference.elem,
        _ => ty,
    };
    if is_context_type(referred) {
        problems.add(ty, "the context is borrowed, without a lifetime: `&ToolContext`");
    } else if let Some((tokens, what)) = unnameable(ty.to_token_stream(), Static::Lifetime) {
        let message = format!(
            "{what} in an argument: arguments are made from the model's JSON, so they are owned, of \
             a type that has a name (only the context is borrowed, as `&ToolContext`)"
        );
        problems.add(tokens, message);
    }
}

/// What of `'static` a type may have.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Static {
    /// `Cow<'static, str>`, which can be read from JSON.
    Lifetime,
    /// `&'static str` too.
    Reference,
}

/// The first thing in a type that cannot stand in an associated type without generics.
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
