//! Changes that a `prepare_turn` callback makes to one model call. They apply only to this call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_loop::TurnSetup;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    CompletionRequest, CompletionResponse, HookAction, HookError, HookEvent, Message,
    ObservabilityHook, Provider, ProviderError, RequestRef, StopReason, StreamHandle,
    ThinkingConfig, TokenUsage, ToolChoice, ToolContext,
};
use serde_json::json;

use crate::support::*;
use crate::waiting::*;

/// Returns a registry with the tools `act` and `other`.
fn two_tools(log: &Log) -> neuron_tool::ToolRegistry {
    let mut tools = registry(log);
    tools.register_dyn(Arc::new(Act { name: "other", log: log.clone() }));
    tools
}

/// Changes every setting that a callback can change.
fn change(turn: &mut TurnSetup<'_>) {
    turn.settings.model = "large".into();
    turn.settings.temperature = Some(0.5);
    turn.settings.max_tokens = Some(7);
    turn.settings.tool_choice = Some(ToolChoice::Required);
    turn.settings.thinking = Some(ThinkingConfig::Adaptive);
    turn.system_prompt = "Only this once.".into();
    turn.retain_tools(|tool| tool.name == "act");
}

fn base(log: &Log) -> CompletionRequest {
    CompletionRequest {
        model: "small".into(),
        system: Some("Be brief.".into()),
        tools: two_tools(log).definitions(),
        temperature: Some(1.0),
        stop_sequences: vec!["END".into()],
        ..CompletionRequest::default()
    }
}

fn changed(log: &Log) -> CompletionRequest {
    let base = base(log);
    CompletionRequest {
        model: "large".into(),
        system: Some("Only this once.".into()),
        tools: base.tools[..1].to_vec(),
        max_tokens: Some(7),
        temperature: Some(0.5),
        tool_choice: Some(ToolChoice::Required),
        thinking: Some(ThinkingConfig::Adaptive),
        ..base
    }
}

/// Adds base settings and a `prepare_turn` callback to a builder. The callback changes the settings while `on` is
/// `true`.
fn configured(
    builder: ChatBuilder<'static>,
    log: &Log,
    on: &Arc<AtomicBool>,
) -> ChatBuilder<'static> {
    let on = on.clone();
    builder
        .tools(two_tools(log))
        .system_prompt("Be brief.")
        .model("small")
        .temperature(1.0)
        .stop_sequences(["END"])
        .prepare_turn(move |turn| {
            if on.load(Ordering::SeqCst) {
                change(turn);
            }
        })
}

/// A hook that records each model request without its messages.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<CompletionRequest>>>);

impl Sent {
    fn take(&self) -> Vec<CompletionRequest> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl ObservabilityHook for Sent {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        if let HookEvent::PreLlmCall { request } = event {
            let request = CompletionRequest { messages: Vec::new(), ..request.to_request() };
            self.0.lock().unwrap().push(request);
        }
        Ok(HookAction::Continue)
    }
}

#[tokio::test]
async fn change_applies_to_one_call_and_hooks_see_it() {
    for way in WAYS {
        let log = Log::default();
        let sent = Sent::default();
        let setup = setup([calls([json!({})]), calls([json!({})]), Reply::text("done")]);
        let mut agent = setup
            .builder
            .tools(two_tools(&log))
            .system_prompt("Be brief.")
            .model("small")
            .temperature(1.0)
            .stop_sequences(["END"])
            .hook(sent.clone())
            .prepare_turn(|turn| {
                if turn.run.turns == 1 {
                    change(turn);
                }
            })
            .build();
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let expected = [base(&log), changed(&log), base(&log)];
        assert_eq!(sent.take(), expected, "{way:?}");
        let received = setup.provider.requests().into_iter();
        let received: Vec<_> =
            received.map(|request| CompletionRequest { messages: vec![], ..request }).collect();
        assert_eq!(received, expected, "{way:?}");
        assert_eq!(agent.config().request.model, "small");
    }
}

