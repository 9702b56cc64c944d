//! A conversation that exceeds the model's context window gets one compaction and one more attempt.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_context::{CompositeStrategy, SlidingWindowStrategy, ToolResultClearingStrategy};
use neuron_loop::OnLimit;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    BoxedStrategy, ContextError, ContextStrategy, HookAction, Message, ProviderError, StopReason,
    TokenUsage, ToolContext, UsageLimits,
};
use serde_json::json;

use crate::support::*;
use crate::waiting::{SlowRecorder, Strict, TO_THE_END, poll_times};

fn too_long() -> Reply {
    Reply::error(ProviderError::ContextWindowExceeded("400: prompt is too long".into()))
}

const ERROR: &str = "provider error: context window exceeded: 400: prompt is too long";

fn cut_off() -> Reply {
    Reply::text("half an ans").stop_reason(StopReason::ContextWindowExceeded)
}

/// A conversation of six questions and answers, which the strategy [`content`] does not compact by itself.
fn history() -> Vec<Message> {
    let exchange = |index: usize| {
        [Message::user(format!("question {index}")), Message::assistant(format!("answer {index}"))]
    };
    (0..6).flat_map(exchange).collect()
}

/// A strategy that keeps four messages and compacts only above a million tokens.
fn content() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(4, 1_000_000)
}

#[tokio::test]
async fn every_strategy_can_be_forced_to_compact() {
    let results = || {
        let mut messages = history();
        messages.truncate(2);
        messages
    };
    let long = "x".repeat(4_000);
    let strategies: [fn() -> BoxedStrategy; 4] = [
        || BoxedStrategy::new(content()),
        || BoxedStrategy::new(ToolResultClearingStrategy::new(0, 1_000_000)),
        || BoxedStrategy::new(ToolResultClearingStrategy::new(0, 1_000_000).with_at_least(500)),
        || {
            BoxedStrategy::new(CompositeStrategy::new(
                vec![
                    BoxedStrategy::new(ToolResultClearingStrategy::new(0, 900_000)),
                    BoxedStrategy::new(content()),
                ],
                1_000_000,
            ))
        },
    ];
    for strategy in strategies {
        for way in WAYS {
            let act = || calls([json!({"text": long})]);
            let provider = ScriptedProvider::new([act(), act(), too_long(), Reply::text("whole")]);
            let mut agent = Chat::builder(provider.clone(), strategy())
                .tools(registry(&Log::default()))
                .messages(results())
                .build();
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "whole", "{way:?}");
            let bytes = |index: usize| {
                serde_json::to_string(&provider.requests()[index].messages).unwrap().len()
            };
            assert!(bytes(3) < bytes(2));
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn second_overflow_in_a_row_is_an_error_until_a_response() {
    for way in WAYS {
        let provider = ScriptedProvider::new([too_long(), too_long(), Reply::text("never")]);
        let hook = Recorder::default();
        let mut agent = Chat::builder(provider.clone(), content())
            .messages(history())
            .hook(hook.clone())
            .build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!((error.as_str(), provider.calls()), (ERROR, 2));
        check_pairs(&hook.log.lines());
        check_valid(agent.messages());

        let act = || calls([json!({}), json!({}), json!({})]);
        let provider = ScriptedProvider::new([
            too_long(),
            act(),
            act(),
            too_long(),
            act(),
            Reply::text("whole"),
        ]);
        let mut agent = Chat::builder(provider.clone(), content())
            .tools(registry(&Log::default()))
            .messages(history())
            .build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), provider.remaining()), ("whole", 0));

        // If two responses are cut off, the second one is the result.
        let provider = ScriptedProvider::new([cut_off(), cut_off(), Reply::text("never")]);
        let mut agent = Chat::builder(provider.clone(), content()).messages(history()).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), provider.calls()), ("half an ans", 2));
        assert_eq!(result.stop_reason, StopReason::ContextWindowExceeded);
    }
}

/// A strategy that never compacts by itself, and logs the size that it receives.
struct Stubborn<F> {
    how: F,
    told: Arc<Mutex<Vec<usize>>>,
}

impl<F> ContextStrategy for Stubborn<F>
where
    F: Fn(Vec<Message>) -> Result<Vec<Message>, ContextError> + Send + Sync,
{
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        (self.how)(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len() * 10
    }

    async fn compact_request(
        &self,
        request: neuron_types::RequestRef<'_>,
        token_count: usize,
    ) -> Result<(Vec<Message>, TokenUsage), ContextError> {
        self.told.lock().unwrap().push(token_count);
        Ok(((self.how)(request.messages.to_vec())?, TokenUsage::default()))
    }
}

type How = fn(Vec<Message>) -> Result<Vec<Message>, ContextError>;

