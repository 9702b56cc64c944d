//! Tests of runs with MCP tools. A tool call and its MCP request share one span, and the server's spans are children of
//! that span.

use std::sync::Arc;

use neuron_loop::ToolErrorPolicy;
use neuron_mcp::McpToolBridge;
use neuron_testing::Reply;
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDefinition};
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use super::served::{SECRET, Served, assert_one_trace, kinds, run_of, until_arrived};
use crate::support::agents::Chat;
use crate::support::look::Behavior;
use crate::support::setup::{Setup, context};
use crate::support::tree::Forest;

fn call(tool: &str) -> [Reply; 2] {
    [Reply::tool_call("call_1", tool, json!({"at": SECRET})), Reply::text("Blue.")]
}

#[tokio::test]
async fn run_and_server_spans_form_one_tree() {
    for kind in kinds() {
        let setup = kind.start(call("look")).await;
        let served = kind.serve(Behavior::Echo).await;
        served.agent(&setup).await.run("What is it like?", &context()).await.unwrap();
        let port = served.port;
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        forest.assert_outline(
            "
            invoke_agent planner INTERNAL
              chat claude-sonnet-4-5 CLIENT
              execute_tool look INTERNAL
                tools/call look SERVER
                  inside INTERNAL
              chat claude-sonnet-4-5 CLIENT
            ",
        );
        assert_one_trace(forest.root());

        let (tool, server) = (forest.one("execute_tool look"), forest.one("tools/call look"));
        for span in [tool, server] {
            let attributes = &span.attributes;
            assert_eq!(attributes.text("mcp.method.name"), Some("tools/call"), "{kind:?}");
            assert_eq!(attributes.text("mcp.protocol.version"), Some(kind.protocol.as_str()));
            assert_eq!(attributes.text("gen_ai.tool.name"), Some("look"));
            assert_eq!(attributes.text("gen_ai.operation.name"), Some("execute_tool"));
            let (transport, around) = kind.network();
            assert_eq!(attributes.text("network.transport"), transport);
            assert_eq!(attributes.text("network.protocol.name"), around);
            assert_eq!(attributes.has("mcp.session.id"), kind.has_sessions(), "{kind:?}");
            assert!(!attributes.has("rpc.response.status_code"), "{span:?}");
        }
        for name in ["jsonrpc.request.id", "mcp.session.id"] {
            assert_eq!(tool.attributes.text(name), server.attributes.text(name), "{name}");
        }
        assert!(tool.attributes.text("jsonrpc.request.id").is_some_and(|id| !id.is_empty()));
        // The span also has the attributes of any other tool call.
        assert_eq!(tool.attributes.text("gen_ai.tool.call.id"), Some("call_1"));
        assert_eq!(tool.attributes.text("gen_ai.tool.description"), Some("Looks at a thing"));
        assert_eq!(tool.attributes.text("server.address"), port.map(|_| "127.0.0.1"));
        assert_eq!(tool.attributes.int("server.port"), port);
        assert_eq!(server.attributes.text("client.address"), port.map(|_| "127.0.0.1"));
        assert_eq!(server.attributes.int("client.port").is_some(), port.is_some());
    }
}

