//! Tests of the spans of failed requests.

use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpClient, McpError, McpPeer,
    McpServer, McpVersion,
};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::recorder::{Recorded, Recorder};
use super::{SECRET, connect, older, server};
use crate::client::connected;

/// Returns the error type, the response status code, the span status and its description of a span. A missing value is
/// `null`.
fn failure(span: &Recorded) -> Value {
    let fields =
        ["error.type", "rpc.response.status_code", "otel.status_code", "otel.status_description"];
    let fields = fields.iter().map(|field| span.fields.get(*field).cloned().unwrap_or_default());
    fields.collect()
}

/// Returns the expected value of [`failure`] for a JSON-RPC error with this code. `meaning` is the general description
/// of the code.
fn refusal(code: &str, meaning: &str) -> Value {
    json!([code, code, "ERROR", meaning])
}

/// Returns the expected value of [`failure`] for a failure that is not a JSON-RPC error. `kind` is the value of
/// `error.type`. `meaning` is the general description of the failure.
fn other(kind: &str, meaning: &str) -> Value {
    json!([kind, null, "ERROR", meaning])
}

#[tokio::test]
async fn error_response_span_has_the_code_without_the_message() {
    let (recorder, _guard) = Recorder::start();
    let (client, mut script) = connected(McpClient::builder()).await;
    for (code, meaning) in [
        (-32700, "parse error"),
        (-32600, "invalid request"),
        (-32601, "method not found"),
        (-32602, "invalid params"),
        (-32603, "internal error"),
        (-32002, "resource not found"),
        (-32042, "server error"),
        (7, "error"),
    ] {
        let tool = format!("tool{code}");
        let serving = async {
            let call = script.expect("tools/call").await;
            script.refuse(&call, code, SECRET).await;
        };
        let (output, ()) = tokio::join!(client.call_tool_json(&tool, json!({})), serving);
        output.unwrap_err();
        let span = recorder.ended(&format!("tools/call {tool}"), "client");
        assert_eq!(failure(&span), refusal(&code.to_string(), meaning));
    }
    recorder.assert_silent_of(SECRET);
}

#[tokio::test]
async fn failed_tool_span_has_type_tool_error() {
    let (recorder, _guard) = Recorder::start();
    let client = older().await;
    let output = client.call_tool_json("fail", json!({ "text": SECRET })).await.unwrap();
    assert!(output.is_error);
    for kind in ["client", "server"] {
        let span = recorder.ended("tools/call fail", kind);
        assert_eq!(failure(&span), other("tool_error", "the tool failed"), "{kind}");
    }
    recorder.assert_silent_of(SECRET);
    client.close().await;
}

#[tokio::test]
async fn error_response_is_recorded_at_both_ends() {
    for version in [McpVersion::V2025_11_25, McpVersion::V2026_07_28] {
        let (recorder, _guard) = Recorder::start();
        let client = connect(server(), McpClient::builder().versions([version])).await;
        client.read_resource("x://2").await.unwrap_err();
        let expected = match version.has_handshake() {
            true => refusal("-32002", "resource not found"),
            false => refusal("-32602", "invalid params"),
        };
        for kind in ["client", "server"] {
            assert_eq!(failure(&recorder.ended("resources/read", kind)), expected, "{kind}");
        }

        // The client chose the name of this unknown tool, so the server does not use it in the span name.
        client.call_tool_json("made up", json!({})).await.unwrap_err();
        let span = recorder.ended("tools/call", "server");
        assert_eq!(failure(&span), refusal("-32602", "invalid params"));
        assert_eq!(span.get("gen_ai.tool.name"), Some("made up"));
        client.close().await;
    }
}

#[tokio::test]
async fn long_names_are_truncated_and_unknown_methods_are_other() {
    let (recorder, _guard) = Recorder::start();
    let client = older().await;
    let long = "é".repeat(10_000);
    client.get_prompt(&long, Default::default()).await.unwrap_err();
    for span in recorder.spans() {
        assert!(span.get("otel.name").unwrap().len() < 600, "{span:?}");
        assert!(span.get("gen_ai.prompt.name").is_none_or(|name| name.len() == 512), "{span:?}");
    }
    client.close().await;

    let mut raw = crate::server::Client::older(&server(), "2025-11-25", json!({})).await;
    raw.request("made/up", json!({})).await;
    let span = recorder.ended("_OTHER", "server");
    assert_eq!(span.get("mcp.method.name"), Some("_OTHER"));
    assert_eq!(failure(&span), refusal("-32601", "method not found"));
    raw.request("prompts/get", json!({ "name": 7 })).await;
    let span = recorder.ended("prompts/get", "server");
    assert_eq!(failure(&span), refusal("-32602", "invalid params"));
}

