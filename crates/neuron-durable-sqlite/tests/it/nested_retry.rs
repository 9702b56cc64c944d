//! A test of a run that is retried because a step of a nested agent failed.

use std::sync::Arc;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, Conversation, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentTool, BoxedProvider, Durability, ProviderError, ToolContext, ToolDefinition, ToolDyn,
    ToolError, ToolFuture, ToolOutput, ToolSet, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::place;

/// A tool that is an agent. Its call fails if the run of the agent fails.
struct Clerk(Arc<ScriptedProvider>);

impl ToolDyn for Clerk {
    fn name(&self) -> &str {
        "clerk"
    }

    fn definition(&self) -> ToolDefinition {
        let definition = json!({
            "name": "clerk", "description": "Works", "input_schema": { "type": "object" },
        });
        serde_json::from_value(definition).unwrap()
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        unreachable!("the journal runs it as an agent")
    }

    fn agent(&self) -> Option<&dyn AgentTool> {
        Some(self)
    }
}

impl AgentTool for Clerk {
    fn provider(&self) -> BoxedProvider {
        BoxedProvider::new(self.0.clone())
    }

    fn tools(&self) -> Arc<dyn ToolSet> {
        Arc::new(ToolRegistry::new())
    }

    fn call_in<'a>(
        &'a self,
        _: &'a str,
        _: Value,
        _: &'a ToolContext,
        durability: Durability<'a>,
    ) -> ToolFuture<'a> {
        Box::pin(async move {
            let agent = Agent::builder(self.0.clone()).build();
            let mut conversation = Conversation::new();
            let ended = agent.run(&mut conversation, "work").durable(durability).await;
            let failed = |error| ToolError::ExecutionFailed(Box::new(error));
            Ok(ToolOutput::text(ended.map_err(failed)?.response))
        })
    }
}

#[tokio::test]
async fn retry_repeats_the_failed_model_call_of_a_nested_agent() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let wrong_key = ProviderError::Authentication("wrong key".into());
    let clerk =
        Arc::new(ScriptedProvider::new([Reply::error(wrong_key), Reply::text("it is done")]));
    let replies = [Reply::tool_call("c", "clerk", json!({})), Reply::text("done")];
    let model = Arc::new(ScriptedProvider::new(replies));
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Clerk(clerk.clone())));
    let agent = Agent::builder(model.clone()).tools(tools.clone());
    let agent = agent.config(|config| config.tool_errors = ToolErrorPolicy::EndRun).build();
    let drive = || async {
        let context = runs.run("r").open(model.clone(), Arc::new(tools.clone())).await?;
        context.drive("go", &agent).await
    };

    let error = drive().await.unwrap_err().to_string();
    assert!(error.contains("wrong key"), "{error}");
    runs.retry("r").await.unwrap();
    assert_eq!(drive().await.unwrap().response, "done");
    assert_eq!((clerk.calls(), model.calls()), (2, 2));
}
