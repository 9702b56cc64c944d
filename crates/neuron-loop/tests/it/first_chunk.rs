//! The time at which hooks receive `FirstChunk` for a response that a durable engine streams.

use std::sync::Mutex;
use std::time::Duration;

use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, DeltaSink, DurableContext,
    DurableError, HookAction, HookError, HookEvent, HookScope, LoopError, Message,
    ObservabilityHook, Operation, OperationKind, OperationScope, Provider, ProviderError,
    RequestRef, StreamEvent, TokenUsage, ToolContext, ToolOutput,
};
use serde_json::Value;

use crate::support::*;

/// An action of an engine while it streams the response `ab`.
#[derive(Clone, Copy)]
enum Deed {
    Delta(&'static str),
    /// The engine retries the call itself.
    Reset,
    /// The attempt fails for good.
    Fail,
    /// The engine works for one second.
    Work,
}

use Deed::{Delta, Fail, Reset, Work};

/// An engine that performs the listed actions, in order, each time that it streams a response.
struct Live(Vec<Deed>, Log);

fn answer() -> Reply {
    let usage = TokenUsage { input_tokens: 70, output_tokens: 7, ..Default::default() };
    Reply::text("ab").usage(usage)
}

impl DurableContext for Live {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        _: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        let provider = ScriptedProvider::new([answer()]);
        provider.complete(request).await.map_err(DurableError::Provider)
    }

    async fn execute_llm_stream(
        &self,
        request: RequestRef<'_>,
        options: ActivityOptions,
        sink: &dyn DeltaSink,
    ) -> Result<CompletionResponse, DurableError> {
        for deed in &self.0 {
            match *deed {
                Delta(text) => sink.send(StreamEvent::TextDelta(text.into())).await,
                Reset => {
                    let error = LoopError::Provider(ProviderError::StreamError("cut".into()));
                    sink.send(StreamEvent::Reset { attempt: 2, error: error.into() }).await;
                }
                Fail => {
                    let error = ProviderError::ServiceUnavailable("it sleeps".into());
                    return Err(DurableError::Provider(error));
                }
                Work => tokio::time::sleep(Duration::from_secs(1)).await,
            }
        }
        self.1.push("engine: journaled");
        self.execute_llm_call(request.to_request(), options).await
    }

    async fn execute_tool(
        &self,
        _: &str,
        _: Value,
        _: &ToolContext,
        _: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        unreachable!("the model calls no tool")
    }

    no_signals_or_timers!();
}

/// A hook that logs the events of model calls. It takes two seconds to handle `FirstChunk`, and asserts that this
/// happens inside the scope of the model call. If `ends_it` is set, it then ends the run.
struct Watching {
    log: Log,
    ends_it: bool,
    /// Set while a model call is polled.
    inside: std::sync::Arc<Mutex<bool>>,
}

struct Inside(std::sync::Arc<Mutex<bool>>);

impl OperationScope for Inside {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        *self.0.lock().unwrap() = true;
        poll();
        *self.0.lock().unwrap() = false;
    }
}

impl ObservabilityHook for Watching {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    async fn on_event_in(
        &self,
        event: HookEvent<'_>,
        _: &HookScope<'_>,
    ) -> Result<HookAction, HookError> {
        match event {
            HookEvent::FirstChunk => {
                assert!(*self.inside.lock().unwrap(), "not inside the call's scope");
                self.log.push("hook: first chunk");
                tokio::time::sleep(Duration::from_secs(2)).await;
                assert!(*self.inside.lock().unwrap(), "not inside the call's scope");
                self.log.push("hook: it was");
                if self.ends_it {
                    return Ok(HookAction::Terminate { reason: "not like this".into() });
                }
            }
            HookEvent::LlmError { error } => self.log.push(format!("hook: {error}")),
            HookEvent::PostLlmCall { .. } => self.log.push("hook: answered"),
            _ => {}
        }
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        match operation.kind {
            OperationKind::ModelCall { streaming: true, .. } => {
                Some(Box::new(Inside(self.inside.clone())))
            }
            _ => None,
        }
    }
}

