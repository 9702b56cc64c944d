//! Tests of long journals, of continuing as new, and of the log records of a replay.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_durable_sqlite::{DurableOptions, SqliteOptions, SqliteRuns, Synchronous};
use neuron_loop::{Agent, Conversation};
use neuron_types::{
    AgentResult, Durability, DurableAgent, DurableContext as _, LoopError, RunSnapshot, Start,
    WasmBoxedFuture,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::support::{Work, place};

/// Sleeps a number of times, and checks after each sleep if the run should continue as new.
async fn sleeps(
    durability: &Durability<'_>,
    start: Start,
    times: usize,
) -> Result<AgentResult, LoopError> {
    if matches!(start, Start::Message(_)) {
        for _ in 0..times {
            if durability.should_continue_as_new() {
                let state = serde_json::to_value(RunSnapshot::new("r", Vec::new())).unwrap();
                durability.continue_as_new(state).await?;
            }
            durability.sleep(Duration::ZERO).await;
        }
    }
    Err(LoopError::MaxTurns(times))
}

fn agent(
    times: usize,
) -> impl for<'d> Fn(Start, Durability<'d>) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
    move |start, durability| Box::pin(async move { sleeps(&durability, start, times).await })
}

async fn fast(path: &std::path::Path) -> SqliteRuns {
    let options = SqliteOptions::new().synchronous(Synchronous::Normal);
    SqliteRuns::open_with(path, options).await.unwrap()
}

#[tokio::test]
async fn driven_run_continues_as_new_after_a_thousand_steps() {
    let (_folder, path) = place();
    let runs = fast(&path).await;
    let work = Work::new(0, 10);
    let context = work.open(&runs, "driven").await.unwrap();
    context.drive("go", &agent(1001)).await.unwrap_err();
    let summary = runs.inspect("driven").await.unwrap().summary;
    assert_eq!((summary.steps, summary.execution), (Some(1000), Some(1)));

    // Without a driver there is no limit, because the program would have to handle the new execution.
    let context = work.open(&runs, "by hand").await.unwrap();
    let start = context.start("go").await.unwrap();
    sleeps(&Durability::new(context.clone()), start, 1001).await.unwrap_err();
    let summary = runs.inspect("by hand").await.unwrap().summary;
    assert_eq!((summary.steps, summary.execution), (Some(1001), Some(0)));

    let (model, tools) = (work.clone().into(), work.tools().into());
    let context = runs
        .run("set")
        .options(DurableOptions::new().continue_after(7))
        .open(model, tools)
        .await
        .unwrap();
    context.drive("go", &agent(100)).await.unwrap_err();
    let summary = runs.inspect("set").await.unwrap().summary;
    assert_eq!((summary.steps, summary.execution), (Some(7), Some(1)));
}

/// An agent that runs two loops, of which the second loop has many steps.
struct TwoLoops(Work);

impl DurableAgent for TwoLoops {
    fn run<'d>(
        &'d self,
        start: Start,
        durability: Durability<'d>,
    ) -> WasmBoxedFuture<'d, Result<AgentResult, LoopError>> {
        Box::pin(async move {
            let agent = Agent::builder(self.0.clone()).tools(self.0.tools());
            let agent = agent.config(|config| config.max_turns = Some(10_000)).build();
            let (mut first, mut second) = (Conversation::new(), Conversation::new());
            agent.run(&mut first, start).durable(durability.clone()).await?;
            let result = agent.run(&mut second, "again").durable(durability).await?;
            Ok(result.with_messages(&second))
        })
    }
}

/// The run must not continue as new in its second loop, because each new execution would begin that loop again.
#[tokio::test]
async fn second_loop_of_an_agent_does_not_continue_as_new() {
    let (_folder, path) = place();
    let runs = fast(&path).await;
    let work = Work::new(300, 10);
    let context = work.open(&runs, "r").await.unwrap();
    context.drive("go", &TwoLoops(work.clone())).await.unwrap();
    assert_eq!(work.done(), (602, 600));
    let summary = runs.inspect("r").await.unwrap().summary;
    assert_eq!((summary.steps, summary.execution), (Some(1202), Some(0)));
}

/// A subscriber that keeps the events at level INFO about replays.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.0 = format!("{value:?}{}", self.0),
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Subscriber for Reports {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::INFO && metadata.target().starts_with("neuron_durable_sqlite")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn replay_of_a_long_journal_is_reported() {
    let (_folder, path) = place();
    let runs = fast(&path).await;
    let work = Work::new(0, 10);
    let drive = async |id: &str, times: usize| {
        let context = work.open(&runs, id).await.unwrap();
        context.drive("go", &agent(times)).await.unwrap_err();
    };
    let reports = Reports::default();
    let guard = tracing::subscriber::set_default(reports.clone());
    for (id, steps) in [("short", 99), ("long", 150)] {
        drive(id, steps).await;
        assert!(reports.0.lock().unwrap().is_empty(), "nothing is replayed yet");
        drive(id, steps + 1).await;
        let reported = std::mem::take(&mut *reports.0.lock().unwrap());
        match id {
            "short" => assert!(reported.is_empty(), "{reported:?}"),
            _ => {
                let begins = r#"the replay of a journal begins run="long" replayed=0 of=150"#;
                let ended = r#"the replay of a journal ended run="long" replayed=150 of=150"#;
                assert_eq!(reported.first().map(String::as_str), Some(begins));
                assert_eq!(reported.last().map(String::as_str), Some(ended));
            }
        }
    }
    drop(guard);
}
