//! Tests of MCP requests that an application sends itself, without an agent.

use std::collections::HashMap;
use std::sync::Arc;

use neuron_mcp::{CompletionQuery, CompletionTarget};
use neuron_testing::Reply;
use neuron_types::ToolContext;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use tokio::sync::Notify;
use tracing::Instrument;

use super::served::{SECRET, Served, assert_one_trace, kinds, until_arrived};
use crate::support::look::Behavior;
use crate::support::tree::{Forest, Tree};

fn none() -> [Reply; 0] {
    []
}

async fn ask_for_everything(served: &Served) {
    let client = &served.client;
    client.list_tools(None).await.unwrap();
    client.call_tool_json("look", json!({"at": SECRET})).await.unwrap();
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

/// Returns the application's span `handling` and the spans below it.
#[track_caller]
fn handling(forest: &Forest) -> Forest {
    Forest(vec![forest.one("handling").clone()])
}

#[tokio::test]
async fn request_has_client_and_server_span_in_application_trace() {
    for kind in kinds() {
        let setup = kind.start(none()).await;
        let served = kind.serve(Behavior::Echo).await;
        ask_for_everything(&served).instrument(tracing::info_span!("handling")).await;
        let port = served.port;
        served.end().await;
        let exported = setup.finish();
        let forest = handling(&exported.forest());
        forest.assert_outline(
            "
            handling INTERNAL
              tools/list CLIENT
                tools/list SERVER
              tools/call look CLIENT
                tools/call look SERVER
                  inside INTERNAL
              prompts/get greet CLIENT
                prompts/get greet SERVER
              resources/read CLIENT
                resources/read SERVER
              completion/complete greet CLIENT
                completion/complete greet SERVER
            ",
        );
        assert_one_trace(forest.root());
        for client in &forest.root().children {
            let server = &client.children[0];
            for name in [
                "mcp.method.name",
                "mcp.protocol.version",
                "mcp.session.id",
                "mcp.resource.uri",
                "jsonrpc.request.id",
                "gen_ai.tool.name",
                "gen_ai.prompt.name",
                "network.transport",
                "network.protocol.name",
            ] {
                let (ours, theirs) = (client.attributes.text(name), server.attributes.text(name));
                assert_eq!(ours, theirs, "{name} of {}", client.name);
            }
            let attributes = &client.attributes;
            let method = attributes.text("mcp.method.name").unwrap();
            assert!(client.name.starts_with(method), "{client:?}");
            assert_eq!(attributes.text("mcp.protocol.version"), Some(kind.protocol.as_str()));
            assert!(attributes.has("jsonrpc.request.id"), "{client:?}");
            assert_eq!(attributes.has("mcp.session.id"), kind.has_sessions(), "{client:?}");
            assert_eq!(attributes.text("network.transport"), kind.network().0);
            assert_eq!(attributes.int("server.port"), port);
            let uri = (method == "resources/read").then_some("x://1");
            assert_eq!(attributes.text("mcp.resource.uri"), uri);
        }
    }
}

#[tokio::test]
async fn request_outside_of_trace_begins_a_trace() {
    for kind in kinds() {
        let setup = kind.start(none()).await;
        let served = kind.serve(Behavior::Echo).await;
        served.client.read_resource("x://1").await.unwrap();
        served.client.read_resource("x://1").await.unwrap();
        served.end().await;
        let exported = setup.finish();
        let mut roots = exported.forest().0;
        roots.retain(|root| root.name == "resources/read");
        let traces: Vec<&[u8]> = roots.iter().map(|root| root.span.trace_id.as_slice()).collect();
        assert_eq!(traces.len(), 2, "{roots:?}");
        assert_ne!(traces[0], traces[1]);
        for root in &roots {
            assert_eq!((root.kind, root.children[0].kind), (SpanKind::Client, SpanKind::Server));
            assert_one_trace(root);
        }
    }
}

/// Checks that an MCP span has the error type `error`, the JSON-RPC error code `code`, and a status description. If
/// `code` is `None`, the span must have no error code.
#[track_caller]
fn assert_failed(span: &Tree, error: &str, code: Option<&str>) {
    assert_eq!(span.attributes.text("error.type"), Some(error), "{span:?}");
    assert_eq!(span.attributes.text("rpc.response.status_code"), code, "{span:?}");
    assert!(!span.description.is_empty(), "{span:?}");
}

#[tokio::test]
async fn rejected_request_has_error_code_in_both_spans() {
    for kind in kinds() {
        let setup = kind.start(none()).await;
        let served = kind.serve(Behavior::Fail).await;
        let requests = async {
            let client = &served.client;
            client.read_resource("x://2").await.unwrap_err();
            client.get_prompt("leave", HashMap::new()).await.unwrap_err();
            client.call_tool_json("gone", json!({"at": SECRET})).await.unwrap_err();
            assert!(client.call_tool_json("look", json!({"at": SECRET})).await.unwrap().is_error);
        };
        requests.instrument(tracing::info_span!("handling")).await;
        served.end().await;
        let exported = setup.finish();
        let forest = handling(&exported.forest());
        let missing = if kind.protocol.has_handshake() { "-32002" } else { "-32602" };
        let outline = "
            handling INTERNAL
              resources/read CLIENT ERROR MISSING
                resources/read SERVER ERROR MISSING
              prompts/get leave CLIENT ERROR -32602
                prompts/get leave SERVER ERROR -32602
              tools/call gone CLIENT ERROR -32602
                tools/call SERVER ERROR -32602
              tools/call look CLIENT ERROR tool_error
                tools/call look SERVER ERROR tool_error
                  inside INTERNAL
            ";
        // The lines of an outline contain the status before the error type.
        forest.assert_outline(&outline.replace("MISSING", missing));
        let expected = [
            (missing, Some(missing)),
            ("-32602", Some("-32602")),
            ("-32602", Some("-32602")),
            ("tool_error", None),
        ];
        for (client, (error, code)) in forest.root().children.iter().zip(expected) {
            assert_failed(client, error, code);
            assert_failed(&client.children[0], error, code);
        }
    }
}

#[tokio::test]
async fn cancelled_or_dropped_request_ends_both_spans() {
    for kind in kinds() {
        for is_dropped in [false, true] {
            let setup = kind.start(none()).await;
            let began = Arc::new(Notify::new());
            let served = kind.serve(Behavior::Hang(began.clone())).await;
            let ctx = ToolContext::default();
            let request = async {
                let stop = async {
                    began.notified().await;
                    if !is_dropped {
                        ctx.cancellation_token.cancel();
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    output = served.client.call_tool_in("look", json!({"at": SECRET}), &ctx) => {
                        assert!(!is_dropped, "nothing answers");
                        output.unwrap_err();
                    }
                    () = stop => {}
                }
            };
            request.instrument(tracing::info_span!("handling")).await;
            let both = |forest: &Forest| forest.all("tools/call look").len() == 2;
            until_arrived(&setup.telemetry, both).await;
            served.end().await;
            let exported = setup.finish();
            let forest = handling(&exported.forest());
            forest.assert_outline(
                "
                handling INTERNAL
                  tools/call look CLIENT ERROR cancelled
                    tools/call look SERVER ERROR cancelled
                      inside INTERNAL
                ",
            );
            let client = &forest.root().children[0];
            assert_failed(client, "cancelled", None);
            assert_failed(&client.children[0], "cancelled", None);
        }
    }
}
