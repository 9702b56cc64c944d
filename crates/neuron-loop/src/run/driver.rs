//! The driver of a run. It asks the ledger, which is the conversation with the run's state, for the next step. It
//! performs the step, and records the outcome in the ledger. Because all state is in the ledger, the driver can be
//! dropped at any await and called again.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::pin::pin;

use neuron_types::{
    AgentResult, CancelMode, DurableContext, DurableError, HookEvent, LoopError, Message,
    OperationKind, Outcome, Scopes, StorageError,
};
use scopeguard::ScopeGuard;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::begin::{begin, sign};
use super::result::{RunResult, Step, agent_result};
use super::start::{Live, Progress};
use super::turn::{Done, call_and_run, open_turn, run_tools};
use super::typed::typed_output;
use super::waiting::wait_for_decisions;
use crate::conversation::random_id;
use crate::ledger::{Ledger, Phase};
use crate::parts::{Env, Parts, Reader, Turn, check};
use crate::tools::{Prefetch, Results};

/// The outcome of a run or a step, before the output of a typed run is deserialised.
pub(crate) type Driven = Result<Step<Option<Value>>, LoopError>;

/// Drives a run to its end. If `reader` receives steps, returns after the next step. Returns `None` if the run has
/// already ended.
pub(crate) async fn drive(
    parts: Parts<'_>,
    ledger: &mut Ledger,
    live: &mut Live<'_>,
    reader: Reader<'_>,
) -> Option<Driven> {
    if let Progress::New = live.progress
        && let Err(error) = begin(parts, ledger, live)
    {
        live.progress = Progress::Over;
        if let Some(handle) = &live.handle {
            handle.0.set_over(true);
        }
        return Some(Err(error));
    }
    let Live { ctx, handle, waits, typed, scope, progress, .. } = live;
    let (ctx, handle) = (&**ctx, handle.as_ref().map(|steered| &steered.0));
    // Boxed to keep the future of a run without a typed output small.
    let typed = typed.map(|output| Box::new(typed_output(output, parts)));
    let stop = match handle {
        Some(handle) => Cow::Owned(handle.attach(&ctx.cancellation_token)),
        None => Cow::Borrowed(&ctx.cancellation_token),
    };
    // With `AfterTurn` the token for work is never cancelled. Only `stop` ends the run, between two turns.
    let token = match parts.config().cancel_mode {
        // FAULT a run that should finish its turn does not: `new()` -> `clone(&stop)`
        CancelMode::AfterTurn => Cow::Owned(CancellationToken::new()),
        _ => Cow::Borrowed(&*stop),
    };
    let (frame, frame_size) = parts.frame(typed.as_ref().map(|typed| &typed.1));
    let env = Env {
        parts,
        frame,
        frame_size,
        output: typed.as_ref().map(|typed| &typed.0),
        ctx,
        stop: &stop,
        token: &token,
        run: scope.as_ref()?,
        pauses: parts.pauses(*waits),
        handle,
        waits: *waits,
        reader,
    };
    let env = &env;
    // Also runs if the future is dropped, so that the history is valid and the tokens are counted in every case.
    let ledger = &mut **scopeguard::guard(ledger, |ledger| {
        env.count_tool_usage(ledger);
        // FAULT a run that is left has results without a reason: without the line
        ledger.explain_missing(None);
    });
    if let Progress::New = progress {
        let (session_id, request) = (&*ctx.session_id, &env.request(ledger.messages()));
        // A run that is already cancelled gets empty scopes.
        // FAULT a run that is cancelled before has a scope: `check(env.stop).is_ok()` -> `true`
        let scopes = match check(env.stop).is_ok() {
            true => env.turn(ledger).open(OperationKind::Run { session_id, request }),
            false => Scopes::default(),
        };
        *progress = Progress::Open { scopes, is_announced: false };
    }
    if let Progress::Open { scopes, is_announced } = progress {
        let ended = scopes.run(pin!(drive_ledger(env, ledger, is_announced))).await;
        let outcome = match ended {
            Ok(Some(step)) => return Some(Ok(*step)),
            Ok(None) => {
                let ending = ledger.end_run();
                ending.map(|ending| RunResult::new(ledger, ending)).ok_or(LoopError::Cancelled)
            }
            // What was not stored is still in memory, so a run with `Start::Continue` goes on here.
            // FAULT an answer that was not stored is lost: without the arm
            //     (store::run_that_was_not_stored_continues_where_it_was)
            Err(error) if is_unstored(&error, ledger.phase()) => Err(error),
            Err(error) => {
                // FAULT a run that failed is not over: without the line
                //     (lifecycle::continue_run_starts_without_a_new_message)
                ledger.end_run();
                Err(error)
            }
        };
        if let Some(handle) = handle {
            // FAULT a run that failed takes messages: without the statement
            //     (ends::message_is_taken_or_comes_back_however_the_run_ends)
            handle.set_over(true);
        }
        let (scopes, is_announced) = (std::mem::take(scopes), *is_announced);
        *progress = Progress::Ending { scopes, is_announced, is_told: false, outcome };
    }
    // The state of a failed run is stored here. After a storage error the write is not repeated. A run that waits for
    // an approval was already stored.
    if let Progress::Ending { is_told: false, outcome: Err(error), .. } = progress
        && !matches!(error, LoopError::Storage(_) | LoopError::ApprovalRequired(_))
        // FAULT the end of a run that failed is not stored: `parts.session` -> `parts.session.filter(|_| false)`
        && let Some(session) = parts.session
        && let Err(error) = Box::pin(session.write(ledger, false)).await
    {
        tracing::warn!(%error, "the conversation of the failed run was not stored");
    }
    // `is_told` is set before the hooks run. If this future is dropped and `drive` is called again, the hooks are not
    // notified twice.
    if let Progress::Ending { scopes, is_announced, is_told, outcome } = progress
        && !std::mem::replace(is_told, true)
        && (parts.durability.is_some() || !parts.definition.hooks.is_empty())
    {
        let result = outcome.as_ref().map(|result| agent_result(ledger, result));
        let result = result.as_ref().map_err(|error| *error);
        scopes.run(conclude(env.turn(ledger), *is_announced, result)).await;
        // FAULT the run's scope is not ended: `std::mem::take(scopes).end(` -> `drop(`
        std::mem::take(scopes).end(match result {
            Ok(result) => Outcome::Run(result),
            Err(error) => Outcome::Error(error),
        });
    }
    match std::mem::replace(progress, Progress::Over) {
        Progress::Ending { outcome, .. } => Some(outcome.map(Step::Ended)),
        _ => None,
    }
}

