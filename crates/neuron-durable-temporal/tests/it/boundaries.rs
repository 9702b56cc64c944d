//! Tests that the server receives the results of local model calls before a later failure of the worker can lose them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_conformance::child_process::{self, ChildProcess};
use neuron_context::SummarizationStrategy;
use neuron_durable_temporal::AgentWorker;
use neuron_loop::{Conversation, LoopConfig};
use neuron_tool::ToolRegistry;
use neuron_types::{
    ActivityOptions, AgentResult, CompletionRequest, Durability, DurableContext, DurableProvider,
    LoopError, ProviderError, Start, ToolEffect, ToolOutput, WasmBoxedFuture,
};
use serde_json::json;

use crate::host::{
    Agent, Does, Model, TestContext, answer, call, connect, context, done, failed, options, said,
    text, turns,
};

type Running<'d> = WasmBoxedFuture<'d, Result<AgentResult, LoopError>>;

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Does::new("read", ToolEffect::Pure, |_, _| async {
        Ok(ToolOutput::text("a long page ".repeat(1000)))
    }));
    tools
}

/// An agent that reads a page, summarises it and answers. The summary and the answer are two consecutive model calls,
/// without another step in between.
fn summarises(start: Start, durability: Durability<'_>) -> Running<'_> {
    Box::pin(async move {
        let never = Model::new(|_| Err(ProviderError::InvalidRequest("past the engine".into())));
        let summarizer = DurableProvider::new(durability.clone());
        let strategy =
            SummarizationStrategy::new(summarizer, 1, 1000).with_instructions("Summarise it.");
        let agent = neuron_loop::Agent::builder(never)
            .tools(tools())
            .config(|config| *config = LoopConfig::default())
            .build();
        let (mut conversation, ctx) = (Conversation::new(), context());
        let run = agent.run(&mut conversation, start).context(&ctx);
        let result = run.strategy(strategy).durable(durability).await?;
        Ok(result.with_messages(&conversation))
    })
}

/// Returns the model of the agent `summarises`. It logs each call to `file`, and calls `before_the_answer` before its
/// last response.
fn noting(file: PathBuf, before_the_answer: fn()) -> Model {
    Model::new(move |request| {
        let note = |kind: &str| {
            use std::io::Write as _;
            let open = std::fs::OpenOptions::new().create(true).append(true).open(&file);
            open.unwrap().write_all(format!("{kind}\n").as_bytes()).unwrap();
        };
        let all = serde_json::to_string(request).unwrap();
        Ok(if all.contains("Summarise it.") {
            note("summary");
            answer(0, vec![text("It is a page.")])
        } else if all.contains("It is a page.") {
            note("answer");
            before_the_answer();
            answer(2, vec![text("done")])
        } else {
            note("reads");
            answer(0, vec![call("c", "read", json!({}))])
        })
    })
}

fn stands_still() {
    child_process::report("the second call began");
    loop {
        std::thread::park();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_repeats_only_the_second_of_two_consecutive_model_calls() {
    if let Some(task) = child_process::task() {
        let (address, queue, file): (String, String, PathBuf) =
            serde_json::from_str(&task).unwrap();
        let (client, model) = (connect(&address).await, noting(file, stands_still));
        let worker = AgentWorker::builder(client, queue, model, tools(), summarises);
        worker.options(options()).build().unwrap().run().await.unwrap();
        return;
    }
    let options = options();
    let Some(bench) = TestContext::new("two", &options).await else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("calls");
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let task = serde_json::to_string(&(&bench.address, &bench.queue, &file)).unwrap();
    tokio::task::block_in_place(|| {
        let test = "boundaries::kill_repeats_only_the_second_of_two_consecutive_model_calls";
        let mut child = ChildProcess::start(test, &task);
        assert!(child.next_report(Duration::from_secs(60)).is_some());
        drop(child);
    });
    assert_eq!(calls(&file), ["reads", "reads", "summary", "answer"]);
    let _worker = bench.serve(noting(file.clone(), || ()), tools, summarises, &options);
    assert_eq!(done(&run).await.response, "done");
    assert_eq!(calls(&file), ["reads", "reads", "summary", "answer", "answer"]);
}

fn calls(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// Returns a model whose responses have `bytes` bytes each, and a counter of the calls to the model.
fn counting(bytes: usize) -> (Model, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let model = Model::new(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(answer(turns(request), vec![text("y".repeat(bytes))]))
    });
    (model, calls)
}

async fn ask(context: &Durability<'_>) -> Result<String, LoopError> {
    let (request, options) = (CompletionRequest::default(), ActivityOptions::default());
    Ok(context.execute_llm_call(request, options).await?.message.text())
}

fn panics(_: Start, durability: Durability<'_>) -> Running<'_> {
    Box::pin(async move {
        let answer = ask(&durability).await?;
        panic!("the secret {answer}");
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_of_the_agent_ends_the_run_without_another_model_call() {
    let options = options();
    let Some(bench) = TestContext::new("panics", &options).await else { return };
    let (model, calls) = counting(3);
    let _worker = bench.serve(model, tools, panics, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let failure = failed(&run).await;
    assert_eq!((failure.kind.as_str(), calls.load(Ordering::SeqCst)), ("Panic", 1));
    assert!(!String::from_utf8(run.history().await.unwrap()).unwrap().contains("the secret"));
}

#[tokio::test(flavor = "multi_thread")]
async fn signal_during_the_last_model_call_does_not_repeat_it() {
    let options = options();
    let Some(bench) = TestContext::new("signalled", &options).await else { return };
    let (began, begins) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let goes_on = std::sync::Mutex::new(goes_on);
    let model = Model::new(move |request| {
        began.send(()).unwrap();
        tokio::task::block_in_place(|| goes_on.lock().unwrap().recv().unwrap());
        Ok(answer(turns(request), vec![text("done")]))
    });
    let _worker = bench.serve(model, ToolRegistry::new, Agent::new(ToolRegistry::new), &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let begins = |most| tokio::task::block_in_place(|| begins.recv_timeout(most));
    begins(Duration::from_secs(60)).unwrap();
    run.signal("unasked", &1).await.unwrap();
    // Lets further calls succeed too, in case the call is repeated.
    (0..9).for_each(|_| go_on.send(()).unwrap());
    assert_eq!(done(&run).await.response, "done");
    assert!(begins(Duration::ZERO).is_err(), "it was called again");
}

fn asks_often(_: Start, durability: Durability<'_>) -> Running<'_> {
    Box::pin(async move {
        let mut last = String::new();
        for _ in 0..6 {
            last = ask(&durability).await?;
        }
        said(last)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn consecutive_large_responses_are_sent_in_separate_tasks() {
    let options = options();
    let Some(bench) = TestContext::new("large-answers", &options).await else { return };
    let (model, calls) = counting(900_000);
    let _worker = bench.serve(model, tools, asks_often, &options);
    let run = bench.runs.start(&bench.queue, "go").await.unwrap();
    let result = done(&run).await;
    assert_eq!((result.response.len(), calls.load(Ordering::SeqCst)), (900_000, 6));
}
