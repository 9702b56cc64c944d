//! Bedrock's rules for the settings of a request, and for its system prompt.

use serde_json::Value;

use super::ApiError;
use super::wording::{Object, invalid, of_the_model};
use crate::bedrock::route::Family;
use crate::shape::Problem;

/// Checks that a request to a prompt has no field that the prompt defines.
pub(super) fn check_prompt(body: &Object<'_>) -> Result<(), ApiError> {
    let mut fields =
        ["additionalModelRequestFields", "inferenceConfig", "system", "toolConfig"].into_iter();
    match fields.find(|field| body.has(field)) {
        Some(field) => Err(invalid(format!(
            "You can't include the {field} field in a request with a prompt from Prompt management. \
             Remove {field} and try again."
        ))),
        None => Ok(()),
    }
}

/// Checks the stop sequences, the system prompt, the schema of the output and the metadata.
pub(super) fn check_config(body: &Object<'_>, family: Family) -> Result<(), ApiError> {
    if let Some(config) = body.object("inferenceConfig") {
        check_stop_sequences(&config, family)?;
    }
    for block in body.objects("system") {
        if block.str("text").is_some_and(str::is_empty) {
            return Err(block.error("text", Problem::Empty { is_list: false }));
        }
        if family == Family::Claude && block.str("text").is_some_and(|text| text.trim().is_empty())
        {
            return Err(of_the_model(
                "system: text content blocks must contain non-whitespace text",
            ));
        }
    }
    check_metadata(body)?;
    match body.object("outputConfig").and_then(|config| config.object("textFormat")) {
        Some(format) => check_schema(&format),
        None => Ok(()),
    }
}

/// Checks that no stop sequence is empty. Claude also rejects a stop sequence of whitespace.
fn check_stop_sequences(config: &Object<'_>, family: Family) -> Result<(), ApiError> {
    let sequences = config.get("stopSequences").and_then(Value::as_array).into_iter().flatten();
    for (index, sequence) in sequences.filter_map(Value::as_str).enumerate() {
        if sequence.is_empty() {
            let problem = Problem::Empty { is_list: false };
            return Err(config.error(&format!("stopSequences.{index}"), problem));
        }
        if family == Family::Claude && sequence.trim().is_empty() {
            return Err(of_the_model(
                "stop_sequences: each stop sequence must contain non-whitespace",
            ));
        }
    }
    Ok(())
}

/// Checks that the metadata of a request has 1 to 16 texts.
fn check_metadata(body: &Object<'_>) -> Result<(), ApiError> {
    let Some(metadata) = body.object("requestMetadata") else { return Ok(()) };
    if metadata.fields.is_empty() {
        return Err(body.error("requestMetadata", Problem::Empty { is_list: true }));
    }
    let found = metadata.fields.len();
    if found > MAX_METADATA {
        let problem = Problem::Length { is_list: true, most: MAX_METADATA, found };
        return Err(body.error("requestMetadata", problem));
    }
    metadata.fields.keys().try_for_each(|key| metadata.check(key, "text up to 256"))
}

/// Maximum number of entries in the metadata of a request.
const MAX_METADATA: usize = 16;

/// Checks that the schema of the output, which is a text, is a JSON object.
fn check_schema(format: &Object<'_>) -> Result<(), ApiError> {
    let schema = format.object("structure").and_then(|structure| structure.object("jsonSchema"));
    let Some(schema) = schema else { return Ok(()) };
    let parsed: Option<Value> =
        schema.str("schema").and_then(|text| serde_json::from_str(text).ok());
    match parsed.is_some_and(|schema| schema.is_object()) {
        true => Ok(()),
        false => Err(invalid(format!(
            "The value at {} is not a valid JSON schema.",
            schema.at("schema")
        ))),
    }
}
