//! [`Call`], the execution of a client request that runs user code.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, future};
use neuron_types::{ProgressReporter, ToolContext, UsageMeter};
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, InputRequests, InputRequiredResult, InputResponses};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::inputs::Inputs;
use super::peer::{self, McpPeer};
use super::rounds::{self, Round};
use super::serving::Serving;
use super::session::{Closing, Session};

/// Time for which a call may continue after its token is cancelled. Then its future is dropped. Applies when the server
/// shuts down or the connection ends.
const MOMENT: Duration = Duration::from_millis(500);

/// Maximum time for cancelling the stored task of a cancelled call.
const CANCELLING: Duration = Duration::from_secs(10);

/// Error code for a request that exceeds the limit on concurrent calls. JSON-RPC reserves the codes from -32099 to
/// -32000 for errors that a server defines.
const TOO_MANY_CALLS: ErrorCode = ErrorCode(-32000);

/// The execution of a client request that runs user code, such as a tool call.
///
/// Since protocol version 2026-07-28, the result of a call may list input that the client must provide. The client then
/// repeats the call with this input. Each of these calls is a round, with its own [`Call`].
pub(crate) struct Call {
    /// Handle by which tools, resources and prompts access the calling client.
    peer: McpPeer,
    /// Id of the call, which stays the same when the client repeats the call with the requested input.
    id: String,
    /// Number of times that the client has repeated the call with the requested input. Zero for the first call.
    round: u32,
    /// Bytes that identify the request (see [`rounds::origin`]). Empty before protocol version 2026-07-28.
    ///
    /// If the call requires input, its result contains an encoded state (`requestState`). The client sends the state
    /// back when it repeats the call. The state is valid only for a request with equal bytes.
    origin: Vec<u8>,
    /// Cancellation token that the tool receives. Cancelled when the request is cancelled, the connection ends, or the
    /// server shuts down.
    token: CancellationToken,
    /// Cancelled when the client cancels the request, or the task into which the call turned.
    cancelled: CancellationToken,
    /// Tokens that signal the end of a connection over a pair of streams. Never cancelled over HTTP.
    closing: Closing,
    /// Permit of the session's limit on concurrent calls. Released when the call is dropped.
    _place: OwnedSemaphorePermit,
}

/// The method, name, arguments and state of a client request, from which [`Call::new`] creates a [`Call`].
pub(crate) struct Target<'a> {
    /// Method of the protocol, such as `tools/call`.
    pub(crate) method: &'static str,
    /// Name of the tool or prompt, or URI of the resource.
    pub(crate) name: &'a str,
    /// Arguments of the tool or prompt.
    pub(crate) arguments: &'a Value,
    /// The client's responses to the requests that the server returned for the previous, incomplete call.
    pub(crate) responses: Option<InputResponses>,
    /// The `requestState` of an earlier round, which the client has sent back. `None` in the first round.
    pub(crate) state: Option<String>,
}

impl Target<'_> {
    /// Creates the target of a request without name and arguments, such as `resources/list`. Such a request never
    /// requires input.
    pub(crate) fn list(method: &'static str) -> Self {
        Self { method, name: "", arguments: &Value::Null, responses: None, state: None }
    }
}

