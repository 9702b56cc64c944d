//! A test of a nested agent that waits for an approval between two calls with the same effect key. The second call must
//! not run.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_durable_sqlite::SqliteRuns;
use neuron_loop::{Agent, ApprovalSignal};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    AgentResult, ApprovalDecisions, LoopError, PermissionDecision, PermissionPolicy, ToolOutput,
};
use serde_json::{Value, json};

use crate::support::{add_tool, place};

/// A policy that requires an approval to wire money.
struct AsksToWire;

impl PermissionPolicy for AsksToWire {
    fn check(&self, tool: &str, _: &Value) -> PermissionDecision {
        match tool {
            "wire" => PermissionDecision::Ask("may it wire?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// An agent that calls the nested agent `clerk`. The clerk pays an invoice, requests an approval to wire money, and
/// pays the same invoice again.
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
        for (name, ran) in [("pay", &self.paid), ("wire", &self.wired)] {
            let ran = ran.clone();
            add_tool(&mut tools, name, move |_, _| {
                ran.fetch_add(1, Ordering::SeqCst);
                ready(ToolOutput::text("paid"))
            });
        }
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
async fn nested_agent_with_effect_keys_pays_once_around_an_approval() {
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
