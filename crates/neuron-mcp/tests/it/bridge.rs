//! Tests of `McpToolBridge`, which makes the tools of a server available in a registry and in an agent.

use std::sync::{Arc, Mutex};

use neuron_loop::{AgentLoop, LoopConfig, ToolErrorPolicy};
use neuron_mcp::{BridgeOptions, McpClient, McpError, McpRequestError, McpToolBridge, McpToolset};
use neuron_runtime::PermissionRules;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_tool::builtin::{PermissionChecker, RetryInvalidInput, SchemaValidator};
use neuron_types::{
    ContentBlock, ContentItem, EmbeddedResource, ImageSource, Message, ProgressReporter,
    ResourceLink, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput,
};
use serde_json::{Value, json};

use crate::fake_server::{Answer, FakeServer, NoCompaction, tool};

/// Starts a fake server with `tools`, and connects a client. `answers` returns the server's response to the parameters
/// of a tool call.
async fn started(
    tools: impl IntoIterator<Item = Value>,
    answers: impl Fn(&Value) -> Answer + Send + Sync + 'static,
) -> (Arc<FakeServer>, Arc<McpClient>) {
    FakeServer::start(McpClient::builder(), "fake", tools, answers).await
}

fn registry(tools: Vec<Arc<dyn ToolDyn>>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(tool);
    }
    registry
}

fn names(registry: &ToolRegistry) -> Vec<&str> {
    registry.names().collect()
}

#[tokio::test]
async fn bridged_tool_keeps_the_definition_of_the_server() {
    let described = json!({
        "name": "files.read",
        "title": "Read a file",
        "description": "Reads",
        "inputSchema": {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": { "path": true },
        },
        "outputSchema": { "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" },
        "annotations": { "readOnlyHint": true, "openWorldHint": false },
    });
    let (server, client) = started([described, tool("echo")], |_| Answer::text("read")).await;
    let tools = McpClient::discover_tools(&client).await.unwrap();
    let registry = registry(tools);
    assert_eq!(names(&registry), ["files_read", "echo"]);
    let definition = registry.definition("files_read").unwrap();
    let annotations = definition.annotations.unwrap();
    assert_eq!(
        definition,
        &ToolDefinition {
            name: "files_read".into(),
            title: Some("Read a file".into()),
            description: "Reads".into(),
            input_schema: json!({ "type": "object", "properties": { "path": {} } }),
            output_schema: Some(
                json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object" })
            ),
            annotations: Some(annotations),
            cache_control: None,
        }
    );
    assert_eq!(
        (annotations.read_only_hint, annotations.open_world_hint),
        (Some(true), Some(false))
    );

    let input = json!({ "path": "/a" });
    let output = registry.execute("files_read", input, &ToolContext::default()).await.unwrap();
    assert_eq!(output, ToolOutput::text("read"));
    let [call] = &server.received("tools/call")[..] else { panic!("not one call") };
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("files.read"), &json!({ "path": "/a" }))
    );
}

#[tokio::test]
async fn options_select_and_rename_tools() {
    let read_only = json!({
        "name": "d",
        "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true, "idempotentHint": true },
    });
    let tools = [tool("a.b"), tool("a/b"), tool("c"), tool("c"), read_only];
    let (_server, client) = started(tools, |_| Answer::text("")).await;
    let shown = async |options: BridgeOptions| {
        let tools = McpToolBridge::discover_with(&client, &options).await.unwrap();
        tools.iter().map(|tool| tool.name().to_owned()).collect::<Vec<_>>()
    };
    let [first, second, ..] = &shown(BridgeOptions::new()).await[..] else { panic!("too few") };
    assert!(first.starts_with("a_b_") && second.starts_with("a_b_") && first != second);
    let options = BridgeOptions::new().with_prefix("my.server").with_tools(["a.b", "d", "x"]);
    assert_eq!(shown(options).await, ["my_server_a_b", "my_server_d"]);
    let options = BridgeOptions::new().without_tools(["a.b", "a/b"]);
    assert_eq!(shown(options.clone()).await, ["c", "d"]);
    let options = options.with_filter(|tool| tool.annotations.is_some());
    assert_eq!(shown(options.clone()).await, ["d"]);

    for (options, expected) in [
        (options.clone(), ToolEffect::AtMostOnce),
        (options.clone().trust_idempotent_hint(), ToolEffect::Idempotent),
        (options.trust_read_only_hint(), ToolEffect::Pure),
    ] {
        let tools = McpToolBridge::discover_with(&client, &options).await.unwrap();
        assert_eq!(tools[0].effect(), expected, "{options:?}");
    }
}