#[tokio::test(start_paused = true)]
async fn unanswered_request_span_has_type_timeout() {
    let (recorder, _guard) = Recorder::start();
    let (client, mut script) =
        connected(McpClient::builder().request_timeout(Duration::from_secs(1))).await;
    let call = async { client.call_tool_json("hang", json!({ "text": SECRET })).await };
    let (output, _) = tokio::join!(call, script.expect("tools/call"));
    output.unwrap_err();
    let span = recorder.ended("tools/call hang", "client");
    assert_eq!(failure(&span), other("timeout", "there was no answer in time"));
    assert_eq!(span.get("jsonrpc.request.id"), Some("2"));
}

#[tokio::test]
async fn lost_connection_span_has_type_transport() {
    let (recorder, _guard) = Recorder::start();
    let (client, mut script) = connected(McpClient::builder()).await;
    let serving = async {
        script.expect("tools/call").await;
        drop(script);
    };
    let (output, ()) = tokio::join!(client.call_tool_json("die", json!({})), serving);
    output.unwrap_err();
    let span = recorder.ended("tools/call die", "client");
    assert_eq!(failure(&span), other("transport", "the connection failed"));

    // A request that cannot be sent has no span.
    client.call_tool_json("die again", json!({})).await.unwrap_err();
    assert_eq!(recorder.named("tools/call die again", "client"), []);
}

/// Notifies the test and never returns
#[neuron_tool]
async fn wait(ctx: &ToolContext) -> Result<String, ToolError> {
    ctx.extensions.get::<Arc<Notify>>().unwrap().notify_one();
    std::future::pending().await
}

#[tokio::test]
async fn cancelled_or_dropped_call_ends_both_spans() {
    for is_dropped in [false, true] {
        let (recorder, _guard) = Recorder::start();
        let began = Arc::new(Notify::new());
        let mut context = ToolContext::default();
        context.extensions.insert(began.clone());
        let mut tools = ToolRegistry::new();
        tools.register(WaitTool);
        let client =
            connect(McpServer::new(tools).with_tool_context(context), McpClient::builder()).await;
        let ctx = ToolContext::default();
        tokio::select! {
            _ = client.call_tool_in("wait", json!({}), &ctx), if is_dropped => unreachable!(),
            () = began.notified(), if is_dropped => {}
            output = client.call_tool_in("wait", json!({}), &ctx), if !is_dropped => {
                output.unwrap_err();
            }
            () = async {
                began.notified().await;
                ctx.cancellation_token.cancel();
                std::future::pending().await
            }, if !is_dropped => {}
        }
        for kind in ["client", "server"] {
            let span = recorder.until_ended("tools/call wait", kind).await;
            assert_eq!(failure(&span), other("cancelled", "the request was cancelled"), "{kind}");
        }
        client.close().await;
    }
}

fn form() -> ElicitationRequest {
    ElicitationRequest::form(SECRET, json!({ "type": "object", "properties": {} }))
}

/// Sends an elicitation to the client, and returns as soon as the client's handler has received the elicitation
#[neuron_tool]
async fn impatient(ctx: &ToolContext) -> Result<String, ToolError> {
    let came = ctx.extensions.get::<Arc<Notify>>().unwrap();
    tokio::select! {
        answer = ctx.extensions.get::<McpPeer>().unwrap().elicit("key", form()) => {
            answer.map(|answer| format!("{answer:?}"))
        }
        () = came.notified() => Ok("forget it".to_owned()),
    }
}

/// An elicitation handler that fails if `came` is `None`, and otherwise never returns.
struct Handler {
    /// If set, the handler wakes this `Notify` and never returns. If `None`, the handler fails.
    came: Option<Arc<Notify>>,
}

impl ElicitationHandler for Handler {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        match &self.came {
            Some(came) => {
                came.notify_one();
                std::future::pending().await
            }
            None => Err(McpError::Other(SECRET.into())),
        }
    }
}

#[tokio::test]
async fn failed_or_cancelled_question_ends_both_spans() {
    for (came, expected) in [
        (None, refusal("-32603", "internal error")),
        (Some(Arc::default()), other("cancelled", "the request was cancelled")),
    ] {
        let (recorder, _guard) = Recorder::start();
        let mut context = ToolContext::default();
        context.extensions.insert(came.clone().unwrap_or_default());
        let mut tools = ToolRegistry::new();
        tools.register(ImpatientTool);
        let server = McpServer::new(tools).with_tool_context(context);
        let builder = McpClient::builder().versions([McpVersion::V2025_11_25]);
        let client = connect(server, builder.elicitation(Handler { came: came.clone() })).await;
        let output = client.call_tool_json("impatient", json!({})).await.unwrap();
        assert_eq!(output.is_error, came.is_none());
        for kind in ["client", "server"] {
            let span = recorder.until_ended("elicitation/create", kind).await;
            assert_eq!(failure(&span), expected, "{kind}");
        }
        recorder.assert_silent_of(SECRET);
        client.close().await;
    }
}
