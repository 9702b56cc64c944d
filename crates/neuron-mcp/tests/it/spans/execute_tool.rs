//! Tests of calls of a server's tools inside an `execute_tool` span, which neuron-otel creates for a tool call. The
//! client then records its request in this span, and creates no second span.

use std::sync::Arc;

use neuron_mcp::{McpClient, McpToolBridge};
use neuron_types::{ToolContext, ToolDyn};
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::recorder::{Recorded, Recorder};
use super::{SECRET, older};
use crate::client::connected;

/// Creates a span with the same name and fields as the span of neuron-otel for a tool call.
macro_rules! execute_tool {
    ($target:literal) => {
        tracing::info_span!(
            target: $target,
            "execute_tool",
            mcp.method.name = Empty,
            mcp.protocol.version = Empty,
            mcp.session.id = Empty,
            jsonrpc.request.id = Empty,
            network.transport = Empty,
            network.protocol.name = Empty,
            server.address = Empty,
            server.port = Empty,
            rpc.response.status_code = Empty,
            error.type = Empty,
            otel.status_code = Empty,
        )
    };
}

/// Returns the span that neuron-otel creates for a tool call.
fn outer() -> Span {
    execute_tool!("neuron_otel")
}

/// Returns the bridged tool with this name.
async fn bridge(client: &Arc<McpClient>, tool: &str) -> Arc<dyn ToolDyn> {
    let mut tools = McpToolBridge::discover(client).await.unwrap();
    tools.retain(|found| found.name() == tool);
    tools.remove(0)
}

fn named(recorder: &Recorder, name: &str) -> Vec<Recorded> {
    recorder.spans().into_iter().filter(|span| span.name == name).collect()
}

/// Returns the number of spans that the client has created for tool calls.
fn calls(recorder: &Recorder) -> usize {
    let spans = named(recorder, "mcp.client.request").into_iter();
    spans.filter(|span| span.get("mcp.method.name") == Some("tools/call")).count()
}

#[tokio::test]
async fn bridged_call_records_the_request_on_the_outer_span() {
    let (recorder, _guard) = Recorder::start();
    let client = Arc::new(older().await);
    for (tool, args) in [("echo", json!({ "text": SECRET })), ("fail", json!({ "text": SECRET }))] {
        let bridge = bridge(&client, tool).await;
        let before = named(&recorder, "execute_tool").len();
        bridge.call_dyn(args, &ToolContext::default()).instrument(outer()).await.unwrap();
        let span = named(&recorder, "execute_tool").remove(before);
        let id = recorder.ended(&format!("tools/call {tool}"), "server");
        // The creator of the span records whether the call failed.
        assert_eq!(
            span.fields,
            json!({
                "mcp.method.name": "tools/call",
                "mcp.protocol.version": "2025-11-25",
                "jsonrpc.request.id": id.get("jsonrpc.request.id").unwrap(),
            })
        );
        assert!(span.has_ended);
    }
    assert_eq!(calls(&recorder), 0);
    recorder.assert_silent_of(SECRET);
    client.close().await;
}

#[tokio::test]
async fn outer_span_has_the_error_code_or_the_id_of_a_dropped_call() {
    let (recorder, _guard) = Recorder::start();
    let (client, mut script) = connected(McpClient::builder()).await;
    let client = Arc::new(client);
    let listing = async {
        let list = script.expect("tools/list").await;
        let tool = json!({ "name": "t", "inputSchema": { "type": "object" } });
        script.reply(&list, json!({ "tools": [tool] })).await;
    };
    let (bridge, ()) = tokio::join!(bridge(&client, "t"), listing);
    let ctx = ToolContext::default();

    let serving = async {
        let call = script.expect("tools/call").await;
        script.refuse(&call, -32603, SECRET).await;
    };
    let call = bridge.call_dyn(json!({}), &ctx).instrument(outer());
    let (output, ()) = tokio::join!(call, serving);
    output.unwrap_err();
    tokio::select! {
        biased;
        _ = bridge.call_dyn(json!({}), &ctx).instrument(outer()) => panic!("nobody answers"),
        _ = script.expect("tools/call") => {}
    }
    let told = |id: &str, code: Option<&str>| {
        let mut fields = json!({
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": "2025-11-25",
            "jsonrpc.request.id": id,
        });
        if let Some(code) = code {
            fields["rpc.response.status_code"] = Value::from(code);
        }
        fields
    };
    let fields: Vec<_> =
        named(&recorder, "execute_tool").into_iter().map(|span| span.fields).collect();
    assert_eq!(fields, [told("3", Some("-32603")), told("4", None)]);
    assert_eq!(calls(&recorder), 0);
    recorder.assert_silent_of(SECRET);
}

#[tokio::test]
async fn unrelated_outer_span_gets_no_request_fields() {
    let (recorder, _guard) = Recorder::start();
    let client = Arc::new(older().await);
    let ctx = ToolContext::default();
    // A tool of the application that calls servers. Its span describes the application's tool, not the requests.
    let work = async {
        client.call_tool_in("echo", json!({ "text": "" }), &ctx).await.unwrap();
        client.read_resource_in("x://1", &ctx).await.unwrap();
    };
    work.instrument(outer()).await;
    // A span with the name `execute_tool`, but with another target than the span of neuron-otel.
    let bridge = bridge(&client, "echo").await;
    let call = bridge.call_dyn(json!({ "text": "" }), &ctx);
    call.instrument(execute_tool!("somebody")).await.unwrap();

    let outer = named(&recorder, "execute_tool");
    assert!(outer.iter().all(|span| span.fields == json!({})), "{outer:?}");
    let parents: Vec<_> = recorder
        .named("tools/call echo", "client")
        .into_iter()
        .map(|span| span.parent.unwrap())
        .collect();
    assert_eq!(parents, [outer[0].id, outer[1].id]);
    assert_eq!(recorder.ended("resources/read", "client").parent, Some(outer[0].id));
    client.close().await;
}
