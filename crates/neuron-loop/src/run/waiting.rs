//! Waiting for an approval inside a run, through its handle or a durable engine.

use neuron_types::{ApprovalDecisions, DurableContext, DurableError, LoopError, PendingApproval};

use super::begin::{accept, sign};
use crate::ledger::Ledger;
use crate::parts::{Env, or_cancelled};

/// Maximum number of consecutive signals that contain no valid decisions. The limit ends a run whose engine returns the
/// same signal forever. A replay counts the same signals.
const MOST_UNFIT: usize = 1000;

/// Waits until all pending calls have a decision.
///
/// # Errors
///
/// - [`LoopError::ApprovalRequired`] if decisions cannot arrive inside the run, or did not arrive in time.
/// - [`LoopError::Durable`] after [`MOST_UNFIT`] consecutive signals that contain no valid decisions.
/// - Other errors come from the engine.
pub(super) async fn wait_for_decisions(
    env: &Env<'_>,
    ledger: &mut Ledger,
) -> Result<(), LoopError> {
    let parts = env.parts;
    for _ in 0..MOST_UNFIT {
        let Some(pending) = ledger.pending() else {
            return Ok(());
        };
        // Several people may have decided, each on other calls.
        let mut accepted: Option<ApprovalDecisions> = None;
        for decisions in next_signal(env, &pending).await? {
            let all = match &accepted {
                // FAULT of several people only the last one decides: the arm -> `Some(_) => decisions,`
                //     (agent::handle_refuses_decisions_that_fit_no_pending_call)
                Some(accepted) => accepted.clone().merge(decisions),
                None => decisions,
            };
            // FAULT decisions that a signal brings are not checked: `accept(parts, ledger, &all)` -> `Ok::<_,
            //     neuron_types::ApprovalError>(drop(ledger.decide(&all)))`
            match accept(parts, ledger, &all) {
                // FAULT wrong decisions that a signal brings end the run: add `Err(error) => return
                //     Err(error.into()),`
                Ok(()) => accepted = Some(all),
                Err(error) => tracing::warn!(
                    run_id = pending.run_id,
                    %error,
                    "the decisions do not match the pending calls; the run keeps waiting"
                ),
            }
        }
        if accepted.is_some() {
            return Ok(());
        }
        // Signed again, because an expired signature would make every later decision fail.
        sign(parts, ledger);
    }
    let text = format!(
        "{MOST_UNFIT} signals in a row do not fit the pending calls: does the engine consume them?"
    );
    Err(DurableError::Other(text.into()).into())
}

/// Waits for the next signal, or for the handle. Returns no decisions if the signal cannot be parsed.
async fn next_signal(
    env: &Env<'_>,
    pending: &PendingApproval,
) -> Result<Vec<ApprovalDecisions>, LoopError> {
    if let Some(handle) = env.handle.filter(|_| env.waits) {
        let decided = async { Ok(handle.decided(pending).await) };
        // FAULT a run that finishes its turn waits for a person: `env.stop` -> `env.token`
        //     (agent::decision_and_cancellation_wake_a_run_that_waits_for_approval)
        return or_cancelled(env.stop, decided).await;
    }
    let missing = || {
        let mut pending = pending.clone();
        pending.effects = env.parts.durability.map(|it| it.known_effects()).unwrap_or_default();
        LoopError::ApprovalRequired(Box::new(pending))
    };
    let engine = env.parts.durability.zip(env.config().approval_signal.as_ref());
    // FAULT a run with a signal ends where calls wait: add `let engine = engine.filter(|_|
    //     !env.config().pause_for_approval);`
    let (engine, signal) = engine.ok_or_else(missing)?;
    let wait = async { Ok(engine.wait_for_approval(pending, &signal.name, signal.timeout).await) };
    let unreadable = match or_cancelled(env.stop, wait).await? {
        Ok(Some(decisions)) => return Ok(vec![decisions]),
        // FAULT a run goes on although nobody decided in time: `Err(missing())` ->
        //     `Ok(vec![ApprovalDecisions::approve_all(pending)])`
        Ok(None) | Err(DurableError::SignalTimeout) => return Err(missing()),
        Err(DurableError::Other(error)) => error.downcast::<serde_json::Error>(),
        Err(error) => return Err(error.into()),
    };
    let error = unreadable.map_err(DurableError::Other)?;
    tracing::warn!(
        run_id = pending.run_id,
        line = error.line(),
        column = error.column(),
        "the signal has no decisions on the pending calls; the run keeps waiting"
    );
    Ok(Vec::new())
}
