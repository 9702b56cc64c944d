//! Tools that the MCP conformance suite requires. They return all kinds of content, fail, report progress or send log
//! messages.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{LogLevel, McpPeer};
use neuron_types::{
    ContentItem, EmbeddedResource, ImageSource, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

/// A PNG image of one red pixel, in base64.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A WAV file without samples, in base64.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Arguments and context of a tool call, and the handle to the client that sent the call.
pub(super) struct Call {
    pub(super) input: Value,
    pub(super) ctx: ToolContext,
    pub(super) peer: McpPeer,
}

/// A tool that calls the closure `run`.
struct FnTool<F> {
    definition: ToolDefinition,
    run: F,
}

impl<F, Fut> ToolDyn for FnTool<F>
where
    F: Fn(Call) -> Fut + Send + Sync,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let peer = ctx.extensions.get::<McpPeer>().cloned().unwrap();
        Box::pin((self.run)(Call { input, ctx: ctx.clone(), peer }))
    }
}

/// Creates a tool with this name and input schema. Each tool call calls `run`, and returns its result.
pub(super) fn tool<F, Fut>(name: &str, input_schema: Value, run: F) -> Arc<dyn ToolDyn>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let description = format!("What the suite knows as {name}.");
    let name = name.to_owned();
    let definition = ToolDefinition {
        name,
        title: None,
        description,
        input_schema,
        output_schema: None,
        annotations: None,
        cache_control: None,
    };
    Arc::new(FnTool { definition, run })
}

/// Creates a tool without parameters. Each call of the tool calls the closure `run`, which returns the result.
pub(super) fn plain<F, Fut>(name: &str, run: F) -> Arc<dyn ToolDyn>
where
    F: Fn(Call) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    tool(name, json!({"type": "object", "properties": {}}), run)
}

/// Creates a tool that always returns this content.
fn fixed(name: &str, content: Vec<ContentItem>) -> Arc<dyn ToolDyn> {
    plain(name, move |_| {
        let content = content.clone();
        async move { Ok(ToolOutput { content, ..Default::default() }) }
    })
}

pub(super) fn image() -> ContentItem {
    let source = ImageSource::Base64 { media_type: "image/png".into(), data: PNG.into() };
    ContentItem::Image { source }
}

/// Returns an embedded text resource.
fn resource(uri: &str, mime_type: &str, text: &str) -> ContentItem {
    ContentItem::Resource { resource: EmbeddedResource::text(uri, text).with_mime_type(mime_type) }
}

pub(super) fn all() -> Vec<Arc<dyn ToolDyn>> {
    let text = |text: &str| ContentItem::Text(text.to_owned());
    vec![
        fixed("test_simple_text", vec![text("This is a simple text response for testing.")]),
        fixed("test_image_content", vec![image()]),
        fixed(
            "test_audio_content",
            vec![ContentItem::Audio { media_type: "audio/wav".into(), data: WAV.into() }],
        ),
        fixed(
            "test_embedded_resource",
            vec![resource(
                "test://embedded-resource",
                "text/plain",
                "This is an embedded resource content.",
            )],
        ),
        fixed(
            "test_multiple_content_types",
            vec![
                text("Multiple content types test:"),
                image(),
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    r#"{"test":"data","value":123}"#,
                ),
            ],
        ),
        plain("test_error_handling", |_| async {
            Err(ToolError::ModelRetry(
                "This tool intentionally returns an error for testing".to_owned(),
            ))
        }),
        plain("test_tool_with_logging", |call| async {
            let output = logs(call, LogLevel::Info).await;
            // The log messages use another connection than the response. The suite counts the messages soon after the
            // response, so the response is delayed.
            tokio::time::sleep(PAUSE * 20).await;
            output
        }),
        plain("test_logging_tool", |call| logs(call, LogLevel::Error)),
        plain("test_tool_with_progress", progresses),
        plain("test_trigger_tool_change", |call| async move {
            call.peer.notifier().tools_changed();
            Ok(ToolOutput::text("told"))
        }),
        plain("test_trigger_prompt_change", |call| async move {
            call.peer.notifier().prompts_changed();
            Ok(ToolOutput::text("told"))
        }),
        tool("json_schema_2020_12_tool", json_schema_2020_12(), |_| async {
            Ok(ToolOutput::text("well-formed"))
        }),
        tool("test_custom_headers", custom_headers(), |call| async move {
            Ok(ToolOutput::text(call.input.to_string()))
        }),
    ]
}

/// Pause between two log messages or progress reports of a tool. The conformance suite requires a pause.
const PAUSE: Duration = Duration::from_millis(50);

/// Runs a tool that sends three log messages.
async fn logs(call: Call, level: LogLevel) -> Result<ToolOutput, ToolError> {
    call.peer.log(level, Some("fixture"), "Tool execution started");
    tokio::time::sleep(PAUSE).await;
    call.peer.log(level, Some("fixture"), "Tool processing data");
    tokio::time::sleep(PAUSE).await;
    call.peer.log(level, Some("fixture"), "Tool execution completed");
    Ok(ToolOutput::text("Three messages were logged."))
}

/// Runs a tool that reports progress three times.
async fn progresses(call: Call) -> Result<ToolOutput, ToolError> {
    for progress in [0.0, 50.0, 100.0] {
        if let Some(reporter) = &call.ctx.progress_reporter {
            reporter.report(progress, Some(100.0), None);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(ToolOutput::text("Done."))
}

/// Returns an input schema with keywords of JSON Schema 2020-12. The server must list the schema unchanged.
fn json_schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Returns an input schema whose parameters a client repeats in HTTP headers (SEP-2243).
fn custom_headers() -> Value {
    json!({
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "priority": {"type": "integer", "x-mcp-header": "Priority"},
            "query": {"type": "string"},
        },
    })
}