#[tokio::test]
async fn parallel_calls_are_parents_of_their_own_requests() {
    for kind in kinds() {
        let ids = ["call_1", "call_2", "call_3"];
        let calls = ids.map(|id| (id, "look", json!({"at": id})));
        let setup = kind.start([Reply::tool_calls(calls), Reply::text("Blue.")]).await;
        let together = Behavior::Together(Arc::new(Barrier::new(3)));
        let served = kind.serve(together).await;
        served.agent(&setup).await.run("What is it like?", &context()).await.unwrap();
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        forest.assert_outline(
            "
            invoke_agent planner INTERNAL
              chat claude-sonnet-4-5 CLIENT
              execute_tool look INTERNAL
                tools/call look SERVER
                  inside INTERNAL
              execute_tool look INTERNAL
                tools/call look SERVER
                  inside INTERNAL
              execute_tool look INTERNAL
                tools/call look SERVER
                  inside INTERNAL
              chat claude-sonnet-4-5 CLIENT
            ",
        );
        assert_one_trace(forest.root());
        let mut seen = Vec::new();
        for tool in forest.all("execute_tool look") {
            let id = tool.attributes.text("jsonrpc.request.id").unwrap();
            assert_eq!(tool.children[0].attributes.text("jsonrpc.request.id"), Some(id));
            seen.push(id);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn failed_tool_is_an_error_in_both_spans() {
    for kind in kinds() {
        for behavior in [Behavior::Fail, Behavior::ErrorResult] {
            let setup = kind.start(call("look")).await;
            let served = kind.serve(behavior).await;
            served.agent(&setup).await.run("What is it like?", &context()).await.unwrap();
            served.end().await;
            let exported = setup.finish();
            let forest = run_of(&exported.forest());
            forest.assert_outline(
                "
                invoke_agent planner INTERNAL
                  chat claude-sonnet-4-5 CLIENT
                  execute_tool look INTERNAL ERROR tool_error
                    tools/call look SERVER ERROR tool_error
                      inside INTERNAL
                  chat claude-sonnet-4-5 CLIENT
                ",
            );
            assert!(!forest.one("execute_tool look").attributes.has("rpc.response.status_code"));
        }
    }
}

/// Returns the definition of a tool that the server no longer has.
fn gone() -> ToolDefinition {
    ToolDefinition {
        name: "gone".to_owned(),
        title: None,
        description: "Is gone".to_owned(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// Returns an agent with a tool that the server no longer has.
fn with_gone(setup: &Setup, served: &Served, policy: ToolErrorPolicy) -> Chat {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(McpToolBridge::new(served.client.clone(), gone())));
    let builder = setup.plain(Behavior::Echo).tools(tools).hook(setup.hook());
    Chat::new(builder.config(|config| config.tool_errors = policy))
}

#[tokio::test]
async fn rejected_call_records_error_code() {
    for kind in kinds() {
        let setup = kind.start(call("gone")).await;
        let served = kind.serve(Behavior::Echo).await;
        let mut agent = with_gone(&setup, &served, ToolErrorPolicy::ReturnToModel);
        agent.run("What is it like?", &context()).await.unwrap();
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        // The server does not know the tool, so the name of its span omits the tool's name.
        forest.assert_outline(
            "
            invoke_agent planner INTERNAL
              chat claude-sonnet-4-5 CLIENT
              execute_tool gone INTERNAL ERROR tool_error
                tools/call SERVER ERROR -32602
              chat claude-sonnet-4-5 CLIENT
            ",
        );
        for name in ["execute_tool gone", "tools/call"] {
            let attributes = &forest.one(name).attributes;
            assert_eq!(attributes.text("rpc.response.status_code"), Some("-32602"), "{name}");
        }
    }
}

#[tokio::test]
async fn rejection_that_ends_run_is_recorded_on_run() {
    for kind in kinds() {
        let setup = kind.start(call("gone")).await;
        let served = kind.serve(Behavior::Echo).await;
        let mut agent = with_gone(&setup, &served, ToolErrorPolicy::EndRun);
        agent.run("What is it like?", &context()).await.unwrap_err();
        served.end().await;
        let exported = setup.finish();
        run_of(&exported.forest()).assert_outline(
            "
            invoke_agent planner INTERNAL ERROR NotFound
              chat claude-sonnet-4-5 CLIENT
              execute_tool gone INTERNAL ERROR NotFound
                tools/call SERVER ERROR -32602
            ",
        );
    }
}

#[tokio::test]
async fn unknown_tool_makes_no_request() {
    for kind in kinds() {
        let setup = kind.start(call(SECRET)).await;
        let served = kind.serve(Behavior::Echo).await;
        let mut agent = served.agent(&setup).await;
        agent.run("What is it like?", &context()).await.unwrap_err();
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        forest.assert_outline(
            "
            invoke_agent planner INTERNAL ERROR NotFound
              chat claude-sonnet-4-5 CLIENT
              execute_tool _OTHER INTERNAL ERROR NotFound
            ",
        );
        assert!(!forest.one("execute_tool _OTHER").attributes.has("mcp.method.name"));
    }
}

#[tokio::test]
async fn closed_connection_fails_the_call() {
    for kind in kinds() {
        let setup = kind.start(call("look")).await;
        let began = Arc::new(Notify::new());
        let served = kind.serve(Behavior::Hang(began.clone())).await;
        let mut agent = served.agent(&setup).await;
        let ctx = context();
        let end = async {
            began.notified().await;
            served.client.close().await;
        };
        let (result, ()) = tokio::join!(agent.run("What is it like?", &ctx), end);
        result.unwrap_err();
        served.end().await;
        let is_enough = |forest: &Forest| !forest.all("tools/call look").is_empty();
        until_arrived(&setup.telemetry, is_enough).await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        let outline = "
            invoke_agent planner INTERNAL ERROR ExecutionFailed
              chat claude-sonnet-4-5 CLIENT
              execute_tool look INTERNAL ERROR ExecutionFailed
                tools/call look SERVER ERROR ENDED
                  inside INTERNAL
            ";
        // When the input of a server ends, the server either still responds, because its output may still be open, or
        // the request is cancelled.
        let server = &forest.one("tools/call look").attributes;
        let ended = server.text("error.type").unwrap();
        assert!(["-32603", "cancelled"].contains(&ended), "{ended}");
        forest.assert_outline(&outline.replace("ENDED", ended));
        let tool = &forest.one("execute_tool look").attributes;
        assert_eq!(tool.text("mcp.method.name"), Some("tools/call"));
        assert!(!tool.has("rpc.response.status_code"), "{kind:?} {tool:?}");
    }
}

#[tokio::test]
async fn cancelled_or_dropped_run_ends_client_and_server_spans() {
    for kind in kinds() {
        for is_dropped in [false, true] {
            let setup = kind.start(call("look")).await;
            let began = Arc::new(Notify::new());
            let served = kind.serve(Behavior::Hang(began.clone())).await;
            let mut agent = served.agent(&setup).await;
            let ctx: ToolContext = context();
            let stop = async {
                began.notified().await;
                if !is_dropped {
                    ctx.cancellation_token.cancel();
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                result = agent.run("What is it like?", &ctx) => {
                    assert!(!is_dropped, "nothing answers");
                    result.unwrap_err();
                }
                () = stop => {}
            }
            let is_enough = |forest: &Forest| !forest.all("tools/call look").is_empty();
            until_arrived(&setup.telemetry, is_enough).await;
            served.end().await;
            let exported = setup.finish();
            let forest = run_of(&exported.forest());
            forest.assert_outline(
                "
                invoke_agent planner INTERNAL ERROR Cancelled
                  chat claude-sonnet-4-5 CLIENT
                  execute_tool look INTERNAL ERROR Cancelled
                    tools/call look SERVER ERROR cancelled
                      inside INTERNAL
                ",
            );
            assert_one_trace(forest.root());
            let tool = &forest.one("execute_tool look").attributes;
            let server = &forest.one("tools/call look").attributes;
            assert_eq!(tool.text("mcp.method.name"), Some("tools/call"));
            assert_eq!(tool.text("jsonrpc.request.id"), server.text("jsonrpc.request.id"));
        }
    }
}
