//! The beginning of a run, or of a step that continues a run.

use std::sync::Mutex;

use chrono::{DateTime, Utc};
use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalError, Durability, DurableContext, LoopError,
    ResumedApproval, Start, ToolContext, UsageMeter,
};

use super::Live;
use crate::conversation::random_id;
use crate::ledger::Ledger;
use crate::parts::{EnclosingRun, Parts, RunScope, add_budget, depth_in};

/// Prepares the conversation for a run, according to its [`Start`]. Does nothing for a run that has begun.
///
/// # Errors
///
/// [`LoopError::Approval`] if the decisions do not match the pending calls, or if these calls were already decided in
/// the session. Other errors if the conversation cannot be continued. After an error no run has begun.
pub(crate) fn begin(
    parts: Parts<'_>,
    ledger: &mut Ledger,
    live: &mut Live<'_>,
) -> Result<(), LoopError> {
    // A call that had begun may repeat only if a second execution does no harm.
    ledger.recover(|name| {
        let tool = parts.definition.tools.get(name);
        let effect = tool.map(|tool| tool.effect()).unwrap_or_default();
        // FAULT an interrupted call of any tool runs again: `effect.may_repeat()` -> `true || effect.may_repeat()`
        effect.may_repeat()
    });
    let Some(start) = live.start.take() else {
        return Ok(());
    };
    let run_id = || run_id(&live.ctx, parts.durability);
    let is_new =
        |decided: &Ledger| parts.session.map_or(Ok(()), |session| session.check_decisions(decided));
    match start {
        Start::Message(message) => {
            ledger.begin(run_id());
            ledger.add_message(message);
        }
        Start::Continue if live.waits && ledger.waits() => {
            // These calls are signed again, which would also cover a changed call. The old signatures are therefore
            // checked, but an expired signature is accepted.
            // FAULT a changed call is signed again: without the line
            //     (store::changed_pending_call_in_a_session_is_not_signed)
            verify(parts, ledger, Some(&|| DateTime::<Utc>::MIN_UTC))?;
        }
        Start::Continue => {
            // They make an interrupted run, or a run that has ended, go on with what was injected.
            // FAULT a message before a run that has ended begins no other: without the line
            //     (ends::message_behind_a_stored_answer_begins_another_run)
            live.injected.drain(..).for_each(|message| ledger.push(message));
            ledger.begin_continued(run_id())?;
        }
        Start::Decide(decisions) => {
            accept(parts, ledger, &decisions)?;
            is_new(ledger).inspect_err(|_| {
                // FAULT decisions that were refused as used stay: without the line
                //     (store::pending_approval_of_an_earlier_call_is_rejected)
                ledger.undecide();
            })?;
        }
        Start::Resume { pending, decisions } => {
            let mut other = Ledger::from_pending(*pending)?;
            // The other conversation replaces the ledger only after all checks, so an error leaves the ledger
            // unchanged.
            accept(parts, &mut other, &decisions)?;
            // FAULT a copy of an approval is used twice: without the line
            //     (store::pending_approval_of_an_earlier_call_is_rejected)
            is_new(&other)?;
            *ledger = other;
        }
        Start::Snapshot(snapshot) => {
            let mut other = Ledger::from_snapshot(*snapshot)?;
            // FAULT a new execution begins another run: `begin_continued(run_id())?` -> `begin(run_id())`
            other.begin_continued(run_id())?;
            *ledger = other;
        }
    }
    // The caller injected these messages before the run began.
    for message in live.injected.drain(..) {
        ledger.add_message(message);
    }
    // FAULT the budget of a run gives way to that of its agent:
    //     `live.budget.as_ref().or(parts.definition.budget.as_ref())` ->
    //     `parts.definition.budget.as_ref().or(live.budget.as_ref())`
    //     (budget::budget_of_a_run_replaces_the_budget_of_its_agent)
    let own_budget = live.budget.as_ref().or(parts.definition.budget.as_ref());
    let mut extensions = live.ctx.extensions.clone();
    // The resumed approval belongs to the agent that runs with this context, not to agents inside its calls.
    // FAULT a decision reaches agents inside the call: without the line
    extensions.remove::<ResumedApproval>();
    let (budget, pauses) = (add_budget(own_budget, &mut extensions), parts.pauses(live.waits));
    EnclosingRun::extend_context(parts.definition, depth_in(&live.ctx), pauses, &mut extensions);
    let run = &ledger.tally().run;
    live.scope = Some(RunScope {
        run_id: run.id.clone(),
        key: format!("{}/{}/", run.id, run.number),
        extensions,
        budget,
        tool_meter: UsageMeter::default(),
        responses: run.turns.into(),
        spare: Mutex::default(),
    });
    Ok(())
}