#[tokio::test]
async fn tools_above_the_limits_are_left_out_with_a_reason() {
    let long = |bytes| json!({ "name": "long", "description": "x".repeat(bytes), "inputSchema": { "type": "object" } });
    let named = tool(&"n".repeat(129));
    let tools = [tool("a"), long(70_000), named, tool("b"), tool("a"), tool("c"), tool("d")];
    let (_server, client) = started(tools, |_| Answer::text("")).await;
    let mut registry = ToolRegistry::new();
    let options = BridgeOptions::new().max_tools(3);
    let mut toolset = McpToolset::new(Arc::clone(&client), options);
    let changes = toolset.sync(&mut registry).await.unwrap();
    assert_eq!(changes.added, ["a", "b", "c"]);
    let reasons: Vec<_> = changes.left_out.iter().map(|it| (&*it.tool, &*it.reason)).collect();
    let [(long_name, long_reason), (_, named), (again, twice), (last, many)] = reasons[..] else {
        panic!("{reasons:?}")
    };
    assert!(long_name == "long" && long_reason.contains("max_definition_bytes"), "{long_reason}");
    assert!(named.contains("its name has 129 bytes"), "{named}");
    assert!(again == "a" && twice.contains("twice"), "{twice}");
    assert!(last == "d" && many.contains("more than 3 tools"), "{many}");
    let options = BridgeOptions::new().with_tools(["long"]).max_definition_bytes(100_000);
    assert_eq!(McpToolBridge::discover_with(&client, &options).await.unwrap().len(), 1);
}

#[tokio::test]
async fn tool_with_a_schema_that_vendors_reject_is_left_out() {
    let tool = |name: &str, input: Value, output: Value| json!({ "name": name, "inputSchema": input, "outputSchema": output });
    let object = || json!({ "type": "object" });
    let refers = |address: &str| json!({ "type": "object", "properties": { "a": { "$ref": address } }, "$defs": { "A": {} } });
    let bundled = json!({
        "type": "object", "properties": { "a": { "$ref": "part.json" } },
        "$defs": { "A": { "$id": "part.json", "type": "string" } },
    });
    let tools = [
        tool("text", json!({ "type": "string" }), object()),
        tool("file", refers("file:///etc/passwd"), object()),
        tool("path", refers("other.json#/a"), object()),
        tool("web", object(), refers("https://example.com/a")),
        tool("local", refers("#/$defs/A"), refers("#/$defs/A")),
        tool("bundled", bundled, object()),
    ];
    let (_server, client) = started(tools, |_| Answer::text("")).await;
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    let changes = toolset.sync(&mut ToolRegistry::new()).await.unwrap();
    assert_eq!(changes.added, ["local", "bundled"]);
    let reasons: Vec<_> = changes.left_out.iter().map(|it| (&*it.tool, &*it.reason)).collect();
    let refers = "its schema refers to another document, which is not fetched";
    let expected = [
        ("text", "its input schema describes no object"),
        ("file", refers),
        ("path", refers),
        ("web", refers),
    ];
    assert_eq!(reasons, expected);
}

