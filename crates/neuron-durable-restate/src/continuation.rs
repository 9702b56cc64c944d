//! Continues a run in a new invocation. The invocation before it waits for the outcome.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_types::{DurableError, Provider, RunSnapshot, Start, stored_json};
use restate_sdk::context::{CallFuture, Context, ContextClient, RequestTarget};
use restate_sdk::errors::TerminalError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RestateDurableContext;
use crate::inbox::{self, Signal};
use crate::outcome::RunOutcome;
use crate::payload::Stored;

/// The handler of the service that goes on with a run.
pub(crate) const HANDLER: &str = "resume";

/// Maximum number of bytes of a state with the waiting signals. Restate accepts 32 MiB.
const LIMIT: usize = 30 << 20;

/// The state with which the next invocation starts.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Resume {
    pub(crate) run_id: String,
    pub(crate) start: Start,
    /// Signals that came and were not waited for yet.
    #[serde(default)]
    pub(crate) signals: Vec<Signal>,
    /// The version of the agent to which the run is pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent_version: Option<String>,
}

/// The invocation that goes on with a run, once there is one. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Continuation<'ctx>(Arc<Mutex<Option<Successor<'ctx>>>>);

struct Successor<'ctx> {
    invocation: String,
    outcome: inbox::Waiting<'ctx, Stored<RunOutcome>>,
}

impl<'ctx> Continuation<'ctx> {
    /// Begins the next invocation as a child of this one, so that whoever cancels this one cancels both.
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

    /// Waits for the outcome of the run, and forwards signals of this invocation to the next one. `None` if
    /// there is no next invocation.
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
