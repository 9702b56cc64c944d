//! The macros [`macro@neuron_tool`] and [`macro@Tool`], which turn functions and structs into tools for AI agents.
//!
//! Use them through `neuron-tool`, which re-exports both by default.
//!
//! ```
//! use neuron_tool::{ToolRegistry, neuron_tool};
//! use neuron_types::{ToolContext, ToolError};
//!
//! /// Divides one number by another
//! #[neuron_tool(effect = Pure)]
//! async fn divide(
//!     /// The dividend
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
//! // The function itself is still callable.
//! assert_eq!(divide(6.0, 2.0).await?, 3.0);
//! # Ok(())
//! # }
//! ```
//!
//! # Options
//!
//! Both macros have the same options, `#[neuron_tool(…)]` and `#[tool(…)]`. All are optional.
//!
//! | option | meaning | default |
//! |---|---|---|
//! | `name = "…"` | the name by which the model calls the tool: 1 to 64 of `A-Z a-z 0-9 _ -` | the function's name, the struct's in snake case |
//! | `description = "…"` | description for the model; any `&str` expression | the doc comment |
//! | `title = "…"` | display name; any `&str` expression | none |
//! | `effect = …` | effect of running the tool twice: `Pure`, `Idempotent` or `AtMostOnce` | `AtMostOnce` |
//! | `runs_alone` | never runs in parallel with other calls of the same response | off |
//! | `strict` | the vendor enforces the schema, see `ToolDefinition::strict` | off |
//! | `crate = path` | path of `neuron-tool` | `::neuron_tool`, or `::neuron::tool`, see below |
//!
//! A tool without a description is an error.
//!
//! # The path of `neuron-tool`
//!
//! The macros of `neuron-tool` generate code with the path `::neuron_tool`, and the macros of the umbrella crate
//! `neuron` with the path `::neuron::tool`. If your crate renames this dependency, for example to `tools`, write `extern
//! crate tools as neuron_tool;` in the root of your crate, or set the option `crate = tools` of each tool. For `neuron`,
//! this is `extern crate agents as neuron;` or `crate = agents::tool`.
//!
//! If your crate gets `neuron-tool` through another crate, set the option `crate = other::neuron_tool`. The generated
//! code needs no dependency on serde and schemars.

#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod arguments;
mod attributes;
mod diagnostics;
mod documentation;
mod function;
mod names;
mod options;
mod structure;
mod tool;

use proc_macro::TokenStream;
use quote::quote;

/// Turns an async function into a tool.
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
/// For a function `search`, the macro generates these items with the function's visibility:
///
/// - `SearchTool`, a unit struct that implements `Tool`. Register it in a registry.
/// - `SearchArgs`, a struct with the parameters as its fields.
/// - `search`, the function itself, which can still be called.
///
/// # Parameters
///
/// Each parameter is an argument of the tool with the same name. Its type must implement serde's `Deserialize` and
/// schemars' `JsonSchema`. Your own types can derive both traits. They need `serde` (feature `derive`) and `schemars` 1
/// as dependencies.
///
/// The doc comment of a parameter becomes its description. Attributes of serde, schemars, validator and garde move from
/// the parameter to the generated field, for example `#[serde(rename = "…")]`, `default`, `skip` and `flatten`.
/// Attributes of serde and schemars on the function move to the generated struct, for example
/// `#[serde(rename_all = "camelCase")]` and `#[serde(deny_unknown_fields)]`.
///
/// One parameter may be the context, `&ToolContext`, at any position and with any name.
///
/// # Result
///
/// The function returns a `Result` or an alias of a `Result`. The value must implement `Serialize`, and the error must
/// implement [`std::error::Error`]. The future must be `Send`, except on wasm.
///
/// The error may be a `ToolError`. Use `ToolError::ExecutionFailed` for errors that do not implement
/// `std::error::Error`, such as boxed errors.
///
/// # Example: a custom type, and errors of several kinds
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
///     // A failure that other arguments would not correct. The `ToolErrorPolicy` decides whether it ends the run.
///     let text = std::fs::read_to_string(&path)
///         .map_err(|error| ToolError::ExecutionFailed(error.into()))?;
///     let line = match part {
///         Part::First => text.lines().next(),
///         Part::Last => text.lines().last(),
///     };
///     // The model may retry with another file.
///     Ok(line.ok_or_else(|| ToolError::ModelRetry(format!("{path} is empty")))?.to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ToolError> {
/// let mut registry = ToolRegistry::new();
/// registry.register(ReadLineTool);
///
/// let input = serde_json::json!({ "path": "src/lib.rs", "part": "last" });
/// let output = registry.execute("read_line", input, &ToolContext::default()).await?;
/// assert_eq!(output.content[0].to_string(), "}");
/// # Ok(())
/// # }
/// ```
///
/// # Expansion
///
/// The first item below expands to the items after it. Only the paths in the generated code are different.
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
/// Attributes on the function stay on the function. `#[cfg(…)]`, `#[deprecated]` and `#[doc(hidden)]` also apply to the
/// generated items. A lint that the function allows or expects is allowed for the generated items too. Other attribute
/// macros, such as `#[tracing::instrument]`, apply only to the function.
///
/// The macro allows some lints of clippy for the function. A tool cannot comply with them, because it must be `async`
/// and its documentation is for the model.
#[proc_macro_attribute]
pub fn neuron_tool(options: TokenStream, function: TokenStream) -> TokenStream {
    function::expand(quote!(::neuron_tool), options.into(), function.into()).into()
}

/// The macro [`macro@neuron_tool`] of the crate `neuron`, for crates that do not depend on `neuron-tool`.
#[proc_macro_attribute]
pub fn umbrella_neuron_tool(options: TokenStream, function: TokenStream) -> TokenStream {
    function::expand(quote!(::neuron::tool), options.into(), function.into()).into()
}

/// Turns a struct into a tool whose arguments are the fields.
///
/// You implement `RunTool` for the struct, which runs the tool.
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
/// For a struct `Repeat`, the macro generates `RepeatTool`, a unit struct that implements `Tool`. Register it in a
/// registry. The macro also implements `Tool` for `Repeat` itself, for generic code. If an instance of `Repeat` is
/// registered, its field values are ignored, because each call has its own arguments.
///
/// The struct must derive or implement `JsonSchema`, which describes the arguments. The macro generates the
/// deserialisation of the arguments, and respects serde's attributes. The struct may also derive `Deserialize`, but
/// need not. To deserialise the arguments with your own code, implement `Tool` instead of deriving it.
#[proc_macro_derive(Tool, attributes(tool, serde, schemars))]
pub fn derive_tool(structure: TokenStream) -> TokenStream {
    structure::expand(quote!(::neuron_tool), structure.into()).into()
}

/// The macro [`macro@Tool`] of the crate `neuron`, for crates that do not depend on `neuron-tool`.
#[proc_macro_derive(UmbrellaTool, attributes(tool, serde, schemars))]
pub fn derive_umbrella_tool(structure: TokenStream) -> TokenStream {
    structure::expand(quote!(::neuron::tool), structure.into()).into()
}
