//! The parts of the suite.

use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_types::ContentBlock;
use serde_json::json;

use crate::Verdict;
use crate::effects::EffectKind;
use crate::engine::{DurableEngine, run_with_signals};
use crate::observed::WITH_CHANGED_CODE;
use crate::scenario::Kind;
use crate::trial::{Outcome, Trial, done, outcome, same};

const NO_JOURNAL: Verdict = Verdict::NotApplicable("runs are not kept");

/// Checks that a run comes to what it comes to without an engine, with the same effects, and that it is
/// replayed without any: messages, usage, turns, what its tools took, a compaction by a model.
///
/// # Panics
///
/// At the first thing that does not hold; the text names the case.
pub async fn replaying(engine: &impl DurableEngine) -> Verdict {
    Trial::new(engine, "replaying", Kind::Crash).like_local().await;
    match engine.keeps_runs() {
        true => Verdict::Holds,
        false => NO_JOURNAL,
    }
}

/// Checks that what the model is told of a failed tool is replayed: that it shall try again, that a call
/// failed, was denied, or is of an unknown tool; and so is the failure that ends a run.
///
/// # Panics
///
/// As [`replaying`].
pub async fn tool_errors(engine: &impl DurableEngine) -> Verdict {
    for kind in [Kind::Errors, Kind::ToolFails] {
        Trial::new(engine, "tool_errors", kind).like_local().await;
    }
    Verdict::Holds
}

/// Checks that the model's failure is replayed as what it was, with the time that it asked for.
///
/// # Panics
///
/// As [`replaying`].
pub async fn model_errors(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "model_errors", Kind::ModelFails);
    match trial.like_local().await {
        Outcome::Failed { kind, text } => {
            trial.case.equal("the kind", kind.as_str(), "Provider");
            trial.case.holds(text.contains("7.25s"), format_args!("{text}: for how long?"));
        }
        Outcome::Answered(_) => trial.case.fail("answered"),
    }
    Verdict::Holds
}

/// Checks that a call that failed is made again where it may be, as often as the options say, with the
/// same idempotency key; and not where it may not.
///
/// # Panics
///
/// As [`replaying`].
pub async fn retries(engine: &impl DurableEngine) -> Verdict {
    Trial::new(engine, "retries", Kind::Retries).like_local().await;
    Verdict::Holds
}

/// Checks that the results of parallel calls are in the order of the calls, whichever ends first.
///
/// # Panics
///
/// As [`replaying`].
pub async fn parallel_tools(engine: &impl DurableEngine) -> Verdict {
    Trial::new(engine, "parallel_tools", Kind::Parallel).like_local().await;
    Verdict::Holds
}

/// Checks that each call that runs is polled inside the [scope](neuron_types::ToolInvocation::scope) of its
/// own, though it runs beside others, and that a replay enters none.
///
/// # Panics
///
/// As [`replaying`].
pub async fn tool_scopes(engine: &impl DurableEngine) -> Verdict {
    if !engine.runs_tools_in_scopes() {
        return Verdict::NotApplicable("tools do not run inside the scopes of their calls");
    }
    let trial = Trial::new(engine, "tool_scopes", Kind::Parallel);
    let first = trial.run().await;
    let mut polls = 0;
    for effect in trial.log.effects() {
        if let EffectKind::ToolPolled { call_id, inside } = effect.kind {
            polls += 1;
            trial.case.equal(&format!("the scopes around {call_id}"), inside, vec![call_id]);
        }
    }
    trial.case.equal("the moments at which the tools looked", polls, 8);
    let entered = || trial.log.count(|kind| matches!(kind, EffectKind::ScopeEntered { .. }));
    trial.case.equal("the calls whose scope was entered", entered(), 4);
    trial.replayed(&first).await;
    trial.case.equal("the calls whose scope was entered, replays included", entered(), 4);
    Verdict::Holds
}

/// Checks what a person decides on a call, and that nobody does in time. (That one approves is part of
/// [`replaying`].)
///
/// # Panics
///
/// As [`replaying`].
pub async fn approvals(engine: &impl DurableEngine) -> Verdict {
    for kind in [Kind::Denied, Kind::NotDecided] {
        Trial::new(engine, "approvals", kind).like_local().await;
    }
    Verdict::Holds
}

