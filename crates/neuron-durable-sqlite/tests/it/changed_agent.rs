//! Tests of an agent that changes while its run is in progress.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_durable_sqlite::{ChangedAgent, DurableOptions, RunStatus, SqliteRuns};
use neuron_loop::Agent;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, LoopError, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::{add_tool, place};

/// A release of the agent with its prompt, model, tool and options.
#[derive(Clone)]
struct Release {
    prompt: &'static str,
    model: &'static str,
    tool: &'static str,
    description: &'static str,
    temperature: f32,
    changed_agent: ChangedAgent,
}

const FIRST: Release = Release {
    prompt: "You pay bills.",
    model: "small",
    tool: "pay",
    description: "Pays a bill.",
    temperature: 0.5,
    changed_agent: ChangedAgent::Refuse,
};

struct Pay(Release);

impl ToolDyn for Pay {
    fn name(&self) -> &str {
        self.0.tool
    }

    fn definition(&self) -> ToolDefinition {
        let definition = json!({
            "name": self.0.tool, "description": self.0.description, "input_schema": { "type": "object" },
        });
        serde_json::from_value(definition).unwrap()
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text("paid")) })
    }
}

impl Release {
    /// Drives the run with these model responses, until the run ends or the model has no more responses.
    async fn drive(
        &self,
        runs: &SqliteRuns,
        model: &Arc<ScriptedProvider>,
    ) -> Result<AgentResult, LoopError> {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Pay(self.clone())));
        let run = runs.run("r").options(DurableOptions::new().changed_agent(self.changed_agent));
        let context = run.open(model.clone(), Arc::new(tools.clone())).await?;
        let agent = Agent::builder(model.clone()).tools(tools);
        let agent = agent.system_prompt(self.prompt).model(self.model);
        let agent = agent.request(|request| request.temperature = Some(self.temperature)).build();
        context.drive("Pay all bills.", &agent).await
    }
}

fn model(replies: impl IntoIterator<Item = Reply>) -> Arc<ScriptedProvider> {
    Arc::new(ScriptedProvider::new(replies))
}

impl Release {
    /// Drives the run through one tool call, and drops the run in the next model call.
    async fn interrupted(&self, runs: &SqliteRuns) -> Arc<ScriptedProvider> {
        let model = model([Reply::tool_call("c", "pay", json!({})), Reply::hang()]);
        let hangs = async {
            while model.calls() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            ended = self.drive(runs, &model) => panic!("it ended: {ended:?}"),
            () = hangs => {}
        }
        model
    }
}

#[tokio::test]
async fn changed_agent_stalls_the_run_until_the_change_is_undone() {
    for (release, old, new) in [
        (Release { prompt: "You pay no bills.", ..FIRST }, "You pay bills.", "You pay no bills."),
        (Release { model: "big", ..FIRST }, "model: \"small\"", "model: \"big\""),
        (Release { temperature: 1.0, ..FIRST }, "temperature: 0.5", "temperature: 1.0"),
        (
            Release { tool: "spend", ..FIRST },
            "tools.pay.name: \"pay\"",
            "tools.spend.name: \"spend\"",
        ),
        (
            Release { description: "Pays once.", ..FIRST },
            "tools.pay.description: \"Pays a bill.\"",
            "tools.pay.description: \"Pays once.\"",
        ),
    ] {
        let (_folder, path) = place();
        let runs = SqliteRuns::open(&path).await.unwrap();
        FIRST.interrupted(&runs).await;
        let silent = model(Vec::new());
        let error = release.drive(&runs, &silent).await.unwrap_err().to_string();
        assert!(error.contains(old) && error.contains(new), "{error}");
        assert_eq!(silent.calls(), 0);
        let details = runs.inspect("r").await.unwrap();
        assert_eq!(details.summary.status, RunStatus::Stalled);
        let outcome = details.outcome.unwrap();
        assert_eq!(outcome.error.unwrap().text, error);
        assert_eq!(runs.list().await.unwrap()[0].status, RunStatus::Stalled);
        assert_eq!(runs.unfinished().await.unwrap(), ["r"]);

        let result = FIRST.drive(&runs, &model([Reply::text("All paid.")])).await.unwrap();
        assert_eq!(result.response, "All paid.");
        let details = runs.inspect("r").await.unwrap();
        assert_eq!(details.summary.status, RunStatus::Done);
    }
}

