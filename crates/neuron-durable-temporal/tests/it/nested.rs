//! Tests of approvals inside nested agents.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_durable::{DurableRuns, RunStatus, RunSummary, WaitEvent};
use neuron_loop::ApprovalSignal;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ApprovalDecisions, PermissionDecision, PermissionPolicy, ToolEffect, ToolOutput,
};
use serde_json::{Value, json};

use crate::host::{Does, Model, TestContext, answer, call, done, failed, options, text, turns};
use crate::operating::inspected;

struct AsksAboutWires;

impl PermissionPolicy for AsksAboutWires {
    fn check(&self, tool: &str, _: &Value) -> PermissionDecision {
        match tool {
            "wire" => PermissionDecision::Ask("may it be wired?".into()),
            _ => PermissionDecision::Allow,
        }
    }
}

/// Returns a model for an agent and for the nested agent `cashier` that it calls. The cashier pays, needs an approval
/// to wire money, and repeats the payment.
fn model() -> Model {
    Model::new(|request| {
        let turn = turns(request);
        let content = match (request.messages[0].text().as_str(), turn) {
            ("go", 0) => call("c", "cashier", json!({"prompt": "pay"})),
            ("pay", 0) => call("p", "pay", json!({"key": 17})),
            ("pay", 1) => call("w", "wire", json!({"amount": 7})),
            ("pay", 2) => call("q", "pay", json!({"key": 17})),
            _ => text("done"),
        };
        Ok(answer(turn, vec![content]))
    })
}

type Calls = Arc<Mutex<Vec<&'static str>>>;

/// Returns the tools `pay` and `wire`, and the nested agent `cashier` with the system prompt `prompt`. Each call of
/// `pay` or `wire` adds its name to `calls` and lasts for `pause`.
fn tools(calls: &Calls, pause: Duration, prompt: &str) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in ["pay", "wire"] {
        let calls = calls.clone();
        tools.register_dyn(Does::new(name, ToolEffect::AtMostOnce, move |_, _| {
            calls.lock().unwrap().push(name);
            async move {
                tokio::time::sleep(pause).await;
                Ok(ToolOutput::text("paid"))
            }
        }));
    }
    let mut agents = SubAgentManager::new();
    let tools_of_cashier = vec!["pay".into(), "wire".into()];
    let system_prompt = prompt.into();
    let config = SubAgentConfig { tools: tools_of_cashier, system_prompt, ..Default::default() };
    agents.register("cashier", config);
    agents.add_to(&mut tools, model()).unwrap();
    tools
}

/// Runs the agent, and checks that it pays once although the model repeats the payment. `timeout` limits the wait for
/// the approval. The id of the run has at least `length` bytes.
async fn check_paid_once(name: &str, length: usize, timeout: Duration) {
    let options = options();
    let Some(bench) = TestContext::new(name, &options).await else { return };
    let id = &*format!("{:l<length$}", bench.queue);
    let runs = &bench.runs;
    let calls = Calls::default();
    let agent = neuron_loop::Agent::builder(model())
        .tools(tools(&calls, Duration::ZERO, ""))
        .permission_policy(AsksAboutWires)
        .config(|config| {
            config.approval_signal = Some(ApprovalSignal { name: "approve".into(), timeout });
        })
        .build();
    let _worker =
        bench.serve_with(model(), tools(&calls, Duration::ZERO, "").into(), agent, &options);
    let run = runs.start(id, "go").await.unwrap();
    let pending = |run: RunSummary| match run.waits_for.map(|wait| wait.event) {
        Some(WaitEvent::Approval { signal, pending: Some(pending) }) => (signal, *pending),
        other => panic!("{other:?}"),
    };
    let summary = inspected(&bench, id, |run| run.waits_for.is_some()).await;
    let (signal, pending) = pending(summary);
    assert_eq!(pending.calls[0].nested.as_ref().unwrap().calls[0].call.name, "wire");
    let decisions = ApprovalDecisions::approve_all(&pending);
    match signal {
        Some(signal) => run.signal(&signal, &decisions).await.unwrap(),
        None => {
            failed(&run).await;
            runs.revive(id, decisions).await.unwrap();
        }
    }
    assert_eq!(done(&run).await.response, "done");
    assert_eq!(*calls.lock().unwrap(), ["pay", "wire"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agent_pays_once_around_an_approval() {
    check_paid_once("nested", 0, Duration::from_secs(600)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agent_pays_once_around_a_revival() {
    check_paid_once("nested-revived", 0, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agent_of_a_run_with_a_long_id_succeeds() {
    check_paid_once("nested-long", 990, Duration::from_secs(600)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_with_a_changed_nested_agent_is_stalled() {
    let options = options();
    let Some(bench) = TestContext::new("nested-changed", &options).await else { return };
    let calls = Calls::default();
    let serve = |prompt: &str| {
        let tools = tools(&calls, Duration::from_secs(3), prompt);
        let agent = neuron_loop::Agent::builder(model()).tools(tools.clone()).build();
        bench.serve_with(model(), tools.into(), agent, &options)
    };
    let worker = serve("You pay.");
    let id = &*bench.queue;
    let run = bench.runs.start(id, "go").await.unwrap();
    let has_begun = async {
        while calls.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), has_begun).await.expect("it pays");
    assert_eq!(bench.runs.inspect(id).await.unwrap().status, RunStatus::Running);
    tokio::task::block_in_place(|| drop(worker));
    let worker = serve("You refuse.");
    let is_stalled = |run: &RunSummary| run.status == RunStatus::Stalled;
    let reason = inspected(&bench, id, is_stalled).await.reason.unwrap();
    assert!(reason.contains("You pay.") && reason.contains("You refuse."), "{reason}");
    assert!(bench.runs.list().await.unwrap().iter().all(is_stalled));
    tokio::task::block_in_place(|| drop(worker));
    let _worker = serve("You pay.");
    assert_eq!(done(&run).await.response, "done");
    assert_eq!(calls.lock().unwrap()[0], "pay");
}
