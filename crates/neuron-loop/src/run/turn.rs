//! Opens a turn, calls the model, and runs the tools of its response.

use std::pin::pin;

use neuron_types::{
    CompletionResponse, DurableContext, HookEvent, LoopError, ProviderError, Role, RunView,
    StopReason, StreamEvent,
};
use serde_json::Value;

use super::Step;
use crate::context::{compact_if_needed, make_room, remind};
use crate::conversation::snapshot;
use crate::ledger::{AnswerView, Ledger, Phase, may_be_cut_off};
use crate::model::call_model;
use crate::parts::{CallableTools, Env, Reader, check};
use crate::tools::{Prefetch, Results, run_batch};

/// The finished step, for a reader that receives steps. `None` if nothing is to be reported.
pub(super) type Done = Option<Box<Step<Option<Value>>>>;

/// Opens a turn. Checks the limits, notifies the hooks, and compacts the history if necessary. Returns a step if the
/// history was compacted, and otherwise `None`.
pub(super) async fn open_turn(env: &Env<'_>, ledger: &mut Ledger) -> Result<Done, LoopError> {
    // FAULT a run goes on between two turns: without the line
    //     (cancel_after_turn::cancelled_turn_finishes_its_response_and_tools)
    check(env.stop)?;
    // FAULT system messages alone go to the model: `iter().all(|message| message.role == Role::System)` -> `is_empty()`
    if ledger.messages().iter().all(|message| message.role == Role::System) {
        let text = "the conversation has only system messages: there is nothing to answer";
        return Err(ProviderError::InvalidRequest(text.into()).into());
    }
    // FAULT a limit comes before a new execution: after the next
    if let Some(durability) = env.parts.durability.filter(|engine| engine.should_continue_as_new())
    {
        let state = snapshot(ledger, durability.known_effects())?;
        durability.continue_as_new(state).await?;
    }
    // FAULT a turn that a limit forbids is announced: after the next
    ledger.tally().run.check_before_call(env.config())?;
    // FAULT a history is compacted before its turn is announced: after the next
    announce(env, ledger).await?;
    let compacted = compact_if_needed(env, ledger).await?;
    // FAULT a turn begins again after a compaction: the line -> `if compacted.is_none() { ledger.open_call(); }`
    ledger.open_call();
    Ok(compacted.map(compaction))
}

fn compaction((old_tokens, new_tokens): (usize, usize)) -> Box<Step<Option<Value>>> {
    Box::new(Step::Compacted { old_tokens, new_tokens })
}

/// Notifies the hooks that a turn begins.
async fn announce(env: &Env<'_>, ledger: &mut Ledger) -> Result<(), LoopError> {
    ledger.begin_turn();
    let turn = env.turn(ledger);
    turn.dispatch(HookEvent::LoopIteration { turn: turn.number }).await?;
    Ok(())
}

/// Calls the model, stores its response, and runs the tools that it calls. If a limit was reached and this is the last
/// model call, no tools run.
///
/// # Errors
///
/// Returns any error that ends the run. Also returns limit errors after which one last model call may follow.
pub(super) async fn call_and_run(
    env: &Env<'_>,
    ledger: &mut Ledger,
    results: &mut Results,
) -> Result<Done, LoopError> {
    let is_last = matches!(ledger.phase(), Phase::Landing { .. });
    if let Phase::Landing { is_open: false, .. } = ledger.phase() {
        announce(env, ledger).await?;
    } else if !is_last {
        // Checked again, because the compaction may have used tokens.
        // FAULT the tokens of a compaction count in the next turn only: without the line
        ledger.tally().run.check_before_call(env.config())?;
    }
    remind(env, ledger);
    let mut prefetch = Prefetch::default();
    let (answer, tools) = pin!(call_model(env, ledger, &mut prefetch)).await;
    // A last call is not repeated, so a compaction would have no use.
    // FAULT a conversation is compacted for a last call: without `&& !is_last`
    if overflows(&answer) && !is_last {
        if let Some(compacted) = make_room(env, ledger).await? {
            prefetch.give_up(env.turn(ledger), answer.as_ref().err()).await;
            ledger.repeat_call(answer.is_ok());
            let cut_off = || ProviderError::ContextWindowExceeded("the answer was cut off".into());
            let error = answer.err().unwrap_or_else(|| cut_off().into()).into();
            env.reader.send(|| StreamEvent::Reset { attempt: 2, error }).await;
            return Ok(Some(compaction(compacted)));
        }
    } else {
        // FAULT room is made once in a run: without the line
        //     (overflow::second_overflow_in_a_row_is_an_error_until_a_response)
        ledger.note_fit();
    }
    let taken = answer.and_then(|response| take_answer(env, ledger, response, &tools));
    let progress = match taken {
        Ok(()) if ledger.batch().is_some() => {
            // Stored before the tools run, so that a crash leaves the calls recorded as begun.
            // FAULT calls begin before they are stored: `prefetch.beside(env.store(ledger)).await` -> `Ok::<(),
            //     LoopError>(())`
            let stored = prefetch.beside(env.store(ledger)).await;
            match stored {
                Ok(()) => run_tools(env, ledger, &mut prefetch, results).await,
                Err(error) => Err(error),
            }
        }
        taken => taken.map(|()| None),
    };
    // FAULT early calls that must not run have no end: without the line
    prefetch.give_up(env.turn(ledger), progress.as_ref().err()).await;
    env.count_tool_usage(ledger);
    progress
}

