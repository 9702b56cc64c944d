//! Tests of the spans of MCP requests. They check the number, fields, parents and end of the spans.

mod errors;
mod execute_tool;
mod http;
mod parents;
mod recorder;
#[cfg(unix)]
mod stdio;

use std::collections::HashMap;

use neuron_mcp::{
    CompletionQuery, CompletionTarget, McpClient, McpClientBuilder, McpPrompt, McpPromptMessage,
    McpPromptResult, McpPromptSet, McpResource, McpResourceSet, McpServer, McpVersion,
};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::ToolError;
use serde_json::{Value, json};
use tracing::Level;

use self::recorder::{Recorded, Recorder};

/// Text in the arguments, results and error messages of all requests. No span field may contain this text.
const SECRET: &str = "s3cret";

/// Returns the argument `text` unchanged
#[neuron_tool]
async fn echo(text: String) -> Result<String, ToolError> {
    tracing::info_span!(target: "test", "inside").in_scope(|| {});
    Ok(text)
}

/// Fails with its text as the error message
#[neuron_tool]
async fn fail(text: String) -> Result<String, ToolError> {
    Err(ToolError::ExecutionFailed(text.into()))
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(EchoTool);
    tools.register(FailTool);
    tools
}

fn server() -> McpServer {
    let resources = McpResourceSet::new().with_text(McpResource::new("x://1", "one"), SECRET);
    let prompts = McpPromptSet::new().with_prompt(McpPrompt::new("greet"), |get| async move {
        let messages = vec![McpPromptMessage::user(format!("{:?}", get.arguments))];
        Ok(McpPromptResult { messages, ..McpPromptResult::default() })
    });
    McpServer::new(tools()).with_resources(resources).with_prompts(prompts)
}

/// Connects a client to a server over an in-memory stream.
async fn connect(server: McpServer, builder: McpClientBuilder) -> McpClient {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(async move { server.serve_io(input, output).await });
    let (input, output) = tokio::io::split(ours);
    builder.connect_io(input, output).await.unwrap()
}

/// Connects a client with version 2025-11-25 to [`server`].
async fn older() -> McpClient {
    connect(server(), McpClient::builder().versions([McpVersion::V2025_11_25])).await
}

/// Sends five requests, which list the tools, call a tool, get a prompt, read a resource, and complete an argument.
async fn ask_for_everything(client: &McpClient) {
    client.list_tools(None).await.unwrap();
    client.call_tool_json("echo", json!({ "text": SECRET })).await.unwrap();
    let arguments = HashMap::from([("name".to_owned(), SECRET.to_owned())]);
    client.get_prompt("greet", arguments).await.unwrap();
    client.read_resource("x://1").await.unwrap();
    let target = CompletionTarget::Prompt("greet".to_owned());
    let (argument, value) = ("name".to_owned(), SECRET.to_owned());
    client
        .complete(CompletionQuery { target, argument, value, context: Vec::new() })
        .await
        .unwrap();
}

/// Returns the expected span fields of the five requests of [`ask_for_everything`], in order. Leaves out the fields
/// that are the same for every request.
fn about_everything() -> [Value; 5] {
    [
        json!({ "mcp.method.name": "tools/list", "otel.name": "tools/list" }),
        json!({
            "mcp.method.name": "tools/call", "otel.name": "tools/call echo",
            "gen_ai.tool.name": "echo", "gen_ai.operation.name": "execute_tool",
        }),
        json!({
            "mcp.method.name": "prompts/get", "otel.name": "prompts/get greet",
            "gen_ai.prompt.name": "greet",
        }),
        json!({
            "mcp.method.name": "resources/read", "otel.name": "resources/read",
            "mcp.resource.uri": "x://1",
        }),
        json!({
            "mcp.method.name": "completion/complete", "otel.name": "completion/complete greet",
            "gen_ai.prompt.name": "greet",
        }),
    ]
}

/// Returns the object `fields` with the members of the object `common` added.
fn with(mut fields: Value, common: &Value) -> Value {
    let common = common.as_object().unwrap().clone();
    fields.as_object_mut().unwrap().extend(common);
    fields
}

/// Returns the recorded spans whose kind is `kind`, which is `client` or `server`. Omits the spans of `initialize` and
/// `server/discover`.
fn of_kind(recorder: &Recorder, kind: &str) -> Vec<Recorded> {
    let spans = recorder.spans().into_iter();
    spans
        .filter(|span| {
            let is_begin = ["initialize", "server/discover"]
                .contains(&span.get("mcp.method.name").unwrap_or_default());
            span.get("otel.kind") == Some(kind) && !is_begin
        })
        .collect()
}

