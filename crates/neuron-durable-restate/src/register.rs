//! The register of runs, which is a virtual object of Restate beside the service. Its entry for each run has the
//! wait, the version of the agent and the outcome, for operators and for senders of signals.

use std::time::Duration;

use chrono::{DateTime, Utc};
use neuron_types::{PendingApproval, TokenUsage, stored_json};
use restate_sdk::context::{
    Context, ContextClient, ContextReadState, ContextWriteState, ObjectContext, RequestTarget,
    SharedObjectContext,
};
use restate_sdk::errors::{HandlerResult, TerminalError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::RunOutcome;
use crate::payload::{Stored, Written};

/// The handlers of the object.
pub(crate) const PENDING: &str = "pending";
pub(crate) const SHOW: &str = "show";
pub(crate) const HIDE: &str = "hide";
pub(crate) const PIN: &str = "pin";
pub(crate) const END: &str = "end";
pub(crate) const FORGET: &str = "forget";
pub(crate) const REFUSAL: &str = "refusal";

/// The keys of the state.
pub(crate) const WAIT: &str = "pending";
pub(crate) const VERSION: &str = "agent_version";
pub(crate) const ENDED: &str = "ended";

/// Time for which an entry is kept after the end of the run. It is Restate's default for ended invocations.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// The name of the error with which a run ends whose calls nobody decided on.
pub(crate) const APPROVAL_REQUIRED: &str = "ApprovalRequired";

/// The wait of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// The signal that ends the wait. None if time alone does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<String>,
    /// The calls to decide on, without conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pending: Option<PendingApproval>,
    /// Older releases wrote no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<DateTime<Utc>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deadline: Option<DateTime<Utc>>,
}

impl Waiting {
    /// A wait for decisions on these calls, without times.
    pub(crate) fn approval(signal: &str, pending: &PendingApproval) -> Self {
        Self { pending: Some(pending.without_messages()), ..Self::signal(signal) }
    }

    /// A wait for a signal, without times.
    pub(crate) fn signal(name: &str) -> Self {
        Self { signal: Some(name.to_owned()), ..Self::time() }
    }

    /// A sleep, without times.
    pub(crate) fn time() -> Self {
        Self { signal: None, pending: None, since: None, deadline: None }
    }

    /// Returns `true` if the deadline has passed. The run may not have noticed, because it was killed or no process
    /// drives it.
    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline < Utc::now())
    }
}

/// The end of a run. It has no field that may differ on replay.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) at: DateTime<Utc>,
    /// The name of the error. None if the run ended with a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<TokenUsage>,
}

impl Ended {
    /// The end of a run. A run that was cancelled has no outcome.
    pub(crate) fn new(at: DateTime<Utc>, outcome: Option<&RunOutcome>) -> Self {
        let error = match outcome {
            Some(outcome) => outcome.error.as_ref().map(|error| error.kind.clone()),
            None => Some("Cancelled".to_owned()),
        };
        let result = outcome.and_then(|outcome| outcome.result.as_ref());
        Self { at, error, usage: result.map(|result| result.usage.clone()) }
    }

    /// Returns a text with the end of the run and the way to go on.
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

/// The name of the object beside a service.
pub(crate) fn name(service: &str) -> String {
    format!("{service}.waiting")
}

/// The entry of a run.
#[derive(Debug, Clone)]
pub(crate) struct Register {
    object: String,
    run_id: String,
}

impl Register {
    pub(crate) fn new(service: &str, run_id: &str) -> Self {
        Self { object: name(service), run_id: run_id.to_owned() }
    }

    pub(crate) fn show(&self, ctx: &Context<'_>, waiting: Waiting) {
        drop(ctx.request::<_, ()>(self.target(SHOW), Stored(waiting)).send());
    }

    /// Removes the wait.
    pub(crate) fn hide(&self, ctx: &Context<'_>) {
        drop(ctx.request::<_, ()>(self.target(HIDE), ()).send());
    }

    pub(crate) fn pin(&self, ctx: &Context<'_>, version: String) {
        drop(ctx.request::<_, ()>(self.target(PIN), Stored(version)).send());
    }

    /// Registers the end of the run before anyone gets its outcome, so that from then on signals are refused.
    pub(crate) async fn end(&self, ctx: &Context<'_>, ended: Ended) {
        let registered = ctx.request::<_, ()>(self.target(END), Stored(ended)).call().await;
        if let Err(error) = registered {
            tracing::debug!(%error, "the end of a run is not in the register");
        }
    }

    /// Returns the reason if no wait of the run would receive a signal.
    pub(crate) async fn refusal(
        &self,
        ctx: &Context<'_>,
        signal: &str,
    ) -> Result<Option<String>, TerminalError> {
        let request = ctx
            .request::<_, Stored<Option<String>>>(self.target(REFUSAL), Stored(signal.to_owned()));
        request.call().await.map(|Stored(refusal)| refusal)
    }

    fn target(&self, handler: &str) -> RequestTarget {
        RequestTarget::object(self.object.clone(), self.run_id.clone(), handler)
    }
}

/// Reads a part of an entry. A part that cannot be read is none, so that the run still takes signals.
async fn read<T: DeserializeOwned>(
    ctx: &SharedObjectContext<'_>,
    key: &str,
) -> HandlerResult<Option<T>> {
    let json = ctx.get::<Written>(key).await?;
    Ok(json.and_then(|Written(json)| stored_json::read(&json).ok()))
}

/// The calls that wait for decisions.
pub(crate) async fn handle_pending(
    ctx: SharedObjectContext<'_>,
) -> HandlerResult<Stored<Option<Waiting>>> {
    let waiting = read::<Waiting>(&ctx, WAIT).await?;
    Ok(Stored(waiting.filter(|waiting| waiting.pending.is_some() && !waiting.is_over())))
}

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

pub(crate) fn handle_set(ctx: &ObjectContext<'_>, key: &str, Written(json): Written) {
    ctx.set(key, Written(json));
}

pub(crate) fn handle_hide(ctx: &ObjectContext<'_>) {
    ctx.clear(WAIT);
}

pub(crate) fn handle_end(ctx: &ObjectContext<'_>, ended: Written, object: &str) {
    ctx.clear(WAIT);
    ctx.set(ENDED, ended);
    let target = RequestTarget::object(object, ctx.key(), FORGET);
    drop(ctx.request::<_, ()>(target, ()).send_after(RETENTION));
}

pub(crate) fn handle_forget(ctx: &ObjectContext<'_>) {
    ctx.clear_all();
}
