//! Conversion of tools and their results between the types of this crate and the types of the SDK `rmcp`.

use std::sync::Arc;

use neuron_types::{ToolAnnotations, ToolDefinition, ToolOutput};
use rmcp::model::{self, CallToolResult, JsonObject, Tool};
use serde_json::Value;

use super::content;
use crate::McpVersion;
use crate::text::{clean_schema, cleaned, cleaned_name};

/// Converts a tool of a server's tool list. Removes hidden characters from its texts, and vendor-specific fields from
/// the input schema. Otherwise a server could set such fields in requests to a model provider.
pub(crate) fn definition_from_sdk(tool: Tool) -> ToolDefinition {
    let annotated_title =
        tool.annotations.as_ref().and_then(|annotations| annotations.title.clone());
    let mut definition = ToolDefinition {
        name: cleaned_name(tool.name.into_owned()),
        title: tool.title.or(annotated_title).map(cleaned_name),
        description: cleaned(tool.description.unwrap_or_default().into_owned()),
        input_schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
        output_schema: tool.output_schema.map(|schema| Value::Object(Arc::unwrap_or_clone(schema))),
        annotations: tool.annotations.map(|annotations| ToolAnnotations {
            read_only_hint: annotations.read_only_hint,
            destructive_hint: annotations.destructive_hint,
            idempotent_hint: annotations.idempotent_hint,
            open_world_hint: annotations.open_world_hint,
        }),
        cache_control: None,
    };
    definition.output_schema.iter_mut().for_each(clean_schema);
    // A server must not be able to set vendor-specific fields of the requests to a model provider.
    let mut input_schema = definition.plain_schema().into_owned();
    clean_schema(&mut input_schema);
    ToolDefinition { input_schema, ..definition }
}

/// Converts a tool for the list that a client receives. MCP allows only schemas of objects. An input schema that is not
/// a JSON object is replaced by `{"type": "object"}`. An output schema with another type than `object` is omitted.
pub(crate) fn definition_to_sdk(definition: &ToolDefinition) -> Tool {
    let mut tool = Tool::new(
        definition.name.clone(),
        definition.description.clone(),
        object_schema(&definition.plain_schema()),
    );
    tool.title.clone_from(&definition.title);
    tool.output_schema = definition
        .output_schema
        .as_ref()
        .filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"))
        .and_then(Value::as_object)
        .map(|schema| Arc::new(schema.clone()));
    tool.annotations = definition.annotations.map(|annotations| {
        model::ToolAnnotations::from_raw(
            None,
            annotations.read_only_hint,
            annotations.destructive_hint,
            annotations.idempotent_hint,
            annotations.open_world_hint,
        )
    });
    tool
}

/// Returns a schema that has a `type`. If the type is missing, adds `"type": "object"`. A schema that is not a JSON
/// object becomes `{"type": "object"}`.
fn object_schema(schema: &Value) -> JsonObject {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| "object".into());
    schema
}

/// Converts the result of a tool that a server sent.
pub(crate) fn output_from_sdk(result: CallToolResult) -> ToolOutput {
    ToolOutput {
        content: result.content.into_iter().map(content::from_sdk).collect(),
        structured_content: result.structured_content,
        is_error: result.is_error.unwrap_or_default(),
    }
}

/// Converts the result of a tool that the SDK could not parse, block by block. A result without content is empty.
/// Returns `None` if the JSON has other fields, and no field of a result.
pub(crate) fn output_from_json(result: &Value) -> Option<ToolOutput> {
    const KNOWN: [&str; 3] = ["content", "structuredContent", "isError"];
    const COMMON: [&str; 2] = ["_meta", "resultType"];
    let fields = result.as_object().filter(|fields| {
        KNOWN.iter().any(|key| fields.contains_key(*key))
            || fields.keys().all(|key| COMMON.contains(&key.as_str()))
    })?;
    let content = match fields.get("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks.iter().map(content::from_json).collect(),
        Some(block) => vec![content::from_json(block)],
    };
    let is_error = fields.get("isError");
    Some(ToolOutput {
        content,
        structured_content: fields.get("structuredContent").cloned(),
        is_error: is_error.is_some_and(|error| *error == true || *error == "true"),
    })
}

