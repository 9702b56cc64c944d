//! Tests of approvals for a sub-agent's tool calls. The parent runs pause with the sub-agent, and continue after the
//! decisions.

use std::sync::Arc;

use neuron_loop::{AgentBuilder, LoopError, RunResult};
use neuron_subagent::SubAgentConfig;
use neuron_types::{ApprovalDecisions, PendingApproval, PermissionPolicy, ToolContext};
use serde_json::json;

use crate::support::*;

#[track_caller]
fn pending(ended: Result<RunResult, LoopError>) -> PendingApproval {
    match ended {
        Err(LoopError::ApprovalRequired(pending)) => *pending,
        other => panic!("{other:?} instead of a pause"),
    }
}

/// Returns the pending approvals after serialisation to JSON and deserialisation, as another process would load them.
fn stored(pending: PendingApproval) -> PendingApproval {
    serde_json::from_str(&serde_json::to_string(&pending).unwrap()).unwrap()
}

/// Returns the scripts of four agents. The agent `main` calls `a` and `b` in one response, and `b` calls `c`. The
/// agents `a` and `c` each call the tools `act` and `other` in one response.
fn scripts() -> Scripts {
    let worker = |text_: &str| {
        vec![
            calls([("x", "act", json!({ "text": text_ })), ("y", "other", json!({}))]),
            text(text_),
        ]
    };
    Scripts::new([
        ("main", vec![asks(&["a", "b"]), text("done")]),
        ("a", worker("from a")),
        ("b", vec![asks(&["c"]), text("b done")]),
        ("c", worker("from c")),
    ])
}

fn agents() -> [(&'static str, SubAgentConfig); 3] {
    let c = SubAgentConfig { max_depth: 2, ..with_tools("c", &["act", "other"]) };
    [("a", with_tools("a", &["act", "other"])), ("b", with_tools("b", &["c"])), ("c", c)]
}

/// Builds an agent `main` with sub-agents. Calls of the tools in `about` require an approval.
fn asking(scripts: &Scripts, log: &Log, about: &'static [&'static str]) -> AgentBuilder {
    pausing(parent(scripts, log, agents()).permission_policy(AsksAbout(about)))
}

#[tokio::test]
async fn waiting_agents_of_one_response_pause_and_resume() {
    for way in WAYS {
        for parallel in [false, true] {
            for in_another_process in [false, true] {
                let (scripts, log) = (scripts(), Log::default());
                let build = || {
                    let builder = asking(&scripts, &log, &["act"]);
                    Chat::new(builder.config(|config| config.parallel_tool_execution = parallel))
                };
                let (mut agent, ctx) = (build(), ToolContext::default());
                let waiting = pending(run(way, &mut agent, &ctx).await);
                let waiting = stored(waiting);
                // Agent `a` waits for its own call, agent `b` for a call of the agent inside it.
                let (a, b) = (&waiting.calls[0], &waiting.calls[1]);
                assert_eq!(a.nested.as_ref().unwrap().calls[0].reason, "act?");
                let c = b.nested.as_ref().unwrap().calls[0].nested.as_ref().unwrap();
                assert_eq!(c.calls[0].call.input, json!({ "text": "from c" }));
                assert_eq!(log.count("act "), 0);
                assert_eq!(log.count("other "), 2, "what needs no approval ran");
                assert_eq!(agent.conversation.usage(), &usage(40, 4));

                if in_another_process {
                    agent = build();
                    agent.conversation = waiting.clone().try_into().unwrap();
                }
                // The agents are decided one at a time. The other keeps waiting.
                let first = ApprovalDecisions::new()
                    .nested("c0", ApprovalDecisions::approve_all(a.nested.as_ref().unwrap()))
                    .partial();
                let waiting = pending(run_from(way, &mut agent, first, &ctx).await);
                assert_eq!((waiting.calls.len(), log.count("act ")), (1, 1));
                let second = ApprovalDecisions::approve_all(&waiting);
                let result = run_from(way, &mut agent, second, &ctx).await.unwrap();
                assert_eq!(last_results(agent.messages()), ["c0: from a", "c1: b done"]);
                assert_eq!((log.count("act "), log.count("other ")), (2, 2), "nothing ran twice");
                assert_eq!(result.usage, usage(80, 8), "nothing counts twice");
                for name in ["main", "a", "b", "c"] {
                    scripts.of(name).assert_complete();
                }
            }
        }
    }
}

