//! Tests of runs that are pinned to a version of their agent.

use neuron_durable_sqlite::{
    ChangedAgent, DurableOptions, JournalError, RunBuilder, RunStatus, RunSummary, SqliteRuns,
};
use neuron_types::{AgentResult, LoopError};

use crate::support::{Work, place};

async fn run(work: &Work, builder: RunBuilder<'_>) -> Result<AgentResult, LoopError> {
    let (model, tools) = (work.clone().into(), work.tools().into());
    let context = builder.open(model, tools).await?;
    // `start` sets the stalled run to running.
    context.start("go").await?;
    work.run_with(context).await
}

async fn only(runs: &SqliteRuns) -> RunSummary {
    runs.list().await.unwrap().pop().unwrap()
}

/// Creates a run of version 1 that is interrupted after a tool call.
async fn interrupted(runs: &SqliteRuns) -> Work {
    let work = Work::new(2, 10).hanging_at(1);
    let builder = runs.run("r").options(DurableOptions::new().agent_version("1"));
    tokio::select! {
        ended = run(&work, builder) => panic!("it ended: {ended:?}"),
        () = work.counts.hangs.notified() => {}
    }
    work.again()
}

#[tokio::test]
async fn run_stalls_with_another_version_and_continues_with_its_own() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = interrupted(&runs).await;
    assert_eq!(only(&runs).await.agent_version.as_deref(), Some("1"));
    let text = loop {
        let opened = runs
            .run("r")
            .options(DurableOptions::new().agent_version("2"))
            .open(work.clone().into(), work.tools().into());
        match opened.await.unwrap_err() {
            error @ JournalError::OtherVersion { .. } => break error.to_string(),
            // A write of the dropped context may not have ended yet, and holds the run.
            JournalError::Held { .. } => tokio::task::yield_now().await,
            error => panic!("{error:?}"),
        }
    };
    assert!(text.contains("pinned to the agent version \"1\""), "{text}");
    assert!(text.contains("opened with the version \"2\""), "{text}");
    let stalled = only(&runs).await;
    assert_eq!((stalled.status, stalled.reason), (RunStatus::Stalled, Some(text)));
    assert_eq!(stalled.agent_version.as_deref(), Some("1"));
    assert_eq!(runs.unfinished().await.unwrap(), ["r"]);
    assert!(!runs.inspect("r").await.unwrap().is_held);
    assert_eq!(work.done(), (0, 0));

    // Opening the run with its own version is enough to end the stall.
    drop(
        runs.run("r")
            .options(DurableOptions::new().agent_version("1"))
            .open(work.clone().into(), work.tools().into())
            .await
            .unwrap(),
    );
    let opened = only(&runs).await;
    assert_eq!((opened.status, opened.reason), (RunStatus::Running, None));
    run(&work, runs.run("r").options(DurableOptions::new().agent_version("1"))).await.unwrap();
    assert_eq!(work.done(), (2, 1), "one answer and one call are in the journal");
    assert_eq!(only(&runs).await.status, RunStatus::Done);
}

#[tokio::test]
async fn run_held_by_another_context_does_not_stall() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(0, 10);
    let open = async |version: &str| {
        let run = runs.run("r").options(DurableOptions::new().agent_version(version));
        run.open(work.clone().into(), work.tools().into()).await
    };
    let held = open("1").await.unwrap();
    let error = open("2").await.unwrap_err();
    assert!(matches!(error, JournalError::Held { .. }), "{error:?}");
    assert_eq!(only(&runs).await.status, RunStatus::Running);
    work.run_with(held).await.unwrap();
    // A run that has ended is not stalled by another version.
    let error = open("2").await.unwrap_err();
    assert!(matches!(error, JournalError::OtherVersion { .. }), "{error:?}");
    assert_eq!(only(&runs).await.status, RunStatus::Done);
}

#[tokio::test]
async fn allowed_change_pins_the_run_to_the_new_version() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = interrupted(&runs).await;
    let allowed = || {
        runs.run("r")
            .options(DurableOptions::new().agent_version("2").changed_agent(ChangedAgent::GoOn))
    };
    loop {
        match allowed().open(work.clone().into(), work.tools().into()).await {
            Ok(context) => break drop(context),
            Err(JournalError::Held { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(only(&runs).await.agent_version.as_deref(), Some("2"));
    let error = run(&work, runs.run("r").options(DurableOptions::new().agent_version("1")))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("pinned to the agent version \"2\""), "{error}");
    run(&work, runs.run("r").options(DurableOptions::new().agent_version("2"))).await.unwrap();
}

#[tokio::test]
async fn run_opened_without_a_version_is_not_checked() {
    let (_folder, path) = place();
    let runs = SqliteRuns::open(&path).await.unwrap();
    let work = Work::new(0, 10);
    run(&work, runs.run("r").options(DurableOptions::new().agent_version("1"))).await.unwrap();
    run(&work, runs.run("r")).await.unwrap();
    assert_eq!(only(&runs).await.agent_version.as_deref(), Some("1"));
    // A run without a version is pinned when it is opened with a version.
    run(&work, runs.run("s")).await.unwrap();
    assert_eq!(only(&runs).await.agent_version, None);
    run(&work, runs.run("s").options(DurableOptions::new().agent_version("7"))).await.unwrap();
    assert_eq!(only(&runs).await.agent_version.as_deref(), Some("7"));
}
