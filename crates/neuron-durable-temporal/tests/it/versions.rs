//! Tests of runs that are pinned to a version of their agent.

use std::time::Duration;

use neuron_conformance_durable::{EffectLog, Scenario};
use neuron_durable::{ChangedAgent, DurableRuns, RunStatus};
use neuron_durable_temporal::{TemporalOptions, TemporalRuns};
use neuron_loop::ApprovalSignal;
use neuron_tool::ToolRegistry;
use neuron_types::{ApprovalDecisions, PermissionDecision, ToolEffect, ToolOutput};
use serde_json::json;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest;
use temporalio_client::{Client, UntypedWorkflow, WorkflowStartOptions};
use temporalio_common::data_converters::RawValue;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    PollWorkflowTaskQueueRequest, SetWorkerDeploymentCurrentVersionRequest,
};

use crate::host::{
    Agent, Does, Model, Serving, TestContext, answer, call, connect, done, durable, options, text,
    turns,
};
use crate::operating::inspected;

fn echo() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("echo", ToolEffect::Pure, |input, _| async move {
        Ok(ToolOutput::text(input.to_string()))
    }));
    tools
}

/// Returns a model that calls a tool four times, and names the worker in its last response.
fn model(worker: &str) -> Model {
    let worker = worker.to_owned();
    Model::new(move |request| {
        let turn = turns(request);
        Ok(match turn < 4 {
            true => answer(turn, vec![call(&format!("c{turn}"), "echo", json!({"n": turn}))]),
            false => answer(turn, vec![text(format!("done by {worker}"))]),
        })
    })
}

fn version(version: &str) -> TemporalOptions {
    durable().agent_version(version).into()
}

