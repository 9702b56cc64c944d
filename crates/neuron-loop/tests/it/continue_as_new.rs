//! Runs that continue as a new execution of the durable engine.

use neuron_loop::{AgentResult, LoopError};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ContextError, ContextStrategy, DurableError, Message, Role, RunSnapshot, Start, StopReason,
    StreamEvent, ToolContext,
};
use serde_json::{Value, json};

use crate::journal::{Journal, Journaled, World};
use crate::support::*;

type Agent = Chat<'static>;

fn agent(context: &Journaled) -> Agent {
    let builder = setup([""; 0]).builder.tools(context.world.tools.clone());
    builder.durability(context.clone()).build()
}

/// Runs from `start` to the end. Starts a new execution whenever `context` requests it. Each execution has a new agent
/// from `build`. Returns the outcome and the number of executions.
async fn to_the_end(
    build: impl Fn(&Journaled) -> Chat<'static>,
    mut context: Journaled,
    start: Start,
) -> (Result<AgentResult, LoopError>, usize) {
    let (mut start, mut executions) = (start, 0);
    let ctx = ToolContext::default();
    loop {
        executions += 1;
        let ended = build(&context).run_from(start, &ctx).await;
        let Err(LoopError::Durable(DurableError::ContinueAsNew(_))) = ended else {
            return (ended, executions);
        };
        let state = context.state.lock().unwrap().take().expect("a state");
        start = serde_json::from_value::<RunSnapshot>(state).unwrap().into();
        context = context.next_execution();
    }
}

fn three_turns(log: &Log) -> World {
    let replies = [calls([json!({})]), calls([json!({"text": "b"})]), Reply::text("done")];
    World::new(replies, registry(log), [])
}

#[tokio::test]
async fn run_that_continues_at_every_turn_has_the_same_outcome() {
    let log = Log::default();
    let whole = Journaled::new(&three_turns(&log), &Journal::default());
    let (expected, _) = to_the_end(agent, whole.clone(), "go".into()).await;
    let keys = |context: &Journaled| -> Vec<String> {
        context.calls.lines().into_iter().filter(|line| line.starts_with("tools")).collect()
    };
    let context = Journaled::new(&three_turns(&log), &Journal::default());
    // The very first execution also continues before its first turn.
    let (result, executions) =
        to_the_end(agent, context.clone().continuing_at([0, 2, 4]), "go".into()).await;
    assert_eq!(result.unwrap(), expected.unwrap());
    assert_eq!(executions, 4);
    assert_eq!(keys(&context), keys(&whole), "the same calls with the same keys");
}

#[tokio::test]
async fn run_that_begins_with_an_answer_continues_before_its_first_turn() {
    let context = Journaled::new(&three_turns(&Log::default()), &Journal::default());
    let start = Start::from(Message::assistant("I think that"));
    let (result, executions) = to_the_end(agent, context.continuing_at([0]), start).await;
    assert_eq!((result.unwrap().response.as_str(), executions), ("done", 2));
}

fn snapshot(messages: Vec<Message>) -> RunSnapshot {
    RunSnapshot::new("r", messages)
}

