//! Parsing of the options of `#[neuron_tool(…)]` and `#[tool(…)]`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::meta::ParseNestedMeta;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Result};

use crate::names;

/// The options of a tool. An option that is not given is `None` or `false`.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) title: Option<Expr>,
    pub(crate) description: Option<Expr>,
    /// Name of a variant of `ToolEffect`.
    pub(crate) effect: Option<Ident>,
    pub(crate) runs_alone: bool,
    pub(crate) strict: bool,
    /// Path of `neuron-tool`, from the option `crate`.
    pub(crate) crate_path: Option<Path>,
    /// Path of `neuron-tool` if the option `crate` is not given.
    pub(crate) default_path: TokenStream,
}

/// Names of the variants of `ToolEffect`.
const EFFECTS: [&str; 3] = ["Pure", "Idempotent", "AtMostOnce"];

impl Options {
    /// Returns the path of `neuron-tool` for the generated code.
    pub(crate) fn neuron_tool(&self) -> TokenStream {
        self.crate_path.as_ref().map_or_else(|| self.default_path.clone(), Path::to_token_stream)
    }

    /// Parses one option and stores its value. Returns an error if the option is unknown, invalid or given twice.
    pub(crate) fn read(&mut self, meta: ParseNestedMeta<'_>) -> Result<()> {
        let Some(key) = meta.path.get_ident().map(Ident::to_string) else {
            return Err(unknown(&meta));
        };
        let is_repeated = match key.as_str() {
            "name" => self.name.replace(name(&meta)?).is_some(),
            "title" => self.title.replace(text(&meta)?).is_some(),
            "description" => self.description.replace(text(&meta)?).is_some(),
            "effect" => self.effect.replace(effect(&meta)?).is_some(),
            "runs_alone" => std::mem::replace(&mut self.runs_alone, true),
            "strict" => std::mem::replace(&mut self.strict, true),
            "crate" => self.crate_path.replace(meta.value()?.parse()?).is_some(),
            _ => return Err(unknown(&meta)),
        };
        if is_repeated { Err(meta.error(format!("`{key}` is given twice"))) } else { Ok(()) }
    }
}

/// Creates the error of an unknown option, which lists the known options.
fn unknown(meta: &ParseNestedMeta<'_>) -> Error {
    meta.error(
        "the options are `name`, `title`, `description`, `effect`, `runs_alone`, `strict` and `crate`",
    )
}

/// Parses the value of the option `name`. Returns an error if vendors would reject the name.
fn name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let name: LitStr = meta.value()?.parse()?;
    match names::problem(&name.value()) {
        Some(problem) => Err(Error::new(name.span(), problem)),
        None => Ok(name),
    }
}

/// Parses the value of the option `title` or `description`, which is any expression of type `&str`.
///
/// Returns an error for an empty literal. The compiler later checks the type of the expression.
fn text(meta: &ParseNestedMeta<'_>) -> Result<Expr> {
    let text: Expr = meta.value()?.parse()?;
    match &text {
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) if literal.value().trim().is_empty() => {
            Err(Error::new(literal.span(), "this text is empty"))
        }
        _ => Ok(text),
    }
}

/// Parses the value of the option `effect`, which is a path such as `Pure` or `ToolEffect::Pure`. Returns the last
/// segment of the path.
fn effect(meta: &ParseNestedMeta<'_>) -> Result<Ident> {
    let value = meta.value()?;
    let span = value.span();
    let error = || Error::new(span, "an effect is `Pure`, `Idempotent` or `AtMostOnce`");
    let path: Path = value.parse().map_err(|_| error())?;
    match path.segments.last() {
        Some(last) if EFFECTS.iter().any(|effect| last.ident == effect) => Ok(last.ident.clone()),
        _ => Err(error()),
    }
}
