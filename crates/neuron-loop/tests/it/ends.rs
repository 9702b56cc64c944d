//! The end of a run, for its reader and for those who steer it: the run ends, fails, panics, or is dropped.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use neuron_loop::{Agent, Conversation, SessionHandle, Start};
use neuron_runtime::InMemorySessionStorage;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{HookAction, HookError, HookEvent, Message, ObservabilityHook, ProviderError};
use serde_json::json;
use tokio::time::timeout;

use crate::support::*;

/// A hook that yields once at every event, so that a run can be dropped in it.
struct Yields;

impl ObservabilityHook for Yields {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        tokio::task::yield_now().await;
        Ok(HookAction::Continue)
    }
}

fn agent(replies: impl IntoIterator<Item = Reply>, log: &Log) -> Agent {
    Agent::builder(ScriptedProvider::new(replies)).tools(registry(log)).hook(Yields).build()
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Regression test. Before the fix, only a run that came to its end ended its events.
#[tokio::test]
async fn events_end_however_the_detached_run_ends() {
    let log = Log::default();
    for input in [json!({}), json!({ "panic": true }), json!({ "hang": true })] {
        for is_polled in [true, false] {
            let agent = agent([calls([input.clone()]), Reply::text("done")], &log);
            let mut run = agent.run_owned(Conversation::new(), "go");
            let handle = run.handle();
            let (mut events, run) = run.detach();
            if is_polled {
                let task = tokio::spawn(run);
                let read = async {
                    while events.next().await.is_some() {
                        if log.count("start") > 0 && !input["hang"].is_null() {
                            task.abort();
                        }
                    }
                };
                // A tool that hangs sends no event after its start.
                if timeout(Duration::from_millis(200), read).await.is_err() {
                    task.abort();
                }
            } else {
                drop(run);
            }
            let end =
                timeout(Duration::from_secs(10), async { while events.next().await.is_some() {} });
            end.await.expect("the events end");
            let is_taken = is_polled && input["hang"].is_null();
            assert_eq!(handle.take_conversation().is_some(), !is_taken, "{input} {is_polled}");
        }
    }
}

/// Regression test. A message is sent between any two polls of a run, which then ends or is dropped. Before the fix, a
/// message was lost that was sent while the run stored its last state or told its hooks of its end.
#[tokio::test]
async fn message_is_taken_or_comes_back_however_the_run_ends() {
    // The expected outcomes are: added to the conversation, returned later, refused.
    let failure = || Reply::error(ProviderError::Authentication("no".into()));
    for (last, max_turns, is_dropped, expected) in [
        (Reply::text("done"), None, false, [true, false, true]),
        (Reply::text("done"), Some(1), false, [true, false, true]),
        (failure(), None, false, [true, true, true]),
        (Reply::text("done"), None, true, [false, true, true]),
    ] {
        let mut seen = [false; 3];
        for polls in 0.. {
            let (storage, log) = (InMemorySessionStorage::new(), Log::default());
            let replies = [calls([json!({})]), last.clone(), Reply::text("more")];
            let agent = agent(replies, &log).to_builder();
            let agent = agent.config(|config| config.max_turns = max_turns).build();
            let (mut chat, session) = (Conversation::new(), SessionHandle::new(&storage, "s"));
            let mut run = agent.run(&mut chat, "go").store(&session);
            let (handle, mut run) = (run.handle(), Box::pin(run.into_future()));
            if (0..polls).any(|_| poll(run.as_mut()).is_ready()) {
                break;
            }
            let sent = handle.steer("And?");
            if !is_dropped {
                run.as_mut().await.ok();
            }
            drop(run);
            let message = Message::user("And?");
            let outcomes = [
                chat.messages().contains(&message),
                handle.take_unsent().contains(&message),
                sent.is_err_and(|error| error.0 == message),
            ];
            let count = outcomes.iter().filter(|outcome| **outcome).count();
            assert_eq!(count, 1, "{outcomes:?} after {polls} polls");
            seen.iter_mut().zip(outcomes).for_each(|(seen, outcome)| *seen |= outcome);
            assert!(handle.steer("too late").is_err());
        }
        assert_eq!(seen, expected, "{last:?} {max_turns:?}, dropped: {is_dropped}");
    }
}

/// Regression test. A run was dropped between its last response and its last store, and the caller adds a message. Before
/// the fix, the run ended with the old response, and the message had no answer.
#[tokio::test]
async fn message_behind_an_unreported_answer_is_answered() {
    let mut is_tried = false;
    for at in 0.. {
        let (storage, log) = (InMemorySessionStorage::new(), Log::default());
        let agent = agent([Reply::text("first"), Reply::text("second")], &log);
        let (mut chat, session) = (Conversation::new(), SessionHandle::new(&storage, "s"));
        {
            let mut run = pin!(agent.run(&mut chat, "go").store(&session).into_future());
            if (0..at).any(|_| poll(run.as_mut()).is_ready()) {
                break;
            }
        }
        if chat.messages().last() != Some(&Message::assistant("first")) {
            continue;
        }
        is_tried = true;
        chat.push("And?");
        let result = agent.run(&mut chat, Start::Continue).store(&session).await.unwrap();
        assert_eq!(result.response, "second", "dropped after {at} polls");
        assert_eq!(chat.messages().len(), 4);
    }
    assert!(is_tried);
}
