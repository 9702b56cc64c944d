//! Runs on executors other than tokio, with wake-ups from threads and many concurrent runs.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{FuturesUnordered, select_all};
use neuron_loop::{Agent, Conversation};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{Message, StreamEvent, ToolContext};
use serde_json::json;

use crate::support::*;
use crate::waiting::*;

/// A waker that unblocks the sleeping executor.
struct Alarm(Sender<()>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.send(()).ok();
    }
}

/// An executor that polls only after a wake-up.
#[track_caller]
fn block_on<F: Future>(future: F) -> F::Output {
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(Arc::new(Alarm(sender)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        receiver.recv_timeout(Duration::from_secs(20)).expect("a wake-up was lost");
        while receiver.try_recv().is_ok() {}
    }
}

fn woken_by_threads(parallel: bool) -> Case {
    Case { parallel, woken_by: WokenBy::AThread, ..Case::default() }
}

#[test]
fn run_ends_without_tokio_when_woken_by_threads() {
    for fails in [false, true] {
        for parallel in [false, true] {
            for durable in [false, true] {
                for way in WAYS {
                    let case = Case { fails, durable, ..woken_by_threads(parallel) };
                    let mut built = build(&case);
                    let ended = block_on(run(way, &mut built.agent, &ToolContext::default()));
                    assert_eq!(ended.is_err(), fails, "{way:?}: {ended:?}");
                    check_valid(built.agent.messages());
                    check_pairs(&built.events.log.lines());
                }
            }
        }
    }
}

#[test]
fn concurrent_streams_in_futures_unordered_all_end() {
    let mut all: FuturesUnordered<_> = (0..20)
        .map(|index| async move {
            let agent = build(&woken_by_threads(index % 2 == 0)).agent;
            let mut events = agent.into_stream(Message::user("go"), ToolContext::default());
            let (mut count, mut ends) = (0, 0);
            while let Some(event) = events.recv().await {
                count += 1;
                if count % 3 == 0 {
                    Waits::new(1).await;
                }
                ends += usize::from(matches!(event, StreamEvent::RunComplete(_)));
            }
            ends
        })
        .collect();
    block_on(async {
        while let Some(ends) = all.next().await {
            assert_eq!(ends, 1)
        }
    });
}

#[test]
fn merged_streams_all_end() {
    let stream = |index| {
        let agent = build(&woken_by_threads(index % 2 == 0)).agent;
        agent.into_stream(Message::user("go"), ToolContext::default())
    };
    let all = select_all((0..20).map(stream));
    let ends = all.filter(|event| std::future::ready(matches!(event, StreamEvent::RunComplete(_))));
    assert_eq!(block_on(ends.count()), 20);
}

#[test]
fn thousands_of_parallel_calls_return_results_in_order() {
    const COUNT: usize = 5_000;
    for way in WAYS {
        let inputs = (0..COUNT).map(|index| json!({"text": index.to_string()}));
        let setup = setup([calls(inputs), Reply::text("done")]);
        let mut agent = setup.builder.parallel_tool_execution(true).build();
        block_on(run(way, &mut agent, &ToolContext::default())).unwrap();
        check_valid(agent.messages());
        let results = last_results(agent.messages());
        assert_eq!(results.len(), COUNT);
        for (index, result) in results.iter().enumerate() {
            assert_eq!(*result, format!("c{index}: {index}"));
        }
    }
}

/// Regression test. Before the fix, the default timeout of tools panicked at the first tool call.
#[test]
fn agent_with_its_defaults_runs_without_a_timer() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (log, replies) = (Log::default(), [calls([json!({})]), Reply::text("done")]);
    let agent = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&log)).build();
    let mut chat = Conversation::new();
    let result = runtime.block_on(async { agent.run(&mut chat, "go").await });
    assert_eq!((&*result.unwrap().response, log.count("end")), ("done", 1));
}
