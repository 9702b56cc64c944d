//! The end of a run, for its reader and for those who steer it: the run ends, fails, panics, or is dropped.

use std::collections::BTreeMap;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use neuron_loop::{Agent, Conversation, SessionHandle, Start, Step};
use neuron_runtime::{InMemorySessionStorage, LocalDurableContext};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ActivityOptions, CompletionRequest, CompletionResponse, ContentBlock, DurableContext,
    DurableError, EMPTY_ANSWER, HookAction, HookError, HookEvent, LoopConfig, Message,
    ObservabilityHook, ProviderError, StopReason, ToolContext, ToolOutput,
};
use serde_json::{Value, json};
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
    for input in [json!({}), json!({ "panic": true }), json!({ "hang": true })] {
        for is_polled in [true, false] {
            let (log, hangs) = (Log::default(), !input["hang"].is_null());
            let agent = agent([calls([input.clone()]), Reply::text("done")], &log);
            let mut run = agent.run_owned(Conversation::new(), "go");
            let handle = run.handle();
            let (mut events, run) = run.detach();
            if is_polled {
                let task = tokio::spawn(run);
                while hangs && log.count("start") == 0 {
                    // A tool that hangs sends no event after its start.
                    timeout(Duration::from_millis(10), events.next()).await.ok();
                }
                if hangs {
                    task.abort();
                }
            } else {
                drop(run);
            }
            let end = async { while events.next().await.is_some() {} };
            timeout(Duration::from_secs(60), end).await.expect("the events end");
            let is_taken = is_polled && !hangs;
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

/// A stored conversation has its last response. A message behind it begins another run, with limits of its own.
#[tokio::test]
async fn message_behind_a_stored_answer_begins_another_run() {
    for is_injected in [false, true] {
        let (storage, log) = (InMemorySessionStorage::new(), Log::default());
        let agent = agent([Reply::text("first"), Reply::text("second")], &log).to_builder();
        let agent = agent.max_turns(1).build();
        let session = SessionHandle::new(&storage, "s");
        agent.run(&mut Conversation::new(), "go").store(&session).await.unwrap();
        let mut chat = SessionHandle::new(&storage, "s").load().await.unwrap();
        if !is_injected {
            chat.push("And?");
        }
        let mut steps = agent.run(&mut chat, Start::Continue).steps();
        if is_injected {
            steps.inject("And?");
        }
        let Some(Ok(Step::Ended(result))) = steps.next().await else { panic!("no end") };
        assert_eq!((&*result.response, result.turns), ("second", 1));
    }
}

/// A run that cannot begin takes no messages.
#[tokio::test]
async fn run_that_fails_at_its_beginning_takes_no_messages() {
    let (mut chat, log) = (Conversation::new(), Log::default());
    let agent = agent([], &log);
    let mut run = agent.run(&mut chat, Start::Continue);
    let handle = run.handle();
    let mut steps = run.steps();
    assert!(matches!(steps.next().await, Some(Err(_))));
    assert!(handle.steer("And?").is_err());
}

/// A durable context that keeps the values of [`DurableContext::record`], and yields before it returns them. A second
/// context with the same values is a replay.
#[derive(Clone)]
struct Records {
    inner: Arc<LocalDurableContext<ScriptedProvider>>,
    values: Arc<Mutex<BTreeMap<String, Value>>>,
}

impl Records {
    fn new(values: &Arc<Mutex<BTreeMap<String, Value>>>) -> Self {
        let replies = [calls([json!({})]), Reply::text("done"), Reply::text("more")];
        let replies = replies.into_iter().chain([Reply::text("and more")]);
        let provider = Arc::new(ScriptedProvider::new(replies));
        let tools = Arc::new(registry(&Log::default()));
        Self { inner: Arc::new(LocalDurableContext::new(provider, tools)), values: values.clone() }
    }
}

impl DurableContext for Records {
    async fn execute_llm_call(
        &self,
        request: CompletionRequest,
        options: ActivityOptions,
    ) -> Result<CompletionResponse, DurableError> {
        self.inner.execute_llm_call(request, options).await
    }

    async fn execute_tool(
        &self,
        tool_name: &str,
        input: Value,
        ctx: &ToolContext,
        options: ActivityOptions,
    ) -> Result<ToolOutput, DurableError> {
        self.inner.execute_tool(tool_name, input, ctx, options).await
    }

    async fn wait_for_signal<T: serde::de::DeserializeOwned + Send>(
        &self,
        name: &str,
        timeout: Duration,
    ) -> Result<Option<T>, DurableError> {
        self.inner.wait_for_signal(name, timeout).await
    }

    fn should_continue_as_new(&self) -> bool {
        false
    }

    async fn continue_as_new(&self, state: Value) -> Result<(), DurableError> {
        self.inner.continue_as_new(state).await
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
    }

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.inner.now()
    }

    async fn record(&self, name: &str, value: Value) -> Result<Value, DurableError> {
        let value = self.values.lock().unwrap().entry(name.to_owned()).or_insert(value).clone();
        tokio::task::yield_now().await;
        Ok(value)
    }
}

/// Regression test. Messages are sent at any two polls of a durable run, and at any two polls of its replay. Each is
/// added once, comes back, or is refused. Before the fix, a replay took messages that its journal did not have for those
/// that it had.
#[tokio::test]
async fn message_to_a_durable_run_or_its_replay_is_added_once_or_comes_back() {
    let agent =
        Agent::builder(ScriptedProvider::new([""; 0])).tools(registry(&Log::default())).build();
    let count = |messages: &[Message], text: &str| {
        messages.iter().filter(|message| message.text() == text).count()
    };
    let mut added = [0; 2];
    for first in 0..40 {
        for second in 0..40 {
            let values = Arc::default();
            let drive = async |polls: usize, text: &str| {
                let mut chat = Conversation::new();
                let mut run = agent.run(&mut chat, "go").durable(Records::new(&values));
                let (handle, mut run) = (run.handle(), Box::pin(run.into_future()));
                let is_over = (0..polls).any(|_| poll(run.as_mut()).is_ready());
                let sent = handle.steer(text);
                assert_eq!(is_over, sent.is_err() && is_over);
                if !is_over {
                    run.as_mut().await.unwrap();
                }
                drop(run);
                (chat, usize::from(sent.is_err()), handle.take_unsent())
            };
            let (chat, refused, unsent) = drive(first, "one").await;
            assert_eq!(count(chat.messages(), "one") + refused + unsent.len(), 1, "{first}");
            // The replay gets another message, or the same one once more.
            for text in ["two", "one"] {
                let (again, refused, unsent) = drive(second, text).await;
                let before = count(chat.messages(), text);
                let more = count(again.messages(), text) - before;
                assert_eq!(more + refused + unsent.len(), 1, "{first} {second} {text}");
                assert!(again.messages().starts_with(chat.messages()) || more > 0 || before > 0);
                added[0] += before;
                added[1] += more;
            }
        }
    }
    assert!(added[0] > 0, "{added:?}");
}

fn empty() -> Reply {
    Reply::message(Vec::new())
}

/// The model is asked again as often as [`output_retries`](neuron_types::LoopConfig::output_retries) allows.
#[tokio::test]
async fn empty_answer_is_asked_for_again() {
    let thinks = ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() };
    let signed = ContentBlock::Raw {
        provider: "p".into(),
        json: json!({ "signature": "s" }),
        portable: Some(Box::new(thinks.clone())),
    };
    let malformed = || {
        Reply::message(vec![ContentBlock::Text("I look.".into())])
            .stop_reason(StopReason::Other("MALFORMED_FUNCTION_CALL".into()))
    };
    for (replies, complaint) in [
        (vec![empty()], "Your last answer was empty."),
        (vec![empty(), Reply::text(" \n")], "Your last answer was empty."),
        (vec![Reply::message(vec![thinks])], "Your last answer was empty."),
        (vec![malformed()], "Your last answer could not be read"),
        (vec![Reply::message(vec![signed])], "Your last answer was empty."),
    ] {
        let asked = replies.len();
        let provider = ScriptedProvider::new(replies.into_iter().chain([Reply::text("done")]));
        let agent = Agent::builder(provider.clone()).build();
        let mut chat = Conversation::new();
        let result = agent.run(&mut chat, "go").await.unwrap();
        assert_eq!((result.response.as_str(), result.turns), ("done", asked + 1));
        assert_eq!(result.stop_reason, StopReason::EndTurn);
        let last = provider.requests().last().unwrap().messages.last().unwrap().text();
        assert!(last.starts_with(complaint), "{last}");
    }
}