fn pinned(bench: &TestContext, version: &str) -> TemporalRuns {
    bench.runs.clone().options(durable().agent_version(version))
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_run_stalls_until_a_worker_of_its_version_takes_it() {
    let Some(bench) = TestContext::new("pinned", &options()).await else { return };
    let second = bench.serve(model("2"), echo, Agent::new(echo), &version("2"));
    let run = pinned(&bench, "1").start(&bench.queue, "go").await.unwrap();
    let is_stalled = |run: &neuron_durable::RunSummary| run.status == RunStatus::Stalled;
    let stalled = inspected(&bench, &bench.queue, is_stalled).await;
    let reason = stalled.reason.unwrap();
    assert!(reason.contains("version \"1\"") && reason.contains("version \"2\""), "{reason}");
    assert_eq!(stalled.agent_version.as_deref(), Some("1"));
    let listed = bench.runs.list().await.unwrap();
    assert!(listed.iter().all(|run| run.status == RunStatus::Stalled), "{listed:?}");

    // A run that is not pinned is not checked.
    let free = bench.runs.start(format!("{}-free", bench.queue), "go").await.unwrap();
    assert_eq!(done(&free).await.response, "done by 2");

    let continues = TemporalOptions::from(durable().agent_version("1").continue_after(3));
    let first = bench.serve(model("1"), echo, Agent::new(echo), &continues);
    tokio::task::block_in_place(|| drop(second));
    assert_eq!(done(&run).await.response, "done by 1");
    let ended = inspected(&bench, &bench.queue, |run| run.execution > Some(0)).await;
    assert_eq!((ended.status, ended.agent_version.as_deref()), (RunStatus::Done, Some("1")));
    drop(first);
}

/// Returns an agent that needs an approval for its tool.
fn asks() -> Agent {
    let mut agent = Agent::new(echo);
    agent.config.approval_signal =
        Some(ApprovalSignal { name: "go".into(), timeout: Duration::from_secs(600) });
    agent.policy = Some(|_, _| PermissionDecision::Ask("may it?".into()));
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn query_of_a_pinned_run_does_not_end_a_worker_of_another_version() {
    let Some(bench) = TestContext::new("asked-about", &options()).await else { return };
    let serve = |name| bench.serve(model(name), echo, asks(), &version(name));
    let worker = serve("1");
    let id = |name: &str| format!("{}-{name}", bench.queue);
    pinned(&bench, "1").start(id("old"), "go").await.unwrap();
    inspected(&bench, &id("old"), |run| run.waits_for.is_some()).await;
    tokio::task::block_in_place(|| drop(worker));
    let _worker = serve("2");
    for _ in 0..3 {
        let old = bench.runs.inspect(&id("old")).await.unwrap();
        assert_eq!((old.status, old.waits_for), (RunStatus::Waiting, None));
    }
    pinned(&bench, "2").start(id("new"), "go").await.unwrap();
    inspected(&bench, &id("new"), |run| run.waits_for.is_some()).await;
    // The failed query does not hide the waits of other runs.
    let is_known = async {
        loop {
            let listed = bench.runs.list().await.unwrap();
            let waits: Vec<_> = listed.iter().map(|run| run.waits_for.is_some()).collect();
            if waits == [false, true] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), is_known).await.expect("one is known");
}

#[tokio::test(flavor = "multi_thread")]
async fn pinned_run_stalls_even_if_its_first_task_was_lost() {
    let Some(bench) = TestContext::new("lost-task", &options()).await else { return };
    let runs = pinned(&bench, "1").task_timeout(Duration::from_secs(1));
    runs.start(&bench.queue, "go").await.unwrap();
    // Takes the task like a worker that is then lost.
    let task = PollWorkflowTaskQueueRequest {
        namespace: "default".into(),
        task_queue: Some(TaskQueue { name: bench.queue.clone(), ..Default::default() }),
        ..Default::default()
    };
    let mut client = connect(&bench.address).await;
    let task = client.poll_workflow_task_queue(task.into_request()).await.unwrap();
    assert!(!task.into_inner().task_token.is_empty());
    let _worker = bench.serve(model("2"), echo, Agent::new(echo), &version("2"));
    let is_stalled = |run: &neuron_durable::RunSummary| run.status == RunStatus::Stalled;
    let stalled = inspected(&bench, &bench.queue, is_stalled).await;
    assert!(stalled.reason.unwrap().contains("logs of its workers"));
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_change_pins_a_run_to_the_new_version() {
    let durable = durable().agent_version("2").changed_agent(ChangedAgent::GoOn);
    let options = TemporalOptions::from(durable.continue_after(3));
    let Some(bench) = TestContext::new("repinned", &options).await else { return };
    let _worker = bench.serve(model("2"), echo, Agent::new(echo), &options);
    let run = pinned(&bench, "1").start(&bench.queue, "go").await.unwrap();
    assert_eq!(done(&run).await.response, "done by 2");
    let ended = inspected(&bench, &bench.queue, |run| run.execution > Some(0)).await;
    assert_eq!((ended.status, ended.agent_version.as_deref()), (RunStatus::Done, Some("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_agents_of_a_pinned_run_are_pinned_too() {
    let Some(bench) = TestContext::new("team", &options()).await else { return };
    let other = TestContext::new("other-team", &options()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (scenario, log) = (Scenario::team(), EffectLog::new(folder.path().join("log")));
    let serve = |bench: &TestContext, version| {
        let (model, tools) = (scenario.provider(&log), scenario.tools(&log));
        bench.serve_with(
            model,
            tools,
            scenario.agent(&log),
            &TemporalOptions::from(durable().agent_version(version)),
        )
    };
    let _first = serve(&bench, "1");
    let run = pinned(&bench, "1").start(&bench.queue, scenario.start()).await.unwrap();
    done(&run).await;

    // The same call on a worker of another version.
    let client = connect(&bench.address).await;
    let handle = client.get_workflow_handle::<UntypedWorkflow>(&bench.queue);
    let events = handle.fetch_history(Default::default()).into_events().await.unwrap();
    let input = events.into_iter().find_map(|event| match event.attributes? {
        Attributes::StartChildWorkflowExecutionInitiatedEventAttributes(child) => child.input,
        _ => None,
    });
    let input = RawValue::new(input.expect("it calls an agent").payloads);
    let _second = serve(&other, "2");
    let options = WorkflowStartOptions::new(&other.queue, &other.queue).build();
    let agent = UntypedWorkflow::new("neuron_sub_agent");
    let agent = client.start_workflow(agent, input, options).await.unwrap();
    let is_stalled = async {
        loop {
            let history = agent.fetch_history(Default::default()).to_json().await.unwrap();
            if String::from_utf8_lossy(&history).contains("this worker has version \\\"2\\\"") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_stalled).await.expect("it stands still");
    agent.terminate(Default::default()).await.unwrap();
}

/// Starts a worker with the version `build_id` of a Worker Deployment, and makes this version the current version.
async fn deploy(bench: &TestContext, client: &Client, build_id: &'static str) -> Serving {
    let mut agent = Agent::new(echo);
    agent.config.approval_signal =
        Some(ApprovalSignal { name: "go".into(), timeout: Duration::from_secs(600) });
    agent.policy = Some(|_, input| match input["n"] == 0 {
        true => PermissionDecision::Ask("may it?".into()),
        false => PermissionDecision::Allow,
    });
    let name = bench.queue.clone();
    let worker =
        bench.serve_built(model(build_id), echo().into(), agent, &options(), move |builder| {
            builder.deployment(name, build_id)
        });
    let current = SetWorkerDeploymentCurrentVersionRequest {
        namespace: "default".into(),
        deployment_name: bench.queue.clone(),
        build_id: build_id.into(),
        ..Default::default()
    };
    let mut client = client.clone();
    let is_set = async {
        // The server knows the version only after the worker's first poll.
        while client
            .set_worker_deployment_current_version(current.clone().into_request())
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), is_set).await.expect("the version is there");
    worker
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_deployment_keeps_its_first_version() {
    let Some(bench) = TestContext::new("deployed", &options()).await else { return };
    let client = connect(&bench.address).await;
    let _first = deploy(&bench, &client, "1").await;
    let old = bench.runs.start(format!("{}-old", bench.queue), "go").await.unwrap();
    inspected(&bench, old.id(), |run| run.waits_for.is_some()).await;
    let _second = deploy(&bench, &client, "2").await;
    let new = bench.runs.start(format!("{}-new", bench.queue), "go").await.unwrap();
    for run in [&old, &new] {
        inspected(&bench, run.id(), |run| run.waits_for.is_some()).await;
        run.signal("go", &ApprovalDecisions::new().approve("c0")).await.unwrap();
    }
    assert_eq!(done(&old).await.response, "done by 1");
    assert_eq!(done(&new).await.response, "done by 2");
}