#[tokio::test]
async fn inner_call_can_be_denied_edited_or_supplied() {
    let (scripts, log) = (scripts(), Log::default());
    let mut agent = Chat::new(asking(&scripts, &log, &["act", "other"]));
    let ctx = ToolContext::default();
    let waiting = pending(agent.run("start", &ctx).await);
    assert!(log.lines().is_empty());
    let inner = ApprovalDecisions::new().deny("x", "no").approve_edited("y", json!({"text": "z"}));
    let decisions = ApprovalDecisions::new().nested("c0", inner).deny("c1", "not `b`");
    assert!(waiting.check(&decisions).is_ok());
    agent.run(decisions, &ctx).await.unwrap();
    let results = last_results(&scripts.of("a").requests()[1].messages);
    assert_eq!(results[0], "x: !permission denied: no");
    assert_eq!(results[1], r#"y: [approved with other arguments: {"text":"z"}]"#);
    assert_eq!(last_results(agent.messages())[1], "c1: !permission denied: not `b`");
    assert_eq!((log.count("act "), log.count("other ")), (0, 1));
}

#[tokio::test]
async fn invalid_decision_leaves_the_agent_waiting() {
    let (scripts, log) = (scripts(), Log::default());
    let mut agent = Chat::new(asking(&scripts, &log, &["act"]));
    let ctx = ToolContext::default();
    let waiting = pending(agent.run("start", &ctx).await);
    let unfit = ApprovalDecisions::new().approve_edited("x", json!({ "unfit": true }));
    let decisions = ApprovalDecisions::new().nested("c0", unfit).partial();
    let again = pending(agent.run(decisions, &ctx).await);
    assert_eq!(again.calls, waiting.calls);
    assert_eq!(log.count("act "), 0);
    let result = agent.run(ApprovalDecisions::approve_all(&again), &ctx).await.unwrap();
    assert_eq!(last_results(agent.messages())[0], "c0: from a");
    assert_eq!(result.usage, usage(80, 8));
}

#[tokio::test]
async fn inner_ask_is_a_denial_without_pausing() {
    for way in WAYS {
        let (scripts, log) = (scripts(), Log::default());
        let builder = parent(&scripts, &log, agents()).permission_policy(AsksAbout(&["act"]));
        let mut agent = Chat::new(builder);
        run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!(last_results(agent.messages()), ["c0: from a", "c1: b done"]);
        let results = last_results(&scripts.of("c").requests()[1].messages);
        assert!(results[0].starts_with("x: !permission denied: "), "{results:?}");
        assert_eq!((log.count("act "), log.count("other ")), (0, 2));
    }
}

#[tokio::test]
async fn agent_can_have_its_own_policy() {
    let own: Arc<dyn PermissionPolicy> = Arc::new(AsksAbout(&["other"]));
    let scripts = || {
        Scripts::new([
            ("main", vec![asks(&["a"]), text("done")]),
            ("a", vec![calls([("x", "act", json!({})), ("y", "other", json!({}))]), text("a")]),
        ])
    };
    for (policy, asked) in [(None, "x"), (Some(own), "y")] {
        let (scripts, log) = (scripts(), Log::default());
        let config = SubAgentConfig { policy, ..with_tools("a", &["act", "other"]) };
        let builder = parent(&scripts, &log, [("a", config)]);
        let mut agent = Chat::new(pausing(builder.permission_policy(AsksAbout(&["act"]))));
        let waiting = pending(agent.run("start", &ToolContext::default()).await);
        let calls = &waiting.calls[0].nested.as_ref().unwrap().calls;
        assert_eq!((calls.len(), calls[0].call.id.as_str()), (1, asked));
        assert_eq!(log.lines().len(), 1);
    }
}

#[tokio::test]
async fn new_run_abandons_a_waiting_agent() {
    let (scripts, log) = (scripts(), Log::default());
    let mut agent = Chat::new(asking(&scripts, &log, &["act"]));
    let ctx = ToolContext::default();
    pending(agent.run("start", &ctx).await);
    assert_eq!(agent.run("never mind", &ctx).await.unwrap().response, "done");
    assert_eq!(last_results(agent.messages()).len(), 2);
    assert_eq!(log.count("act "), 0);
    assert_eq!(agent.conversation.total_usage(), &usage(50, 5));
}

#[tokio::test]
async fn signing_run_signs_the_calls_of_inner_agents() {
    use neuron_loop::ToolErrorPolicy;
    use neuron_runtime::ApprovalKey;

    let (scripts, log) = (scripts(), Log::default());
    let build = || {
        let builder = asking(&scripts, &log, &["act"]).approval_signer(ApprovalKey::new("secret"));
        Chat::new(builder.config(|config| config.tool_errors = ToolErrorPolicy::ReturnToModel))
    };
    let (mut agent, ctx) = (build(), ToolContext::default());
    let waiting = pending(agent.run("start", &ctx).await);
    let forge = |waiting: &PendingApproval| {
        let text = serde_json::to_string(waiting).unwrap();
        serde_json::from_str::<PendingApproval>(&text.replace("from c", "forged")).unwrap()
    };
    let decisions = ApprovalDecisions::approve_all(&waiting);
    let forged = forge(&waiting);
    assert_ne!(forged, waiting);
    agent.conversation = forged.try_into().unwrap();
    agent.run(decisions, &ctx).await.unwrap();
    let results = last_results(agent.messages());
    assert_eq!((results[0].as_str(), log.count("act ")), ("c0: from a", 1));
    let inner = last_results(&scripts.of("b").requests()[1].messages).remove(0);
    assert!(inner.contains("wrong signature"), "{inner}");
}
