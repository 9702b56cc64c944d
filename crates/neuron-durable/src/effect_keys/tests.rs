//! Tests of calls with equal effect keys in one batch, in several batches, and in several executions.

use neuron_types::{
    ApprovalDecisions, DurableError, KnownEffect, PendingApproval, ResumedApproval, RunSnapshot,
    Start, ToolCall, ToolContext, ToolEffect, ToolError, ToolInvocation, ToolOutput,
};
use serde_json::Value;

use super::EffectKeys;
use crate::outcome_unknown;

fn pay(id: &str, key: Option<&str>, effect: ToolEffect) -> ToolInvocation {
    let call = ToolCall { id: id.into(), name: "pay".into(), input: Value::Null };
    let mut invocation = ToolInvocation::new(call, ToolContext::default()).with_effect(effect);
    invocation.effect_key = key.map(str::to_owned);
    invocation
}

/// Runs a batch of calls. Returns the ids of the calls that ran, and the results of all calls.
async fn run(keys: &EffectKeys, batch: Vec<ToolInvocation>) -> (Vec<String>, Vec<String>) {
    let mut ran = Vec::new();
    let results = keys.run(batch, async |calls: Vec<ToolInvocation>| {
        ran = calls.iter().map(|call| call.call.id.clone()).collect();
        calls.iter().map(|call| answer(&call.call.id)).collect()
    });
    let results = results.await;
    let text = |result: Result<ToolOutput, DurableError>| match result {
        Ok(output) => output.content[0].to_string(),
        Err(error) => error.to_string(),
    };
    (ran, results.into_iter().map(text).collect())
}

fn answer(id: &str) -> Result<ToolOutput, DurableError> {
    match id {
        "fails" => Ok(ToolOutput::error("no money")),
        "breaks" => Err(DurableError::Tool(ToolError::ExecutionFailed("it broke".into()))),
        "unknown" => Ok(outcome_unknown("pay")),
        "panics" => Ok(neuron_tool::panic_output("pay")),
        "late" => {
            let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "too late");
            Err(DurableError::Tool(ToolError::ExecutionFailed(Box::new(late))))
        }
        "long" => Ok(ToolOutput::text("x".repeat(5000))),
        id => Ok(ToolOutput::text(id)),
    }
}

#[tokio::test]
async fn calls_with_equal_keys_run_once() {
    const ONCE: ToolEffect = ToolEffect::AtMostOnce;
    let keys = EffectKeys::default();
    let batch = vec![
        pay("a", Some("17"), ONCE),
        pay("b", None, ONCE),
        pay("c", Some("17"), ONCE),
        pay("d", Some("18"), ONCE),
    ];
    let (ran, results) = run(&keys, batch).await;
    assert_eq!((ran.join(" "), results.join(" ")), ("a b d".into(), "a b a d".into()));

    let again = vec![pay("e", Some("18"), ONCE), pay("f", Some("19"), ONCE)];
    let (ran, results) = run(&keys, again).await;
    assert_eq!((ran.join(" "), results.join(" ")), ("f".into(), "d f".into()));
    let (ran, results) = run(&keys, vec![pay("g", Some("17"), ONCE)]).await;
    assert_eq!((ran.len(), results.join(" ")), (0, "a".into()));

    let mut snapshot = RunSnapshot::new("run", Vec::new());
    snapshot.effects = keys.to_stored();
    let next = EffectKeys::default();
    next.restart(&Start::from(snapshot));
    assert_eq!(next.to_stored(), keys.to_stored());
    let (ran, _) = run(&next, vec![pay("h", Some("17"), ONCE)]).await;
    assert!(ran.is_empty());
    next.restart(&Start::Continue);
    let (ran, _) = run(&next, vec![pay("i", Some("17"), ONCE)]).await;
    assert_eq!(ran, ["i"]);
}

#[test]
fn resume_restores_effects_of_the_pending_state() {
    let (keys, mut ctx) = (EffectKeys::default(), ToolContext::default());
    let mut pending = PendingApproval::new("run", Vec::new());
    pending.effects = vec![KnownEffect { tool: "pay".into(), key: "17".into(), output: None }];
    let decisions = ApprovalDecisions::new();
    let resumed = ResumedApproval::new(pending.clone(), decisions.clone());
    keys.restart(&Start::Resume { pending: Box::new(pending.clone()), decisions });
    assert_eq!(keys.to_stored(), pending.effects);
    keys.restart_call(&ctx);
    assert_eq!(keys.to_stored(), []);
    ctx.extensions.insert(resumed);
    keys.restart_call(&ctx);
    assert_eq!(keys.to_stored(), pending.effects);
}

#[tokio::test]
async fn call_runs_after_a_failed_call_with_its_key() {
    for first in ["fails", "breaks"] {
        let keys = EffectKeys::default();
        let (_, results) = run(
            &keys,
            vec![
                pay(first, Some("17"), ToolEffect::AtMostOnce),
                pay("beside", Some("17"), ToolEffect::AtMostOnce),
            ],
        )
        .await;
        assert_eq!(results[0], results[1], "{first}");
        let (ran, _) = run(&keys, vec![pay("again", Some("17"), ToolEffect::AtMostOnce)]).await;
        assert_eq!(ran, ["again"], "{first}");
    }
}

#[tokio::test]
async fn unknown_outcome_prevents_calls_that_must_not_run_twice() {
    for first in ["unknown", "panics", "late"] {
        let keys = EffectKeys::default();
        let _ = run(&keys, vec![pay(first, Some("17"), ToolEffect::AtMostOnce)]).await;
        let (ran, results) = run(&keys, vec![pay("a", Some("17"), ToolEffect::AtMostOnce)]).await;
        assert!(ran.is_empty() && results[0].contains("unknown"), "{first}: {results:?}");
        let (ran, _) = run(&keys, vec![pay("b", Some("17"), ToolEffect::Idempotent)]).await;
        assert_eq!(ran, ["b"]);
    }
}

#[tokio::test]
async fn long_result_is_replaced_by_a_short_text() {
    let keys = EffectKeys::default();
    let (_, results) = run(&keys, vec![pay("long", Some("17"), ToolEffect::AtMostOnce)]).await;
    assert_eq!(results[0].len(), 5000);
    let (ran, results) = run(&keys, vec![pay("a", Some("17"), ToolEffect::AtMostOnce)]).await;
    assert!(ran.is_empty() && results[0].contains("did not run"), "{results:?}");
    assert!(serde_json::to_string(&keys.to_stored()).unwrap().len() < 500);
}
