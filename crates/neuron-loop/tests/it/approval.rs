//! Calls that a policy allows, calls that wait for an approval, and the continuation of the run.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuron_loop::{Conversation, LoopConfig, LoopError, Start, ToolErrorPolicy};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{Next, ToolRegistry, tool_middleware_fn};
use neuron_types::{
    ApprovalDecisions, ApprovalError, HookAction, HookError, HookEvent, Message, ObservabilityHook,
    PendingApproval, PermissionDecision, PermissionPolicy, ResumedApproval, StreamEvent, Tool,
    ToolCall, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, UsageLimits,
    WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::deferred_tools::Logged;
use crate::support::*;

type Agent = Chat<'static>;

/// A permission policy that decides by the arguments. With `{"ask": question}`, a call requires an approval. With
/// `{"deny": reason}`, it is denied. All other calls are allowed.
pub(crate) struct ByArguments;

impl PermissionPolicy for ByArguments {
    fn check(&self, _tool_name: &str, _input: &Value) -> PermissionDecision {
        unreachable!("the loop asks with the whole call")
    }

    fn check_call(
        &self,
        call: &ToolCall,
        definition: Option<&ToolDefinition>,
    ) -> PermissionDecision {
        assert_eq!(definition.expect("only tools that exist are asked about").name, call.name);
        match (call.input["ask"].as_str(), call.input["deny"].as_str()) {
            (Some(question), _) => PermissionDecision::Ask(question.into()),
            (_, Some(reason)) => PermissionDecision::Deny(reason.into()),
            _ => PermissionDecision::Allow,
        }
    }
}

#[derive(Debug)]
enum End {
    Answer(String),
    Pending(Box<PendingApproval>),
    Error(String),
}

impl End {
    #[track_caller]
    fn pending(self) -> PendingApproval {
        match self {
            Self::Pending(pending) => *pending,
            other => panic!("{other:?} instead of a pause"),
        }
    }

    #[track_caller]
    fn answer(self) -> String {
        match self {
            Self::Answer(text) => text,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    #[track_caller]
    fn error(self) -> String {
        match self {
            Self::Error(text) => text,
            other => panic!("{other:?} instead of an error"),
        }
    }

    fn of(error: LoopError) -> Self {
        match error {
            LoopError::ApprovalRequired(pending) => Self::Pending(pending),
            error => Self::Error(error.to_string()),
        }
    }
}

async fn start(way: Way, agent: &mut Agent, ctx: &ToolContext) -> End {
    let message = Message::user("go");
    match way {
        Way::Run => match agent.run(message, ctx).await {
            Ok(result) => End::Answer(result.response),
            Err(error) => End::of(error),
        },
        Way::Stream => streamed(agent.run_stream(message, ctx).await).await,
        Way::Step => stepped(agent.run_step(message, ctx)).await,
    }
}

async fn go_on(
    way: Way,
    agent: &mut Agent,
    decisions: ApprovalDecisions,
    ctx: &ToolContext,
) -> End {
    match way {
        Way::Run => match agent.resume(decisions, ctx).await {
            Ok(result) => End::Answer(result.response),
            Err(error) => End::of(error),
        },
        Way::Stream => streamed(agent.resume_stream(decisions, ctx).await).await,
        Way::Step => stepped(agent.resume_step(decisions, ctx)).await,
    }
}

async fn streamed(mut events: ChatStream<'_>) -> End {
    let mut end = None;
    while let Some(event) = events.recv().await {
        assert!(end.is_none(), "nothing follows the end: {event:?}");
        match event {
            StreamEvent::RunComplete(result) => end = Some(End::Answer(result.response)),
            StreamEvent::ApprovalRequired(pending) => end = Some(End::Pending(pending)),
            StreamEvent::Error(error) => end = Some(End::Error(error.to_string())),
            _ => {}
        }
    }
    end.expect("an end")
}

async fn stepped(mut steps: ChatSteps<'_>) -> End {
    let mut end = None;
    while let Some(turn) = steps.next().await {
        assert!(end.is_none(), "nothing follows the end: {turn:?}");
        match turn {
            Ok(Step::Ended(result)) => end = Some(End::Answer(result.response)),
            Err(error) => end = Some(End::of(error)),
            Ok(Step::Tools { calls, results }) => {
                assert_eq!(calls.len(), results.len());
                assert!(results.iter().all(|output| !output.content.is_empty()));
            }
            other => panic!("{other:?}"),
        }
    }
    end.expect("an end")
}

fn ids(pending: &PendingApproval) -> Vec<&str> {
    pending.calls.iter().map(|pending| pending.call.id.as_str()).collect()
}

#[tokio::test]
async fn invalid_decisions_run_nothing_and_the_run_stays_pending() {
    let wrong = [
        (ApprovalDecisions::new(), "no decision on the pending calls `c0`, `c1`"),
        (ApprovalDecisions::new().approve("c0"), "no decision on the pending calls `c1`"),
        (ApprovalDecisions::new().approve("c9"), "no call `c9` is pending"),
        (
            ApprovalDecisions::new().approve("c0").nested("c1", ApprovalDecisions::new()),
            "no sub-agent waits inside the call `c1`; decide on the call itself",
        ),
    ];
    for way in WAYS {
        let setup = setup([
            calls([json!({"ask": "?", "text": "a"}), json!({"ask": "?", "text": "b"})]),
            Reply::text("done"),
        ]);
        let hook = Recorder::default();
        let builder = setup.builder.hook(hook.clone()).permission_policy(ByArguments);
        let mut agent = builder.pause_for_approval(true).build();
        let ctx = ToolContext::default();
        start(way, &mut agent, &ctx).await.pending();
        let before = (agent.messages().to_vec(), hook.log.lines());
        for (decisions, text) in &wrong {
            let error = go_on(way, &mut agent, decisions.clone(), &ctx).await.error();
            assert_eq!(error, format!("approval: {text}"));
            assert_eq!((agent.messages().to_vec(), hook.log.lines()), before);
        }
        let decisions = ApprovalDecisions::new().approve("c0").approve("c1");
        assert_eq!(go_on(way, &mut agent, decisions.clone(), &ctx).await.answer(), "done");
        // The same decisions again, after the run has ended.
        let error = go_on(way, &mut agent, decisions, &ctx).await.error();
        assert_eq!(error, "approval: the agent waits for no approval");
        assert_eq!(setup.log.count("start"), 2);
    }
}

/// A typed tool. Its arguments are checked before an approval is requested.
struct Transfer(Log);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct TransferArgs {
    amount: u32,
}

impl Tool for Transfer {
    const NAME: &'static str = "transfer";
    type Args = TransferArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition { name: Self::NAME.into(), ..Act::definition_of("transfer") }
    }

    async fn call(&self, args: TransferArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        self.0.push(format!("transfer {}", args.amount));
        Ok("sent".into())
    }
}

struct AskAlways;

impl PermissionPolicy for AskAlways {
    fn check(&self, _tool_name: &str, _input: &Value) -> PermissionDecision {
        PermissionDecision::Ask("money moves".into())
    }
}

#[tokio::test]
async fn arguments_are_checked_before_approval_and_after_an_edit() {
    let wrong = json!({"amount": "all"});
    let setup = setup([
        Reply::tool_calls([("c0", "transfer", wrong.clone()), ("c1", "nothing", json!({}))]),
        Reply::tool_calls([("c2", "transfer", json!({"amount": 1000}))]),
        Reply::text("done"),
    ]);
    let mut agent = setup
        .builder
        .permission_policy(AskAlways)
        .pause_for_approval(true)
        .tool_errors(neuron_loop::ToolErrorPolicy::ReturnToModel)
        .build();
    agent.tools_mut().register(Transfer(setup.log.clone()));
    let ctx = ToolContext::default();
    let pending = start(Way::Run, &mut agent, &ctx).await.pending();
    assert_eq!(
        ids(&pending),
        ["c2"],
        "neither wrong arguments nor an unknown tool are asked about"
    );

    let decisions = ApprovalDecisions::new().approve_edited("c2", wrong);
    let error = agent.resume(decisions, &ctx).await.unwrap_err();
    let LoopError::Approval(ApprovalError::InvalidInput { id, reason }) = &error else {
        panic!("{error:?}")
    };
    assert!(id == "c2" && reason.contains("$.amount"), "{error}");
    let decisions = ApprovalDecisions::new().approve_edited("c2", json!({"amount": 1}));
    agent.resume(decisions, &ctx).await.unwrap();
    assert_eq!(setup.log.lines(), ["transfer 1"]);
}

/// Regression test. A call that needs an approval must be denied if the agent cannot pause, even if the arguments are
/// invalid. Before the fix, a call with invalid arguments ran, because the loop expected the tool to reject them.
#[tokio::test]
async fn ask_without_pausing_denies_calls_with_invalid_arguments() {
    let call = ("c0", "transfer", json!({"amount": "all"}));
    let setup = setup([Reply::tool_calls([call]), Reply::text("done")]);
    let mut agent = setup.builder.permission_policy(AskAlways).build();
    agent.tools_mut().register(Transfer(setup.log.clone()));
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["c0: !permission denied: money moves"]);
}

/// If a tool would reject the arguments of a call, no approval is requested. Such an unapproved call must not run, even
/// if middleware corrects its arguments.
#[tokio::test]
async fn unapproved_call_does_not_run_after_middleware_fixes_it() {
    for way in WAYS {
        for parallel in [false, true] {
            let call = ("c0", "transfer", json!({"amount": "7"}));
            let setup = setup([Reply::tool_calls([call]), Reply::text("done")]);
            let builder = setup.builder.permission_policy(AskAlways).pause_for_approval(true);
            let builder = builder.tool_errors(ToolErrorPolicy::ReturnToModel);
            let mut agent = builder.parallel_tool_execution(parallel).build();
            agent.tools_mut().register(Transfer(setup.log.clone()));
            agent.tools_mut().add_middleware(tool_middleware_fn(
                |call: &ToolCall, ctx: &ToolContext, next: Next<'_>| {
                    let call = ToolCall { input: json!({"amount": 7}), ..call.clone() };
                    let ctx = ctx.clone();
                    Box::pin(async move { next.run(&call, &ctx).await })
                },
            ));
            let ctx = ToolContext::default();
            assert_eq!(start(way, &mut agent, &ctx).await.answer(), "done", "{way:?}");
            let refused = "c0: !invalid input: arguments of `transfer`: `$.amount`: invalid type: \
                           string \"7\", expected u32";
            assert_eq!(last_results(agent.messages()), [refused]);
            assert_eq!(setup.log.lines(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_resumed_call_does_not_run_again() {
    let setup = setup([
        calls([json!({"ask": "?", "hang": true}), json!({"ask": "?"}), json!({"text": "b"})]),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.permission_policy(ByArguments).pause_for_approval(true).build();
    let ctx = ToolContext::default();
    let pending = start(Way::Run, &mut agent, &ctx).await.pending();
    let decisions = ApprovalDecisions::approve_all(&pending);
    let wait = std::time::Duration::from_secs(5);
    tokio::time::timeout(wait, agent.resume(decisions.clone(), &ctx)).await.unwrap_err();
    assert_eq!(
        last_results(agent.messages()),
        [
            "c0: ![interrupted: the run was interrupted; whether the call took effect is unknown]",
            "c1: ![not executed: the call awaits an approval]",
            "c2: b",
        ]
    );
    let error = agent.resume(decisions, &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::Approval(ApprovalError::NotPending { .. })), "{error}");
    // The call that has not begun can still be decided.
    let decisions = ApprovalDecisions::new().approve("c1");
    assert_eq!(agent.resume(decisions, &ctx).await.unwrap().response, "done");
    assert_eq!(
        last_results(agent.messages()),
        [
            "c0: ![interrupted: the run was interrupted; whether the call took effect is unknown]",
            "c1: ok",
            "c2: b",
        ]
    );
    assert_eq!(setup.log.count("start c0"), 1);
}

/// A person has changed the arguments of a call, which is then interrupted. It does not run again, because the arguments
/// of the model are not those that the person approved.
#[tokio::test(start_paused = true)]
async fn interrupted_call_with_edited_arguments_does_not_repeat_the_old_ones() {
    let log = Log::default();
    let (name, effect) = ("act".to_owned(), ToolEffect::Idempotent);
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Logged { name, effect, log: log.clone() }));
    let replies = [calls([json!({"ask": "?"})]), Reply::text("done")];
    let agent = neuron_loop::Agent::builder(ScriptedProvider::new(replies))
        .tools(tools)
        .permission_policy(ByArguments)
        .config(|config| config.pause_for_approval = true)
        .build();
    let mut chat = Conversation::new();
    agent.run(&mut chat, "go").await.unwrap_err();
    let id = chat.pending().unwrap().calls[0].approval_id.clone();
    let decisions = ApprovalDecisions::new().approve_edited(&id, json!({"hang": true}));
    let run = agent.run(&mut chat, decisions).into_future();
    tokio::time::timeout(std::time::Duration::from_secs(5), run).await.unwrap_err();
    assert_eq!(agent.run(&mut chat, Start::Continue).await.unwrap().response, "done");
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(r#"act {"hang":true} "#), "{lines:?}");
}

/// A hook for three runs. It lets the first run pass, hangs at the `RunStart` event of the second run, and ends the
/// third run at its `SessionStart` event.
#[derive(Clone, Default)]
struct WaitsThenRefuses(Arc<AtomicUsize>);

impl ObservabilityHook for WaitsThenRefuses {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        let session = match event {
            HookEvent::SessionStart { .. } => self.0.fetch_add(1, Ordering::Relaxed),
            _ => self.0.load(Ordering::Relaxed) - 1,
        };
        match (session, event) {
            (1, HookEvent::RunStart { .. }) => std::future::pending().await,
            (2, HookEvent::SessionStart { .. }) => {
                Ok(HookAction::Terminate { reason: "no".into() })
            }
            _ => Ok(HookAction::Continue),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_resumed_run_notifies_hooks_of_no_end() {
    let setup = setup([calls([json!({"ask": "?"})]), Reply::text("never asked for")]);
    let builder = setup.builder.permission_policy(ByArguments).pause_for_approval(true);
    let mut agent = builder.hook(WaitsThenRefuses::default()).build();
    let ctx = ToolContext::default();
    start(Way::Run, &mut agent, &ctx).await.pending();
    let decisions = ApprovalDecisions::new().approve("c0");
    let wait = std::time::Duration::from_secs(5);
    tokio::time::timeout(wait, agent.resume(decisions.clone(), &ctx)).await.unwrap_err();
    let hook = Recorder::default();
    agent.add_hook(hook.clone());
    let error = agent.resume(decisions, &ctx).await.unwrap_err();
    assert!(matches!(error, LoopError::HookTerminated(_)), "{error}");
    assert_eq!(hook.log.lines(), ["SessionStart ", "SessionEnd "]);
}

#[tokio::test]
async fn calls_count_once_across_repeated_pauses() {
    let setup = setup([
        calls([json!({"text": "a"}), json!({"ask": "?"}), json!({"ask": "?"})]),
        Reply::text("done"),
    ]);
    let limits = |calls| Some(UsageLimits::default().with_tool_calls_limit(calls));
    let builder = setup.builder.permission_policy(ByArguments).pause_for_approval(true);
    let mut agent = builder.build();
    agent.config_mut().usage_limits = limits(3);
    let ctx = ToolContext::default();
    start(Way::Run, &mut agent, &ctx).await.pending();
    let decisions = ApprovalDecisions::new().approve("c1").partial();
    let pending = go_on(Way::Run, &mut agent, decisions, &ctx).await.pending();
    // Lowering the limit during the pause leaves the calls pending.
    agent.config_mut().usage_limits = limits(2);
    let decisions = ApprovalDecisions::approve_all(&pending);
    let error = go_on(Way::Run, &mut agent, decisions.clone(), &ctx).await.error();
    assert_eq!(error, "usage limit exceeded: tool call limit exceeded: 3 > 2");
    assert_eq!(agent.pending_calls().len(), 1);
    agent.config_mut().usage_limits = limits(3);
    assert_eq!(go_on(Way::Run, &mut agent, decisions, &ctx).await.answer(), "done");
}

#[tokio::test]
async fn budget_used_up_during_the_pause_keeps_calls_pending() {
    let setup = setup([calls([json!({"ask": "?"}), json!({"text": "b"})]), Reply::text("done")]);
    let budget = neuron_loop::Budget::new(UsageLimits::default().with_tool_calls_limit(2));
    let builder = setup.builder.permission_policy(ByArguments).pause_for_approval(true);
    let mut agent = builder.budget(budget.clone()).build();
    let ctx = ToolContext::default();
    let pending = start(Way::Run, &mut agent, &ctx).await.pending();
    assert_eq!(budget.tool_calls(), 1);
    let others = crate::support::setup([calls([json!({})]), Reply::text("done")]);
    let mut other = others.builder.budget(budget.clone()).build();
    other.run_text("go", &ctx).await.unwrap();
    let decisions = ApprovalDecisions::approve_all(&pending);
    let error = go_on(Way::Run, &mut agent, decisions.clone(), &ctx).await.error();
    assert!(error.contains("budget: tool call limit exceeded: 3 > 2"), "{error}");
    assert_eq!(agent.pending_calls().len(), 1);
    check_valid(agent.messages());
    let denied = ApprovalDecisions::new().deny("c0", "no room");
    assert_eq!(go_on(Way::Run, &mut agent, denied, &ctx).await.answer(), "done");
}

#[tokio::test]
async fn paused_turn_counts_once_as_a_failing_turn() {
    let again = |text: &str| json!({"retry": text});
    let asked = |mut input: Value| {
        input["ask"] = json!("really?");
        input
    };
    // If a turn pauses, a success before or after the pause resets the counter.
    let turns = [
        [again("1"), asked(again("2"))],
        [asked(again("3")), json!({})],
        [again("4"), asked(json!({}))],
        [again("5"), asked(again("6"))],
    ];
    for way in WAYS {
        let setup = setup(turns.clone().map(calls).into_iter().chain([Reply::text("done")]));
        let mut agent = setup
            .builder
            .config(LoopConfig { tool_retry_limit: Some(1), ..LoopConfig::default() })
            .permission_policy(ByArguments)
            .pause_for_approval(true)
            .build();
        let ctx = ToolContext::default();
        let mut end = start(way, &mut agent, &ctx).await;
        for _ in 0..turns.len() {
            let decisions = ApprovalDecisions::approve_all(&end.pending());
            end = go_on(way, &mut agent, decisions, &ctx).await;
        }
        assert_eq!(end.answer(), "done");
    }
}

#[tokio::test]
async fn inconsistent_pending_state_is_rejected() {
    let setup1 = setup([calls([json!({"ask": "?"})])]);
    let mut agent = setup1.builder.permission_policy(ByArguments).pause_for_approval(true).build();
    let pending = start(Way::Run, &mut agent, &ToolContext::default()).await.pending();

    let mut agent = setup([Reply::text("x")]).builder.build();
    let mut refuse = |change: &dyn Fn(&mut PendingApproval), text: &str| {
        let mut changed = pending.clone();
        change(&mut changed);
        let error = agent.restore(changed).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(agent.messages().is_empty() && agent.pending_calls().is_empty());
    };
    refuse(&|pending| pending.version = 2, "version 2; this release reads up to 1");
    refuse(&|pending| pending.calls.clear(), "no call is pending");
    refuse(&|pending| pending.calls[0].call.id = "other".into(), "did not make the call `other`");
    refuse(&|pending| pending.calls[0].call.input = json!({"path": "/"}), "did not make the call");
    refuse(&|pending| drop(pending.messages.pop()), "not whole");
    let answered = |pending: &mut PendingApproval| {
        pending.messages.push(Message::assistant("never mind"));
    };
    refuse(&answered, "did not make the call `c0`");
    agent.restore(pending.clone()).unwrap();
}

/// A tool that runs an agent and passes on its pause for an approval.
pub(crate) struct SubAgent {
    pub(crate) provider: ScriptedProvider,
    pub(crate) log: Log,
}

impl ToolDyn for SubAgent {
    fn name(&self) -> &str {
        "delegate"
    }

    fn definition(&self) -> ToolDefinition {
        Act::definition_of("delegate")
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let mut inner = Chat::builder(self.provider.clone(), window())
                .tools(registry(&self.log))
                .permission_policy(ByArguments)
                .pause_for_approval(true)
                .build();
            let result = match ctx.extensions.get::<ResumedApproval>() {
                Some(resumed) => {
                    inner.restore(resumed.pending.clone()).unwrap();
                    inner.resume(resumed.decisions.clone(), ctx).await?
                }
                None => inner.run_text("sub-task", ctx).await?,
            };
            Ok(ToolOutput::text(result.response))
        })
    }
}

#[tokio::test]
async fn nested_approval_pauses_the_parent_and_resumes_the_child() {
    for (way, parallel) in WAYS.into_iter().flat_map(|way| [(way, false), (way, true)]) {
        let inner = ScriptedProvider::new([
            calls([json!({"ask": "inner?", "text": "x"}), json!({"text": "y"})]),
            calls([json!({"ask": "again?", "text": "z"})]),
            Reply::text("inner done"),
        ]);
        let setup = setup([
            Reply::tool_calls([
                ("out0", "delegate", json!({})),
                ("out1", "act", json!({"ask": "outer?", "text": "o"})),
            ]),
            Reply::text("done"),
        ]);
        let hook = Recorder::default();
        let builder = setup.builder.parallel_tool_execution(parallel).hook(hook.clone());
        let mut agent = builder.permission_policy(ByArguments).pause_for_approval(true).build();
        let sub_agent = SubAgent { provider: inner.clone(), log: setup.log.clone() };
        agent.tools_mut().register_dyn(Arc::new(sub_agent));
        let ctx = ToolContext::default();

        let pending = start(way, &mut agent, &ctx).await.pending();
        assert_eq!(ids(&pending), ["out0", "out1"]);
        let nested = pending.calls[0].nested.as_deref().unwrap();
        assert_eq!((ids(nested), nested.calls[0].reason.as_str()), (vec!["c0"], "inner?"));
        let interrupted =
            "an agent inside the call awaits an approval; whether the call took effect is unknown";
        let results = [
            format!("out0: ![interrupted: {interrupted}]"),
            "out1: ![not executed: the call awaits an approval]".into(),
        ];
        assert_eq!(last_results(agent.messages()), results);

        // Serialised and deserialised, as for another process.
        let pending: PendingApproval =
            serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap();
        agent.restore(pending.clone()).unwrap();
        let decisions = ApprovalDecisions::approve_all(&pending);
        let pending = go_on(way, &mut agent, decisions, &ctx).await.pending();
        assert_eq!(ids(&pending), ["out0"], "the inner agent asks again");
        assert_eq!(pending.tool_calls, 2, "a call that goes on counts once");
        let decisions = ApprovalDecisions::approve_all(&pending);
        assert_eq!(go_on(way, &mut agent, decisions, &ctx).await.answer(), "done");

        assert_eq!(last_results(agent.messages()), ["out0: inner done", "out1: o"]);
        inner.assert_complete();
        assert_eq!(inner.requests().len(), 3, "the inner run went on");
        assert_eq!(setup.log.count("start c0"), 2, "one in each of its turns");
        assert_eq!(setup.log.count("start c1"), 1, "what had run did not run again");
        check_pairs(&hook.log.lines());
        check_valid(agent.messages());
    }
}

/// Another call fails beside the call of a nested agent that waits for an approval. The hooks are notified of each end
/// once. A resumed nested agent has begun, so its call counts as interrupted even if its turn did not come.
#[tokio::test(start_paused = true)]
async fn waiting_nested_agent_beside_a_failed_call_ends_once_and_is_interrupted() {
    for is_resumed in [false, true] {
        let inner = ScriptedProvider::new([calls([json!({"ask": "?"})]), Reply::text("never")]);
        let failing = match is_resumed {
            true => json!({"ask": "?", "fail": "broken"}),
            false => json!({"delay": 10, "fail": "broken"}),
        };
        let setup =
            setup([Reply::tool_calls([("out0", "act", failing), ("out1", "delegate", json!({}))])]);
        let hook = Recorder::default();
        let builder = setup.builder.hook(hook.clone()).permission_policy(ByArguments);
        let builder = builder.tool_errors(ToolErrorPolicy::EndRun).pause_for_approval(true);
        let mut agent = builder.parallel_tool_execution(true).build();
        let sub_agent = SubAgent { provider: inner.clone(), log: setup.log.clone() };
        agent.tools_mut().register_dyn(Arc::new(sub_agent));
        let ctx = ToolContext::default();
        let mut end = start(Way::Run, &mut agent, &ctx).await;
        if is_resumed {
            let decisions = ApprovalDecisions::approve_all(&end.pending());
            end = go_on(Way::Run, &mut agent, decisions, &ctx).await;
        }
        assert!(end.error().contains("broken"));
        check_pairs(&hook.log.lines());
        let result = &last_results(agent.messages())[1];
        assert!(result.starts_with("out1: ![interrupted: "), "{result}");
        assert_eq!(inner.calls(), 1);
    }
}

/// A tool call that resumes its nested agent receives the approval decisions. A later call that starts a new nested
/// agent must not receive these decisions.
#[tokio::test]
async fn resumed_approval_reaches_only_its_own_call() {
    let inner = ScriptedProvider::new([
        calls([json!({"ask": "?", "text": "x"})]),
        Reply::text("first"),
        Reply::text("second"),
    ]);
    let setup = setup([
        Reply::tool_calls([("out0", "delegate", json!({}))]),
        Reply::tool_calls([("out1", "delegate", json!({}))]),
        Reply::text("done"),
    ]);
    let mut agent = setup.builder.pause_for_approval(true).build();
    let sub_agent = SubAgent { provider: inner.clone(), log: setup.log.clone() };
    agent.tools_mut().register_dyn(Arc::new(sub_agent));
    let ctx = ToolContext::default();
    let pending = start(WAYS[0], &mut agent, &ctx).await.pending();
    let decisions = ApprovalDecisions::approve_all(&pending);
    assert_eq!(go_on(WAYS[0], &mut agent, decisions, &ctx).await.answer(), "done");
    assert_eq!(last_results(agent.messages()), ["out1: second"]);
    assert_eq!(setup.log.count("start"), 1);
    let task = &inner.requests()[2].messages;
    assert_eq!(*task, [Message::user("sub-task")], "its conversation is its own");
}

#[tokio::test]
async fn nested_ask_is_a_denial_without_pausing() {
    let inner = ScriptedProvider::new([calls([json!({"ask": "?"})])]);
    let setup = setup([Reply::tool_calls([("c0", "delegate", json!({}))]), Reply::text("done")]);
    let mut agent = setup.builder.build();
    let sub_agent = SubAgent { provider: inner, log: setup.log.clone() };
    agent.tools_mut().register_dyn(Arc::new(sub_agent));
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let denied = "c0: !permission denied: an agent inside the call needs an approval";
    assert_eq!(last_results(agent.messages()), [denied]);
}

#[tokio::test]
async fn signed_agent_rejects_calls_it_did_not_sign() {
    use neuron_runtime::ApprovalKey;

    for way in WAYS {
        let setup = setup([calls([json!({"ask": "?", "text": "a"})]), Reply::text("done")]);
        let mut agent = setup
            .builder
            .permission_policy(ByArguments)
            .pause_for_approval(true)
            .approval_signer(
                ApprovalKey::new("secret").valid_for(std::time::Duration::from_secs(60)),
            )
            .build();
        let ctx = ToolContext::default();
        let pending = start(way, &mut agent, &ctx).await.pending();
        let decisions = ApprovalDecisions::approve_all(&pending);

        // The arguments are changed both in the pending call and in the history.
        let stored = serde_json::to_string(&pending).unwrap();
        let forged = stored.replace(r#""text":"a""#, r#""text":"b""#);
        assert_ne!(forged, stored);
        agent.restore(serde_json::from_str(&forged).unwrap()).unwrap();
        let error = go_on(way, &mut agent, decisions.clone(), &ctx).await.error();
        assert!(error.contains("`c0` has a wrong signature"), "{error}");
        assert_eq!(setup.log.count("start"), 0);

        agent.restore(serde_json::from_str(&stored).unwrap()).unwrap();
        assert_eq!(go_on(way, &mut agent, decisions, &ctx).await.answer(), "done");
    }
}