impl Call {
    /// Creates a call. If the client repeats a call to provide input, the request contains the server's `requestState`.
    /// The new call then takes over the id and the earlier responses from this state.
    ///
    /// # Errors
    ///
    /// Returns an error in these cases:
    ///
    /// - Too many calls of the client are running.
    /// - The request contains a state that is invalid, has expired, or was created for a different request.
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
                // A client may send responses with its first request, before the server has requested them.
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
        let cancelled = context.ct.clone();
        let peer = McpPeer::new(context, session, Inputs::new(answers), timeout, propagation);
        let token = serving.server.context.cancellation_token.child_token();
        Ok(Self { peer, id, round: number, origin, token, cancelled, closing, _place: place })
    }

    /// Lets `token` cancel the call, instead of the end of the client's request.
    pub(crate) fn cancel_with(&mut self, token: CancellationToken) {
        self.cancelled = token;
    }

    /// Prepares the next run of the call, which has become a task. `answers` are the client's responses so far.
    pub(crate) fn repeat(&mut self, answers: InputResponses) {
        self.peer = self.peer.again(Inputs::new(answers));
    }

    /// Waits until the call is cancelled, the connection ends, or the server shuts down.
    pub(crate) async fn over(&self, serving: &Serving) {
        tokio::select! {
            () = self.cancelled.cancelled() => {}
            () = serving.server.shutdown.cancelled() => {}
            () = self.closing.calls_end.cancelled() => {}
        }
    }

    pub(crate) fn peer(&self) -> &McpPeer {
        &self.peer
    }

    /// Returns the [`ToolContext`] for a tool, a copy of the server's template with the values of this call.
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

    /// Returns the kind of response for a failed call. `failure` is the text of the failure.
    ///
    /// Since protocol version 2026-07-28, a call that needs input from the client fails. The kind of response is one of
    /// these:
    ///
    /// - [`Ending::InputRequired`] with the call's requests for input, if any of them has no response yet.
    /// - [`Ending::TooMuch`] if the state of such a call cannot be encoded.
    /// - [`Ending::AsItIs`] in all other cases, and in all earlier protocol versions.
    ///
    /// # Errors
    ///
    /// Returns an error if the call failed because the client lacks a required capability.
    pub(crate) fn ending(&self, serving: &Serving, failure: &str) -> Result<Ending, ErrorData> {
        if self.peer.version().has_handshake() {
            return Ok(Ending::AsItIs);
        }
        let open = self.open_requests(failure)?;
        if open.is_empty() {
            return Ok(Ending::AsItIs);
        }
        let round = Round {
            call_id: self.id.clone(),
            number: self.round + 1,
            asked: open.keys().cloned().collect(),
            answers: self.peer.inputs().answers(),
        };
        Ok(match serving.rounds.seal(&round, &self.origin) {
            Some(state) => Ending::InputRequired(InputRequiredResult::new(Some(open), Some(state))),
            None => Ending::TooMuch(
                "the call needs too many rounds of input, or the client's responses are too long",
            ),
        })
    }

    /// Removes and returns the call's requests for input without a response. `failure` is the text of the failure.
    ///
    /// # Errors
    ///
    /// Returns an error if the call failed because the client lacks a required capability.
    pub(crate) fn open_requests(&self, failure: &str) -> Result<InputRequests, ErrorData> {
        // The requests are recorded in the call and not in its error, because a tool or middleware may replace the
        // error.
        let open = self.peer.inputs().take_open();
        match self.peer.inputs().take_missing().filter(|_| open.is_empty()) {
            // A tool may have handled the missing capability and failed for another reason.
            Some(missing) if failure.contains(&missing.text) => {
                Err(ErrorData::missing_required_client_capability(missing.capabilities))
            }
            _ => Ok(open),
        }
    }

    /// Runs the user code `work` and returns its result. If `work` completes, all its notifications are passed to the
    /// SDK before this method returns.
    ///
    /// # Errors
    ///
    /// - The code panicked.
    /// - The client cancelled the request, or the connection or the server ends. `work` and its queued notifications
    ///   are then dropped. Pending requests of `work` to the client are cancelled.
    pub(crate) async fn run<T>(
        &self,
        serving: &Serving,
        work: impl Future<Output = T>,
    ) -> Result<T, ErrorData> {
        let token = self.token.clone().drop_guard();
        let outbox = self.peer.outbox();
        let work = async {
            // A registry catches the panics of its tools. Resources and prompts are called directly, so their panics
            // are caught here.
            let result = AssertUnwindSafe(work).catch_unwind().await;
            self.end_questions();
            outbox.close();
            result.map_err(|_| ErrorData::internal_error("the server's handler panicked", None))
        };
        let mut work = Box::pin(future::join(work, outbox.pump(&self.peer.context().peer)));
        // A tool that watches its token gets a grace period before its future is dropped.
        let shutdown = async {
            tokio::select! {
                () = serving.server.shutdown.cancelled() => {}
                () = self.closing.calls_end.cancelled() => {}
            }
            self.token.cancel();
            tokio::time::sleep(MOMENT).await;
        };
        tokio::select! {
            // A cancelled request must not get a result, even if the result is ready.
            biased;
            () = self.cancelled.cancelled() => {}
            () = shutdown => {}
            (result, ()) = &mut work => {
                token.disarm();
                return result;
            }
        }
        drop(work);
        // The call is over, so its queued notifications are dropped. Only cancellations of its open requests to the
        // client are still sent.
        self.end_questions();
        outbox.close_but_for_cancellations();
        outbox.pump(&self.peer.context().peer).await;
        self.cancel_task(serving).await;
        Err(ErrorData::internal_error("cancelled", None))
    }

    /// Cancels the stored task that the client should receive as the result of this call, if any, because the call was
    /// cancelled and the client does not receive the task. Does nothing if the server shuts down, because stored tasks
    /// survive a restart.
    pub(crate) async fn cancel_task(&self, serving: &Serving) {
        let Some(id) = self.peer.inputs().take_task() else { return };
        let Some(tasks) = &serving.server.tasks else { return };
        if serving.server.shutdown.is_cancelled() {
            return;
        }
        let cancelling = tasks.cancel_stored(&id, &self.peer);
        let cancelled = tokio::time::timeout(CANCELLING, cancelling).await;
        if let Err(error) = cancelled
            .unwrap_or_else(|error| Err(ErrorData::internal_error(error.to_string(), None)))
        {
            tracing::warn!(task = id, %error, "cannot cancel the stored task of a cancelled call");
        }
    }

    /// Rejects further requests to the client, and queues cancellations of the pending requests.
    fn end_questions(&self) {
        for cancelled in self.peer.inputs().end() {
            self.peer.outbox().push(cancelled);
        }
    }
}

/// The kind of response that the client receives for a failed call.
pub(crate) enum Ending {
    /// The client receives the failure itself, for example as an error result of the tool.
    AsItIs,
    /// The client must respond to the contained requests and call again.
    InputRequired(InputRequiredResult),
    /// The client receives this error text, because the call requested input too often, or because the client's
    /// responses are too long.
    TooMuch(&'static str),
}

/// Sends a tool's progress reports to the client.
struct Reporter(McpPeer);

impl ProgressReporter for Reporter {
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.0.report_progress(progress, total, message);
    }
}
