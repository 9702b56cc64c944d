//! Tests of MCP requests within tool calls. In some tests, a local tool sends requests to a server. In others, a
//! server's tool sends requests to its client.

use std::sync::Arc;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpClient, McpError, McpPeer,
};
use neuron_testing::Reply;
use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture};
use serde_json::{Value, json};

use super::served::{SECRET, agent, assert_one_trace, kinds, run_of};
use crate::support::look::Behavior;
use crate::support::setup::context;

fn definition(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        title: None,
        description: "Asks".to_owned(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

fn call(tool: &str) -> [Reply; 2] {
    [Reply::tool_call("call_1", tool, json!({"at": SECRET})), Reply::text("Blue.")]
}

/// A local tool that sends several requests to a server.
struct Research(Arc<McpClient>);

impl ToolDyn for Research {
    fn name(&self) -> &'static str {
        "research"
    }

    fn definition(&self) -> ToolDefinition {
        definition("research")
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.0.read_resource_in("x://1", ctx).await.unwrap();
            Ok(self.0.call_tool_in("look", input, ctx).await.unwrap())
        })
    }
}

#[tokio::test]
async fn requests_of_local_tool_are_children_of_its_call() {
    for kind in kinds() {
        let setup = kind.start(call("research")).await;
        let served = kind.serve(Behavior::Echo).await;
        let mut agent = agent(&setup, vec![Arc::new(Research(served.client.clone()))]);
        agent.run("What is it like?", &context()).await.unwrap();
        drop(agent);
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        forest.assert_outline(
            "
            invoke_agent planner INTERNAL
              chat claude-sonnet-4-5 CLIENT
              execute_tool research INTERNAL
                resources/read CLIENT
                  resources/read SERVER
                tools/call look CLIENT
                  tools/call look SERVER
                    inside INTERNAL
              chat claude-sonnet-4-5 CLIENT
            ",
        );
        assert_one_trace(forest.root());
        let tool = forest.one("execute_tool research");
        assert!(!tool.attributes.has("mcp.method.name"), "it is about a tool of the agent's");
    }
}

/// A tool of a server that asks the client's user a question.
struct Ask;

impl ToolDyn for Ask {
    fn name(&self) -> &'static str {
        "ask"
    }

    fn definition(&self) -> ToolDefinition {
        definition("ask")
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let peer = ctx.extensions.get::<McpPeer>().unwrap();
            let answer = peer.elicit("who", ElicitationRequest::form(SECRET, schema)).await?;
            Ok(ToolOutput::text(format!("{answer:?}")))
        })
    }
}

/// A handler of the MCP client that declines every question (elicitation) of the server, in place of a user.
pub(super) struct User;

impl ElicitationHandler for User {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        tracing::info_span!("asked").in_scope(|| ());
        Ok(ElicitationResponse::Decline)
    }
}

#[tokio::test]
async fn requests_of_server_to_client_are_in_trace_of_call() {
    for kind in kinds() {
        let setup = kind.start(call("ask")).await;
        let served = kind.serve_tool(Arc::new(Ask)).await;
        let mut agent = served.agent(&setup).await;
        agent.run("What is it like?", &context()).await.unwrap();
        served.end().await;
        let exported = setup.finish();
        let forest = run_of(&exported.forest());
        // From MCP 2026-07-28 on, the question is the result of the call, and the client repeats the call with the
        // answer.
        forest.assert_outline(match kind.protocol.has_handshake() {
            true => {
                "
                invoke_agent planner INTERNAL
                  chat claude-sonnet-4-5 CLIENT
                  execute_tool ask INTERNAL
                    tools/call ask SERVER
                      elicitation/create CLIENT
                        elicitation/create SERVER
                          asked INTERNAL
                  chat claude-sonnet-4-5 CLIENT
                "
            }
            false => {
                "
                invoke_agent planner INTERNAL
                  chat claude-sonnet-4-5 CLIENT
                  execute_tool ask INTERNAL
                    tools/call ask SERVER
                    asked INTERNAL
                    tools/call ask SERVER
                  chat claude-sonnet-4-5 CLIENT
                "
            }
        });
        assert_one_trace(forest.root());
        let recorded = format!("{:?}", exported.spans);
        assert!(!recorded.contains(SECRET), "{forest:?}");
    }
}
