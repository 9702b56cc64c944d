//! Operations on the runs of an agent ([`RestateRuns`]).

mod rows;
mod server;

use std::fmt;

use neuron_durable::{DurableRuns, RunOutcome, RunSummary, RunsError};
use neuron_types::{ApprovalDecisions, Start};
use restate_sdk::ingress::RequestExecutor;
use serde_json::{Value, json};

use crate::definition::SIGNAL;
use crate::failure;
use crate::plain_http::PlainHttp;
use crate::register::APPROVAL_REQUIRED;
use rows::Run;
use server::{Answer, Server};

/// Lists, inspects, signals, cancels and revives the runs of an [`AgentService`](crate::AgentService), from any
/// process.
///
/// A run is an invocation of the handler `run`, and has the id of that invocation. Further invocations of a run, and
/// the invocations of its tools and nested agents, are not listed as runs. Restate keeps an ended run for a day by
/// default.
///
/// The admin API of Restate has no authentication. Let only your own programs reach it.
///
/// # Example
///
/// ```no_run
/// use neuron_durable_restate::RestateRuns;
/// use neuron_durable::{DurableRuns, RunsError};
///
/// # async fn list() -> Result<(), RunsError> {
/// let runs = RestateRuns::new("support", "http://localhost:8080", "http://localhost:9070");
/// for run in runs.list().await? {
///     println!("{} {} {}", run.id, run.status, run.reason.unwrap_or_default());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RestateRuns<E = PlainHttp> {
    server: Server<E>,
}

impl RestateRuns {
    /// Creates a client for the runs of a service, over plain HTTP. `ingress_url` is the address of the Restate
    /// server's port for requests to services. `admin_url` is the address of its admin API.
    pub fn new(
        service: impl Into<String>,
        ingress_url: impl Into<String>,
        admin_url: impl Into<String>,
    ) -> Self {
        Self { server: Server::new(service.into(), ingress_url.into(), admin_url.into()) }
    }

    /// Sends all requests with another HTTP client, for example over HTTPS or with an access token.
    pub fn with_client<E: RequestExecutor>(self, client: E) -> RestateRuns<E> {
        RestateRuns { server: self.server.with_client(client) }
    }
}

impl<E: RequestExecutor> RestateRuns<E> {
    /// Returns a run. Fails with [`RunsError::NotFound`] if the run does not exist.
    async fn find(&self, id: &str) -> Result<Run, RunsError> {
        let found = self.server.runs(Some(id)).await?.pop();
        found.ok_or_else(|| RunsError::NotFound { id: id.to_owned() })
    }

    /// Requests a run from the server, and returns the run if it has not ended. Fails with [`RunsError::Ended`] if the
    /// run has ended.
    async fn find_open(&self, id: &str) -> Result<Run, RunsError> {
        let run = self.find(id).await?;
        if !run.has_ended() {
            return Ok(run);
        }
        Err(RunsError::Ended { id: id.to_owned(), reason: run.end() })
    }

    /// Requests the outcome of a run from the server. Returns `None` if there is no outcome.
    ///
    /// A caller that only lists runs passes `false` for `needs_outcome`. If the register already has all data for the
    /// list, the server is not asked and `None` is returned.
    async fn outcome(
        &self,
        run: &Run,
        needs_outcome: bool,
    ) -> Result<serde_json::Result<Option<RunOutcome>>, RunsError> {
        match run.has_outcome(needs_outcome) {
            true => self.server.outcome(run.id()).await,
            false => Ok(Ok(None)),
        }
    }
}

impl<E: RequestExecutor> DurableRuns for RestateRuns<E> {
    /// Lists all runs that the server keeps, the oldest first.
    ///
    /// For each run that ended with an error, an additional request gets the outcome.
    ///
    /// Also removes leftover entries from the register, a virtual object that stores the wait and the end of each run.
    /// A killed run leaves its entry there. The entry is removed once the server has deleted the run.
    async fn list(&self) -> Result<Vec<RunSummary>, RunsError> {
        let mut summaries = Vec::new();
        for run in self.server.runs(None).await? {
            let outcome = self.outcome(&run, false).await?;
            summaries.push(run.summary(outcome));
        }
        Ok(summaries)
    }

    async fn inspect(&self, id: &str) -> Result<RunSummary, RunsError> {
        let run = self.find(id).await?;
        let outcome = self.outcome(&run, true).await?;
        Ok(run.summary(outcome))
    }

