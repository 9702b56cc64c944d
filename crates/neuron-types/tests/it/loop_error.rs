//! Tests of the classification of `LoopError` by `kind`, `may_quote_conversation` and `is_waiting`.

use std::time::Duration;

use neuron_types::{
    ApprovalError, ContextError, DurableError, LoopError, PendingApproval, ProviderError,
    StopReason, TokenUsage, ToolError, UnknownPrice,
};

#[track_caller]
fn check(error: impl Into<LoopError>, innermost: &str, may_quote: bool) {
    let error = error.into();
    assert_eq!(error.innermost_kind(), innermost, "{error:?}");
    assert_eq!(error.may_quote_conversation(), may_quote, "{error:?}");
    assert!(!error.is_waiting(), "{error:?}");
}

#[track_caller]
fn waits(error: impl Into<LoopError>, may_quote: bool) {
    let error = error.into();
    assert_eq!(error.innermost_kind(), "ApprovalRequired");
    assert_eq!(error.may_quote_conversation(), may_quote, "{error:?}");
    assert!(error.is_waiting(), "{error:?}");
}

#[test]
fn own_errors_are_classified() {
    check(LoopError::MaxTurns(3), "MaxTurns", false);
    check(LoopError::UsageLimitExceeded("tokens".into()), "UsageLimitExceeded", false);
    check(LoopError::UnknownPrice(UnknownPrice::new("acme", "m")), "UnknownPrice", false);
    check(LoopError::HookTerminated("no".into()), "HookTerminated", false);
    check(LoopError::Cancelled, "Cancelled", false);
    check(ApprovalError::NothingPending, "Approval", false);
    let invalid = LoopError::InvalidOutput {
        raw: "the answer".into(),
        reason: "no number".into(),
        attempts: 2,
        stop_reason: StopReason::EndTurn,
    };
    check(invalid, "InvalidOutput", true);
}

#[test]
fn provider_errors_are_classified_at_every_level() {
    use ProviderError as E;
    let every = || {
        [
            (E::Network("reset".into()), false),
            (E::RateLimit { retry_after: None }, false),
            (E::ModelLoading("cold".into()), false),
            (E::Timeout(Duration::from_secs(1)), false),
            (E::ServiceUnavailable("529".into()), false),
            (E::Authentication("key".into()), false),
            (E::InvalidRequest("bad".into()), false),
            (E::ContextWindowExceeded("long".into()), false),
            (E::ModelNotFound("m".into()), false),
            (E::InsufficientResources("quota".into()), false),
            (E::StreamError("what came".into()), true),
            (E::Other("the answer".into()), true),
        ]
    };
    let wrappers: [fn(E) -> LoopError; 3] = [
        LoopError::Provider,
        |error| LoopError::Context(ContextError::Provider(error)),
        |error| LoopError::Durable(DurableError::Provider(error)),
    ];
    for wrap in wrappers {
        for (error, may_quote) in every() {
            let kind = error.kind();
            check(wrap(error), kind, may_quote);
        }
    }
}

#[test]
fn tool_errors_may_quote_arguments() {
    use ToolError as E;
    for wrap in [LoopError::Tool, |error| LoopError::Durable(DurableError::Tool(error))] {
        for error in [
            E::NotFound("add".into()),
            E::InvalidInput("x".into()),
            E::ExecutionFailed("disk".into()),
            E::PermissionDenied("rm".into()),
            E::Cancelled,
            E::ModelRetry("again".into()),
            E::HookTerminated("no".into()),
        ] {
            let kind = error.kind();
            check(wrap(error), kind, true);
        }
    }
}

#[test]
fn strategy_and_engine_errors_are_classified() {
    check(ContextError::CompactionFailed("why".into()), "Context", false);
    check(ContextError::InvalidSetting("zero".into()), "Context", false);
    let summary = ContextError::InvalidSummary { reason: "empty".into(), usage: Box::default() };
    check(summary, "Context", false);
    let failed = ContextError::from(ProviderError::ServiceUnavailable("529".into()));
    let failed = failed.with_usage(TokenUsage { input_tokens: 1, ..TokenUsage::default() });
    check(failed, "ServiceUnavailable", false);

    use DurableError as E;
    check(E::ActivityFailed("add(2, 2)".into()), "ActivityFailed", true);
    check(E::Cancelled, "Cancelled", false);
    check(E::SignalTimeout, "SignalTimeout", false);
    check(E::ContinueAsNew("next".into()), "ContinueAsNew", false);
    let differs = E::NonDeterminism { expected: "a tool".into(), got: "a model call".into() };
    check(differs, "NonDeterminism", false);
    check(E::Other("a row".into()), "Other", true);
}

#[test]
fn pending_approval_is_waiting() {
    let pending = || Box::new(PendingApproval::new("run", Vec::new()));
    waits(LoopError::ApprovalRequired(pending()), false);
    waits(ToolError::ApprovalRequired(pending()), true);
    waits(LoopError::Durable(DurableError::Tool(ToolError::ApprovalRequired(pending()))), true);
}