#[tokio::test]
async fn request_has_a_span_at_both_ends_without_its_content() {
    for version in McpVersion::ALL {
        let (recorder, _guard) = Recorder::start();
        let client = connect(server(), McpClient::builder().versions([version])).await;
        ask_for_everything(&client).await;

        let clients = of_kind(&recorder, "client");
        let servers = of_kind(&recorder, "server");
        assert_eq!((clients.len(), servers.len()), (5, 5), "{clients:#?} {servers:#?}");
        for ((ours, theirs), about) in clients.iter().zip(&servers).zip(about_everything()) {
            let id = ours.get("jsonrpc.request.id").unwrap();
            id.parse::<u64>().unwrap();
            let common = json!({
                "otel.kind": "client",
                "mcp.protocol.version": version.as_str(),
                "jsonrpc.request.id": id,
            });
            assert_eq!(ours.fields, with(about.clone(), &common));
            let mut common = common;
            common["otel.kind"] = "server".into();
            assert_eq!(theirs.fields, with(about, &common));
            assert_eq!((ours.name, theirs.name), ("mcp.client.request", "mcp.server.request"));
            for span in [ours, theirs] {
                assert_eq!((&*span.target, span.level), ("neuron_mcp", Level::INFO));
                assert!(span.was_entered && span.has_ended, "{span:?}");
                assert_eq!(span.parent, None, "{span:?}");
            }
        }
        recorder.assert_silent_of(SECRET);
        client.close().await;
    }
}

#[tokio::test]
async fn handshake_has_a_span_at_the_server() {
    for version in McpVersion::ALL {
        let (recorder, _guard) = Recorder::start();
        let client = connect(server(), McpClient::builder().versions([version])).await;
        let method = if version.has_handshake() { "initialize" } else { "server/discover" };
        let span = recorder.ended(method, "server");
        let id = span.get("jsonrpc.request.id").unwrap();
        assert_eq!(
            span.fields,
            json!({
                "otel.name": method,
                "otel.kind": "server",
                "mcp.method.name": method,
                "mcp.protocol.version": version.as_str(),
                "jsonrpc.request.id": id,
            })
        );
        client.close().await;
    }
}

#[tokio::test]
async fn concurrent_calls_have_separate_spans() {
    let (recorder, _guard) = Recorder::start();
    let client = older().await;
    let calls = (0..20).map(|number| {
        let client = &client;
        async move {
            match number % 2 {
                0 => client.call_tool_json("echo", json!({ "text": number.to_string() })).await,
                _ => client.call_tool_json("fail", json!({ "text": number.to_string() })).await,
            }
        }
    });
    for output in futures_util::future::join_all(calls).await {
        output.unwrap();
    }
    for (name, error) in [("tools/call echo", None), ("tools/call fail", Some("tool_error"))] {
        let ids = |kind| {
            let spans = recorder.named(name, kind);
            assert!(spans.iter().all(|span| span.get("error.type") == error), "{spans:?}");
            let ids = spans.iter().map(|span| span.get("jsonrpc.request.id").unwrap().to_owned());
            let mut ids: Vec<_> = ids.collect();
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        assert_eq!(ids("client").len(), 10);
        assert_eq!(ids("client"), ids("server"));
    }
    // A span created inside a tool has the span of the tool's own call as its parent.
    let inside = recorder.spans().into_iter().filter(|span| span.name == "inside");
    let mut around: Vec<_> = inside.map(|span| span.parent.unwrap()).collect();
    assert!(around.iter().all(|id| recorder.span(*id).get("otel.name") == Some("tools/call echo")));
    around.sort_unstable();
    around.dedup();
    assert_eq!(around.len(), 10);
    client.close().await;
}

#[tokio::test]
async fn connection_does_not_keep_its_setup_span_open() {
    let (recorder, _guard) = Recorder::start();
    let span = tracing::info_span!(target: "test", "setup");
    let client = tracing::Instrument::instrument(older(), span).await;
    let setup = |spans: Vec<Recorded>| spans.into_iter().find(|span| span.name == "setup").unwrap();
    assert!(setup(recorder.spans()).has_ended);
    assert!(!client.is_closed());
    client.call_tool_json("echo", json!({ "text": "" })).await.unwrap();
    client.close().await;
}
