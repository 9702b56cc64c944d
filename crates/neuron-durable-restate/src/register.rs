//! The register of runs, a virtual object of Restate beside the service. Each run has an entry with its current wait,
//! the version of its agent, and its end. [`RestateRuns`](crate::RestateRuns) and the handler `signal` read the register.

use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_durable::RunOutcome;
use neuron_types::{PendingApproval, TokenUsage, stored_json};
use restate_sdk::context::{
    Context, ContextClient, ContextReadState, ContextWriteState, ObjectContext, RequestTarget,
    SharedObjectContext,
};
use restate_sdk::errors::{HandlerResult, TerminalError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::payload::{Stored, Written};

// The names of the object's handlers.

/// Name of the handler that returns the tool calls of a run that wait for approval.
pub(crate) const PENDING: &str = "pending";
/// Name of the handler that stores the signal, approval or time for which a run waits now.
pub(crate) const SHOW: &str = "show";
/// Name of the handler that removes the stored wait of a run, because the wait has ended.
pub(crate) const HIDE: &str = "hide";
/// Name of the handler that stores the version of the agent to which a run is pinned.
pub(crate) const PIN: &str = "pin";
/// Name of the handler that stores the time and the result or error of a run that has ended.
pub(crate) const END: &str = "end";
/// Name of the handler that removes the entry of a run from the register.
pub(crate) const FORGET: &str = "forget";
/// Name of the handler that returns the reason why a run does not accept a signal.
pub(crate) const REFUSAL: &str = "refusal";

// The keys of the object's state.

/// Key of the current wait in a run's entry in the register. The value is a [`Waiting`].
pub(crate) const WAIT: &str = "pending";
/// Key of the version of the agent to which a run is pinned, in the run's entry in the register.
pub(crate) const VERSION: &str = "agent_version";
/// Key of the end of a run, in the run's entry in the register. The value is an [`Ended`].
pub(crate) const ENDED: &str = "ended";

/// Time for which an entry is kept after the end of its run, one day. By default Restate also keeps ended invocations
/// for one day.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Kind of the error with which a run ends if nobody approved or denied its pending tool calls in time.
pub(crate) const APPROVAL_REQUIRED: &str = "ApprovalRequired";

/// A wait of a run, as the register stores it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// Name of the signal that ends the wait. `None` if only the deadline ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// The tool calls that a person must approve or deny, without the conversation. `None` if the run waits for
    /// something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<PendingApproval>,
    /// Start of the wait. `None` until the run stores the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<DateTime<Utc>>,
    /// End of the wait. `None` if the wait has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<DateTime<Utc>>,
}

impl Waiting {
    /// Creates a wait for decisions about the tool calls in `pending`. The decisions arrive as the signal `signal`. The
    /// fields `since` and `deadline` are `None`.
    pub(crate) fn approval(signal: &str, pending: &PendingApproval) -> Self {
        Self { pending: Some(pending.without_messages()), ..Self::signal(signal) }
    }

    /// Creates a wait for the signal `name`. `since` and `deadline` are `None`.
    pub(crate) fn signal(name: &str) -> Self {
        Self { signal: Some(name.to_owned()), ..Self::time() }
    }

    /// Creates a wait that only its deadline ends. `since` and `deadline` are `None`.
    pub(crate) fn time() -> Self {
        Self { signal: None, pending: None, since: None, deadline: None }
    }

    /// Returns `true` if the deadline has passed. If the run was killed or no process runs it, the register may still
    /// contain such a wait.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline < Utc::now())
    }
}

/// The end of a run, as the register stores it. All fields are the same on replay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) at: DateTime<Utc>,
    /// Kind of the error that ended the run. `None` if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Tokens that the run used. `None` if the run ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
}

impl Ended {
    /// Creates the end of a run. `outcome` is `None` for a cancelled run.
    pub(crate) fn new(at: DateTime<Utc>, outcome: Option<&RunOutcome>) -> Self {
        let error = match outcome {
            Some(outcome) => outcome.error.as_ref().map(|error| error.kind.clone()),
            None => Some("Cancelled".to_owned()),
        };
        let result = outcome.and_then(|outcome| outcome.result.as_ref());
        Self { at, error, usage: result.map(|result| result.usage.clone()) }
    }

    /// Describes the end of the run for an error text.
    pub(crate) fn text(&self) -> String {
        let at = self.at.to_rfc3339();
        match self.error.as_deref() {
            None => format!("it ended with a result at {at}"),
            Some(APPROVAL_REQUIRED) => {
                format!("nobody decided on its calls until {at}; revive it with the decisions")
            }
            Some(error) => format!("it ended with the error {error} at {at}"),
        }
    }
}

/// Returns the name of the Restate object that is the register of a service's runs.
pub(crate) fn name(service: &str) -> String {
    format!("{service}.waiting")
}

