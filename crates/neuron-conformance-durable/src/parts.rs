//! The parts of the suite. Each part is a function that runs one or more scenarios on the engine under test.

use std::pin::pin;

use futures_util::future::{Either, select};
use neuron_conformance::case::Case;
use neuron_types::ContentBlock;
use serde_json::json;

use crate::Verdict;
use crate::effects::EffectKind;
use crate::engine::{DurableEngine, run_with_signals};
use crate::observed::WITH_CHANGED_CODE;
use crate::scenario::Kind;
use crate::trial::{Trial, done, outcome, same};

/// Verdict of a part that does not apply, because the engine keeps no journal of its runs.
const NO_JOURNAL: Verdict = Verdict::NotApplicable("runs are not kept");

/// Checks that a run has the same result, model calls and tool calls as a run without an engine. Its replay must make
/// no model call and no tool call.
///
/// The suite compares the messages, the turns and the usage, which includes tokens of tools. In the scenario, a model
/// also compacts the conversation.
///
/// # Panics
///
/// If a check fails. The message names the case.
pub async fn replaying(engine: &impl DurableEngine) -> Verdict {
    let _ = Trial::new(engine, "replaying", Kind::Crash).like_local().await;
    if engine.keeps_runs() { Verdict::Holds } else { NO_JOURNAL }
}

/// Checks that the results of failed, denied and retried tool calls, and of calls of an unknown tool, are the same on
/// replay.
///
/// A tool failure that ends the run must also be the same on replay.
///
/// # Panics
///
/// See [`replaying`].
pub async fn tool_errors(engine: &impl DurableEngine) -> Verdict {
    all_like_local(engine, "tool_errors", &[Kind::Errors, Kind::ToolFails]).await
}

/// Checks that an error of the model is the same on replay, with its `retry_after`.
///
/// # Panics
///
/// See [`replaying`].
pub async fn model_errors(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "model_errors", Kind::ModelFails);
    let failure = trial.case.err(trial.like_local().await);
    trial.case.equal("the kind", failure.kind.as_deref(), Some("Provider"));
    trial.case.holds(failure.text.contains("7.25s"), format_args!("{failure}: for how long?"));
    Verdict::Holds
}

/// Checks that a failed model or tool call is retried as often as its [`RetryPolicy`](neuron_types::RetryPolicy)
/// allows, with the same idempotency key. An [`AtMostOnce`](neuron_types::ToolEffect::AtMostOnce) call must not be
/// retried.
///
/// # Panics
///
/// See [`replaying`].
pub async fn retries(engine: &impl DurableEngine) -> Verdict {
    all_like_local(engine, "retries", &[Kind::Retries]).await
}

/// Checks that the results of parallel calls are in call order.
///
/// # Panics
///
/// See [`replaying`].
pub async fn parallel_tools(engine: &impl DurableEngine) -> Verdict {
    all_like_local(engine, "parallel_tools", &[Kind::Parallel]).await
}

/// Checks that each of several parallel tool calls is polled inside its own
/// [scope](neuron_types::ToolInvocation::scope). A replay must enter no scope.
///
/// # Panics
///
/// See [`replaying`].
pub async fn tool_scopes(engine: &impl DurableEngine) -> Verdict {
    if !engine.runs_tools_in_scopes() {
        return Verdict::NotApplicable("tools do not run inside the scopes of their calls");
    }
    let trial = Trial::new(engine, "tool_scopes", Kind::Parallel);
    let first = trial.run().await;
    let polls = trial.log.select(|kind| match kind {
        EffectKind::ToolPolled { call_id, inside } => Some((call_id, inside)),
        _ => None,
    });
    trial.case.equal("the number of polls in the log", polls.len(), 8);
    for (call_id, inside) in polls {
        trial.case.equal(&format!("the scopes around {call_id}"), inside, vec![call_id]);
    }
    let entered = || trial.log.count(|kind| matches!(kind, EffectKind::ScopeEntered { .. }));
    trial.case.equal("the calls whose scope was entered", entered(), 4);
    trial.replayed(&first).await;
    trial.case.equal("the calls whose scope was entered, replays included", entered(), 4);
    Verdict::Holds
}

