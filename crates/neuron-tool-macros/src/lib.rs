//! Tools for AI agents from functions and structs: [`macro@neuron_tool`] and [`macro@Tool`].
//!
//! Use them through `neuron-tool`, which re-exports both with its default features.
//!
//! ```
//! use neuron_tool::{ToolRegistry, neuron_tool};
//! use neuron_types::{ToolContext, ToolError};
//!
//! /// Divides one number by another
//! #[neuron_tool(effect = Pure)]
//! async fn divide(
//!     /// What is divided
//!     dividend: f64,
//!     divisor: f64,
//! ) -> Result<f64, ToolError> {
//!     if divisor == 0.0 {
//!         return Err(ToolError::ModelRetry("the divisor must not be zero".into()));
//!     }
//!     Ok(dividend / divisor)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), ToolError> {
//! let mut registry = ToolRegistry::new();
//! registry.register(DivideTool);
//!
//! let input = serde_json::json!({ "dividend": 6.0, "divisor": 2.0 });
//! let output = registry.execute("divide", input, &ToolContext::default()).await?;
//! assert_eq!(output.content[0].to_string(), "3.0");
//!
//! // The function is still one.
//! assert_eq!(divide(6.0, 2.0).await?, 3.0);
//! # Ok(())
//! # }
//! ```
//!
//! # Options
//!
//! Both macros take the same, `#[neuron_tool(…)]` and `#[tool(…)]`. All can be left out.
//!
//! | option | what it is | without it |
//! |---|---|---|
//! | `name = "…"` | the name by which the model calls the tool: 1 to 64 of `A-Z a-z 0-9 _ -` | the function's name, the struct's in snake case |
//! | `description = "…"` | what the model is told of it; any `&str` expression | the doc comment |
//! | `title = "…"` | a name for people; any `&str` expression | none |
//! | `effect = …` | `Pure`, `Idempotent` or `AtMostOnce`: what running it twice would do | `AtMostOnce` |
//! | `runs_alone` | no other call of the same answer runs beside it | it may have others beside it |
//! | `strict` | the vendor holds the model to the schema, see `ToolDefinition::strict` | it may not |
//! | `crate = path` | where `neuron-tool` is | looked up, see below |
//!
//! A tool without a description is an error.
//!
//! # Where the macros find `neuron-tool`
//!
//! In the manifest of the crate that uses them: as `neuron-tool` or what that dependency was
//! renamed to, else within the umbrella crate. Where that is not enough, because the tools are in a
//! crate that gets `neuron-tool` from another one, say it: `crate = other::neuron_tool`. The
//! arguments need no dependency on serde and schemars.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod arguments;
mod attributes;
mod crate_path;
mod documentation;
mod function;
mod names;
mod options;
mod problems;
mod structure;
mod tool;

use proc_macro::TokenStream;

