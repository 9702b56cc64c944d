//! A run that waits for an approval through a signal of the durable engine.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use neuron_loop::{CancelMode, Conversation, LoopError};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{ApprovalDecisions, Message, StreamEvent, ToolContext, ToolOutput};
use serde_json::{Value, json};

use crate::approval::{ByArguments, SubAgent};
use crate::journal::{Journal, Journaled, World};
use crate::support::*;
use crate::warnings::Warnings;

type Agent = Chat<'static>;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn agent(context: &Journaled) -> Agent {
    setup([""; 0])
        .builder
        .tools(context.world.tools.clone())
        .permission_policy(ByArguments)
        .approval_signal("decided", DAY)
        .durability(context.clone())
        .build()
}

fn signal(decisions: ApprovalDecisions) -> Option<Value> {
    Some(serde_json::to_value(decisions).unwrap())
}

fn approve(ids: &[&str]) -> ApprovalDecisions {
    ids.iter().fold(ApprovalDecisions::new(), |decisions, id| decisions.approve(id))
}

/// Returns a `World` whose model calls two tools and then gives its final response. The first call needs an approval.
/// `signals` are the results of the run's waits for a signal.
fn world(signals: impl IntoIterator<Item = Option<Value>>) -> (World, Log) {
    let log = Log::default();
    let replies =
        [calls([json!({"ask": "sure?", "text": "a"}), json!({"text": "b"})]), Reply::text("done")];
    (World::new(replies, registry(&log), signals), log)
}

#[tokio::test]
async fn run_waits_for_the_signal_and_continues_as_one_run() {
    for (way, parallel) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let (world, log) = world([signal(approve(&["c0"]))]);
        let context = Journaled::new(&world, &Journal::default());
        let hook = Recorder::default();
        let mut agent = agent(&context);
        agent.config_mut().parallel_tool_execution = parallel;
        agent.add_hook(hook.clone());
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), result.turns), ("done", 2));
        assert_eq!(last_results(&result.messages), ["c0: a", "c1: b"]);
        assert_eq!(log.lines(), ["start c1", "end c1", "start c0", "end c0"]);
        assert_eq!(context.calls.count("signal decided 86400"), 1);
        for (event, times) in [("SessionStart", 1), ("RunStart", 1), ("RunEnd", 1), ("Turn ", 2)] {
            assert_eq!(hook.log.count(event), times, "{event}: {:#?}", hook.log.lines());
        }
        check_pairs(&hook.log.lines());
        assert!(agent.pending_calls().is_empty());

        let asked = world.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!((asked[0].calls[0].call.id.as_str(), asked[0].turns), ("c0", 1));
        assert_eq!(asked[0].run_id, "run-7");
        let waiting = "c0: ![not executed: the call awaits an approval]";
        assert_eq!(last_results(&asked[0].messages), [waiting, "c1: b"]);
    }
}

#[tokio::test]
async fn signal_timeout_ends_the_run_with_approval_required() {
    for way in WAYS {
        let (world, log) = world([None]);
        let context = Journaled::new(&world, &Journal::default());
        let mut agent = agent(&context);
        let ctx = ToolContext::default();
        let ended = match way {
            Way::Run => agent.run_text("go", &ctx).await.unwrap_err(),
            Way::Stream => {
                let mut events = agent.run_stream(Message::user("go"), &ctx).await;
                let mut last = None;
                while let Some(event) = events.recv().await {
                    last = Some(event);
                }
                let Some(StreamEvent::ApprovalRequired(pending)) = last else { panic!("{last:?}") };
                LoopError::ApprovalRequired(pending)
            }
            Way::Step => match agent.run_step(Message::user("go"), &ctx).next().await {
                Some(Err(error)) => error,
                other => panic!("{other:?}"),
            },
        };
        let LoopError::ApprovalRequired(pending) = ended else { panic!("{ended:?}") };
        assert_eq!(*pending, world.asked.lock().unwrap()[0]);
        assert_eq!(context.calls.count("ended "), 1);
        // The ended run can still be decided.
        assert_eq!(agent.resume(approve(&["c0"]), &ctx).await.unwrap().response, "done");
        assert_eq!(log.count("start c0"), 1);
    }
}

