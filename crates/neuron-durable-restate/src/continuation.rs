//! Continues a run in a new invocation ([`Continuation`]). The previous invocation waits for the outcome of the new
//! one.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_durable::RunOutcome;
use neuron_types::{DurableError, Provider, RunSnapshot, Start, stored_json};
use restate_sdk::context::{CallFuture, Context, ContextClient, RequestTarget};
use restate_sdk::errors::TerminalError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RestateDurableContext;
use crate::inbox::{self, Signal};
use crate::payload::Stored;

/// Name of the handler that continues a run.
pub(crate) const HANDLER: &str = "resume";

/// Maximum size in bytes of a state with its queued signals. Restate accepts messages of up to 32 MiB.
const LIMIT: usize = 30 << 20;

/// The input of an invocation that continues a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub(crate) run_id: String,
    pub(crate) start: Start,
    /// Signals that the run has not received yet.
    #[serde(default)]
    pub(crate) signals: Vec<Signal>,
    /// Version of the agent to which the run is pinned. `None` if the run is not pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_version: Option<String>,
}

/// The invocation that continues a run. `None` until the run continues as new. Clones share the value.
#[derive(Clone, Default)]
pub(crate) struct Continuation<'ctx>(Arc<Mutex<Option<Successor<'ctx>>>>);

/// The next invocation and the future of its outcome.
struct Successor<'ctx> {
    invocation: String,
    outcome: inbox::Waiting<'ctx, Stored<RunOutcome>>,
}

impl<'ctx> Continuation<'ctx> {
    /// Starts the next invocation of the run, which continues from a state. The next invocation is a child of this
    /// invocation, so a cancellation of this invocation cancels both.
    ///
    /// Returns `Ok` without a new invocation if the state is too large. The run then continues in this invocation.
    ///
    /// # Errors
    ///
    /// [`DurableError::ContinueAsNew`] if the next invocation was started. [`DurableError::Other`] if the state is not
    /// a snapshot.
    pub(crate) async fn begin<P: Provider>(
        &self,
        of: &RestateDurableContext<'_, 'ctx, P>,
        state: Value,
    ) -> Result<(), DurableError> {
        of.journal.check()?;
        let snapshot: RunSnapshot =
            serde_json::from_value(state).map_err(|error| DurableError::Other(Box::new(error)))?;
        let signals = of.inbox.drain();
        let resume = Resume {
            run_id: of.run_id.clone(),
            start: snapshot.into(),
            signals,
            agent_version: of.journal.pin().for_next(),
        };
        let mut json = Vec::new();
        let written = stored_json::write(&mut json, &resume);
        if let Err(error) = written {
            return Err(DurableError::Other(Box::new(error)));
        }
        if json.len() > LIMIT {
            tracing::warn!(bytes = json.len(), "the state is too large for a new invocation");
            of.inbox.put_back(resume.signals);
            return Ok(());
        }
        let target = RequestTarget::service(&of.service, HANDLER);
        let request = of.journal.context().request::<_, Stored<RunOutcome>>(target, Stored(resume));
        let call = request.call();
        let handle = call.invocation_handle().await.map_err(|error| of.journal.failed(&error))?;
        let invocation = handle.invocation_id().to_owned();
        let successor = Successor { invocation: invocation.clone(), outcome: Box::pin(call) };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(successor);
        Err(DurableError::ContinueAsNew(invocation))
    }

    /// Waits for the outcome of the next invocation, and forwards signals to it meanwhile. Returns `None` if the run
    /// did not continue as new.
    pub(crate) async fn outcome(
        &self,
        ctx: &Context<'ctx>,
    ) -> Option<Result<Stored<RunOutcome>, TerminalError>> {
        let successor = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let Successor { invocation, outcome } = successor;
        Some(inbox::forward_until(ctx, outcome, &invocation).await)
    }
}

impl fmt::Debug for Continuation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Continuation").finish_non_exhaustive()
    }
}