#[tokio::test]
async fn long_results_and_errors_are_truncated() {
    let (_server, client) = started([tool("result"), tool("error")], |call| {
        let long = "x".repeat(300_000);
        match call["name"] == "error" {
            true => Answer::Error(-32000, long),
            false => Answer::text(&long),
        }
    })
    .await;
    let registry = registry(McpClient::discover_tools(&client).await.unwrap());
    for name in ["result", "error"] {
        let text = match registry.execute(name, json!({}), &ToolContext::default()).await {
            Ok(output) => output.content[0].to_string(),
            Err(error) => error.to_string(),
        };
        assert!(text.len() < 201_000 && text.contains("[truncated: "), "{}", text.len());
    }
}

/// The tool has run, so its result must not be lost.
#[tokio::test]
async fn structured_content_that_does_not_match_is_kept_with_a_note() {
    let count = json!({
        "name": "count",
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object", "properties": { "n": { "type": "integer" } } },
    });
    let content = json!({ "n": "x" });
    let result = json!({ "content": [], "structuredContent": content });
    let (_server, client) = started([count], move |_| Answer::Result(result.clone())).await;
    let mut registry = registry(McpClient::discover_tools(&client).await.unwrap());
    registry.add_middleware(SchemaValidator::new(&registry));
    let output = registry.execute("count", json!({}), &ToolContext::default()).await.unwrap();
    let [ContentItem::Text(text), ContentItem::Text(note)] = &output.content[..] else {
        panic!("{output:?}")
    };
    assert_eq!((text.as_str(), output.structured_content), (r#"{"n":"x"}"#, Some(content)));
    assert!(note.starts_with("[`count` ran, but its structured content"), "{note}");
}

#[tokio::test]
async fn unreadable_tool_is_skipped() {
    let broken = json!({ "name": 7, "inputSchema": "none" });
    let (_server, client) =
        started([tool("a"), broken, Value::Null, tool("b")], |_| Answer::text("")).await;
    let tools = McpToolBridge::discover(&client).await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name()).collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn bridged_tool_does_not_replace_another_tool() {
    let (_server, client) = started([tool("a")], |_| Answer::text("from the server")).await;
    let own = McpToolBridge::discover(&client).await.unwrap().remove(0);
    let mut registry = ToolRegistry::new();
    registry.register_dyn(Arc::clone(&own));
    let other = McpToolBridge::discover(&client).await.unwrap().remove(0);
    registry.register_dyn(Arc::clone(&other));
    assert!(Arc::ptr_eq(&registry.get("a").unwrap(), &own));
    assert!(registry.try_register_dyn(other).is_err());
}

#[tokio::test]
async fn single_tool_is_bridged_from_its_definition() {
    let (_server, client) = started([tool("a.b")], |_| Answer::text("done")).await;
    let definition = client.list_all_tools().await.unwrap().remove(0);
    let bridge = McpToolBridge::new(Arc::clone(&client), definition.clone());
    assert_eq!((bridge.name(), bridge.server_tool_name()), ("a_b", "a.b"));
    let output = bridge.call_dyn(json!({}), &ToolContext::default()).await.unwrap();
    assert_eq!(output, ToolOutput::text("done"));
    let options = BridgeOptions::new().with_prefix("p");
    assert_eq!(McpToolBridge::with_options(client, definition, &options).name(), "p_a_b");
}

#[tokio::test]
async fn result_keeps_every_kind_of_content() {
    let result = json!({
        "content": [
            { "type": "text", "text": "t" },
            { "type": "image", "mimeType": "image/png", "data": "aGk" },
            { "type": "audio", "mimeType": "audio/wav", "data": "aGk=" },
            { "type": "resource", "resource": { "uri": "a:b", "mimeType": "text/plain", "text": "r" } },
            { "type": "resource", "resource": { "uri": "a:c", "blob": "aGk=" } },
            { "type": "resource_link", "uri": "a:d", "name": "d", "size": 3 },
            { "type": "image", "mimeType": "image/png", "data": "no base64!" },
        ],
        "structuredContent": { "n": 1 },
        "isError": true,
    });
    let (_server, client) = started([tool("t")], move |_| Answer::Result(result.clone())).await;
    let registry = registry(McpToolBridge::discover(&client).await.unwrap());
    let output = registry.execute("t", json!({}), &ToolContext::default()).await.unwrap();
    let source = ImageSource::Base64 { media_type: "image/png".into(), data: "aGk=".into() };
    let text = EmbeddedResource::text("a:b", "r").with_mime_type("text/plain");
    let link = ResourceLink { size: Some(3), ..ResourceLink::new("a:d", "d") };
    assert_eq!(
        output,
        ToolOutput {
            content: vec![
                ContentItem::Text("t".into()),
                ContentItem::Image { source },
                ContentItem::Audio { media_type: "audio/wav".into(), data: "aGk=".into() },
                ContentItem::Resource { resource: text },
                ContentItem::Resource { resource: EmbeddedResource::blob("a:c", "aGk=") },
                ContentItem::ResourceLink { resource: link },
                ContentItem::Text("[image] (the server sent invalid base64)".into()),
            ],
            structured_content: Some(json!({ "n": 1 })),
            is_error: true,
        }
    );
}

#[tokio::test]
async fn protocol_errors_map_to_tool_errors() {
    let (_server, client) =
        started(["unknown", "invalid", "broken", "gone"].map(tool), |params| match params["name"]
            .as_str()
            .unwrap()
        {
            "unknown" => Answer::Error(-32602, "Unknown tool: unknown".into()),
            "invalid" => Answer::Error(-32602, "`path` is missing".into()),
            "broken" => Answer::Error(-32603, "out of order".into()),
            _ => Answer::HangUp,
        })
        .await;
    let mut registry = registry(McpToolBridge::discover(&client).await.unwrap());
    let ctx = ToolContext::default();
    let error = async |registry: &ToolRegistry, name: &str, input: Value| {
        registry.execute(name, input, &ctx).await.unwrap_err()
    };
    let not_found = error(&registry, "unknown", json!({})).await;
    assert_eq!(not_found.to_string(), "tool not found: unknown");
    assert!(matches!(not_found, ToolError::NotFound(_)));
    let invalid = error(&registry, "invalid", json!({})).await;
    assert_eq!(invalid.to_string(), "invalid input: arguments of `invalid`: `path` is missing");
    let ToolError::ExecutionFailed(source) = error(&registry, "broken", json!({})).await else {
        panic!("another error")
    };
    assert_eq!(source.downcast_ref::<McpRequestError>().unwrap().code, -32603);
    let no_object = error(&registry, "broken", json!([1])).await;
    assert_eq!(no_object.to_string(), "invalid input: arguments of `broken`: expected an object");
    assert!(registry.get("broken").unwrap().check_input(&json!("x")).is_err());

    registry.add_middleware(RetryInvalidInput::new(3));
    let retry = error(&registry, "invalid", json!({})).await;
    assert!(matches!(retry, ToolError::ModelRetry(_)), "{retry}");

    let ToolError::ExecutionFailed(source) = error(&registry, "gone", json!({})).await else {
        panic!("another error")
    };
    assert!(matches!(source.downcast_ref(), Some(McpError::Transport(_))), "{source}");
    // A direct call after the lost connection also fails with the transport error.
    let lost = client.call_tool("broken", serde_json::Map::new()).await.unwrap_err();
    assert!(matches!(lost, McpError::Transport(_)), "{lost}");
}

#[tokio::test]
async fn refused_direct_call_is_a_tool_call_error() {
    let (_server, client) = started([tool("t")], |_| Answer::Error(-32000, "no".into())).await;
    let error = client.call_tool_in("t", json!({}), &ToolContext::default()).await.unwrap_err();
    assert!(matches!(&error, McpError::ToolCall(text) if text == "no (-32000)"), "{error}");
}

/// Records each progress report as text.
#[derive(Default)]
struct Reports(Mutex<Vec<String>>);

impl ProgressReporter for Reports {
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push(format!("{progress} {total:?} {message:?}"));
    }
}

#[tokio::test]
async fn bridged_call_reports_progress_and_forwards_cancellation() {
    let progress = json!({
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": { "progressToken": "TOKEN", "progress": 1, "total": 4, "message": "reading" },
    });
    let answers = move |_: &Value| Answer::Nothing(vec![progress.clone()]);
    let (server, client) = started([tool("slow")], answers).await;
    let registry = registry(McpToolBridge::discover(&client).await.unwrap());
    let reports = Arc::new(Reports::default());
    let ctx = ToolContext { progress_reporter: Some(reports.clone()), ..ToolContext::default() };
    let call = registry.execute("slow", json!({}), &ctx);
    let cancel = async {
        server.heard("tools/call").await;
        while reports.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        ctx.cancellation_token.cancel();
    };
    let (result, ()) = tokio::join!(call, cancel);
    assert!(matches!(result, Err(ToolError::Cancelled)), "{result:?}");
    assert_eq!(*reports.0.lock().unwrap(), [r#"1 Some(4.0) Some("reading")"#]);
    server.heard("notifications/cancelled").await;
}

#[tokio::test]
async fn permission_rules_match_annotations_of_the_server() {
    let annotated = |name: &str, read_only: bool| {
        json!({
            "name": name,
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": read_only },
        })
    };
    let tools = [annotated("look", true), annotated("change", false), tool("silent")];
    let (server, client) = started(tools, |_| Answer::text("done")).await;
    let options = BridgeOptions::new().with_prefix("fs");
    let mut registry = registry(McpToolBridge::discover_with(&client, &options).await.unwrap());
    let rules: PermissionRules = serde_json::from_value(json!({
        "default": "deny",
        "rules": [
            { "effect": "allow", "tools": ["fs_*"], "annotations": { "read_only": true } },
        ],
    }))
    .unwrap();
    registry.add_middleware(PermissionChecker::new(rules));
    let ctx = ToolContext::default();
    registry.execute("fs_look", json!({}), &ctx).await.unwrap();
    for denied in ["fs_change", "fs_silent"] {
        let error = registry.execute(denied, json!({}), &ctx).await.unwrap_err();
        assert!(matches!(error, ToolError::PermissionDenied(_)), "{error}");
    }
    assert_eq!(server.count("tools/call"), 1);
}

#[tokio::test]
async fn agent_calls_bridged_tools() {
    let (server, client) = started([tool("files.read"), tool("broken")], |params| {
        match params["name"].as_str().unwrap() {
            "files.read" => Answer::Result(json!({
                "content": [{ "type": "resource", "resource": { "uri": "a:b", "text": "hi" } }],
            })),
            _ => Answer::Error(-32602, "`path` is missing".into()),
        }
    })
    .await;
    let registry = registry(McpToolBridge::discover(&client).await.unwrap());
    let provider = ScriptedProvider::new([
        Reply::tool_calls([
            ("c1", "files_read", json!({ "path": "/a" })),
            ("c2", "broken", json!({})),
        ]),
        Reply::text("It says hi."),
    ]);
    let config =
        LoopConfig { tool_errors: ToolErrorPolicy::ReturnToModel, ..LoopConfig::default() };
    let mut agent = AgentLoop::new(provider.clone(), registry, NoCompaction, config);
    let ctx = ToolContext::default();
    let result = agent.run(Message::user("What does it say?"), &ctx).await.unwrap();
    assert_eq!(result.response, "It says hi.");
    assert_eq!(server.received("tools/call")[0]["arguments"], json!({ "path": "/a" }));

    let requests = provider.requests();
    let offered: Vec<&str> = requests[0].tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["files_read", "broken"]);
    let results: Vec<String> =
        requests[1].messages.last().unwrap().content.iter().map(ContentBlock::to_string).collect();
    assert_eq!(
        results,
        [
            "[tool result c1: [resource a:b]\nhi]",
            "[tool error c2: invalid input: arguments of `broken`: `path` is missing]",
        ]
    );
}