#[tokio::test]
async fn failed_compaction_keeps_the_error_and_the_history() {
    let nothing: How = Ok;
    let fails: How = |_| Err(ContextError::CompactionFailed("no".into()));
    for how in [nothing, fails] {
        for way in WAYS {
            for (first, outcome) in [(too_long as fn() -> Reply, Err(ERROR)), (cut_off, Ok(()))] {
                let told = Arc::default();
                let strategy = Stubborn { how, told: Arc::clone(&told) };
                let provider = ScriptedProvider::new([first(), Reply::text("never")]);
                let mut agent =
                    Chat::builder(provider.clone(), strategy).messages(history()).build();
                let ended = run(way, &mut agent, &ToolContext::default()).await;
                match outcome {
                    Err(error) => assert_eq!(ended.unwrap_err(), error),
                    Ok(()) => assert_eq!(ended.unwrap().response, "half an ans"),
                }
                assert_eq!(provider.calls(), 1);
                assert_eq!(agent.messages()[..12], history());
                // A strategy that never compacts by itself receives the unchanged size.
                assert_eq!(*told.lock().unwrap(), [130]);
            }
        }
    }
    // A strategy that does not compact by itself, but can.
    let told = Arc::default();
    let how: How = |mut messages| Ok(messages.split_off(12));
    let strategy = Stubborn { how, told: Arc::clone(&told) };
    let provider = ScriptedProvider::new([too_long(), Reply::text("whole")]);
    let mut agent = Chat::builder(provider, strategy).messages(history()).build();
    assert_eq!(agent.run_text("go", &ToolContext::default()).await.unwrap().response, "whole");
}

#[tokio::test]
async fn second_attempt_respects_the_limits() {
    for way in WAYS {
        let provider = ScriptedProvider::new([too_long(), Reply::text("never")]);
        let mut agent = Chat::builder(provider.clone(), content())
            .messages(history())
            .usage_limits(UsageLimits::default().with_request_limit(1))
            .build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(error, "usage limit exceeded: request limit exceeded: 2 > 1");
        assert_eq!(provider.calls(), 1);

        // A response that was cut off used up a turn. The last call after a limit is made without a compaction.
        let provider = ScriptedProvider::new([cut_off(), too_long(), Reply::text("never")]);
        let mut agent = Chat::builder(provider.clone(), content())
            .messages(history())
            .max_turns(1)
            .on_limit(OnLimit::Finalize)
            .build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!((error.as_str(), provider.calls()), (ERROR, 2));
        check_valid(agent.messages());
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_compaction_is_cancelled_and_a_hook_ends_the_run_after_it() {
    struct Hang;
    impl ContextStrategy for Hang {
        fn should_compact(&self, _: &[Message], _: usize) -> bool {
            false
        }
        async fn compact(&self, _: Vec<Message>) -> Result<Vec<Message>, ContextError> {
            std::future::pending().await
        }
        fn token_estimate(&self, _: &[Message]) -> usize {
            0
        }
    }
    for way in WAYS {
        let provider = ScriptedProvider::new([too_long(), Reply::text("never")]);
        let mut agent = Chat::builder(provider, Hang).messages(history()).build();
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        let (ended, ()) = tokio::join!(run(way, &mut agent, &ctx), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        assert_eq!(ended.unwrap_err(), "cancelled");
        assert_eq!(agent.messages().len(), 13);

        let provider = ScriptedProvider::new([too_long(), Reply::text("never")]);
        let hook = Recorder::answering("Compacted", HookAction::Terminate { reason: "no".into() });
        let mut agent =
            Chat::builder(provider, content()).messages(history()).hook(hook.clone()).build();
        let error = run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!(error, "terminated by hook: no");
        check_pairs(&hook.log.lines());
        check_valid(agent.messages());
    }
}

/// Interrupts a run at every point where it waits, while its conversation exceeds the context window. The history must
/// stay valid. Each part of the agent returns `Poll::Pending` first, so that the run waits there.
#[test]
fn interrupted_overflow_leaves_a_valid_history() {
    for first in [too_long as fn() -> Reply, cut_off] {
        for way in WAYS {
            for cancels in [false, true] {
                for polls in 0.. {
                    let script = vec![first(), Reply::text("whole"), Reply::text("later")];
                    let events = Recorder::default();
                    let mut agent = Chat::builder(Strict::new(script), content())
                        .messages(history())
                        .hook(SlowRecorder(events.clone()))
                        .build();
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
                    if ended || cancels {
                        check_pairs(&events.log.lines());
                    }
                    check_valid(agent.messages());
                    let again = ToolContext::default();
                    let whole = poll_times(pin!(run(way, &mut agent, &again)), TO_THE_END);
                    whole.expect("it ends").unwrap();
                    check_valid(agent.messages());
                    if ended {
                        assert!(polls > 10, "there was something to leave");
                        break;
                    }
                }
            }
        }
    }
}