/// Checks that limits on turns, tool calls and tokens end a run, and its replay.
///
/// # Panics
///
/// As [`replaying`].
pub async fn limits(engine: &impl DurableEngine) -> Verdict {
    let kinds = [(Kind::MaxTurns, "MaxTurns"), (Kind::ToolLimit, LIMIT), (Kind::TokenLimit, LIMIT)];
    for (kind, expected) in kinds {
        let trial = Trial::new(engine, "limits", kind);
        match trial.like_local().await {
            Outcome::Failed { kind, .. } => trial.case.equal("the kind", kind.as_str(), expected),
            Outcome::Answered(_) => trial.case.fail("answered"),
        }
    }
    Verdict::Holds
}

const LIMIT: &str = "UsageLimitExceeded";

/// Checks that a streamed run comes to the same, and that its deltas are those of its answers.
///
/// # Panics
///
/// As [`replaying`].
pub async fn streams(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "streams", Kind::Streams);
    trial.like_local().await;
    let effects = trial.log.effects().into_iter();
    let mut read = effects.filter_map(|effect| match effect.kind {
        EffectKind::Streamed { whole, silent, wrong } => Some((whole, silent, wrong)),
        _ => None,
    });
    let first = trial.case.some("the stream has no end", read.next());
    for (_, _, wrong) in read.chain([first]) {
        trial.case.equal("the answers whose deltas are wrong", wrong, 0);
    }
    if !engine.streams_deltas() {
        return Verdict::NotApplicable("deltas do not reach the agent's code");
    }
    trial.case.equal("the answers that were streamed, and not", (first.0, first.1), (5, 0));
    Verdict::Holds
}

/// Checks signals that come before they are waited for, in order, in time, not in time and too late.
///
/// # Panics
///
/// As [`replaying`].
pub async fn signals(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "signals", Kind::Signals);
    let first = trial.like_local().await;
    // It changes nothing: nobody waits for it any more. An engine may say so.
    let _ = engine.signal(&trial.run_id, "never", json!("too late")).await;
    trial.replayed(&first).await;
    Verdict::Holds
}

/// Checks that the engine's clock does not go back, that sleeping ends, and that a replay sees the same
/// times.
///
/// # Panics
///
/// As [`replaying`].
pub async fn clock(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "clock", Kind::Clock);
    let first = trial.run().await;
    match &first {
        Outcome::Answered(result) => {
            let times = &result.response;
            trial.case.holds(times.contains("ordered: true"), format_args!("went back: {times}"));
        }
        Outcome::Failed { text, .. } => trial.case.fail(text),
    }
    trial.replayed(&first).await;
    match engine.keeps_runs() {
        true => Verdict::Holds,
        false => NO_JOURNAL,
    }
}

/// Checks that code is detected that is not the one that began a run, before it has an effect, and that the
/// right code goes on afterwards.
///
/// # Panics
///
/// As [`replaying`].
pub async fn changed_code(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "changed_code", Kind::Crash);
    let changed = trial.scenario.with_changed_code();
    let Trial { run_id, log, case, .. } = &trial;
    let (expected, effects) = trial.expected().await;
    let result = {
        let change = pin!(engine.change_code(run_id, &trial.scenario, &changed, log));
        let is_through = |kind: &EffectKind| match kind {
            EffectKind::Waits { signal, .. } => signal.ends_with(WITH_CHANGED_CODE),
            _ => false,
        };
        let is_through = pin!(log.reached(is_through));
        match select(change, is_through).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => case.fail("the changed code goes through the journal unnoticed"),
        }
    };
    let Some(result) = result else { return NO_JOURNAL };
    let failure = case.err(result);
    case.holds(
        engine.says_that_code_changed(&failure),
        format_args!("the changed code fails with another error: {failure}"),
    );
    let asked = log.count(|kind| matches!(kind, EffectKind::ModelCalled { .. }));
    case.equal("the calls of the model until then", asked, 3);
    if !engine.goes_on_with_the_right_code() {
        return Verdict::NotApplicable("changed code ends a run: the right code does not go on");
    }
    let case = case.step("the right code");
    let run = case.soon(run_with_signals(engine, run_id, &trial.scenario, log)).await;
    same(&case, &outcome(&case, run, log), &expected);
    case.equal("what was done", done(log), effects);
    Verdict::Holds
}