#[tokio::test]
async fn invalid_snapshot_is_rejected_and_changes_nothing() {
    let call = Message {
        role: Role::Assistant,
        content: vec![neuron_types::ContentBlock::ToolUse {
            id: "c1".into(),
            name: "act".into(),
            input: json!({"secret": "hunter2"}),
        }],
    };
    let mut newer = snapshot(vec![Message::user("hi")]);
    newer.version = RunSnapshot::VERSION + 1;
    let torn = snapshot(vec![Message::user("hi"), call]);
    let answered = snapshot(vec![Message::user("hi"), Message::assistant("hello")]);
    let empty = snapshot(vec![]);
    let mut strange = snapshot(vec![Message::user("hi")]);
    strange.loop_state = json!({"size": "hunter2"});
    for (state, text) in [
        (newer, "version 3"),
        (torn, "the tool call `c1` has no result"),
        (answered, "nothing for the model to answer"),
        (empty, "nothing for the model to answer"),
        (strange, "invalid type"),
    ] {
        let world = World::new([Reply::text("one")], registry(&Log::default()), []);
        let context = Journaled::new(&world, &Journal::default());
        let mut agent = agent(&context);
        let hook = Recorder::default();
        let ctx = ToolContext::default();
        agent.run_text("first", &ctx).await.unwrap();
        agent.add_hook(hook.clone());
        let before = (agent.messages().to_vec(), agent.usage().clone(), agent.turns());
        let calls = context.calls.lines();
        let error = agent.run_from(state.clone(), &ctx).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
        let events = agent.run_from_stream(state.clone(), &ctx).await;
        let events: Vec<StreamEvent> = futures_util::StreamExt::collect(events).await;
        assert!(matches!(&events[..], [StreamEvent::Error(_)]), "{events:?}");
        let mut steps = agent.run_from_step(state, &ctx);
        assert!(matches!(steps.next().await, Some(Err(_))));
        assert!(steps.next().await.is_none());
        drop(steps);
        assert_eq!((agent.messages().to_vec(), agent.usage().clone(), agent.turns()), before);
        assert_eq!(context.calls.lines(), calls);
        assert_eq!(hook.log.lines(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn snapshot_without_loop_state_is_enough() {
    let mut state = serde_json::to_value(snapshot(vec![Message::user("go")])).unwrap();
    state["turns"] = json!(5);
    state["usage"] = json!({"input_tokens": 100, "output_tokens": 0});
    state.as_object_mut().unwrap().remove("loop_state");
    state["run_id"] = Value::String(String::new());
    let state: RunSnapshot = serde_json::from_value(state).unwrap();
    let context = Journaled::new(&three_turns(&Log::default()), &Journal::default());
    let mut agent = agent(&context);
    let result = agent.run_from(state, &ToolContext::default()).await.unwrap();
    assert_eq!(result.turns, 8);
    assert!(result.usage.input_tokens > 100);
    assert_eq!(agent.total_usage(), &result.usage);
    let first = &context.calls.lines()[2];
    assert!(first.contains("run-7/0/5/0/c0"), "the engine's id, and the next turn: {first}");
}

/// A context strategy that compacts only if the loop forces it. It then removes the two messages after the first
/// message.
struct Shrinks;

impl ContextStrategy for Shrinks {
    fn should_compact(&self, _: &[Message], _: usize) -> bool {
        false
    }

    async fn compact(&self, mut messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        messages.drain(1..3);
        Ok(messages)
    }

    fn token_estimate(&self, messages: &[Message]) -> usize {
        messages.len()
    }
}

/// If a model call exceeds the context window, the run compacts and repeats the call only once. This also holds if a
/// new execution begins in between.
#[tokio::test]
async fn overflow_compacts_once_across_executions() {
    for continue_at in [vec![], vec![3], vec![4]] {
        let cut = || Reply::text("so").stop_reason(StopReason::ContextWindowExceeded);
        let tools = || calls([json!({})]);
        let replies = [tools(), tools(), tools(), cut(), cut(), Reply::text("one too many")];
        let world = World::new(replies, registry(&Log::default()), []);
        let context = Journaled::new(&world, &Journal::default()).continuing_at(continue_at);
        let build = |context: &Journaled| {
            let builder = Chat::builder(ScriptedProvider::new([""; 0]), Shrinks);
            let builder = builder.tools(context.world.tools.clone());
            builder.durability(context.clone()).build()
        };
        let (result, _) = to_the_end(build, context, "go".into()).await;
        let result = result.unwrap();
        assert_eq!(result.stop_reason, StopReason::ContextWindowExceeded);
        assert_eq!((result.turns, world.provider.remaining()), (5, 1));
    }
}

#[tokio::test]
async fn typed_run_keeps_its_remaining_retries() {
    let bad = || Reply::tool_call("o", "final_output", json!({"value": "many"}));
    let good = || Reply::tool_call("o", "final_output", json!({"value": 7}));
    for (replies, is_right) in
        [(vec![bad(), bad(), good()], true), (vec![bad(), bad(), bad()], false)]
    {
        let world = World::new(replies, registry(&Log::default()), []);
        let mut context = Journaled::new(&world, &Journal::default()).continuing_at([1, 3]);
        let (ctx, mut start, mut executions) = (ToolContext::default(), Start::from("go"), 0);
        let ended = loop {
            executions += 1;
            let mut agent = agent(&context);
            let ended = agent.run_typed_from::<u8>(start, &ctx).await;
            let Some(state) = context.state.lock().unwrap().take() else { break ended };
            start = serde_json::from_value::<RunSnapshot>(state).unwrap().into();
            context = context.next_execution();
        };
        assert_eq!(executions, 3);
        match ended {
            Ok(typed) => assert!(is_right && typed.value == 7 && typed.result.turns == 3),
            Err(LoopError::InvalidOutput { attempts, .. }) => assert!(!is_right && attempts == 3),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Returns the stored state of a run between two turns, with these counters.
fn loop_state(tally: Value) -> Value {
    json!({ "version": 1, "phase": "turn_start", "tally": tally })
}

/// A run that follows a run restored from a snapshot has its own idempotency keys.
#[tokio::test]
async fn next_run_has_another_number() {
    let replies = [calls([json!({})]), Reply::text("one"), calls([json!({})]), Reply::text("two")];
    let world = World::new(replies, registry(&Log::default()), []);
    let context = Journaled::new(&world, &Journal::default());
    let mut agent = agent(&context);
    let mut state = snapshot(vec![Message::user("go")]);
    let run = json!({ "id": "r", "number": 3, "turns": 2 });
    state.loop_state = loop_state(json!({ "runs": 4, "run": run }));
    let ctx = ToolContext::default();
    agent.run_from(state, &ctx).await.unwrap();
    agent.run_text("and now", &ctx).await.unwrap();
    let lines = context.calls.lines();
    let keys: Vec<_> = lines.iter().filter(|line| line.starts_with("tools")).collect();
    assert!(keys[0].contains("r/3/2/0/c0"), "{keys:?}");
    assert!(keys[1].contains("run-7/4/0/0/c0"), "{keys:?}");
}

/// A run that continues in a new execution uses the context of this execution. The usage meter of the context counts
/// only the tokens of the new execution.
#[tokio::test]
async fn new_execution_uses_its_own_context() {
    let world = three_turns(&Log::default());
    let context = Journaled::new(&world, &Journal::default());
    let mut state = snapshot(vec![Message::user("go")]);
    let [total, tools, estimated] =
        [1_000, 300, 200].map(|tokens| json!({ "input_tokens": tokens, "output_tokens": 0 }));
    let usage = json!({ "total": total, "tools": tools, "estimated": estimated });
    state.loop_state = loop_state(json!({ "runs": 1, "run": { "id": "r", "usage": usage } }));
    let ctx = ToolContext::default();
    let mut agent = agent(&context);
    let result = agent.run_from(state, &ctx).await.unwrap();
    let parts = [agent.tool_usage(), agent.estimated_usage()].map(|usage| usage.input_tokens);
    assert_eq!(parts, [300, 200]);
    let mut counted = ctx.usage.total();
    counted.input_tokens += 1_000;
    assert_eq!(result.usage, counted, "what earlier executions took was counted there");
}

/// A run that is cancelled before it begins is reported neither to the hooks nor to the engine. A run that ends is
/// reported once to both. The engine is not notified of a dropped run.
#[tokio::test]
async fn engine_is_notified_of_the_end_once_if_hooks_are() {
    for way in WAYS {
        let context = Journaled::new(&three_turns(&Log::default()), &Journal::default());
        let mut agent = agent(&context);
        let hook = Recorder::default();
        agent.add_hook(hook.clone());
        let ctx = ToolContext::default();
        ctx.cancellation_token.cancel();
        run(way, &mut agent, &ctx).await.unwrap_err();
        assert_eq!((hook.log.count("RunEnd"), context.calls.count("ended")), (0, 0));

        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((hook.log.count("RunEnd"), context.calls.count("ended {")), (1, 1));
        // No scripted response is left.
        run(way, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert_eq!((hook.log.count("RunEnd"), context.calls.count("ended")), (2, 2));
    }
    // The run is dropped, so the engine is not notified.
    let world = World::new([Reply::hang()], registry(&Log::default()), []);
    let context = Journaled::new(&world, &Journal::default());
    let mut agent = agent(&context);
    let ctx = ToolContext::default();
    assert!(futures_util::FutureExt::now_or_never(agent.run_text("go", &ctx)).is_none());
    assert_eq!(context.calls.count("ended"), 0);
}