/// Returns `true` if a write of the run's session failed, and the same write may succeed later. After a conflict it
/// never does.
fn is_unstored(error: &LoopError, phase: &Phase) -> bool {
    // In other phases, a layer has returned the error.
    let is_place = matches!(phase, Phase::TurnStart | Phase::Batch(_) | Phase::Ended(_));
    let is_conflict = matches!(error, LoopError::Storage(StorageError::Conflict { .. }));
    is_place && matches!(error, LoopError::Storage(_)) && !is_conflict
}

/// The messages that a run took at one place, in a journal.
#[derive(Deserialize)]
#[serde(untagged)]
enum Steering {
    Nothing(Vec<Message>),
    Sent {
        /// Tells the process that recorded them from a replay.
        by: String,
        messages: Vec<Message>,
    },
}

/// Drives the run to its end, and then returns `None`. If the reader receives steps, returns each step when it has
/// ended.
async fn drive_ledger(
    env: &Env<'_>,
    ledger: &mut Ledger,
    is_announced: &mut bool,
) -> Result<Done, LoopError> {
    if !*is_announced {
        announce(env.turn(ledger), is_announced).await?;
    }
    let stops = matches!(env.reader, Reader::Step);
    let mut results = Results::new();
    loop {
        let advanced = pin!(advance(env, ledger, &mut results)).await;
        match advanced {
            Ok(ControlFlow::Break(())) => return Ok(None),
            Ok(ControlFlow::Continue(Some(step))) if stops => return Ok(Some(step)),
            Ok(ControlFlow::Continue(_)) => {}
            Err(error) if ledger.land_on(&error, env.config()) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Performs the next step of the run. Returns `Break` if the run has ended. If the current phase allows it, first adds
/// the messages that were sent to the run, and stores the conversation.
async fn advance(
    env: &Env<'_>,
    ledger: &mut Ledger,
    results: &mut Results,
) -> Result<ControlFlow<(), Done>, LoopError> {
    let has_ended = matches!(ledger.phase(), Phase::Ended(_));
    if steer(env, ledger, has_ended).await? && has_ended {
        // A message that arrived after the last model call makes the run continue.
        return Ok(ControlFlow::Continue(None));
    }
    if matches!(ledger.phase(), Phase::TurnStart | Phase::Batch(_) | Phase::Ended(_)) {
        // FAULT waiting calls are stored before they are signed: after the next
        //     (store::run_that_waits_for_an_approval_is_stored_as_waiting)
        if ledger.waits() {
            // Signed before the conversation is stored, because any process may decide on stored calls.
            sign(env.parts, ledger);
        }
        env.store(ledger).await?;
    }
    let opens = *ledger.phase() == Phase::TurnStart;
    if opens && let Some(compacted) = pin!(open_turn(env, ledger)).await? {
        return Ok(ControlFlow::Continue(Some(compacted)));
    }
    let done = match ledger.phase() {
        // `open_turn` has already checked this for a new turn.
        Phase::TurnStart | Phase::Calling | Phase::Landing { .. } => {
            if !opens {
                check(env.stop)?;
            }
            pin!(call_and_run(env, ledger, results)).await?
        }
        Phase::Batch(_) if ledger.waits() => {
            wait_for_decisions(env, ledger).await?;
            None
        }
        Phase::Batch(_) => {
            let mut prefetch = Prefetch::default();
            run_tools(env, ledger, &mut prefetch, results).await?
        }
        Phase::Ended(_) | Phase::Idle => return Ok(ControlFlow::Break(())),
    };
    Ok(ControlFlow::Continue(done))
}

/// Adds the messages that were sent to the run. Returns `true` if any were added. If none were sent and the run has
/// ended, it takes no more messages.
async fn steer(env: &Env<'_>, ledger: &mut Ledger, has_ended: bool) -> Result<bool, LoopError> {
    let Some(handle) = env.handle.filter(|_| ledger.takes_messages()) else {
        return Ok(false);
    };
    let Some(durability) = env.parts.durability else {
        return Ok(ledger.steer(handle.take_or_close(has_ended)));
    };
    // The messages are journaled, so that a replay adds the same messages at the same place.
    let failed = |error| LoopError::from(DurableError::Other(Box::new(error)));
    let (run, messages_before) = (&ledger.tally().run, ledger.messages().len());
    // FAULT all messages to a run have one name in its journal: `"steering {}.{}.{messages_before}", run.number,
    //     run.requests` -> `"steering {}", (run.number, messages_before).0`
    //     (ends::message_to_a_durable_run_or_its_replay_is_added_once_or_comes_back)
    let name = format!("steering {}.{}.{messages_before}", run.number, run.requests);
    let put_back = |sent| handle.put_back(sent);
    // FAULT a message is lost while it is journaled: `, put_back)` -> `, drop)`
    //     (ends::message_to_a_durable_run_or_its_replay_is_added_once_or_comes_back)
    let sent = scopeguard::guard(handle.take_or_close(has_ended), put_back);
    let by = random_id("steering");
    let mut value = serde_json::to_value(&*sent).map_err(failed)?;
    if !sent.is_empty() {
        value = json!({ "by": by, "messages": value });
    }
    let value = durability.record(&name, value).await?;
    let messages = match serde_json::from_value::<Steering>(value).map_err(failed)? {
        Steering::Sent { by: recorded, messages } => {
            // A replay adds the messages of its journal. What was sent since waits for the next turn.
            // FAULT a replay loses what was sent since: `recorded == by` -> `true`
            //     (ends::message_to_a_durable_run_or_its_replay_is_added_once_or_comes_back)
            if recorded == by {
                ScopeGuard::into_inner(sent);
            }
            messages
        }
        Steering::Nothing(messages) => messages,
    };
    // The journal may have messages where none were sent now.
    if has_ended || !messages.is_empty() {
        handle.set_over(messages.is_empty());
    }
    Ok(ledger.steer(messages))
}

/// Notifies the hooks that the run starts. `is_announced` is set if they must also be notified of its end.
async fn announce(turn: Turn<'_>, is_announced: &mut bool) -> Result<(), LoopError> {
    turn.dispatch(HookEvent::SessionStart { session_id: &turn.ctx.session_id }).await?;
    // FAULT a run that is cancelled before is announced: without the line
    check(turn.stop)?;
    *is_announced = true;
    turn.dispatch(HookEvent::RunStart { run_id: &turn.run.run_id }).await?;
    Ok(())
}

/// Notifies the hooks and the durable engine that the run ended with `result`.
async fn conclude(turn: Turn<'_>, is_announced: bool, result: Result<&AgentResult, &LoopError>) {
    // FAULT the engine hears of the end of what was no run: add `if !is_announced && let Some(durability) =
    //     turn.parts.durability { durability.run_ended(result).await; }`
    // FAULT the session ends before the run: after the next
    if is_announced {
        // FAULT the end of a run is not told: without the line
        turn.notify(HookEvent::RunEnd { result }).await;
        if let Some(durability) = turn.parts.durability {
            // FAULT the engine does not hear how a run ended: without the line
            durability.run_ended(result).await;
        }
    }
    turn.notify(HookEvent::SessionEnd { session_id: &turn.ctx.session_id }).await;
}
