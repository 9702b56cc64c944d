//! The beginning of a run, or of a step that goes on with one.

use std::hash::{BuildHasher, Hasher, RandomState};

use chrono::{DateTime, Utc};
use neuron_types::{
    ApprovalDecision, ApprovalDecisions, ApprovalError, Durability, DurableContext, LoopError,
    Start, ToolContext, ToolEffect,
};

use super::{Live, SessionHandle};
use crate::conversation::{from_pending, from_snapshot};
use crate::ledger::Ledger;
use crate::parts::{Parts, RunScope};

/// Applies the start of a run to its conversation.
///
/// # Errors
///
/// [`LoopError::Approval`] when decisions do not fit, or the session has their outcome; errors of a run that cannot
/// continue. Then no run has begun.
pub(super) fn begin(
    parts: Parts<'_>,
    session: Option<&SessionHandle<'_>>,
    ledger: &mut Ledger,
    live: &mut Live<'_>,
) -> Result<(), LoopError> {
    ledger.recover(|name| {
        let tool = parts.definition.tools.get(name);
        let effect = tool.map(|tool| tool.effect()).unwrap_or_default();
        matches!(effect, ToolEffect::Pure | ToolEffect::Idempotent)
    });
    let Some(start) = live.start.take() else {
        return Ok(());
    };
    let ctx = &*live.ctx;
    let run_id = || run_id(ctx, parts.durability);
    match start {
        Start::Message(message) => {
            ledger.begin(run_id());
            ledger.add_message(message);
        }
        Start::Continue if live.waits && ledger.waits() => {
            // They are signed anew, so a changed question must not get this far. A life that is over is no reason.
            verify(parts, ledger, Some(&|| DateTime::<Utc>::MIN_UTC))?;
        }
        Start::Continue => ledger.begin_continued(run_id())?,
        Start::Decide(decisions) => {
            accept(parts, ledger, &decisions)?;
            let is_new = session.map_or(Ok(()), |session| session.check_decisions(ledger));
            is_new.inspect_err(|_| {
                ledger.undecide();
            })?;
        }
        Start::Resume { pending, decisions } => {
            let mut other = from_pending(*pending)?;
            accept(parts, &mut other, &decisions)?;
            session.map_or(Ok(()), |session| session.check_decisions(&other))?;
            *ledger = other;
        }
        Start::Snapshot(snapshot) => {
            let mut other = from_snapshot(*snapshot)?;
            other.begin_continued(run_id())?;
            *ledger = other;
        }
    }
    for message in live.injected.drain(..) {
        ledger.add_message(message);
    }
    let own_budget = live.budget.as_ref().or(parts.definition.budget.as_ref());
    live.scope = Some(RunScope::new(parts, ctx, ledger, own_budget, live.waits));
    Ok(())
}

/// Takes decisions that fit the calls that wait.
pub(super) fn accept(
    parts: Parts<'_>,
    ledger: &mut Ledger,
    decisions: &ApprovalDecisions,
) -> Result<(), ApprovalError> {
    let engine = parts.durability.map(|engine| || engine.now());
    verify(parts, ledger, engine.as_ref().map(|time| time as &dyn Fn() -> _))?;
    let pending = ledger.pending().ok_or(ApprovalError::NothingPending)?;
    pending.check(decisions)?;
    for pending in &pending.calls {
        let decision = decisions.get(&pending.call.id);
        if let (Some(ApprovalDecision::ApproveEdited { input }), Some(tool)) =
            (decision, parts.definition.tools.get(&pending.call.name))
        {
            tool.check_input(input).map_err(|error| ApprovalError::InvalidInput {
                id: pending.call.id.clone(),
                reason: error.to_string(),
            })?;
        }
    }
    ledger.decide(decisions);
    Ok(())
}

/// Checks the signatures of calls that are to be decided on, if the agent signs. Their lives are measured by `time`, and
/// by the system's clock without it.
fn verify(
    parts: Parts<'_>,
    ledger: &Ledger,
    time: Option<&dyn Fn() -> DateTime<Utc>>,
) -> Result<(), ApprovalError> {
    let Some(signer) = &parts.definition.signer else {
        return Ok(());
    };
    ledger.pending_calls().try_for_each(|pending| {
        let tool = parts.definition.tools.definition(&pending.call.name);
        signer.verify(&ledger.tally.run.id, pending, tool, time)
    })
}

/// Signs the calls that wait, if the agent does.
pub(super) fn sign(parts: Parts<'_>, ledger: &mut Ledger) {
    let Some(signer) = &parts.definition.signer else {
        return;
    };
    let run_id = ledger.tally.run.id.clone();
    for pending in ledger.waiting_calls() {
        let tool = parts.definition.tools.definition(&pending.call.name);
        let engine = parts.durability.map(|engine| || engine.now());
        let time = engine.as_ref().map(|time| time as &dyn Fn() -> _);
        pending.signature = Some(signer.sign(&run_id, pending, tool, time));
    }
}

/// The engine's id if there is one; within a tool call, the key of that call, so that a nested run is told from the run
/// around it; else the caller's, or a new one.
fn run_id(ctx: &ToolContext, durability: Option<&Durability<'_>>) -> String {
    let of_context = [&*ctx.idempotency_key, &*ctx.run_id].into_iter().find(|id| !id.is_empty());
    // The hasher's keys are random for every `RandomState`.
    let random = || format!("run-{:016x}", RandomState::new().build_hasher().finish());
    let id = durability.and_then(DurableContext::run_id).or(of_context);
    id.map_or_else(random, str::to_owned)
}
