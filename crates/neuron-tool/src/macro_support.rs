//! Support for the code that the macros generate. Do not use this module directly.
//!
//! The generated code refers only to this module, so a crate that uses the macros needs no other dependency.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub use neuron_types::{Tool, ToolContext, ToolDefinition, ToolEffect};
pub use {schemars, serde};

/// The return type of a tool function, which is a `Result`. The generated code takes the output type and the error type
/// from this trait.
///
/// A trait is necessary because the macro sees only the name of a return type, which may be an alias of a `Result`.
#[diagnostic::on_unimplemented(
    message = "a tool returns a `Result`, and `{Self}` is none",
    label = "not a `Result`"
)]
pub trait ToolResult {
    /// The type inside `Ok`.
    type Output;
    /// The type inside `Err`.
    type Error;
    /// Returns `self` as a plain `Result`, so that the generated code can use a return type that is an alias of a
    /// `Result`.
    fn into_result(self) -> Result<Self::Output, Self::Error>;
}

impl<T, E> ToolResult for Result<T, E> {
    type Output = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// A type that can be an argument of a tool.
///
/// Every type that implements `DeserializeOwned` and `JsonSchema` implements this trait. The generated code also
/// requires this trait because of its compiler error message, which explains the fix.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool",
    label = "must implement `serde::Deserialize` and `schemars::JsonSchema`",
    note = "a type of your own derives both: `#[derive(serde::Deserialize, schemars::JsonSchema)]`"
)]
pub trait Argument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Compiles only if `T` can be an argument of a tool. The generated code calls this function for each argument.
pub const fn is_argument<T: Argument>() {}

/// A struct with a JSON Schema, which `#[derive(Tool)]` requires. The compiler's error message for this trait explains
/// how to derive the schema.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` of a tool have no schema",
    label = "must implement `schemars::JsonSchema`",
    note = "derive both: `#[derive(Tool, schemars::JsonSchema)]`"
)]
pub trait Described: JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema> Described for T {}

/// Creates the definition of the tool `T` from its name, the schema of its arguments, `title` and `description`.
pub fn definition<T: Tool>(title: Option<&str>, description: &str) -> ToolDefinition {
    let mut input_schema = Value::from(schemars::schema_for!(T::Args));
    // For a struct without fields, schemars generates an object schema without `properties`, which OpenAI rejects.
    if let Some(schema) = input_schema.as_object_mut()
        && schema.get("type").is_some_and(|kind| kind == "object")
    {
        schema.entry("properties").or_insert_with(|| json!({}));
    }
    ToolDefinition {
        name: T::NAME.to_owned(),
        title: title.map(str::to_owned),
        description: description.to_owned(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Deserialisation of the arguments struct of a `#[derive(Tool)]`. The macro implements this trait, so the struct
/// itself need not implement `Deserialize`.
pub trait Parse: Sized {
    /// Deserialises the arguments.
    fn parse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Wrapper that implements `Deserialize` for a type that implements [`Parse`]. Its schema is the schema of `T`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parsed<T>(pub T);

impl<T> From<T> for Parsed<T> {
    fn from(arguments: T) -> Self {
        Self(arguments)
    }
}

impl<'de, T: Parse> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::parse(deserializer).map(Self)
    }
}

impl<T: Described> JsonSchema for Parsed<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