#[tokio::test]
async fn unsuitable_signals_change_nothing_and_the_run_keeps_waiting() {
    let warnings = Warnings::keep();
    let unknown = approve(&["c0", "c9"]);
    let nested = ApprovalDecisions::new().nested("c0", approve(&["x"]));
    let (world, log) = world([
        signal(unknown),
        signal(nested),
        signal(ApprovalDecisions::new()),
        Some(json!({"calls": {"c0": {"type": "approve_edited", "input_": "hunter2"}}})),
        Some(json!(["hunter2"])),
        Some(json!("hunter2")),
        signal(ApprovalDecisions::new().approve_edited("c0", json!({"text": "hunter3"}))),
    ]);
    let journal = Journal::default();
    let context = Journaled::new(&world, &journal);
    let result = agent(&context).run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");
    assert_eq!(log.count("start c0"), 1);
    assert_eq!(world.asked.lock().unwrap().len(), 7);
    let asked = world.asked.lock().unwrap();
    assert!(asked.iter().all(|pending| *pending == asked[0]), "nothing changed");
    assert_eq!(warnings.count("keeps waiting"), 6, "{:#?}", warnings.lines());
    assert_eq!(warnings.count("hunter"), 0, "{:#?}", warnings.lines());
}

/// Regression test. A run must end if its engine returns unsuitable signals without end. Before the fix, the run waited
/// again forever and kept its thread busy.
#[tokio::test]
async fn endless_unsuitable_signals_end_the_run() {
    for wrong in [json!("hunter2"), json!({"calls": {}})] {
        let (world, log) = world(std::iter::repeat_n(Some(wrong), 5000));
        let journal = Journal::default();
        let context = Journaled::new(&world, &journal);
        let error = agent(&context).run_text("go", &ToolContext::default()).await.unwrap_err();
        assert!(matches!(error, LoopError::Durable(_)), "{error:?}");
        assert!(error.to_string().contains("1000 signals in a row do not fit"), "{error}");
        let replay = context.replay(0);
        let again = agent(&replay).run_text("go", &ToolContext::default()).await.unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
        assert_eq!((log.count("start c0"), world.signals.lock().unwrap().len()), (0, 4000));
    }
}

/// A tool that rejects arguments without the field `number`.
struct Counts;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct CountsArgs {
    number: u32,
}

impl neuron_types::Tool for Counts {
    const NAME: &'static str = "counts";
    type Args = CountsArgs;
    type Output = String;
    type Error = neuron_types::ToolError;

    fn definition(&self) -> neuron_types::ToolDefinition {
        Act::definition_of("counts")
    }

    async fn call(&self, args: CountsArgs, _: &ToolContext) -> Result<String, Self::Error> {
        Ok(format!("counted to {}", args.number))
    }
}

struct AskAlways;

impl neuron_types::PermissionPolicy for AskAlways {
    fn check(&self, _: &str, _: &Value) -> neuron_types::PermissionDecision {
        neuron_types::PermissionDecision::Ask("sure?".into())
    }
}

