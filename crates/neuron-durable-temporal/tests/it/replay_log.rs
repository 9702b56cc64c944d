//! A test of the log records of a long replay.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_durable_temporal::replay_history;
use neuron_tool::ToolRegistry;
use neuron_types::{AgentResult, Durability, DurableContext, LoopError, Start, WasmBoxedFuture};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::host::{Model, TestContext, done, options, said};

/// A `tracing` subscriber that stores this crate's events at level INFO as text.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.0 = format!("{value:?}{}", self.0),
            "run" => {}
            name => self.0.push_str(&format!(" {name}={value:?}")),
        }
    }
}

impl Subscriber for Reports {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::INFO && metadata.target().starts_with("neuron_durable_temporal")
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

/// An agent that receives signals until a signal with the value `true` arrives.
fn takes(_: Start, context: Durability<'_>) -> WasmBoxedFuture<'_, Result<AgentResult, LoopError>> {
    Box::pin(async move {
        let mut is_last = false;
        while !is_last {
            let signal = context.wait_for_signal("a", Duration::from_secs(60)).await?;
            is_last = signal.unwrap_or(true);
        }
        said("done".into())
    })
}

/// Creates a run with `steps` steps, replays its history, and returns the log records of the replay.
async fn replayed(bench: &TestContext, steps: usize) -> Vec<String> {
    let run = bench.runs.start(format!("{}-{steps}", bench.queue), "go").await.unwrap();
    for step in 1..=steps {
        run.signal("a", &(step == steps)).await.unwrap();
    }
    let worker = bench.serve(Model::script(Vec::new()), ToolRegistry::new, takes, &options());
    assert_eq!(done(&run).await.response, "done");
    tokio::task::block_in_place(|| drop(worker));
    let history = run.history().await.unwrap();
    // The future of the replay is not `Send`.
    let replay = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reports = Reports::default();
        let _guard = tracing::subscriber::set_default(reports.clone());
        runtime.block_on(replay_history(takes, options(), &history)).unwrap();
        std::mem::take(&mut *reports.0.lock().unwrap())
    };
    tokio::task::spawn_blocking(replay).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_of_a_long_history_is_logged() {
    let Some(bench) = TestContext::new("replay-log", &options()).await else { return };
    assert!(replayed(&bench, 250).await.is_empty());
    assert_eq!(replayed(&bench, 251).await, ["a long history is still being replayed steps=250"]);
}