/// Checks that a result and an answer that are too long for a record are errors that say so, and that what
/// was paid for them is not paid again.
///
/// # Panics
///
/// As [`replaying`].
pub async fn record_limit(engine: &impl DurableEngine) -> Verdict {
    if engine.record_limit().is_none_or(|limit| limit >= crate::tools::HUGE) {
        return Verdict::NotApplicable("records may have three megabytes");
    }
    let trial = Trial::new(engine, "record_limit", Kind::HugeResult);
    let (_, effects) = trial.expected().await;
    let first = trial.run().await;
    let Outcome::Answered(result) = &first else {
        trial.case.fail(format_args!("the run fails: {first:?}"))
    };
    let blocks = result.messages.iter().flat_map(|message| &message.content);
    let mut errors = blocks.filter_map(|block| match block {
        ContentBlock::ToolResult { is_error: true, content, .. } => Some(format!("{content:?}")),
        _ => None,
    });
    let error = trial.case.some("the model sees no error", errors.next_back());
    trial.case.holds(error.contains("read"), format_args!("it does not name the tool: {error}"));
    trial.case.equal("what was done", done(&trial.log), effects);
    trial.replayed(&first).await;

    let trial = Trial::new(engine, "record_limit", Kind::HugeAnswer);
    let (_, effects) = trial.expected().await;
    let first = trial.run().await;
    let Outcome::Failed { kind, text } = &first else { trial.case.fail("the run has an answer") };
    trial.case.equal("the kind", kind.as_str(), "Provider");
    trial.case.holds(text.contains("model"), format_args!("it does not name the model: {text}"));
    trial.case.equal("what was done", done(&trial.log), effects);
    trial.replayed(&first).await;
    Verdict::Holds
}

/// Checks that the journal grows with the new messages alone, and not with the square of the turns.
///
/// # Panics
///
/// As [`replaying`].
pub async fn growth(engine: &impl DurableEngine) -> Verdict {
    let mut sizes = Vec::new();
    for turns in [10, 20, 40] {
        let trial = Trial::new(engine, "growth", Kind::Long(turns));
        let ended = trial.run().await;
        trial.case.holds(matches!(ended, Outcome::Answered(_)), format_args!("{ended:?}"));
        match trial.case.soon(engine.journal_bytes(&trial.run_id)).await {
            Some(bytes) => sizes.push(bytes),
            None => {
                return Verdict::NotApplicable("the engine does not say how large a journal is");
            }
        }
    }
    let case = neuron_conformance::case::Case::new("durable engine", "growth", "40 turns");
    let [short, middle, long] = *sizes.as_slice() else { case.fail("no sizes") };
    let (first, then) = (middle.saturating_sub(short), long.saturating_sub(middle));
    case.holds(first > 0, format_args!("journals of {sizes:?} bytes"));
    // Twice the turns: twice the bytes, and not four times.
    case.holds(
        then * 10 <= first * 27,
        format_args!("10, 20 and 40 turns of one size take {sizes:?} bytes"),
    );
    Verdict::Holds
}

/// Checks that a run that continues as a new execution carries everything on, and that its limits do not
/// begin anew.
///
/// # Panics
///
/// As [`replaying`].
pub async fn continuing(engine: &impl DurableEngine) -> Verdict {
    if !engine.continues_as_new() {
        return Verdict::NotApplicable("runs do not continue as new");
    }
    for kind in [Kind::Continues, Kind::ContinuesToLimit] {
        let trial = Trial::new(engine, "continuing", kind);
        trial.like_local().await;
        let ends = trial.log.count(|kind| match kind {
            EffectKind::Ended { text, .. } => text.contains("continue as new"),
            _ => false,
        });
        trial.case.holds(ends >= 2, format_args!("it continued {ends} times, and not twice"));
    }
    Verdict::Holds
}

/// Checks that a run that waits can be cancelled, says so, and does nothing more.
///
/// # Panics
///
/// As [`replaying`].
pub async fn cancelling(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "cancelling", Kind::Cancelled);
    let Trial { run_id, log, case, scenario, .. } = &trial;
    let mut run = pin!(engine.run(run_id, scenario, log));
    {
        let cancel = pin!(async {
            log.reached(|kind| matches!(kind, EffectKind::Waits { .. })).await;
            engine.cancel(run_id).await
        });
        match select(&mut run, cancel).await {
            Either::Left((result, _)) => case.fail(format_args!("it does not wait: {result:?}")),
            Either::Right((None, _)) => return Verdict::NotApplicable("runs cannot be cancelled"),
            Either::Right((Some(cancelled), _)) => case.ok(cancelled),
        }
    }
    let failure = case.err(case.soon(run).await);
    let says_so = failure.kind.as_deref() == Some("Cancelled")
        || failure.text.to_lowercase().contains("cancel");
    case.holds(says_so, format_args!("it fails with another error: {failure}"));
    case.equal("how often the call that waited ran", log.starts_of("wire"), 0);
    case.equal("the calls of the model", log.model_calls(), 1);
    Verdict::Holds
}
