//! Tests of the loop detector with agents and scripted models.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_loop::{Agent, Conversation, LoopError, OnLimit, RunEvent, Start, Step};
use neuron_runtime::LoopDetector;
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::builtin::OutputSpiller;
use neuron_tool::{MemoryOutputStore, ToolSearch};
use neuron_types::{
    CALL_TOOL, Message, PermissionDecision, PermissionPolicy, Role, SEARCH_TOOLS, ToolAnnotations,
    ToolEffect, transcript,
};
use serde_json::{Value, json};
use tracing::Level;

use crate::support::*;
use crate::tracing_records::Records;

fn call(id: usize, tool: &str, input: Value) -> Reply {
    Reply::tool_call(format!("c{id}"), tool, input)
}

/// Returns replies that call `act` with these texts, which are also the results.
fn texts(texts: &str) -> Vec<Reply> {
    let reply = |(id, text): (usize, char)| call(id, "act", json!({ "text": text.to_string() }));
    texts.chars().enumerate().map(reply).collect()
}

fn done() -> Reply {
    Reply::text("done")
}

/// An agent with a loop detector, its model, and the log of its tools `act`, `look` and `wait`.
struct Setup {
    model: ScriptedProvider,
    log: Log,
    agent: Agent,
}

fn setup(replies: impl IntoIterator<Item = Reply>, detector: LoopDetector) -> Setup {
    let (model, log) = (ScriptedProvider::new(replies), Log::default());
    let reads = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let look = Act { annotations: Some(reads), ..Act::new("look", &log) };
    let tools = registry([Act::new("act", &log), Act::new("wait", &log), look]);
    let agent = Agent::builder(model.clone()).tools(tools).hook(detector).build();
    Setup { model, log, agent }
}

impl Setup {
    fn calls_of_tools(&self) -> usize {
        self.log.lines().iter().filter(|line| line.starts_with("start")).count()
    }

    /// Returns the number of warnings in each request. Checks that each request continues the previous one, and is
    /// valid.
    fn warnings(&self) -> Vec<usize> {
        let requests = self.model.requests();
        for pair in requests.windows(2) {
            assert!(pair[1].messages.starts_with(&pair[0].messages), "messages are only appended");
        }
        for request in &requests {
            assert_eq!(transcript::validate(&request.messages), Ok(()));
        }
        requests.iter().map(|request| warnings(&request.messages).len()).collect()
    }
}

/// Returns the warnings of a conversation.
fn warnings(messages: &[Message]) -> Vec<String> {
    let systems = messages.iter().filter(|message| message.role == Role::System);
    systems.map(Message::text).filter(|text| text.contains("in a row")).collect()
}

