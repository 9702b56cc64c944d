//! The span that neuron-otel makes for a call of a tool learns of the request, which then has none of its own.

use std::sync::Arc;

use neuron_mcp::{McpClient, McpToolBridge};
use neuron_types::{ToolContext, ToolDyn};
use serde_json::{Value, json};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::recorder::{Recorded, Recorder};
use super::{SECRET, older};
use crate::client::connected;

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

fn outer() -> Span {
    execute_tool!("neuron_otel")
}

async fn bridge(client: &Arc<McpClient>, tool: &str) -> Arc<dyn ToolDyn> {
    let mut tools = McpToolBridge::discover(client).await.unwrap();
    tools.retain(|found| found.name() == tool);
    tools.remove(0)
}

fn named(recorder: &Recorder, name: &str) -> Vec<Recorded> {
    recorder.spans().into_iter().filter(|span| span.name == name).collect()
}

/// The requests for tools that have a span of the client.
fn calls(recorder: &Recorder) -> usize {
    let spans = named(recorder, "mcp.client.request").into_iter();
    spans.filter(|span| span.get("mcp.method.name") == Some("tools/call")).count()
}

#[tokio::test]
async fn the_span_of_a_bridged_tool_learns_of_the_request() {
    let (recorder, _guard) = Recorder::start();
    let client = Arc::new(older().await);
    for (tool, args) in [("echo", json!({ "text": SECRET })), ("fail", json!({ "text": SECRET }))] {
        let bridge = bridge(&client, tool).await;
        let before = named(&recorder, "execute_tool").len();
        bridge.call_dyn(args, &ToolContext::default()).instrument(outer()).await.unwrap();
        let span = named(&recorder, "execute_tool").remove(before);
        let id = recorder.ended(&format!("tools/call {tool}"), "server");
        // Whether it failed is said by who made it.
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
async fn it_learns_the_code_of_a_refusal_and_of_a_call_that_is_dropped_the_id() {
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
async fn what_is_no_tool_of_the_server_keeps_its_span_to_itself() {
    let (recorder, _guard) = Recorder::start();
    let client = Arc::new(older().await);
    let ctx = ToolContext::default();
    // A tool of one's own that asks servers: its span is about that tool.
    let work = async {
        client.call_tool_in("echo", json!({ "text": "" }), &ctx).await.unwrap();
        client.read_resource_in("x://1", &ctx).await.unwrap();
    };
    work.instrument(outer()).await;
    // A span of somebody else.
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