#[tokio::test]
async fn edited_arguments_that_the_tool_rejects_do_not_run() {
    let warnings = Warnings::keep();
    let mut tools = neuron_tool::ToolRegistry::new();
    tools.register(Counts);
    let replies = [Reply::tool_call("c0", "counts", json!({ "number": 3 })), Reply::text("done")];
    let edited = |input| signal(ApprovalDecisions::new().approve_edited("c0", input));
    let signals = [edited(json!({"number": "hunter2"})), edited(json!({"number": 4}))];
    let world = World::new(replies, tools.clone(), signals);
    let context = Journaled::new(&world, &Journal::default());
    let builder = setup([""; 0]).builder.tools(tools).permission_policy(AskAlways);
    let mut agent = builder.approval_signal("s", DAY).durability(context.clone()).build();
    let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert!(result.messages[2].content[0].to_string().contains("counted to 4"));
    assert_eq!(warnings.count("keeps waiting"), 1);
    assert_eq!(world.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn wrong_decision_of_one_person_does_not_void_that_of_another() {
    let warnings = Warnings::keep();
    let mut tools = neuron_tool::ToolRegistry::new();
    tools.register(Counts);
    let call = |id: &str| (id.to_owned(), "counts", json!({ "number": 3 }));
    let replies = [Reply::tool_calls([call("c0"), call("c1")]), Reply::text("done")];
    let builder = neuron_loop::Agent::builder(ScriptedProvider::new(replies)).tools(tools);
    let agent = builder.permission_policy(AskAlways).build();
    let mut run = agent.run_owned(Conversation::new(), "go").wait_for_approval();
    let handle = run.handle();
    let mut run = Box::pin(run.into_future());
    assert!(run.as_mut().now_or_never().is_none());
    let id = |index: usize| handle.pending().unwrap().calls[index].approval_id.clone();
    let [first, second] = [id(0), id(1)];
    let wrong = ApprovalDecisions::new().approve_edited(&first, json!({ "number": "x" }));
    handle.decide(wrong.partial()).unwrap();
    handle.decide(ApprovalDecisions::new().approve(&second).partial()).unwrap();
    assert!(run.as_mut().now_or_never().is_none());
    assert_eq!(warnings.count("keeps waiting"), 1);
    let pending = handle.pending().unwrap();
    assert_eq!(pending.calls.len(), 1, "the other call ran");
    assert_eq!(pending.calls[0].approval_id, first);
    handle.decide(ApprovalDecisions::approve_all(&pending)).unwrap();
    let (conversation, result) = run.await;
    assert_eq!(result.unwrap().response, "done");
    assert_eq!(last_results(conversation.messages()), ["c0: counted to 3", "c1: counted to 3"]);
}

#[tokio::test]
async fn partial_decisions_run_and_the_other_calls_keep_waiting() {
    for (way, parallel) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let log = Log::default();
        let ask = |text: &str| json!({"ask": "?", "text": text});
        let replies = [calls([ask("a"), ask("b"), ask("c")]), Reply::text("done")];
        let signals = [
            signal(ApprovalDecisions::new().partial()),
            signal(approve(&["c1"]).partial()),
            signal(ApprovalDecisions::new().deny("c0", "no").supply("c2", ToolOutput::text("z"))),
        ];
        let world = World::new(replies, registry(&log), signals);
        let context = Journaled::new(&world, &Journal::default());
        let mut agent = agent(&context);
        agent.config_mut().parallel_tool_execution = parallel;
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        let results = ["c0: !permission denied: no", "c1: b", "c2: z"];
        assert_eq!(last_results(&result.messages), results);
        let asked = world.asked.lock().unwrap();
        let waiting: Vec<usize> = asked.iter().map(|pending| pending.calls.len()).collect();
        assert_eq!(waiting, [3, 3, 2]);
        assert_eq!(log.lines(), ["start c1", "end c1"]);
        assert_eq!(result.messages.len(), 4, "one message of results");
    }
}

#[tokio::test]
async fn nested_approval_waits_for_the_signal() {
    let log = Log::default();
    let inner = ScriptedProvider::new([
        calls([json!({"ask": "inner?", "text": "x"})]),
        Reply::text("inner done"),
    ]);
    let mut tools = registry(&log);
    tools.register_dyn(Arc::new(SubAgent { provider: inner.clone(), log: log.clone() }));
    let replies = [Reply::tool_call("out0", "delegate", json!({})), Reply::text("done")];
    let inside = ApprovalDecisions::new().nested("out0", approve(&["c0"]));
    let signals = [signal(approve(&["out0"])), signal(inside)];
    let journal = Journal::default();
    let world = World::new(replies, tools, signals);
    let context = Journaled::new(&world, &journal);
    let mut first = agent(&context);
    let result = first.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(&result.messages), ["out0: inner done"]);
    inner.assert_complete();
    assert_eq!(log.lines(), ["start c0", "end c0"]);

    // Replayed from the journal alone, including the tokens of the inner agent.
    let again = Journaled::new(&world, &journal);
    let replayed = agent(&again).run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(replayed, result);
    assert_eq!(again.calls.lines(), context.calls.lines());
    assert_eq!(inner.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancel_ends_a_waiting_run_in_every_cancel_mode() {
    for (way, mode) in
        WAYS.into_iter().flat_map(|way| [(way, CancelMode::Now), (way, CancelMode::AfterTurn)])
    {
        let (world, log) = world([]);
        let context = Journaled::new(&world, &Journal::default());
        let mut agent = agent(&context);
        agent.config_mut().cancel_mode = mode;
        let ctx = ToolContext::default();
        let token = ctx.cancellation_token.clone();
        let (result, ()) = tokio::join!(run(way, &mut agent, &ctx), async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            token.cancel();
        });
        assert_eq!(result.unwrap_err(), LoopError::Cancelled.to_string());
        check_valid(agent.messages());
        assert_eq!(context.calls.count("ended cancelled"), 1, "{:?}", context.calls.lines());
        // The calls are still pending.
        let decided = agent.resume(approve(&["c0"]), &ToolContext::default()).await;
        assert_eq!(decided.unwrap().response, "done");
        assert_eq!(log.count("start c0"), 1);
    }
}

#[tokio::test]
async fn dropped_step_keeps_waiting_in_the_next_step() {
    let (world, log) = world([]);
    let context = Journaled::new(&world, &Journal::default());
    let mut agent = agent(&context);
    let ctx = ToolContext::default();
    let mut steps = agent.run_step(Message::user("go"), &ctx);
    assert!(futures_util::FutureExt::now_or_never(steps.next()).is_none());
    assert_eq!(world.provider.calls(), 1);
    assert!(futures_util::FutureExt::now_or_never(steps.next()).is_none());
    assert_eq!(world.provider.calls(), 1, "the model is not asked before somebody has decided");
    world.signals.lock().unwrap().push_back(signal(approve(&["c0"])));
    let turn = steps.next().await;
    let Some(Ok(Step::Tools { calls, results })) = turn else { panic!("{turn:?}") };
    assert_eq!((calls.len(), results.len()), (2, 2));
    let turn = steps.next().await;
    assert!(matches!(turn, Some(Ok(Step::Ended(_)))), "{turn:?}");
    assert_eq!(log.count("start c0"), 1);
}

#[tokio::test]
async fn approval_signal_has_no_effect_without_a_durable_context() {
    let setup = setup([calls([json!({"ask": "sure?"})]), Reply::text("done")]);
    let builder = setup.builder.permission_policy(ByArguments).approval_signal("s", DAY);
    let mut agent = builder.build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["c0: !permission denied: sure?"]);
}