#[tokio::test(start_paused = true)]
async fn change_is_undone_after_error_cancel_or_drop() {
    let fails: fn() -> Reply = || Reply::error(ProviderError::ServiceUnavailable("529".into()));
    let hangs: fn() -> Reply = Reply::hang;
    let breaks: fn() -> Reply = || Reply::text("half").hang_after(1);
    for (reply, cancels) in
        [(fails, false), (hangs, false), (hangs, true), (breaks, false), (breaks, true)]
    {
        for way in WAYS {
            let (log, on, sent) = (Log::default(), Arc::default(), Sent::default());
            let setup = setup([reply(), Reply::text("done")]);
            let mut agent = configured(setup.builder, &log, &on).hook(sent.clone()).build();
            on.store(true, Ordering::SeqCst);
            let ctx = ToolContext::default();
            let second = Duration::from_secs(1);
            let token = ctx.cancellation_token.clone();
            let run_it = tokio::time::timeout(second * 2, run(way, &mut agent, &ctx));
            let (ended, ()) = tokio::join!(run_it, async {
                tokio::time::sleep(second).await;
                if cancels {
                    token.cancel();
                }
            });
            assert!(!matches!(ended, Ok(Ok(_))), "{way:?}");
            on.store(false, Ordering::SeqCst);
            run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(sent.take(), [changed(&log), base(&log)], "{way:?}");
        }
    }
}

#[tokio::test]
async fn change_is_undone_when_a_hook_ends_the_run_first() {
    for way in WAYS {
        let (log, on, sent) = (Log::default(), Arc::default(), Sent::default());
        let setup = setup([Reply::text("done")]);
        let terminate = HookAction::Terminate { reason: "no".into() };
        let first = AtomicBool::new(true);
        struct Once(AtomicBool, HookAction);
        impl ObservabilityHook for Once {
            async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
                let is_call = matches!(event, HookEvent::PreLlmCall { .. });
                match is_call && self.0.swap(false, Ordering::SeqCst) {
                    true => Ok(self.1.clone()),
                    false => Ok(HookAction::Continue),
                }
            }
        }
        let mut agent = configured(setup.builder, &log, &on)
            .hook(sent.clone())
            .hook(Once(first, terminate))
            .build();
        on.store(true, Ordering::SeqCst);
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!((error.as_str(), setup.provider.calls()), ("terminated by hook: no", 0));
        on.store(false, Ordering::SeqCst);
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(sent.take(), [changed(&log), base(&log)], "{way:?}");
    }
}

