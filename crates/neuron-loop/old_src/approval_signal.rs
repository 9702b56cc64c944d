//! Waiting for a person inside a run, where a durable engine can.

use std::time::Duration;

use neuron_types::{
    ApprovalDecisions, ContextStrategy, DurableContext, DurableError, LoopError, PendingApproval,
    Provider, ToolContext,
};

use crate::cancel::or_cancelled;
use crate::{AgentLoop, LoopConfig};

/// After so many signals in a row that do not fit the run ends. An engine that takes none, but fails or gives
/// the same one each time, would never let it go otherwise; it is the same on replay.
const MOST_UNFIT: usize = 1000;

/// The signal by which a durable engine brings a run the decisions on the calls that wait for an
/// approval. Set by [`LoopConfig::approval_signal`].
///
/// With a durable context such a run does not end: it
/// [waits](DurableContext::wait_for_approval), for days if need be, and goes on with what was decided,
/// as after [`AgentLoop::resume`]. The signal holds [`ApprovalDecisions`].
///
/// - Partial decisions are carried out, and the run waits for the rest.
/// - What does not fit changes nothing: decisions on calls that do not wait, arguments that the tool
///   refuses, such as come after the life of a signature, or something else altogether. The log has a
///   warning, and the run waits again; after the thousandth in a row it ends with
///   [`LoopError::Durable`].
/// - If nobody decides in time, the run ends with [`LoopError::ApprovalRequired`].
/// - A cancellation ends the run at once, whatever the [`CancelMode`](crate::CancelMode).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalSignal {
    /// The signal's name.
    pub name: String,
    /// How long the run waits for one signal. After one that does not fit, or decides on some of the
    /// calls, it waits as long again.
    pub timeout: Duration,
}

impl LoopConfig {
    /// Whether calls wait for a person when the policy asks; naming a signal under a durable context is
    /// asking for it.
    pub(crate) fn pauses(&self, is_durable: bool) -> bool {
        self.pause_for_approval || (is_durable && self.approval_signal.is_some())
    }
}

impl<P: Provider, C: ContextStrategy, D: DurableContext> AgentLoop<P, C, D> {
    /// Whether calls wait on which a signal decides.
    pub(crate) fn awaits_signal(&self) -> bool {
        self.pending.is_some()
            && self.run.decisions.is_none()
            && self.durability.is_some()
            && self.config.approval_signal.is_some()
    }

    /// Waits until the calls that wait are decided on.
    ///
    /// # Errors
    ///
    /// [`LoopError::ApprovalRequired`] when nobody decides in time; [`LoopError::Durable`] after
    /// [`MOST_UNFIT`]; the engine's.
    pub(crate) async fn await_decisions(&mut self, ctx: &ToolContext) -> Result<(), LoopError> {
        for _ in 0..MOST_UNFIT {
            let pending = self.pending_state()?;
            let decisions = match self.next_decisions(&pending, ctx).await? {
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
                Signal::TooLate => return Err(LoopError::ApprovalRequired(Box::new(pending))),
            };
            match self.accept(decisions) {
                Ok(()) => return Ok(()),
                Err(error) => {
                    tracing::warn!(
                        run_id = pending.run_id,
                        %error,
                        "decisions do not fit the calls that wait; the run waits again"
                    );
                    self.ask_anew();
                }
            }
        }
        let text = format!(
            "{MOST_UNFIT} signals in a row do not fit the calls that wait: is one never taken?"
        );
        Err(DurableError::Other(text.into()).into())
    }

    async fn next_decisions(
        &self,
        pending: &PendingApproval,
        ctx: &ToolContext,
    ) -> Result<Signal, LoopError> {
        let (Some(durability), Some(signal)) = (&self.durability, &self.config.approval_signal)
        else {
            return Ok(Signal::TooLate);
        };
        let wait =
            async { Ok(durability.wait_for_approval(pending, &signal.name, signal.timeout).await) };
        match or_cancelled(ctx, wait).await? {
            Ok(Some(decisions)) => Ok(Signal::Decisions(decisions)),
            Ok(None) | Err(DurableError::SignalTimeout) => Ok(Signal::TooLate),
            Err(DurableError::Other(error)) => match error.downcast() {
                Ok(error) => Ok(Signal::Unreadable(*error)),
                Err(error) => Err(DurableError::Other(error).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Signs the calls that wait once more: a signature whose life is over would refuse every decision.
    fn ask_anew(&mut self) {
        #[cfg(feature = "signed-approvals")]
        if let Some(mut pending) = self.pending.take() {
            pending.calls = self.signed(pending.calls);
            self.pending = Some(pending);
        }
    }
}

/// What the wait for a signal ended with.
enum Signal {
    Decisions(ApprovalDecisions),
    /// Something else.
    Unreadable(serde_json::Error),
    TooLate,
}