#[tokio::test]
async fn engine_error_while_waiting_ends_the_run() {
    struct Broken(Journaled);
    impl neuron_types::DurableContext for Broken {
        async fn execute_llm_call(
            &self,
            request: neuron_types::CompletionRequest,
            options: neuron_types::ActivityOptions,
        ) -> Result<neuron_types::CompletionResponse, neuron_types::DurableError> {
            self.0.execute_llm_call(request, options).await
        }
        async fn execute_tool(
            &self,
            _: &str,
            _: Value,
            _: &ToolContext,
            _: neuron_types::ActivityOptions,
        ) -> Result<ToolOutput, neuron_types::DurableError> {
            unreachable!("a call waits")
        }
        no_signals_or_timers!();
        async fn wait_for_approval(
            &self,
            _: &neuron_types::PendingApproval,
            _: &str,
            _: Duration,
        ) -> Result<Option<ApprovalDecisions>, neuron_types::DurableError> {
            Err(neuron_types::DurableError::Other("the disk is full".into()))
        }
    }
    let log = Log::default();
    let world = World::new([calls([json!({"ask": "?"})])], registry(&log), []);
    let context = Broken(Journaled::new(&world, &Journal::default()));
    let builder = setup([""; 0]).builder.permission_policy(ByArguments);
    let mut agent = builder.approval_signal("s", DAY).durability(context).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    check_valid(agent.messages());
}

#[tokio::test]
async fn decision_after_signature_expiry_is_requested_again() {
    use neuron_runtime::ApprovalKey;

    let warnings = Warnings::keep();
    let (world, log) = world([signal(approve(&["c0"])), signal(approve(&["c0"]))]);
    let journal = Journal::default();
    let mut lines = Vec::new();
    for _ in 0..2 {
        let context = Journaled::new(&world, &journal);
        // The clock is read when the agent signs, when it verifies, and when it signs again.
        context.clock.lock().unwrap().extend([0, 100, 200, 201]);
        let builder = setup([""; 0]).builder.tools(world.tools.clone());
        let mut agent = builder
            .permission_policy(ByArguments)
            .approval_signer(ApprovalKey::new("secret").valid_for(Duration::from_secs(60)))
            .approval_signal("decided", DAY)
            .durability(context.clone())
            .build();
        let result = agent.run_text("go", &ToolContext::default()).await.unwrap();
        assert_eq!(result.response, "done");
        lines.push(context.calls.lines());
    }
    assert_eq!(lines[0], lines[1]);
    assert_eq!(log.count("start c0"), 1);
    assert_eq!(warnings.count("was signed too long ago"), 2, "{:?}", warnings.lines());
}