/// Access to a run's entry in the register, the Restate object that lists the runs.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    object: String,
    run_id: String,
}

impl Register {
    pub(crate) fn new(service: &str, run_id: &str) -> Self {
        Self { object: name(service), run_id: run_id.to_owned() }
    }

    /// Stores the signal, approval or time for which the run waits now.
    pub(crate) fn show(&self, ctx: &Context<'_>, waiting: Waiting) {
        drop(ctx.request::<_, ()>(self.target(SHOW), Stored(waiting)).send());
    }

    /// Removes the stored wait of the run, because the wait has ended.
    pub(crate) fn hide(&self, ctx: &Context<'_>) {
        drop(ctx.request::<_, ()>(self.target(HIDE), ()).send());
    }

    /// Stores the version to which the run is pinned.
    pub(crate) fn pin(&self, ctx: &Context<'_>, version: String) {
        drop(ctx.request::<_, ()>(self.target(PIN), Stored(version)).send());
    }

    /// Stores that the run has ended. Waits for the register's confirmation, so that signals are rejected before anyone
    /// can read the outcome.
    pub(crate) async fn end(&self, ctx: &Context<'_>, ended: Ended) {
        let registered = ctx.request::<_, ()>(self.target(END), Stored(ended)).call().await;
        if let Err(error) = registered {
            tracing::debug!(%error, "the end of a run is not in the register");
        }
    }

    /// Returns the reason why the run does not accept a signal with this name. Returns `None` if the run accepts it.
    pub(crate) async fn refusal(
        &self,
        ctx: &Context<'_>,
        signal: &str,
    ) -> Result<Option<String>, TerminalError> {
        let request = ctx
            .request::<_, Stored<Option<String>>>(self.target(REFUSAL), Stored(signal.to_owned()));
        request.call().await.map(|Stored(refusal)| refusal)
    }

    /// Returns the request target of a handler of the register, for the entry of this run.
    fn target(&self, handler: &str) -> RequestTarget {
        RequestTarget::object(self.object.clone(), self.run_id.clone(), handler)
    }
}

/// Reads the value under `key` from the register's entry of a run. Returns `None` if the value is missing or cannot be
/// parsed.
async fn read<T: DeserializeOwned>(
    ctx: &SharedObjectContext<'_>,
    key: &str,
) -> HandlerResult<Option<T>> {
    let json = ctx.get::<Written>(key).await?;
    Ok(json.and_then(|Written(json)| stored_json::read(&json).ok()))
}

/// Handles `pending`. Returns the calls that wait for decisions, or null if there are none.
pub(crate) async fn handle_pending(
    ctx: SharedObjectContext<'_>,
) -> HandlerResult<Stored<Option<Waiting>>> {
    let waiting = read::<Waiting>(&ctx, WAIT).await?;
    Ok(Stored(waiting.filter(|waiting| waiting.pending.is_some() && !waiting.is_over())))
}

/// Handles `refusal`. Returns the reason why the run does not accept a signal, or null if the run accepts it.
pub(crate) async fn handle_refusal(
    ctx: SharedObjectContext<'_>,
    Stored(signal): Stored<String>,
) -> HandlerResult<Stored<Option<String>>> {
    if let Some(ended) = read::<Ended>(&ctx, ENDED).await? {
        return Ok(Stored(Some(ended.text())));
    }
    let over = read::<Waiting>(&ctx, WAIT).await?;
    let over = over.filter(|waiting| waiting.pending.is_some() && waiting.is_over());
    let over = over.filter(|waiting| waiting.signal.as_ref() == Some(&signal));
    let deadline = over.and_then(|waiting| waiting.deadline);
    Ok(Stored(deadline.map(|deadline| {
        let at = deadline.to_rfc3339();
        format!("its wait for `{signal}` ended at {at}; once the run has ended, revive it with the decisions")
    })))
}

/// Stores a JSON value under `key` in the register's entry of a run.
pub(crate) fn handle_set(ctx: &ObjectContext<'_>, key: &str, Written(json): Written) {
    ctx.set(key, Written(json));
}

/// Handles `hide`. Removes the stored wait of a run, because the wait has ended.
pub(crate) fn handle_hide(ctx: &ObjectContext<'_>) {
    ctx.clear(WAIT);
}

/// Handles `end`. Stores the end of the run, removes the wait, and schedules the removal of the entry.
pub(crate) fn handle_end(ctx: &ObjectContext<'_>, ended: Written, object: &str) {
    ctx.clear(WAIT);
    ctx.set(ENDED, ended);
    let target = RequestTarget::object(object, ctx.key(), FORGET);
    drop(ctx.request::<_, ()>(target, ()).send_after(RETENTION));
}

/// Handles `forget`. Removes the entry.
pub(crate) fn handle_forget(ctx: &ObjectContext<'_>) {
    ctx.clear_all();
}