/// Checks runs that wait for a decision about a tool call. The replay must have the same result.
///
/// The cases are a denial, a signal that is not a decision, and a missing decision. The part [`replaying`] checks the
/// approval of a call.
///
/// # Panics
///
/// See [`replaying`].
pub async fn approvals(engine: &impl DurableEngine) -> Verdict {
    all_like_local(engine, "approvals", &[Kind::Denied, Kind::NotDecided]).await
}

/// Checks that limits on turns, tool calls and tokens end a run, and end its replay in the same way.
///
/// # Panics
///
/// See [`replaying`].
pub async fn limits(engine: &impl DurableEngine) -> Verdict {
    let usage = "UsageLimitExceeded";
    let kinds = [(Kind::MaxTurns, "MaxTurns"), (Kind::ToolLimit, usage), (Kind::TokenLimit, usage)];
    for (kind, expected) in kinds {
        let trial = Trial::new(engine, "limits", kind);
        let failure = trial.case.err(trial.like_local().await);
        trial.case.equal("the kind", failure.kind.as_deref(), Some(expected));
    }
    Verdict::Holds
}

/// Checks that a streamed run has the same result as a run without streaming. The deltas of each response must add up
/// to the response.
///
/// # Panics
///
/// See [`replaying`].
pub async fn streams(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "streams", Kind::Streams);
    let _ = trial.like_local().await;
    let streams = trial.log.select(|kind| match kind {
        EffectKind::Streamed { whole, silent, wrong } => Some((whole, silent, wrong)),
        _ => None,
    });
    for (_, _, wrong) in &streams {
        trial.case.equal("the answers whose deltas are wrong", *wrong, 0);
    }
    let (whole, silent, _) = *trial.case.some("the stream has no end", streams.first());
    if !engine.streams_deltas() {
        return Verdict::NotApplicable("deltas do not reach the agent's code");
    }
    trial.case.equal("the answers that were streamed, and not", (whole, silent), (5, 0));
    Verdict::Holds
}

/// Checks that tool calls with the same [effect key](neuron_types::Tool::effect_key) have only one effect.
///
/// The calls are in the same response, in several turns, or before and after the run continued as new.
///
/// # Panics
///
/// See [`replaying`].
pub async fn effect_keys(engine: &impl DurableEngine) -> Verdict {
    if !engine.keeps_runs() {
        return NO_JOURNAL;
    }
    let trial = Trial::new(engine, "effect_keys", Kind::EffectKeys);
    let first = trial.run().await;
    let keys = trial.log.select(|kind| match kind {
        EffectKind::ToolStarted { key, .. } => Some(key),
        _ => None,
    });
    trial.case.equal(
        "the effects",
        keys,
        ["17", "18", "19"].map(|key| format!("invoice {key}")).to_vec(),
    );
    let messages = &trial.case.ok(first.as_ref()).messages;
    let blocks = messages.iter().flat_map(|message| &message.content);
    let results: Vec<_> = blocks
        .filter_map(|block| match block {
            ContentBlock::ToolResult { content, .. } => {
                Some(content.iter().map(ToString::to_string))
            }
            _ => None,
        })
        .map(String::from_iter)
        .collect();
    let expected =
        [17, 17, 18, 19, 19, 17].map(|number| format!("settle: {{\"invoice\":{number}}}"));
    trial.case.equal("the results", results, expected.to_vec());
    trial.replayed(&first).await;
    Verdict::Holds
}

