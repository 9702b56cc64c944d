//! What the code that the macros write refers to, so that the crate it is in needs no dependency
//! but this one. Not for use by hand.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub use neuron_types::{Tool, ToolContext, ToolDefinition, ToolEffect};
pub use {schemars, serde};

/// The two types of a `Result`, whatever alias stands for it.
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

/// A type that the model can give by name. Asked for beside what serde and schemars ask for, whose
/// words do not say what to do.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a tool",
    label = "must implement `serde::Deserialize` and `schemars::JsonSchema`",
    note = "a type of your own derives both: `#[derive(serde::Deserialize, schemars::JsonSchema)]`"
)]
pub trait Argument {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Compiles for arguments alone.
pub const fn is_argument<T: Argument>() {}

/// A struct that `#[derive(Tool)]` can describe to the model.
#[diagnostic::on_unimplemented(
    message = "the arguments `{Self}` of a tool have no schema",
    label = "must implement `schemars::JsonSchema`",
    note = "derive both: `#[derive(Tool, schemars::JsonSchema)]`"
)]
pub trait Described: JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema> Described for T {}

/// What the model is told of a tool.
pub fn definition<T: Tool>(title: Option<&str>, description: &str) -> ToolDefinition {
    let mut input_schema = Value::from(schemars::schema_for!(T::Args));
    // Of a struct without fields schemars says `object` alone, which OpenAI refuses.
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

/// Arguments that `#[derive(Tool)]` can read, also when the struct does not implement `Deserialize`.
pub trait Parse: Sized {
    fn parse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Arguments that were [`Parse`]d.
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
