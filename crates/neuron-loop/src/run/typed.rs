//! Runs that end with a value of a type.

use neuron_tool::ToolRegistry;
use neuron_types::{JsonMismatch, ResponseFormat, ToolChoice, ToolDefinition, read_json};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::live::TypedOutput;
use crate::ledger::OutputRules;
use crate::parts::{FrameChanges, Parts};
use crate::settings::{OutputMode, output_schema as schema};

/// The name of the output tool, unless a registered tool has it.
const TOOL_NAME: &str = "final_output";

/// The output of a typed run of an agent.
pub(crate) fn typed_output<T: DeserializeOwned + JsonSchema>(parts: Parts<'_>) -> TypedOutput {
    let config = parts.config();
    let mut changes = FrameChanges::default();
    let (mut tool, mut is_wrapped) = (None, false);
    match config.output_mode {
        OutputMode::Tool => {
            let definition = output_tool::<T>(&parts.definition.tools, &mut is_wrapped);
            if config.request.tool_choice == Some(ToolChoice::None) {
                // No other tool may be called.
                let name = definition.name.clone();
                let mut settings = config.request.clone();
                settings.tool_choice = Some(ToolChoice::Specific { name });
                changes.settings = Some(settings);
            }
            let mut tools = parts.definition.tools.definitions();
            tools.push(definition.clone());
            changes.tools = Some(tools);
            tool = Some(definition);
        }
        OutputMode::Native => {
            let mut settings = config.request.clone();
            settings.response_format = Some(response_format_for::<T>(&mut is_wrapped));
            changes.settings = Some(settings);
        }
        OutputMode::Prompt => {
            let prompt = config.system_prompt.clone();
            changes.system = Some(prompt.and(instructions::<T>()));
        }
    }
    let check = if is_wrapped { check_wrapped::<T> } else { check_plain::<T> };
    let (end, retries) = (config.end_strategy, config.output_retries);
    TypedOutput { rules: OutputRules { tool, end, check, retries }, changes }
}

/// Reads the output of a typed run.
///
/// # Errors
///
/// The place and the reason of a mismatch.
pub(crate) fn read_output<T: DeserializeOwned + JsonSchema>(
    mode: OutputMode,
    value: Value,
) -> Result<T, JsonMismatch> {
    let is_wrapped = mode != OutputMode::Prompt && schema::object_schema::<T>().1;
    if is_wrapped { read_wrapped(value) } else { read_json(value) }
}

fn check_plain<T: DeserializeOwned>(value: Value) -> Result<(), JsonMismatch> {
    read_json::<T>(value).map(drop)
}

fn check_wrapped<T: DeserializeOwned>(value: Value) -> Result<(), JsonMismatch> {
    read_wrapped::<T>(value).map(drop)
}

fn output_tool<T: JsonSchema>(tools: &ToolRegistry, is_wrapped: &mut bool) -> ToolDefinition {
    let (input_schema, wrapped) = schema::object_schema::<T>();
    *is_wrapped = wrapped;
    let mut name = TOOL_NAME.to_owned();
    for number in 2.. {
        if tools.definition(&name).is_none() {
            break;
        }
        name = format!("{TOOL_NAME}_{number}");
    }
    let about = input_schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let rule = "Gives the final output. Call it once, when everything else is done: it ends the task. \
                An answer as text does not count.";
    ToolDefinition {
        name,
        title: None,
        description: [about, rule].join("\n\n").trim_start().to_owned(),
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

fn response_format_for<T: JsonSchema>(is_wrapped: &mut bool) -> ResponseFormat {
    let (plain, wrapped) = schema::object_schema::<T>();
    *is_wrapped = wrapped;
    let form = schema::enforceable(&plain);
    let strict = form.is_some();
    ResponseFormat::JsonSchema { name: schema::name::<T>(), schema: form.unwrap_or(plain), strict }
}

fn instructions<T: JsonSchema>() -> String {
    let schema = schema::plain_schema::<T>();
    format!(
        "Give your final answer as one JSON value that fits the following JSON Schema, and write \
         nothing else in it:\n{schema}"
    )
}

/// What is no object, in the object around it.
#[derive(Deserialize)]
struct Wrapped<T> {
    value: T,
}

fn read_wrapped<T: DeserializeOwned>(value: Value) -> Result<T, JsonMismatch> {
    read_json::<Wrapped<T>>(value).map(|wrapped| wrapped.value)
}