/// Checks that tool calls of several agents of a run with the same [effect key](neuron_types::Tool::effect_key) have only
/// one effect.
///
/// The agents are inside each other and beside each other. Their calls are at the same time, in several turns, or before
/// and after the run continued as new. [`Scenario::team_effect_keys`](crate::Scenario::team_effect_keys) is the scenario
/// for crashes.
///
/// # Panics
///
/// See [`replaying`].
pub async fn shared_effect_keys(engine: &impl DurableEngine) -> Verdict {
    if !engine.keeps_runs() {
        return NO_JOURNAL;
    }
    if !engine.shares_effect_keys() {
        return Verdict::NotApplicable("each agent has effect keys of its own");
    }
    let trial = Trial::new(engine, "shared_effect_keys", Kind::TeamSettles);
    let first = trial.run().await;
    trial.case.equal("the payments of all agents", trial.log.starts_of("settle"), 1);
    let messages = &trial.case.ok(first.as_ref()).messages;
    let blocks = messages.iter().flat_map(|message| &message.content);
    let failed =
        |block: &&ContentBlock| matches!(block, ContentBlock::ToolResult { is_error: true, .. });
    trial.case.equal("the failed calls", blocks.filter(failed).count(), 0);
    trial.replayed(&first).await;
    Verdict::Holds
}

/// Checks that agents inside tool calls have the same result, model calls and tool calls as without an engine. Their
/// replay must make no model call and no tool call.
///
/// The scenario has a tool call of a nested agent that needs an approval, for which the parent run waits. It also has a
/// tool call of a nested agent that the parent run's permission policy denies.
///
/// [`Scenario::team`](crate::Scenario::team) is the scenario for crashes inside nested agents.
///
/// # Panics
///
/// See [`replaying`].
pub async fn sub_agents(engine: &impl DurableEngine) -> Verdict {
    all_like_local(engine, "sub_agents", &[Kind::Team, Kind::TeamAsks]).await
}

/// Checks that a run receives the signals that are sent before or during its wait.
///
/// Signals with the same name must arrive in the order in which they were sent. If a signal is not sent in time, the
/// wait must time out. A signal that is sent after the end of the run must not change the replay.
///
/// # Panics
///
/// See [`replaying`].
pub async fn signals(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "signals", Kind::Signals);
    let first = trial.like_local().await;
    // The run does not wait for this signal any more, so an engine may return an error.
    let _ = engine.signal(&trial.run_id, "never", json!("too late")).await;
    trial.replayed(&first).await;
    Verdict::Holds
}

/// Checks that the engine's clock never goes back, and that a replay reads the same times. A sleep must end.
///
/// # Panics
///
/// See [`replaying`].
pub async fn clock(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "clock", Kind::Clock);
    let first = trial.run().await;
    let times = &trial.case.ok(first.as_ref()).response;
    trial.case.holds(times.contains("ordered: true"), format_args!("went back: {times}"));
    trial.replayed(&first).await;
    if engine.keeps_runs() { Verdict::Holds } else { NO_JOURNAL }
}

/// Checks that a replay returns the [recorded](neuron_types::DurableContext::record) values, although the agent records
/// other values on replay.
///
/// # Panics
///
/// See [`replaying`].
pub async fn recorded_values(engine: &impl DurableEngine) -> Verdict {
    let trial = Trial::new(engine, "recorded_values", Kind::Records);
    let first = trial.run().await;
    let values = &trial.case.ok(first.as_ref()).response;
    trial.case.holds(values.matches("entries").count() == 3, format_args!("recorded {values}"));
    trial.replayed(&first).await;
    if engine.keeps_runs() { Verdict::Holds } else { NO_JOURNAL }
}

/// Checks that a run fails if the code of its agent has changed. The run must fail before the changed code makes a
/// model call or tool call. The original code must then be able to resume the run.
///
/// # Panics
///
/// See [`replaying`].
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
        engine.is_code_change(&failure),
        format_args!("the changed code fails with another error: {failure}"),
    );
    case.holds(
        failure.text.contains("system"),
        format_args!("the error does not name what changed, the system prompt: {failure}"),
    );
    case.equal("the calls of the model until then", log.model_calls(), 3);
    if !engine.resumes_original_code() {
        return Verdict::NotApplicable("changed code ends a run: the right code does not go on");
    }
    let case = case.step("the right code");
    let run = case.soon(run_with_signals(engine, run_id, &trial.scenario, log)).await;
    same(&case, &outcome(&case, run, log), &expected);
    case.equal("what was done", done(log), effects);
    Verdict::Holds
}

