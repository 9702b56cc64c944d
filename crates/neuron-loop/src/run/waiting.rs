//! Waiting for a person inside a run, where a durable engine can.

use neuron_types::{ApprovalDecisions, DurableContext, DurableError, LoopError, PendingApproval};

use super::RunHandle;
use super::begin::{accept, sign};
use crate::ledger::Ledger;
use crate::parts::{Env, or_cancelled};

/// After so many signals in a row that do not fit the run ends. An engine that takes none, but fails or gives the same
/// one each time, would never let it go otherwise. A replay counts the same.
const MOST_UNFIT: usize = 1000;

/// Waits until the calls that wait are decided on.
///
/// # Errors
///
/// [`LoopError::ApprovalRequired`] if nobody can decide inside the run, or nobody decides in time;
/// [`LoopError::Durable`] after [`MOST_UNFIT`] signals; errors of the engine.
pub(super) async fn wait_for_decisions(
    env: &Env<'_>,
    handle: Option<&RunHandle>,
    ledger: &mut Ledger,
) -> Result<(), LoopError> {
    let parts = env.parts;
    for _ in 0..MOST_UNFIT {
        let Some(pending) = ledger.pending() else {
            return Ok(());
        };
        let decided = next_signal(env, handle, &pending).await?;
        match decided.map(|decisions| accept(parts, ledger, &decisions)) {
            None => {}
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => tracing::warn!(
                run_id = pending.run_id,
                %error,
                "decisions do not fit the calls that wait; the run waits again"
            ),
        }
        // A signature whose life is over would refuse every decision.
        sign(parts, ledger);
    }
    let text = format!(
        "{MOST_UNFIT} signals in a row do not fit the calls that wait: is one never taken?"
    );
    Err(DurableError::Other(text.into()).into())
}

/// Waits for a signal. `None` if it holds no decisions.
async fn next_signal(
    env: &Env<'_>,
    handle: Option<&RunHandle>,
    pending: &PendingApproval,
) -> Result<Option<ApprovalDecisions>, LoopError> {
    if let Some(handle) = handle {
        let decided = async { Ok(handle.decided(pending).await) };
        return or_cancelled(env.stop, decided).await.map(Some);
    }
    let missing = || {
        let mut pending = pending.clone();
        pending.effects = env.parts.durability.map(|it| it.known_effects()).unwrap_or_default();
        LoopError::ApprovalRequired(Box::new(pending))
    };
    let engine = env.parts.durability.zip(env.config().approval_signal.as_ref());
    let (engine, signal) = engine.ok_or_else(missing)?;
    let wait = async { Ok(engine.wait_for_approval(pending, &signal.name, signal.timeout).await) };
    let unreadable = match or_cancelled(env.stop, wait).await? {
        Ok(Some(decisions)) => return Ok(Some(decisions)),
        Ok(None) | Err(DurableError::SignalTimeout) => return Err(missing()),
        Err(DurableError::Other(error)) => error.downcast::<serde_json::Error>(),
        Err(error) => return Err(error.into()),
    };
    let error = unreadable.map_err(DurableError::Other)?;
    tracing::warn!(
        run_id = pending.run_id,
        line = error.line(),
        column = error.column(),
        "the signal holds no decisions on the calls that wait; the run waits again"
    );
    Ok(None)
}
