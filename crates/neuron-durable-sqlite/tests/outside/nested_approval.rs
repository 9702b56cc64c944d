//! An agent inside a tool call that waits for an approval, and knows its effects when it goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, ApprovalSignal};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, LoopError, PermissionDecision, PermissionPolicy, ToolContext,
    ToolDefinition, ToolDyn, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::place;

/// A tool that must not run twice. Calls with the same invoice are one effect.
struct Pays {
    name: &'static str,
    ran: Arc<AtomicUsize>,
}

impl ToolDyn for Pays {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        let definition = json!({ "name": self.name, "description": "Pays", "input_schema": { "type": "object" } });
        serde_json::from_value(definition).unwrap()
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        Some(input["invoice"].to_string())
    }

    fn call_dyn<'a>(
        &'a self,
        _: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.ran.fetch_add(1, Ordering::SeqCst);
            Ok(ToolOutput::text("paid"))
        })
    }
}

/// Asks before money is wired.
struct AsksToWire;

impl PermissionPolicy for AsksToWire {
    fn check(&self, tool: &str, _: &Value) -> PermissionDecision {
        match tool {
            "wire" => PermissionDecision::Ask("may it wire?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// An agent that delegates to a clerk, who pays, asks to wire money, and pays the same invoice again.
struct Office {
    model: Arc<ScriptedProvider>,
    clerk: Arc<ScriptedProvider>,
    paid: Arc<AtomicUsize>,
    wired: Arc<AtomicUsize>,
}

impl Office {
    fn new() -> Self {
        let call = |id, name| Reply::tool_call(id, name, json!({ "invoice": 17 }));
        let clerk = [call("c1", "pay"), call("c2", "wire"), call("c3", "pay"), Reply::text("paid")];
        let replies =
            [Reply::tool_call("out", "clerk", json!({ "prompt": "Pay." })), Reply::text("done")];
        Self {
            model: Arc::new(ScriptedProvider::new(replies)),
            clerk: Arc::new(ScriptedProvider::new(clerk)),
            paid: Arc::default(),
            wired: Arc::default(),
        }
    }

    async fn drive(&self, runs: &SqliteRuns) -> Result<AgentResult, LoopError> {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Pays { name: "pay", ran: self.paid.clone() }));
        tools.register_dyn(Arc::new(Pays { name: "wire", ran: self.wired.clone() }));
        let mut agents = SubAgentManager::new();
        let clerk = SubAgentConfig {
            description: "Pays".into(),
            tools: vec!["pay".into(), "wire".into()],
            policy: Some(Arc::new(AsksToWire)),
            ..SubAgentConfig::default()
        };
        agents.register("clerk", clerk);
        agents.add_to(&mut tools, self.clerk.clone()).unwrap();
        let agent = Agent::builder(self.model.clone()).tools(tools.clone()).config(|config| {
            let (name, timeout) = ("decide".into(), Duration::from_secs(3600));
            config.approval_signal = Some(ApprovalSignal { name, timeout });
            config.pause_for_approval = true;
        });
        let context = runs.run("r").open(self.model.clone(), Arc::new(tools)).await?;
        context.drive("Pay the invoice 17.", &agent.build()).await
    }
}

#[tokio::test]
async fn agent_that_pays_again_after_an_approval_has_paid_once() {
    for is_interrupted in [false, true] {
        let (_folder, path) = place();
        let runs = SqliteRuns::open(&path).await.unwrap();
        let office = Office::new();
        let decide = async {
            while !matches!(runs.inspect("r").await, Ok(run) if run.summary.waits_for.is_some()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert_eq!(office.paid.load(Ordering::SeqCst), 1);
            let inside = ApprovalDecisions::new().approve("c2");
            let decisions = ApprovalDecisions::new().nested("out", inside);
            runs.signal("r", "decide", decisions).await.unwrap();
        };
        let result = match is_interrupted {
            false => tokio::join!(office.drive(&runs), decide).0,
            true => {
                tokio::select! {
                    ended = office.drive(&runs) => panic!("{ended:?}"),
                    () = decide => {}
                }
                office.drive(&SqliteRuns::open(&path).await.unwrap()).await
            }
        };
        assert_eq!(result.unwrap().response, "done");
        let ran = [&office.paid, &office.wired].map(|ran| ran.load(Ordering::SeqCst));
        assert_eq!((ran, office.clerk.calls(), office.model.calls()), ([1, 1], 4, 2));
    }
}
