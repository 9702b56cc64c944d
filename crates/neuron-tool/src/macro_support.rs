//! Support for the code that the macros generate, so that a crate with that code needs no dependency except this one.
//! Not for direct use.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub use neuron_types::{Tool, ToolContext, ToolDefinition, ToolEffect};
pub use {schemars, serde};

/// The two types of a `Result`, also behind a type alias.
#[diagnostic::on_unimplemented(
    message = "a tool returns a `Result`, and `{Self}` is none",
    label = "not a `Result`"
)]
pub trait ToolResult {
    type Output;
    type Error;
    fn into_result(self) -> Result<Self::Output, Self::Error>;
}

impl<T, E> ToolResult for Result<T, E> {
    type Output = T;
    type Error = E;

    fn into_result(self) -> Self {
        self
    }
}

/// A type of a tool argument. The generated code requires it in addition to the bounds of serde and schemars, whose
/// error messages do not explain the fix.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool",
    label = "must implement `serde::Deserialize` and `schemars::JsonSchema`",
    note = "a type of your own derives both: `#[derive(serde::Deserialize, schemars::JsonSchema)]`"
)]
pub trait Argument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Compiles only for argument types.
pub const fn is_argument<T: Argument>() {}

/// A struct with a schema, which `#[derive(Tool)]` requires.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` of a tool have no schema",
    label = "must implement `schemars::JsonSchema`",
    note = "derive both: `#[derive(Tool, schemars::JsonSchema)]`"
)]
pub trait Described: JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema> Described for T {}

/// Creates the definition of a tool for the model.
pub fn definition<T: Tool>(title: Option<&str>, description: &str) -> ToolDefinition {
    let mut input_schema = Value::from(schemars::schema_for!(T::Args));
    // For a struct without fields schemars generates only `object`, which OpenAI rejects.
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

/// Deserialisation of arguments for `#[derive(Tool)]`, which does not require `Deserialize` for the struct.
pub trait Parse: Sized {
    fn parse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Arguments that implement [`Parse`].
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