/// Adds a response of the model to the conversation, and decides how the run continues. `tools` are the tools that the
/// request offered.
fn take_answer(
    env: &Env<'_>,
    ledger: &mut Ledger,
    response: CompletionResponse,
    tools: &CallableTools<'_>,
) -> Result<(), LoopError> {
    // FAULT whole calls of an answer that was cut off do not run: `any(|call| tools.is_invalid(call))` ->
    //     `next().is_some()`
    let is_cut_off = may_be_cut_off(&response.stop_reason)
        && response.message.tool_uses().any(|call| tools.is_invalid(call));
    let (output, frame, has_targets) = (env.output, env.counted_frame(), tools.has_targets());
    let excluded = tools.excluded_from(ledger.messages(), &response.message, output);
    let (config, run) = (env.config(), &ledger.tally().run);
    // FAULT an empty answer is asked for beyond a limit: without `&& run.check_before_call(config).is_ok()`
    let may_ask_again =
        run.output_attempts < config.output_retries && run.check_before_call(config).is_ok();
    let excluded = &excluded;
    let view = AnswerView { is_cut_off, excluded, has_targets, may_ask_again, output, frame };
    ledger.take_answer(response, view)
}

/// Runs the tools that the last response calls. Returns the finished step if the reader receives steps. `results` has the
/// results of calls that ended before the step waited for an approval.
///
/// Returns `None` for other readers, if calls wait for an approval, or if the run has its output.
pub(super) async fn run_tools<'a>(
    env: &'a Env<'a>,
    ledger: &mut Ledger,
    prefetch: &mut Prefetch<'a>,
    results: &mut Results,
) -> Result<Done, LoopError> {
    let calls = match env.reader {
        Reader::Step => ledger.open_batch().map(|(calls, _)| calls.to_calls()),
        Reader::Nobody | Reader::Stream(_) => None,
    };
    // Boxed, so that the future of a run has no room for its tools while it waits for the model.
    Box::pin(run_batch(env, ledger, prefetch, results)).await?;
    if ledger.waits() {
        return Ok(None);
    }
    let mut results = std::mem::take(results);
    if env.output.is_some_and(|rules| ledger.settle_output(rules, None)) {
        return Ok(None);
    }
    // A call that ended in an earlier execution of the run has its result only in the history.
    let mut result = |index| {
        let ended = results.iter().position(|(ended, _)| *ended == index);
        let seen = || ledger.open_batch().and_then(|(calls, _)| calls.result(index));
        // FAULT a step tells no more of results than the model sees: `ended.map(` -> `ended.filter(|_| false).map(`
        ended.map(|place| results.swap_remove(place).1).or_else(seen).unwrap_or_default()
    };
    let step = calls.map(|calls| {
        let results = (0..calls.len()).map(&mut result).collect();
        Box::new(Step::Tools { calls, results })
    });
    ledger.end_batch(|ledger, refused| {
        let run = &ledger.tally().run;
        let view = RunView::new(run.turns, run.tool_calls, &run.usage.total, ledger.messages());
        // FAULT a condition sees calls that were refused: without `.with_refused(refused)`
        //     (deferred_tools::refused_call_meets_no_stop_condition)
        let view = view.with_tools(env.run_tools()).with_refused(refused);
        // FAULT a condition to stop is not asked: `is_met(&view)` -> `false`
        env.parts.definition.stop_conditions.iter().any(|is_met| is_met(&view))
    });
    Ok(step)
}

/// Returns `true` if a model call did not fit into the context window. A response with tool calls returns `false`,
/// because its complete calls must run first. The next model call then does not fit and is handled.
fn overflows(answer: &Result<CompletionResponse, LoopError>) -> bool {
    answer.as_ref().map_or_else(
        |error| matches!(error, LoopError::Provider(ProviderError::ContextWindowExceeded(_))),
        |response| {
            response.stop_reason == StopReason::ContextWindowExceeded
                // FAULT what calls it made is forgotten of an answer that the window cut off: without the line
                && response.message.tool_uses().next().is_none()
        },
    )
}