/// Streams a response for which the engine performs `deeds`. Returns the lines that the hook, the engine and the reader
/// logged, and the output tokens of the run.
///
/// If `ends_it` is set, the hook ends the run at `FirstChunk`. The run is cancelled `cancel_after` + 0.5 seconds after
/// its start. `None` means that it is not cancelled.
async fn streamed(deeds: &[Deed], ends_it: bool, cancel_after: Option<u64>) -> (Vec<String>, u64) {
    let log = Log::default();
    let hook = Watching { log: log.clone(), ends_it, inside: Default::default() };
    let mut agent = Chat::builder(ScriptedProvider::new(Vec::<Reply>::new()), window())
        .hook(hook)
        .durability(Live(deeds.to_vec(), log.clone()))
        .build();
    let ctx = ToolContext::default();
    let token = ctx.cancellation_token.clone();
    let read = async {
        let mut events = agent.run_stream(Message::user("go"), &ctx).await;
        while let Some(event) = events.recv().await {
            match event {
                StreamEvent::TextDelta(text) => log.push(format!("reader: {text}")),
                StreamEvent::Reset { .. } => log.push("reader: reset"),
                StreamEvent::RunComplete(_) => log.push("reader: done"),
                StreamEvent::Error(error) => log.push(format!("reader: {error}")),
                _ => {}
            }
        }
    };
    let cancel = async {
        if let Some(seconds) = cancel_after {
            tokio::time::sleep(Duration::from_millis(seconds * 1000 + 500)).await;
            token.cancel();
        }
    };
    tokio::join!(read, cancel);
    (log.lines(), agent.usage().output_tokens as u64)
}

/// Regression test. The hooks must receive `FirstChunk` at the first delta. Before the fix, they received it after the
/// whole response, so the measured time to the first chunk was too long.
#[tokio::test(start_paused = true)]
async fn first_chunk_precedes_the_reader_and_the_end_of_the_response() {
    let (seen, _) = streamed(&[Work, Delta("a"), Work, Delta("b")], false, None).await;
    let expected = [
        "hook: first chunk",
        "hook: it was",
        "reader: a",
        "reader: b",
        "engine: journaled",
        "hook: answered",
        "reader: done",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn response_without_deltas_sends_first_chunk_at_its_end() {
    let (seen, _) = streamed(&[Work], false, None).await;
    let expected = [
        "engine: journaled",
        "hook: first chunk",
        "hook: it was",
        "hook: answered",
        "reader: done",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test(start_paused = true)]
async fn engine_retry_belongs_to_the_same_call() {
    let deeds = [Delta("x"), Reset, Work, Delta("a"), Delta("b")];
    let (seen, _) = streamed(&deeds, false, None).await;
    assert_eq!(
        seen[..6],
        [
            "hook: first chunk",
            "hook: it was",
            "reader: x",
            "reader: reset",
            "reader: a",
            "reader: b"
        ]
    );
    assert_eq!(seen.iter().filter(|line| line.contains("first chunk")).count(), 1);
    // An attempt that breaks before its first delta sends no first chunk.
    let (seen, _) = streamed(&[Reset, Delta("a"), Delta("b")], false, None).await;
    assert_eq!(seen[..3], ["reader: reset", "hook: first chunk", "hook: it was"]);
}

/// A hook ends the run at the first chunk. The reader then receives no delta, although the engine journals the whole
/// response.
#[tokio::test(start_paused = true)]
async fn hook_that_ends_the_call_stops_deltas_but_not_the_journal() {
    for deeds in [&[Delta("a"), Work, Reset, Delta("b")][..], &[]] {
        let (seen, output_tokens) = streamed(deeds, true, None).await;
        let ended = "terminated by hook: not like this";
        let mut sorted = seen.clone();
        sorted.sort();
        let mut expected = vec![
            "engine: journaled".to_owned(),
            "hook: first chunk".into(),
            format!("hook: {ended}"),
            "hook: it was".into(),
            format!("reader: {ended}"),
        ];
        expected.sort();
        assert_eq!(sorted, expected);
        assert_eq!(seen[3..], [format!("hook: {ended}"), format!("reader: {ended}")]);
        assert_eq!(output_tokens, 7, "it was paid for");
    }
}

#[tokio::test(start_paused = true)]
async fn failure_after_the_first_delta_fails_the_call() {
    for ends_it in [false, true] {
        let (seen, _) = streamed(&[Delta("a"), Fail], ends_it, None).await;
        let failed = "provider error: service unavailable: it sleeps";
        let end = [format!("hook: {failed}"), format!("reader: {failed}")];
        assert!(seen.ends_with(&end), "{seen:?}");
        assert_eq!(seen.contains(&"reader: a".to_owned()), !ends_it);
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_stops_the_engine_and_not_the_hook() {
    let (seen, _) = streamed(&[Delta("a"), Work, Delta("b")], false, Some(0)).await;
    let expected = ["hook: first chunk", "hook: it was", "hook: cancelled", "reader: cancelled"];
    assert_eq!(seen, expected);
    let (seen, _) = streamed(&[Delta("a"), Work, Delta("b")], false, Some(2)).await;
    assert_eq!(seen[2..], ["reader: a", "hook: cancelled", "reader: cancelled"]);
}