#[tokio::test]
async fn run_tells_that_its_last_answer_was_empty() {
    let agent = |replies: usize, config: fn(&mut LoopConfig)| {
        let provider = ScriptedProvider::new((0..replies).map(|_| empty()));
        Agent::builder(provider).config(config).build()
    };
    for (replies, config) in [
        (3, (|_| {}) as fn(&mut LoopConfig)),
        (1, |config| config.output_retries = 0),
        (1, |config| config.max_turns = Some(1)),
    ] {
        let agent = agent(replies, config);
        let result = agent.run(&mut Conversation::new(), "go").await.unwrap();
        assert_eq!(result.stop_reason, StopReason::Other(EMPTY_ANSWER.into()));
        assert_eq!((result.response.as_str(), result.turns), ("", replies));
    }
    // The parts of an answer before a pause are an answer.
    let paused = Reply::text("It is 42.").stop_reason(StopReason::PauseTurn);
    let agent = Agent::builder(ScriptedProvider::new([paused, empty()])).build();
    let result = agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!((&*result.response, result.stop_reason), ("It is 42.", StopReason::EndTurn));
    // A text before the calls of a turn is no answer to their results.
    let text = ContentBlock::Text("I look.".into());
    let call = ContentBlock::ToolUse { id: "c".into(), name: "act".into(), input: json!({}) };
    let log = Log::default();
    let replies = [Reply::message(vec![text, call]), empty(), Reply::text("done")];
    let agent = self::agent(replies, &log);
    assert_eq!(agent.run(&mut Conversation::new(), "go").await.unwrap().response, "done");
}

/// An image, a refusal or a filter is an answer.
#[tokio::test]
async fn answer_without_text_that_says_something_is_the_end() {
    let image = ContentBlock::Raw { provider: "p".into(), json: json!({"a": 1}), portable: None };
    for (reply, reason) in [
        (Reply::message(vec![image]), StopReason::EndTurn),
        (empty().stop_reason(StopReason::Refusal), StopReason::Refusal),
        (empty().stop_reason(StopReason::ContentFilter), StopReason::ContentFilter),
        (empty().stop_reason(StopReason::MaxTokens), StopReason::MaxTokens),
    ] {
        let agent = Agent::builder(ScriptedProvider::new([reply])).build();
        let result = agent.run(&mut Conversation::new(), "go").await.unwrap();
        assert_eq!((result.response.as_str(), result.stop_reason), ("", reason));
    }
}