/// Interrupts a run at every point where it waits. A callback has changed one turn, and this change must not apply to
/// the next run. Each part of the agent returns `Poll::Pending` first, so that the run waits there.
#[test]
fn interrupted_run_leaves_no_change() {
    for way in WAYS {
        for cancels in [false, true] {
            for polls in 0.. {
                let (log, on, sent) = (Log::default(), Arc::default(), Sent::default());
                let events = Recorder::default();
                let builder = Chat::builder(Strict::new(replies(false)), SlowWindow::new());
                let mut agent = configured(builder, &log, &on)
                    .tools(registry(&log))
                    .hook(sent.clone())
                    .hook(SlowRecorder(events))
                    .build();
                on.store(true, Ordering::SeqCst);
                let ctx = ToolContext::default();
                let ended = {
                    let mut run = pin!(run(way, &mut agent, &ctx));
                    let ended = poll_times(run.as_mut(), polls).is_some();
                    if !ended && cancels {
                        ctx.cancellation_token.cancel();
                        assert!(poll_times(run, 500).is_some(), "it ends soon");
                    }
                    ended
                };
                on.store(false, Ordering::SeqCst);
                sent.take();
                check_valid(agent.messages());
                let again = ToolContext::default();
                let whole = pin!(run(way, &mut agent, &again));
                poll_times(whole, TO_THE_END).expect("it ends").unwrap();
                let tools = registry(&log).definitions();
                let base = CompletionRequest { tools, ..base(&log) };
                let sent = sent.take();
                assert!(!sent.is_empty());
                for request in sent {
                    assert_eq!(request, base, "{way:?}, left after {polls} polls");
                }
                if ended {
                    assert!(polls > 20, "there was something to leave");
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn change_is_undone_when_the_provider_panics() {
    struct Panics(ScriptedProvider, AtomicBool);
    impl Provider for Panics {
        async fn complete(
            &self,
            request: CompletionRequest,
        ) -> Result<CompletionResponse, ProviderError> {
            assert!(!self.1.swap(false, Ordering::SeqCst), "{PLANNED}");
            self.0.complete(request).await
        }
        async fn complete_stream(
            &self,
            request: CompletionRequest,
        ) -> Result<StreamHandle, ProviderError> {
            assert!(!self.1.swap(false, Ordering::SeqCst), "{PLANNED}");
            self.0.complete_stream(request).await
        }
    }
    for way in WAYS {
        let (log, on, sent) = (Log::default(), Arc::default(), Sent::default());
        let script = ScriptedProvider::new([Reply::text("done")]);
        let builder = Chat::builder(Panics(script, AtomicBool::new(true)), window());
        let mut agent = configured(builder, &log, &on).hook(sent.clone()).build();
        on.store(true, Ordering::SeqCst);
        let ctx = ToolContext::default();
        let whole = || poll_times(pin!(run(way, &mut agent, &ctx)), TO_THE_END);
        catch_unwind(AssertUnwindSafe(whole)).unwrap_err();
        on.store(false, Ordering::SeqCst);
        run(way, &mut agent, &ctx).await.unwrap();
        assert_eq!(sent.take(), [changed(&log), base(&log)], "{way:?}");
    }
}

#[tokio::test]
async fn callbacks_see_the_run_and_earlier_changes() {
    for way in WAYS {
        let usage = TokenUsage { input_tokens: 10, output_tokens: 1, ..Default::default() };
        let setup = setup([
            calls([json!({}), json!({})]).usage(usage.clone()),
            Reply::text("…").stop_reason(StopReason::PauseTurn).usage(usage.clone()),
            Reply::text("done").usage(usage),
        ]);
        let seen = Log::default();
        let log = seen.clone();
        let mut agent = setup
            .builder
            .tools(two_tools(&setup.log))
            .system_prompt("Be brief.")
            .prepare_turn(|turn| {
                turn.settings.model.push('x');
                turn.retain_tools(|tool| tool.name != "act");
            })
            .prepare_turn(move |turn| {
                turn.retain_tools(|_| true);
                let tools: Vec<_> = turn.tools().map(|tool| tool.name.as_str()).collect();
                let run = turn.run;
                log.push(format!(
                    "{} {} {} {} {} {:?} {}",
                    run.turns,
                    run.tool_calls,
                    run.usage.total_tokens(),
                    run.messages.len(),
                    turn.settings.model,
                    tools,
                    run.called("act")
                ));
                turn.retain_tools(|_| false);
                turn.system_prompt = "".into();
            })
            .build();
        // The model calls a tool that was not offered.
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(error, "tool error: tool not found: act");
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "…done");
        assert_eq!(
            seen.lines(),
            [
                r#"0 0 0 1 x ["other"] false"#,
                r#"0 0 0 4 x ["other"] true"#,
                r#"1 0 11 5 x ["other"] false"#,
            ],
            "{way:?}"
        );
        for request in setup.provider.requests() {
            assert_eq!(
                (request.tools.len(), request.system, request.model.as_str()),
                (0, None, "x")
            );
        }
    }
}

#[tokio::test]
async fn prepared_turn_does_not_copy_the_conversation() {
    /// A provider that logs the memory address of the conversation in each request.
    struct Where(ScriptedProvider, Arc<AtomicUsize>);
    impl Provider for Where {
        async fn complete_ref(
            &self,
            request: RequestRef<'_>,
        ) -> Result<CompletionResponse, ProviderError> {
            self.1.store(request.messages.as_ptr().addr(), Ordering::SeqCst);
            self.0.complete_ref(request).await
        }
        async fn complete_stream_ref(
            &self,
            request: RequestRef<'_>,
        ) -> Result<StreamHandle, ProviderError> {
            self.0.complete_stream_ref(request).await
        }
    }
    let (sent, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let at = seen.clone();
    let provider = Where(ScriptedProvider::new([Reply::text("hi")]), sent.clone());
    let mut agent = Chat::builder(provider, window())
        .prepare_turn(move |turn| {
            at.store(turn.run.messages.as_ptr().addr(), Ordering::SeqCst);
            change(turn);
        })
        .messages(vec![Message::user("before"), Message::assistant("yes")])
        .build();
    agent.run_text("hello", &ToolContext::default()).await.unwrap();
    assert!(sent.load(Ordering::SeqCst) != 0);
    assert_eq!(sent.load(Ordering::SeqCst), seen.load(Ordering::SeqCst));
}