/// Makes a tool of an async function.
///
/// ```
/// # use neuron_tool::neuron_tool;
/// # use neuron_types::ToolContext;
/// #[neuron_tool(name = "search", description = "Searches the archive", effect = Pure)]
/// async fn search(
///     /// What to search for
///     query: String,
///     ctx: &ToolContext,
///     /// The most results wanted
///     #[serde(default)]
///     limit: Option<usize>,
/// ) -> Result<Vec<String>, std::io::Error> {
///     let found = format!("{query} in {}", ctx.session_id);
///     Ok(vec![found; limit.unwrap_or(1)])
/// }
/// ```
///
/// For a function `search` there are, with the function's visibility:
///
/// - `SearchTool`, a unit struct that implements `Tool`: register it;
/// - `SearchArgs`, a struct with the parameters as its fields;
/// - `search` itself, as it was.
///
/// # Parameters
///
/// Each is an argument, which the model gives by its name; its type implements serde's
/// `Deserialize` and schemars' `JsonSchema`: a type of your own derives both, from `serde` with its
/// feature `derive` and `schemars` 1. Its doc comment is its description. Attributes of
/// serde, schemars, validator and garde move to the field: `#[serde(rename = "…")]`, `default`,
/// `skip`, `flatten` and so on mean there what they always do. Those of serde and schemars on the
/// function move to the struct: `#[serde(rename_all = "camelCase")]`, `#[serde(deny_unknown_fields)]`.
///
/// One parameter may be the context, `&ToolContext`: anywhere, under any name, or not at all.
///
/// # Result
///
/// A `Result`, or any alias of one. The value implements `Serialize`, the error
/// [`std::error::Error`]. The future must be `Send` (except on wasm).
///
/// `ToolError` is an error too. It takes others in, also those that are no `std::error::Error`
/// themselves, such as boxed ones.
///
/// # Example: a type of one's own, and errors of several kinds
///
/// ```
/// use neuron_tool::{ToolRegistry, neuron_tool};
/// use neuron_types::{ToolContext, ToolError};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// #[serde(rename_all = "snake_case")]
/// enum Part {
///     First,
///     Last,
/// }
///
/// /// Reads one line of a file
/// #[neuron_tool(effect = Pure)]
/// async fn read_line(path: String, part: Part) -> Result<String, ToolError> {
///     // The run ends: no other arguments would help.
///     let text = std::fs::read_to_string(&path)
///         .map_err(|error| ToolError::ExecutionFailed(error.into()))?;
///     let line = match part {
///         Part::First => text.lines().next(),
///         Part::Last => text.lines().last(),
///     };
///     // The model may try another file.
///     Ok(line.ok_or_else(|| ToolError::ModelRetry(format!("{path} is empty")))?.to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let mut registry = ToolRegistry::new();
/// registry.register(ReadLineTool);
///
/// let input = serde_json::json!({ "path": "Cargo.toml", "part": "first" });
/// let output = registry.execute("read_line", input, &ToolContext::default()).await?;
/// assert_eq!(output.content[0].to_string(), "[package]");
/// # Ok(())
/// # }
/// ```
///
/// # Expansion
///
/// What the first lines below become is, but for the paths, what follows them.
///
/// ```
/// # mod written {
/// # use neuron_tool::neuron_tool;
/// # use neuron_types::{ToolContext, ToolDyn};
/// # use std::num::ParseIntError;
/// #[neuron_tool(description = "Adds a number, written as text", effect = Pure)]
/// async fn add_text(
///     /// The text
///     text: String,
///     number: i64,
///     ctx: &ToolContext,
/// ) -> Result<i64, ParseIntError> {
///     println!("{}", ctx.call_id);
///     Ok(text.parse::<i64>()? + number)
/// }
/// # pub fn tool() -> Box<dyn ToolDyn> { Box::new(AddTextTool) }
/// # }
///
/// # mod expanded {
/// # use neuron_types::*;
/// # use std::num::ParseIntError;
/// async fn add_text(text: String, number: i64, ctx: &ToolContext) -> Result<i64, ParseIntError> {
///     println!("{}", ctx.call_id);
///     Ok(text.parse::<i64>()? + number)
/// }
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct AddTextArgs {
///     /// The text
///     text: String,
///     number: i64,
/// }
///
/// #[derive(Clone, Copy, Debug, Default)]
/// struct AddTextTool;
///
/// impl Tool for AddTextTool {
///     const NAME: &'static str = "add_text";
///     type Args = AddTextArgs;
///     type Output = i64;
///     type Error = ParseIntError;
///
///     fn definition(&self) -> ToolDefinition {
///         ToolDefinition {
///             name: "add_text".to_owned(),
///             title: None,
///             description: "Adds a number, written as text".to_owned(),
///             input_schema: schemars::schema_for!(AddTextArgs).into(),
///             output_schema: None,
///             annotations: None,
///             cache_control: None,
///         }
///     }
///
///     fn effect(&self) -> ToolEffect {
///         ToolEffect::Pure
///     }
///
///     async fn call(&self, args: AddTextArgs, ctx: &ToolContext) -> Result<i64, ParseIntError> {
///         add_text(args.text, args.number, ctx).await
///     }
/// }
/// # pub fn tool() -> Box<dyn ToolDyn> { Box::new(AddTextTool) }
/// # }
/// # fn main() {
/// #     let (written, expanded) = (written::tool(), expanded::tool());
/// #     assert_eq!(written.definition(), expanded.definition());
/// #     assert_eq!(written.effect(), expanded.effect());
/// # }
/// ```
///
/// # Attributes
///
/// Those on the function stay there. `#[cfg(…)]`, `#[deprecated]` and `#[doc(hidden)]` apply to what
/// is made as well, and a lint that the function allows or expects is allowed there too. Other
/// attribute macros, such as `#[tracing::instrument]`, see the function alone. Those lints of clippy's
/// that a tool cannot follow are allowed on it: it has to be `async`, and its documentation is the
/// model's.
#[proc_macro_attribute]
pub fn neuron_tool(options: TokenStream, function: TokenStream) -> TokenStream {
    function::expand(options.into(), function.into()).into()
}

/// Makes a tool of a struct whose fields are the arguments.
///
/// What the tool does is in `RunTool`, which the struct implements.
///
/// ```
/// use neuron_tool::{RunTool, Tool, ToolRegistry};
/// use neuron_types::{ToolContext, ToolError};
///
/// /// Repeats a text
/// #[derive(Tool, schemars::JsonSchema)]
/// #[tool(effect = Pure)]
/// struct Repeat {
///     /// The text
///     text: String,
///     #[serde(default = "twice")]
///     times: usize,
/// }
///
/// fn twice() -> usize {
///     2
/// }
///
/// impl RunTool for Repeat {
///     type Output = String;
///     type Error = ToolError;
///
///     async fn run(self, _ctx: &ToolContext) -> Result<String, ToolError> {
///         Ok(self.text.repeat(self.times))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let mut registry = ToolRegistry::new();
/// registry.register(RepeatTool);
///
/// let input = serde_json::json!({ "text": "ha" });
/// let output = registry.execute("repeat", input, &ToolContext::default()).await?;
/// assert_eq!(output.content[0].to_string(), "haha");
/// # Ok(())
/// # }
/// ```
///
/// For a struct `Repeat` there are `RepeatTool`, a unit struct to register, and an implementation of
/// `Tool` for `Repeat` itself, for generic code; its instance says nothing, the arguments of a call
/// do.
///
/// The struct derives or implements `JsonSchema`, which gives the schema of the input. Reading the
/// arguments is part of this macro, by serde's attributes: `Deserialize` may be derived as well, but
/// is not needed. For arguments that are read by an implementation of your own, implement `Tool`.
#[proc_macro_derive(Tool, attributes(tool, serde, schemars))]
pub fn derive_tool(structure: TokenStream) -> TokenStream {
    structure::expand(structure.into()).into()
}