#[tokio::test]
async fn ended_run_keeps_its_outcome_when_a_changed_agent_opens_it() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    FIRST.drive(&runs, &model([Reply::text("All paid.")])).await.unwrap();
    let ended = runs.inspect("r").await.unwrap();

    let changed = Release { prompt: "You pay no bills.", ..FIRST };
    let error = changed.drive(&runs, &model(Vec::new())).await.unwrap_err().to_string();
    assert!(error.contains("You pay no bills."), "{error}");
    assert_eq!(runs.inspect("r").await.unwrap(), ended);
    assert_eq!(ended.summary.status, RunStatus::Done);
    assert_eq!(runs.unfinished().await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn allowed_change_keeps_responses_and_sends_new_requests() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    FIRST.interrupted(&runs).await;
    let allowed = Release {
        prompt: "You pay no bills.",
        model: "big",
        description: "Pays once.",
        changed_agent: ChangedAgent::GoOn,
        ..FIRST
    };
    let new = allowed.interrupted(&runs).await;
    let asked = new.requests().remove(0);
    assert_eq!((asked.model.as_str(), asked.messages.len()), ("big", 3));
    assert_eq!(asked.tools[0].description, "Pays once.");
    // From here on the journal has the requests of the new agent.
    let other = Release { model: "huge", changed_agent: ChangedAgent::Refuse, ..allowed.clone() };
    let error = other.drive(&runs, &model(Vec::new())).await.unwrap_err().to_string();
    assert!(error.contains("model/0 with") && error.contains("model: \"small\""), "{error}");
    let result = allowed.drive(&runs, &model([Reply::text("done")])).await.unwrap();
    assert_eq!(result.response, "done");
}

/// Regression test. A run must stall if a nested agent returns before the end of its recorded journal. The run is
/// dropped during the nested agent's second payment. A lower turn limit then ends the nested agent before that payment.
#[tokio::test]
async fn nested_agent_that_ends_before_its_journal_stalls_the_run() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let pay = |id| Reply::tool_call(id, "pay", json!({}));
    let clerk = Arc::new(ScriptedProvider::new([pay("a"), pay("b"), Reply::text("paid")]));
    let call = Reply::tool_call("c", "clerk", json!({ "prompt": "Pay." }));
    let model = Arc::new(ScriptedProvider::new([call, Reply::text("done")]));
    let paid = Arc::new(AtomicUsize::new(0));
    let drive = |max_turns| {
        let mut tools = ToolRegistry::new();
        let paid = paid.clone();
        add_tool(&mut tools, "pay", move |_, _| {
            let hangs = paid.fetch_add(1, Ordering::SeqCst) == 1;
            async move {
                if hangs {
                    pending::<()>().await;
                }
                ToolOutput::text("paid")
            }
        });
        let mut agents = SubAgentManager::new();
        let config = SubAgentConfig {
            tools: vec!["pay".into()],
            max_turns: Some(max_turns),
            ..SubAgentConfig::default()
        };
        agents.register("clerk", config);
        agents.add_to(&mut tools, clerk.clone()).unwrap();
        let (model, runs) = (model.clone(), runs.clone());
        async move {
            let agent = Agent::builder(model.clone()).tools(tools.clone()).build();
            let context = runs.run("r").open(model, Arc::new(tools)).await?;
            context.drive("go", &agent).await
        }
    };
    let hangs = async {
        while paid.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        ended = drive(10) => panic!("it ended: {ended:?}"),
        () = hangs => {}
    }

    let error = drive(1).await.unwrap_err().to_string();
    assert!(error.contains("expected model/1, got the end of the agent"), "{error}");
    assert_eq!(runs.inspect("r").await.unwrap().summary.status, RunStatus::Stalled);

    assert_eq!(drive(10).await.unwrap().response, "done");
    assert_eq!((paid.load(Ordering::SeqCst), clerk.calls(), model.calls()), (2, 3, 2));
}
