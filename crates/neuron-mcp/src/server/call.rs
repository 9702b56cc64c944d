//! Execution of a client request that runs user code.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, future};
use neuron_types::{ProgressReporter, ToolContext, UsageMeter};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, InputRequiredResult, InputResponses};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::inputs::Inputs;
use super::peer::{self, McpPeer};
use super::rounds::{self, Round};
use super::serving::Serving;
use super::session::{Closing, Session};

/// Grace period for a tool to end by itself when the server shuts down.
const MOMENT: Duration = Duration::from_millis(500);

/// An implementation-defined code. JSON-RPC leaves this range to servers.
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32000);

/// A client request that runs user code.
pub(crate) struct Call {
    peer: McpPeer,
    /// Id of the call, the same in all rounds.
    id: String,
    /// Number of the round, from zero.
    round: u32,
    /// Binds the state of a multi-round call to its request. Empty for older versions, which have no rounds.
    origin: Vec<u8>,
    /// Cancelled with the request, with the connection, and when the server shuts down.
    token: CancellationToken,
    closing: Closing,
    /// Permit for one of the client's concurrent calls.
    _place: OwnedSemaphorePermit,
}

/// The target of a request.
pub(crate) struct Target<'a> {
    pub(crate) method: &'static str,
    /// Name of the tool or prompt, or URI of the resource.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
    /// The client's responses to the requests of the last round.
    pub(crate) responses: Option<InputResponses>,
    /// The state that the last round sent to the client.
    pub(crate) state: Option<String>,
}

impl Target<'_> {
    /// Creates the target of a request that cannot take several rounds.
    pub(crate) fn list(method: &'static str) -> Self {
        Self { method, name: "", arguments: &Value::Null, responses: None, state: None }
    }
}

impl Call {
    /// # Errors
    ///
    /// Returns an error if too many calls of the client are running, or if the state of an earlier round does not
    /// belong to this request.
    pub(crate) fn new(
        serving: &Serving,
        session: Arc<Session>,
        context: RequestContext<RoleServer>,
        target: Target<'_>,
    ) -> Result<Self, ErrorData> {
        let place = session.place().ok_or_else(|| {
            let text = format!("{} calls run already", serving.server.max_calls);
            ErrorData::new(TOO_MANY_CALLS, text, None)
        })?;
        let (mut origin, mut round) = (Vec::new(), None);
        let mut answers = BTreeMap::new();
        if !peer::version_of(&context).has_handshake() {
            let principal = peer::principal_of(&context);
            origin = rounds::origin(target.method, target.name, target.arguments, principal);
            let responses = target.responses.unwrap_or_default();
            match target.state {
                Some(state) => round = Some(serving.rounds.open(&state, &origin, responses)?),
                // A client may send responses before the first round has asked for them.
                None => answers = responses,
            }
        }
        let (id, number) = match round {
            Some(round) => {
                answers = round.answers;
                (round.call_id, round.number)
            }
            None => (serving.next_call_id(), 0),
        };
        let timeout = serving.server.input_timeout;
        let closing = session.closing().clone();
        let propagation = serving.server.propagation.clone();
        let peer = McpPeer::new(context, session, Inputs::new(answers), timeout, propagation);
        let token = serving.server.context.cancellation_token.child_token();
        Ok(Self { peer, id, round: number, origin, token, closing, _place: place })
    }

    pub(crate) fn peer(&self) -> &McpPeer {
        &self.peer
    }

    /// Returns the context for a tool.
    pub(crate) fn tool_context(&self, serving: &Serving) -> ToolContext {
        let mut context = serving.server.context.clone();
        context.call_id.clone_from(&self.id);
        context.run_id.clone_from(&self.id);
        context.idempotency_key.clone_from(&self.id);
        context.usage = UsageMeter::default();
        context.cancellation_token = self.token.clone();
        context.progress_reporter =
            self.peer.wants_progress().then(|| Arc::new(Reporter(self.peer.clone())) as _);
        if let Some(trace) = self.peer.current_trace_context() {
            context.extensions.insert(trace);
        }
        context.extensions.insert(self.peer.clone());
        context
    }

    /// Returns how a failed call ends, from the text of its failure. Since 2026-07-28 a call that has requests to the
    /// client ends with these instead of the failure.
    ///
    /// The requests are recorded in the call, not in the error, because a tool or middleware may replace the error.
    ///
    /// # Errors
    ///
    /// Returns an error if the client lacks a capability that the call requires.
    pub(crate) fn ending(&self, serving: &Serving, failure: &str) -> Result<Ending, ErrorData> {
        if self.peer.version().has_handshake() {
            return Ok(Ending::AsItIs);
        }
        let inputs = self.peer.inputs();
        let open = inputs.take_open();
        if open.is_empty() {
            return match inputs.take_missing() {
                Some(missing) if failure.contains(&missing.text) => {
                    Err(ErrorData::missing_required_client_capability(missing.capabilities))
                }
                _ => Ok(Ending::AsItIs),
            };
        }
        let round = Round {
            call_id: self.id.clone(),
            number: self.round + 1,
            asked: open.keys().cloned().collect(),
            answers: inputs.answers(),
        };
        Ok(match serving.rounds.seal(&round, &self.origin) {
            Some(state) => Ending::InputRequired(InputRequiredResult::new(Some(open), Some(state))),
            None => Ending::TooMuch(
                "the call asked too often, or the answers are too long for the client to carry them",
            ),
        })
    }

    /// Runs user code, and sends its notifications before it returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the request was cancelled or the code panicked. A cancelled request drops the work and needs
    /// no response.
    pub(crate) async fn run<T>(
        &self,
        serving: &Serving,
        work: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        let token = self.token.clone().drop_guard();
        let outbox = self.peer.outbox();
        let work = async {
            // A registry catches the panics of its tools, but resources and prompts are called directly.
            let result = AssertUnwindSafe(work).catch_unwind().await;
            self.end_questions();
            outbox.close();
            result.map_err(|_| ErrorData::internal_error("the server's code panicked", None))
        };
        let mut work = Box::pin(future::join(work, outbox.pump(&self.peer.context().peer)));
        // A tool that watches its token gets a grace period.
        let shutdown = async {
            tokio::select! {
                () = serving.server.shutdown.cancelled() => {}
                () = self.closing.calls_end.cancelled() => {}
            }
            self.token.cancel();
            tokio::time::sleep(MOMENT).await;
        };
        tokio::select! {
            biased;
            () = self.peer.context().ct.cancelled() => {}
            () = shutdown => {}
            (result, ()) = &mut work => {
                token.disarm();
                return result;
            }
        }
        drop(work);
        // The call is over. The only messages left are the cancellations of its open requests to the client.
        self.end_questions();
        outbox.close_but_for_cancellations();
        outbox.pump(&self.peer.context().peer).await;
        Err(ErrorData::internal_error("cancelled", None))
    }

    fn end_questions(&self) {
        for cancelled in self.peer.inputs().end() {
            self.peer.outbox().push(cancelled);
        }
    }
}

/// The end of a failed call.
pub(crate) enum Ending {
    /// The failure is returned.
    AsItIs,
    /// The client must respond to requests and call again.
    InputRequired(InputRequiredResult),
    /// Another failure is returned, because there were too many rounds or their responses are too long.
    TooMuch(&'static str),
}

/// Reports a tool's progress to the client.
struct Reporter(McpPeer);

impl ProgressReporter for Reporter {
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.0.report_progress(progress, total, message);
    }
}