/// Checks that a tool result or model response becomes an error if it exceeds the maximum size of a journal record. The
/// call must not be repeated.
///
/// # Panics
///
/// See [`replaying`].
pub async fn record_limit(engine: &impl DurableEngine) -> Verdict {
    if engine.record_limit().is_none_or(|limit| limit >= crate::tools::HUGE) {
        return Verdict::NotApplicable("records may have three megabytes");
    }
    for (kind, source) in [(Kind::HugeResult, "read"), (Kind::HugeAnswer, "model")] {
        let trial = Trial::new(engine, "record_limit", kind);
        let (_, effects) = trial.expected().await;
        let first = trial.run().await;
        let error = match (kind, &first) {
            (Kind::HugeResult, Ok(result)) => {
                let blocks = result.messages.iter().flat_map(|message| &message.content);
                let mut errors = blocks.filter_map(|block| match block {
                    ContentBlock::ToolResult { is_error: true, content, .. } => Some(content),
                    _ => None,
                });
                format!("{:?}", trial.case.some("the model sees no error", errors.next_back()))
            }
            (Kind::HugeAnswer, Err(failure)) => {
                trial.case.equal("the kind", failure.kind.as_deref(), Some("Provider"));
                failure.text.clone()
            }
            (_, other) => trial.case.fail(format_args!("the run ends with {other:?}")),
        };
        let names_source = error.contains(source);
        trial.case.holds(names_source, format_args!("it does not name the {source}: {error}"));
        trial.case.equal("what was done", done(&trial.log), effects);
        trial.replayed(&first).await;
    }
    Verdict::Holds
}

/// Checks that the size of the journal is proportional to the number of turns. A journal that stored the whole
/// conversation at each turn would grow with the square of the number of turns.
///
/// # Panics
///
/// See [`replaying`].
pub async fn growth(engine: &impl DurableEngine) -> Verdict {
    let mut sizes = Vec::new();
    for turns in [10, 20, 40] {
        let trial = Trial::new(engine, "growth", Kind::Long(turns));
        trial.case.ok(trial.run().await);
        match trial.case.soon(engine.journal_bytes(&trial.run_id)).await {
            Some(bytes) => sizes.push(bytes),
            None => {
                return Verdict::NotApplicable("the engine does not say how large a journal is");
            }
        }
    }
    let case = Case::new("durable engine", "growth", "40 turns");
    let [short, middle, long] = *sizes.as_slice() else { case.fail("no sizes") };
    let (first, then) = (middle.saturating_sub(short), long.saturating_sub(middle));
    case.holds(first > 0, format_args!("journals of {sizes:?} bytes"));
    // If the growth is linear, `then` is twice as large as `first`. If it is quadratic, `then` is four times as large.
    case.holds(
        then * 10 <= first * 27,
        format_args!("10, 20 and 40 turns of one size take {sizes:?} bytes"),
    );
    Verdict::Holds
}

/// Checks that a run that continues as a new execution keeps its state and its limits.
///
/// # Panics
///
/// See [`replaying`].
pub async fn continuing(engine: &impl DurableEngine) -> Verdict {
    if !engine.continues_as_new() {
        return Verdict::NotApplicable("runs do not continue as new");
    }
    for kind in [Kind::Continues, Kind::ContinuesToLimit] {
        let trial = Trial::new(engine, "continuing", kind);
        let _ = trial.like_local().await;
        let ends = trial.log.ends();
        let ends = ends.iter().filter(|(_, text)| text.contains("continue as new")).count();
        trial.case.holds(ends >= 2, format_args!("it continued {ends} times, and not twice"));
    }
    Verdict::Holds
}

/// Checks that a waiting run can be cancelled. Its failure must report the cancellation, and the run must have no
/// further effects.
///
/// # Panics
///
/// See [`replaying`].
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

/// Runs each scenario with the engine and without an engine. Both runs must have the same result or error, and the same
/// model calls and tool calls.
async fn all_like_local(engine: &impl DurableEngine, part: &str, kinds: &[Kind]) -> Verdict {
    for kind in kinds {
        let _ = Trial::new(engine, part, *kind).like_local().await;
    }
    Verdict::Holds
}