/// Converts the result of a tool for a client of this protocol version.
pub(crate) fn output_to_sdk(output: &ToolOutput, version: McpVersion) -> CallToolResult {
    let blocks = output.content.iter().map(|item| content::to_sdk_in(item, version)).collect();
    let mut result = match output.is_error {
        true => CallToolResult::error(blocks),
        false => CallToolResult::success(blocks),
    };
    // Before 2026-07-28, structured content must be an object. Clients reject anything else. The text content has the
    // same data.
    let is_readable = |content: &&Value| content.is_object() || !version.has_handshake();
    result.structured_content = output.structured_content.as_ref().filter(is_readable).cloned();
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(tool: Value) -> ToolDefinition {
        definition_from_sdk(serde_json::from_value(tool).unwrap())
    }

    #[test]
    fn definition_round_trips() {
        let json = json!({
            "name": "look",
            "title": "Look",
            "description": "Looks",
            "inputSchema": { "type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema" },
            "outputSchema": { "type": "object" },
            "annotations": {
                "readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false,
            },
        });
        let definition = read(json.clone());
        assert_eq!(definition.title.as_deref(), Some("Look"));
        assert_eq!(definition.annotations.unwrap().idempotent_hint, Some(true));
        assert_eq!(serde_json::to_value(definition_to_sdk(&definition)).unwrap(), json);
    }

    #[test]
    fn vendor_fields_of_a_tool_do_not_cross_the_protocol() {
        let schema = json!({ "type": "object" });
        let plain = read(json!({ "name": "t", "inputSchema": schema }));
        let tool = plain.clone().with_vendor_field("anthropic", "type", "bash_20250124");
        let sent = json!({ "name": "t", "inputSchema": tool.input_schema });
        assert_eq!(read(sent), plain);
        assert_eq!(*definition_to_sdk(&tool).input_schema, *definition_to_sdk(&plain).input_schema);
    }

    #[test]
    fn title_falls_back_to_the_annotations() {
        let annotated = |title: Value| {
            let mut tool =
                json!({ "name": "t", "inputSchema": {}, "annotations": { "title": "Old" } });
            tool["title"] = title;
            read(tool).title
        };
        assert_eq!(annotated(json!(null)).as_deref(), Some("Old"));
        assert_eq!(annotated(json!("New")).as_deref(), Some("New"));
    }

    #[test]
    fn non_object_schemas_are_replaced_or_left_out() {
        let definition = |input_schema: Value, output_schema: Value| {
            let output_schema = Some(output_schema);
            ToolDefinition {
                input_schema,
                output_schema,
                ..read(json!({ "name": "t", "inputSchema": {} }))
            }
        };
        let sent = definition_to_sdk(&definition(json!(true), json!({ "type": "string" })));
        assert_eq!(Value::Object((*sent.input_schema).clone()), json!({ "type": "object" }));
        assert_eq!(sent.output_schema, None);
    }

    #[test]
    fn tool_results_round_trip() {
        for (json, is_error, structured) in [
            (json!({ "content": [], "isError": true }), true, None),
            (
                json!({ "content": [{ "type": "text", "text": "1" }], "structuredContent": { "n": 1 }, "isError": false }),
                false,
                Some(json!({ "n": 1 })),
            ),
        ] {
            let output = output_from_sdk(serde_json::from_value(json).unwrap());
            assert_eq!((output.is_error, &output.structured_content), (is_error, &structured));
            let sent = output_to_sdk(&output, McpVersion::V2025_11_25);
            assert_eq!(output_from_sdk(sent), output);
        }
        let silent = output_from_sdk(serde_json::from_value(json!({ "content": [] })).unwrap());
        assert_eq!(silent, ToolOutput::default());
    }
}