    /// Sends a signal through the handler `signal` of the service.
    async fn signal(&self, id: &str, name: &str, value: Value) -> Result<(), RunsError> {
        self.find_open(id).await?;
        let body = json!({"run_id": id, "name": name, "value": value});
        let answer = self.server.call(SIGNAL, None, &body).await?;
        match answer.status {
            failure::ENDED => Err(ended(id, &answer)),
            _ => answer.success().map(drop),
        }
    }

    async fn cancel(&self, id: &str) -> Result<(), RunsError> {
        // The run is looked up first, because Restate would cancel an invocation of any service.
        self.find_open(id).await?;
        let answer = self.server.cancel(id).await?;
        match answer.status {
            404 => Err(RunsError::NotFound { id: id.to_owned() }),
            409 => Err(ended(id, &answer)),
            _ => answer.success().map(drop),
        }
    }

    /// Continues a run that ended with `ApprovalRequired` as a new run, and returns the id of the new run. Send further
    /// signals to the new id. Tools receive the same idempotency keys as in the old run.
    ///
    /// A run is revived only once. A second call returns the id of the first new run, and ignores `decisions`.
    ///
    /// A run whose conversation was [left out](RunOutcome::is_cut) of its outcome cannot be revived.
    async fn revive(&self, id: &str, decisions: ApprovalDecisions) -> Result<String, RunsError> {
        let run = self.find(id).await?;
        let start = match self.outcome(&run, true).await? {
            Ok(Some(outcome)) if outcome.error.is_some() => resume(id, outcome, decisions)?,
            outcome => {
                let RunSummary { status, reason, .. } = run.summary(outcome);
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let reason = format!("it is {status}{reason}");
                return Err(RunsError::NotRevivable { id: id.to_owned(), reason });
            }
        };
        // A run ends only once, so its id identifies the pending calls. The idempotency key lets Restate start only one
        // new run for it.
        let answer = self.server.call("run/send", Some(&format!("revive/{id}")), &start).await?;
        answer.success()?.text("invocationId")
    }
}

/// Creates the error for a request to a run that has ended.
fn ended(id: &str, answer: &Answer) -> RunsError {
    RunsError::Ended { id: id.to_owned(), reason: answer.message() }
}

/// Creates the start of a revived run from the outcome of the old run. Fails if the outcome has no pending calls or no
/// conversation, or if the decisions do not fit the calls.
fn resume(id: &str, outcome: RunOutcome, decisions: ApprovalDecisions) -> Result<Start, RunsError> {
    let refused = |reason: String| Err(RunsError::NotRevivable { id: id.to_owned(), reason });
    let Some(pending) = outcome.pending else {
        let kind = outcome.error.map(|error| error.kind).unwrap_or_default();
        return refused(format!("it ended with {kind}, and not with {APPROVAL_REQUIRED}"));
    };
    if outcome.is_cut {
        return refused("its conversation was too long for the outcome, and was left out".into());
    }
    pending.check(&decisions)?;
    Ok(Start::Resume { pending, decisions })
}

impl<E> fmt::Debug for RestateRuns<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestateRuns").field("server", &self.server).finish()
    }
}

#[cfg(test)]
mod tests {
    use neuron_types::{
        ApprovalDecisions, KnownEffect, LoopError, PendingApproval, PendingCall, Start, ToolCall,
    };
    use serde_json::json;

    use super::{RunOutcome, resume};

    fn ended(is_cut: bool) -> RunOutcome {
        let call = ToolCall { id: "c".into(), name: "pay".into(), input: json!({}) };
        let mut pending = Box::new(PendingApproval::new("r", vec![PendingCall::new(call, "?")]));
        pending.effects = vec![KnownEffect { tool: "pay".into(), key: "k".into(), output: None }];
        let mut outcome = RunOutcome::new("r", Err(LoopError::ApprovalRequired(pending)));
        outcome.is_cut = is_cut;
        outcome
    }

    #[test]
    fn revived_run_keeps_its_known_effects() {
        let start = resume("r", ended(false), ApprovalDecisions::new().approve("c")).unwrap();
        assert!(matches!(start, Start::Resume { pending, .. } if pending.effects.len() == 1));
    }

    #[test]
    fn run_without_messages_or_pending_calls_is_not_revived() {
        let approve = || ApprovalDecisions::new().approve("c");
        let error = resume("r", ended(true), approve()).unwrap_err().to_string();
        assert!(error.contains("was too long for the outcome"), "{error}");
        let outcome = RunOutcome::new("r", Err(LoopError::Cancelled));
        let error = resume("r", outcome, approve()).unwrap_err().to_string();
        assert!(
            error.contains("it ended with Cancelled, and not with ApprovalRequired"),
            "{error}"
        );
    }
}
