//! Waiting for a person inside a run, where a durable engine can.

use neuron_types::{ApprovalDecisions, DurableContext, DurableError, LoopError, PendingApproval};

use super::Live;
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
    live: &Live<'_>,
    ledger: &mut Ledger,
) -> Result<(), LoopError> {
    let parts = env.parts;
    for _ in 0..MOST_UNFIT {
        // A signature whose life is over would refuse every decision.
        sign(parts, ledger);
        let Some(pending) = ledger.pending() else {
            return Ok(());
        };
        let decisions = match next_signal(env, live, &pending).await? {
            Signal::Decisions(decisions) => decisions,
            Signal::Unreadable(error) => {
                let (line, column) = (error.line(), error.column());
                tracing::warn!(
                    run_id = pending.run_id,
                    line,
                    column,
                    "the signal holds no decisions on the calls that wait; the run waits again"
                );
                continue;
            }
            Signal::Missing => return Err(LoopError::ApprovalRequired(Box::new(pending))),
        };
        match accept(parts, ledger, &decisions) {
            Ok(()) => return Ok(()),
            Err(error) => {
                tracing::warn!(
                    run_id = pending.run_id,
                    %error,
                    "decisions do not fit the calls that wait; the run waits again"
                );
            }
        }
    }
    let text = format!(
        "{MOST_UNFIT} signals in a row do not fit the calls that wait: is one never taken?"
    );
    Err(DurableError::Other(text.into()).into())
}

/// The end of the wait for a signal.
enum Signal {
    Decisions(ApprovalDecisions),
    /// It holds something else.
    Unreadable(serde_json::Error),
    /// None can come, or none came in time.
    Missing,
}

async fn next_signal(
    env: &Env<'_>,
    live: &Live<'_>,
    pending: &PendingApproval,
) -> Result<Signal, LoopError> {
    if let Some(handle) = live.handle.as_ref().filter(|_| live.waits) {
        let decided = async { Ok(handle.decided(pending).await) };
        return or_cancelled(env.stop, decided).await.map(Signal::Decisions);
    }
    let (Some(durability), Some(signal)) = (env.parts.durability, &env.config().approval_signal)
    else {
        return Ok(Signal::Missing);
    };
    let wait =
        async { Ok(durability.wait_for_approval(pending, &signal.name, signal.timeout).await) };
    match or_cancelled(env.stop, wait).await? {
        Ok(Some(decisions)) => Ok(Signal::Decisions(decisions)),
        Ok(None) | Err(DurableError::SignalTimeout) => Ok(Signal::Missing),
        Err(DurableError::Other(error)) => match error.downcast() {
            Ok(error) => Ok(Signal::Unreadable(*error)),
            Err(error) => Err(DurableError::Other(error).into()),
        },
        Err(error) => Err(error.into()),
    }
}