/// Checks approval decisions against the pending calls, and records the decisions if they are valid.
///
/// # Errors
///
/// Returns an error if the decisions do not match the calls, a signature is invalid, or a tool rejects edited
/// arguments. Nothing is recorded then.
pub(super) fn accept(
    parts: Parts<'_>,
    ledger: &mut Ledger,
    decisions: &ApprovalDecisions,
) -> Result<(), ApprovalError> {
    let engine = parts.durability.map(|engine| || engine.now());
    // FAULT a decision on a call that nobody signed is carried out: without the line
    //     (approval::signed_agent_rejects_calls_it_did_not_sign)
    verify(parts, ledger, engine.as_ref().map(|time| time as &dyn Fn() -> _))?;
    let pending = ledger.pending().ok_or(ApprovalError::NothingPending)?;
    // FAULT wrong decisions are carried out: `?` -> `.ok()`
    pending.check(decisions)?;
    for pending in &pending.calls {
        if let (Some(ApprovalDecision::ApproveEdited { input }), Some(tool)) =
            (decisions.of(pending), parts.definition.tools.get(&pending.call.name))
        {
            // FAULT changed arguments are not checked: add `continue;`
            tool.check_input(input).map_err(|error| ApprovalError::InvalidInput {
                id: pending.call.id.clone(),
                reason: error.to_string(),
            })?;
        }
    }
    ledger.decide(decisions);
    Ok(())
}

/// Checks the signatures of the pending calls if the agent has a signer. `time` returns the current time, to find
/// expired signatures. `None` selects the system clock.
fn verify(
    parts: Parts<'_>,
    ledger: &Ledger,
    time: Option<&dyn Fn() -> DateTime<Utc>>,
) -> Result<(), ApprovalError> {
    let Some(signer) = &parts.definition.signer else {
        return Ok(());
    };
    ledger.pending_calls().iter().try_for_each(|pending| {
        let tool = parts.definition.tools.definition(&pending.call.name);
        signer.verify(&ledger.tally().run.id, pending, tool, time)
    })
}

/// Signs the calls that wait for an approval if the agent has a signer.
pub(super) fn sign(parts: Parts<'_>, ledger: &mut Ledger) {
    let Some(signer) = &parts.definition.signer else {
        return;
    };
    let engine = parts.durability.map(|engine| || engine.now());
    let time = engine.as_ref().map(|time| time as &dyn Fn() -> _);
    ledger.sign_waiting(|run_id, pending| {
        let tool = parts.definition.tools.definition(&pending.call.name);
        signer.sign(run_id, pending, tool, time)
    });
}

/// Returns the id of the run. The first of these ids that exists is used:
///
/// - the run id of the durable engine,
/// - the idempotency key of the outer tool call, which differs from the id of the parent run,
/// - the run id of the caller,
/// - a random id.
fn run_id(ctx: &ToolContext, durability: Option<&Durability<'_>>) -> String {
    // FAULT a run does not take the id of its context: without `, &*ctx.run_id`
    let of_context = [&*ctx.idempotency_key, &*ctx.run_id].into_iter().find(|id| !id.is_empty());
    let id = durability.and_then(DurableContext::run_id).or(of_context);
    id.map_or_else(|| random_id("run"), str::to_owned)
}