/// Returns the reason why a run was ended.
#[track_caller]
fn reason<T: std::fmt::Debug>(ended: Result<T, LoopError>) -> String {
    match ended {
        Err(LoopError::HookTerminated(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn same_call_is_warned_of_and_ends_the_run() {
    let setup = setup(texts("aaaaa"), LoopDetector::new());
    let agent = &setup.agent;
    let mut conversation = Conversation::new();
    assert_eq!(
        reason(agent.run(&mut conversation, "go").await),
        "loop detector: the model made the call `act({\"text\":\"a\"})` 5 times in a row, and the result did not \
         change (before that, 4 tool calls ran; their results stay in the conversation)"
    );
    assert_eq!(setup.warnings(), [0, 0, 0, 1, 2]);
    assert_eq!(setup.calls_of_tools(), 4, "the last call does not run");
    assert_eq!(transcript::validate(conversation.messages()), Ok(()));
    // The agent continues with another message, and the count starts again.
    setup.model.push(texts("a").remove(0));
    setup.model.push(done());
    assert_eq!(agent.run(&mut conversation, "go on").await.unwrap().response, "done");
}

/// Regression test. Before the fix, the handle of each stored output made its result another result.
#[tokio::test]
async fn same_call_with_a_stored_output_ends_the_run() {
    let long = "a".repeat(100);
    let replies = (0..5).map(|id| call(id, "act", json!({ "text": long })));
    let Setup { agent, .. } = setup(replies, LoopDetector::new());
    let mut tools = registry([Act::new("act", &Log::default())]);
    tools.add_middleware(OutputSpiller::new(MemoryOutputStore::new(), 10));
    let agent = agent.to_builder().tools(tools).build();
    let mut conversation = Conversation::new();
    let ended = reason(agent.run(&mut conversation, "go").await);
    assert!(ended.contains("5 times in a row, and the result did not change"), "{ended}");
    assert!(format!("{:?}", conversation.messages()).contains("handle `output-"));
}

#[tokio::test]
async fn same_call_ends_a_stream_and_steps_too() {
    let reads = setup(texts("aaaaa"), LoopDetector::new());
    let agent = &reads.agent;
    let mut conversation = Conversation::new();
    let mut events = agent.run(&mut conversation, "go").stream();
    let error = loop {
        match events.next().await.unwrap() {
            Ok(RunEvent::Ended(result)) => panic!("{result:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let streamed = reason::<()>(Err(error));
    drop(events);
    assert_eq!(reads.warnings(), [0, 0, 0, 1, 2]);

    // Each step continues a conversation that was stored and read again.
    let stepped = setup(texts("aaaaa"), LoopDetector::new());
    let agent = &stepped.agent;
    let mut stored = serde_json::to_value(Conversation::new()).unwrap();
    let mut start: Start = "go".into();
    let ended = loop {
        let mut conversation: Conversation = serde_json::from_value(stored).unwrap();
        let step = agent.run(&mut conversation, start).steps().next().await.unwrap();
        stored = serde_json::to_value(&conversation).unwrap();
        start = Start::Continue;
        match step {
            Ok(Step::Ended(result)) => panic!("{result:?}"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(reason::<()>(Err(ended)), streamed);
    assert_eq!(stepped.warnings(), [0, 0, 0, 1, 2]);
}

#[tokio::test]
async fn alternating_calls_end_the_run() {
    let setup = setup(texts("ababababab"), LoopDetector::new());
    let ended = setup.agent.run(&mut Conversation::new(), "go").await;
    assert_eq!(
        reason(ended),
        "loop detector: the model made the calls `act({\"text\":\"a\"})`, `act({\"text\":\"b\"})` 5 times in a row, \
         and the results did not change (before that, 9 tool calls ran; their results stay in the conversation)"
    );
    assert_eq!(setup.warnings(), [0, 0, 0, 0, 0, 0, 1, 1, 2, 2]);
}

#[tokio::test]
async fn calls_without_progress_end_the_run_before_the_next_model_call() {
    let replies = |tool: &'static str| {
        (0..10).map(move |id| call(id, tool, json!({ "path": id }))).chain([done()])
    };
    let looks = setup(replies("look"), LoopDetector::new());
    let ended = looks.agent.run(&mut Conversation::new(), "go").await;
    assert_eq!(
        reason(ended),
        "loop detector: the last 10 responses of the model got the same result from `look`; the last call: \
         `look({\"path\":9})` (before that, 10 tool calls ran; their results stay in the conversation)"
    );
    assert_eq!(looks.warnings(), [0, 0, 0, 0, 0, 1, 2, 3, 4, 5]);
    // The tool `act` is not known to be read-only, so an equal result may be a success.
    let acts = setup(replies("act"), LoopDetector::new());
    acts.agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!(acts.warnings(), [0; 11]);
}

#[tokio::test]
async fn denied_calls_are_no_progress() {
    struct Denies;
    impl PermissionPolicy for Denies {
        fn check(&self, _: &str, _: &Value) -> PermissionDecision {
            PermissionDecision::Deny("never".into())
        }
    }
    let setup = setup(texts("abcdefghij"), LoopDetector::new());
    let agent = setup.agent.to_builder().permission_policy(Denies).build();
    let ended = reason(agent.run(&mut Conversation::new(), "go").await);
    assert!(ended.contains("the last 10 responses of the model got the same result"), "{ended}");
    assert_eq!(setup.calls_of_tools(), 0);
}

#[tokio::test]
async fn exempt_tool_may_be_polled() {
    let polls = || (0..30).map(|id| call(id, "wait", json!({}))).chain([done()]);
    let exempt = setup(polls(), LoopDetector::new().exempt("wait"));
    let ended = exempt.agent.run(&mut Conversation::new(), "go").await;
    assert_eq!(ended.unwrap().response, "done");
    assert_eq!(exempt.warnings(), [0; 31]);
    let checked = setup(polls(), LoopDetector::new());
    reason(checked.agent.run(&mut Conversation::new(), "go").await);
}

/// Returns an agent that defers the tools `act`, `look` and `wait`. Its model finds them in the first response.
fn deferring(replies: impl IntoIterator<Item = Reply>, detector: LoopDetector) -> Setup {
    let find = Reply::tool_call("f", SEARCH_TOOLS, json!({ "query": "act look wait" }));
    let Setup { model, log, agent } = setup([find].into_iter().chain(replies), detector);
    let reads = ToolAnnotations { read_only_hint: Some(true), ..ToolAnnotations::default() };
    let look = Act { annotations: Some(reads), ..Act::new("look", &log) };
    let mut tools = registry([Act::new("act", &log), Act::new("wait", &log), look]);
    tools.defer_tools(ToolSearch::new()).unwrap();
    Setup { model, log, agent: agent.to_builder().tools(tools).build() }
}

fn through(id: usize, tool: &str, arguments: Value) -> Reply {
    call(id, CALL_TOOL, json!({ "name": tool, "arguments": arguments }))
}

#[tokio::test]
async fn deferred_tool_is_compared_and_named_as_the_tool_that_runs() {
    let same = || (0..5).map(|id| through(id, "act", json!({ "text": "a" })));
    let setup = deferring(same(), LoopDetector::new());
    let mut conversation = Conversation::new();
    let ended = reason(setup.agent.run(&mut conversation, "go").await);
    let expected =
        "loop detector: the model made the call `act({\"text\":\"a\"})` 5 times in a row";
    assert!(ended.starts_with(expected), "{ended}");
    assert_eq!(setup.warnings(), [0, 0, 0, 0, 1, 2]);
    let text = &warnings(conversation.messages())[0];
    assert!(text.starts_with("You called `act` several times in a row"), "{text}");

    let polls = (0..30).map(|id| through(id, "wait", json!({}))).chain([done()]);
    let setup = deferring(polls, LoopDetector::new().exempt("wait"));
    let ended = setup.agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!((ended.response.as_str(), setup.calls_of_tools()), ("done", 30));
}

#[tokio::test]
async fn removed_tools_of_a_turn_do_not_change_the_decision() {
    let replies = (0..10).map(|id| call(id, "look", json!({ "path": id })));
    let setup = setup(replies, LoopDetector::new());
    // The last request does not offer the tool, whose hint decides.
    let agent = setup.agent.to_builder().prepare_turn(|turn| {
        let is_last = turn.run.turns == 10;
        turn.retain_tools(|tool| !is_last || tool.name != "look");
    });
    let ended = reason(agent.build().run(&mut Conversation::new(), "go").await);
    assert!(ended.contains("got the same result from `look`"), "{ended}");
}

#[tokio::test]
async fn heeded_warning_lets_the_run_continue() {
    let (records, _guard) = Records::start();
    let mut replies = texts("aaaabaaa");
    replies.push(done());
    let setup = setup(replies, LoopDetector::new());
    let mut conversation = Conversation::new();
    let ended = setup.agent.run(&mut conversation, "go").await;
    assert_eq!(ended.unwrap().response, "done");
    assert_eq!(setup.warnings(), [0, 0, 0, 1, 2, 2, 2, 2, 3]);
    assert_eq!(
        warnings(conversation.messages())[1],
        "You called `act` several times in a row with the same arguments, and the result did not change. Do not make \
         this call again. Use the result that you have, try other arguments or another tool, or give your final answer \
         and say what is missing. The run ends when this happens 5 times in a row."
    );
    let logged = records.events().into_iter().filter(|event| event.level == Level::WARN);
    assert_eq!(logged.count(), 3);
}

#[tokio::test]
async fn repeated_questions_of_the_user_are_no_loop() {
    let turns = (0..8).flat_map(|id| [call(id, "act", json!({})), done()]);
    let setup = setup(turns, LoopDetector::new());
    let agent = &setup.agent;
    let mut conversation = Conversation::new();
    for _ in 0..8 {
        agent.run(&mut conversation, "What is the weather?").await.unwrap();
    }
    assert_eq!(setup.warnings(), [0; 16]);
}

#[tokio::test]
async fn run_that_continues_without_a_message_counts_only_its_own_calls() {
    let setup = setup(texts("aaaaaaaaaa"), LoopDetector::new());
    let agent = &setup.agent;
    let mut conversation = Conversation::new();
    reason(agent.run(&mut conversation, "go").await);
    reason(agent.run(&mut conversation, Start::Continue).await);
    assert_eq!(setup.model.calls(), 10, "the second run makes as many calls as the first");
}

#[tokio::test]
async fn last_call_at_a_limit_is_not_checked() {
    let mut replies = texts("aaaa");
    replies.push(done());
    let setup = setup(replies, LoopDetector::new());
    let agent = setup.agent.to_builder().max_turns(4);
    let agent = agent.config(|config| config.on_limit = OnLimit::Finalize).build();
    let ended = agent.run(&mut Conversation::new(), "go").await.unwrap();
    assert_eq!(ended.response, "done");
}

#[tokio::test]
async fn early_calls_of_the_ended_response_are_cancelled() {
    let log = Log::default();
    let tool = Act { effect: ToolEffect::Pure, ..Act::new("act", &log) };
    let model = ScriptedProvider::new(texts("aaaaa"));
    let agent = Agent::builder(model)
        .tools(registry([tool]))
        .hook(LoopDetector::new())
        .config(|config| config.early_tools = true)
        .build();
    let mut conversation = Conversation::new();
    let mut events = agent.run(&mut conversation, "go").stream();
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    reason(last.unwrap());
    drop(events);
    assert_eq!(transcript::validate(conversation.messages()), Ok(()));
    assert_eq!(warnings(conversation.messages()).len(), 2);
}

#[tokio::test]
async fn concurrent_runs_share_one_detector() {
    let detector = LoopDetector::new();
    let ended = Arc::new(AtomicUsize::new(0));
    let runs = (0..8).map(|_| {
        let (setup, ended) = (setup(texts("aaaaa"), detector.clone()), ended.clone());
        async move {
            let agent = &setup.agent;
            reason(agent.run(&mut Conversation::new(), "go").await);
            ended.fetch_add(1, Ordering::SeqCst);
            assert_eq!(setup.warnings(), [0, 0, 0, 1, 2]);
        }
    });
    futures_util::future::join_all(runs).await;
    assert_eq!(ended.load(Ordering::SeqCst), 8);
}
