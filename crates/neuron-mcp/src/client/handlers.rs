//! Handlers for sampling, elicitation and roots requests of the server.
//!
//! In this module, a question is a sampling or elicitation request of the server. Until MCP 2025-11-25, a question is a
//! JSON-RPC request. Since MCP 2026-07-28, a question is part of a result that requires input.
#![expect(deprecated, reason = "roots and sampling are left to older versions of the protocol")]

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use neuron_types::McpError;
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorData,
    InputRequest, ListRootsResult,
};
use serde_json::Value;
use tokio::time::Instant;

use crate::erased::erased;
use crate::wire::capabilities::Abilities;
use crate::wire::{self, error::handler_failed};
use crate::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpRoot, SamplingHandler,
    SamplingRequest, SamplingResponse, TraceContext,
};

/// The period of the limit on sampling and elicitation requests per minute.
const MINUTE: Duration = Duration::from_secs(60);

/// The handlers of a client for requests of the server, and the limits on these requests.
#[derive(Default)]
pub(super) struct Handlers {
    sampling: Option<Box<dyn Sampling>>,
    elicitation: Option<Box<dyn Elicitation>>,
    roots: Option<Mutex<Vec<McpRoot>>>,
    questions: Mutex<Questions>,
}

/// Maximum number of sampling and elicitation requests of a server that are handled at the same time. Further requests
/// are refused, so that a server cannot flood a person or a model.
const AT_ONCE: usize = 8;

/// Maximum number of sampling and elicitation requests of a server within any 60 seconds. Further requests are refused.
const PER_MINUTE: usize = 60;

/// The counters of sampling and elicitation requests, which are compared with [`AT_ONCE`] and [`PER_MINUTE`].
#[derive(Debug, Default)]
struct Questions {
    /// Number of sampling and elicitation requests that a handler is answering.
    open: usize,
    /// Arrival times of the sampling and elicitation requests that were accepted in the last 60 seconds.
    came: VecDeque<Instant>,
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("sampling", &self.sampling.is_some())
            .field("elicitation", &self.elicitation.is_some())
            .field("roots", &self.roots)
            .finish()
    }
}

impl Handlers {
    pub(super) fn set_sampling(&mut self, handler: impl SamplingHandler + 'static) {
        self.sampling = Some(Box::new(handler));
    }

    pub(super) fn set_elicitation(&mut self, handler: impl ElicitationHandler + 'static) {
        self.elicitation = Some(Box::new(handler));
    }

    /// Sets the roots. Without this call, the client does not support roots.
    pub(super) fn declare_roots(&mut self, roots: Vec<McpRoot>) {
        self.roots = Some(Mutex::new(roots));
    }

    /// Replaces the roots. Returns `false` if the client was built without roots.
    pub(super) fn replace_roots(&self, roots: Vec<McpRoot>) -> bool {
        let Some(current) = &self.roots else { return false };
        *current.lock().unwrap_or_else(PoisonError::into_inner) = roots;
        true
    }

    /// Returns the capabilities that the client reports to servers. `tasks` is `true` if the client can follow tasks.
    pub(super) fn abilities(&self, tasks: bool) -> Abilities {
        let elicitation = self.elicitation.as_ref();
        Abilities {
            sampling: self.sampling.is_some(),
            forms: elicitation.is_some_and(|handler| handler.supports_forms()),
            urls: elicitation.is_some_and(|handler| handler.supports_urls()),
            roots: self.roots.is_some(),
            tasks,
        }
    }

    /// Handles a server's request that is part of a result (MCP since 2026-07-28, `input_required`). Returns the
    /// response as JSON.
    pub(super) async fn answer(&self, request: InputRequest) -> Result<Value, ErrorData> {
        let answer = match request {
            InputRequest::CreateMessage(request) => {
                let trace = wire::input::trace_of(&request.extensions);
                serde_json::to_value(self.sample(request.params, trace).await?)
            }
            InputRequest::Elicitation(request) => {
                let trace = wire::input::trace_of(&request.extensions);
                serde_json::to_value(self.elicit(request.params, trace).await?)
            }
            InputRequest::ListRoots(_) => serde_json::to_value(self.list_roots()?),
            _ => return Err(ErrorData::invalid_params("unknown kind of input request", None)),
        };
        answer.map_err(handler_failed)
    }

    /// Handles a sampling request of the server.
    pub(super) async fn sample(
        &self,
        request: CreateMessageRequestParams,
        trace: Option<TraceContext>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(handler) = &self.sampling else { return Err(not_offered("sampling")) };
        let request = wire::sampling::request_from_sdk(request, trace);
        let response = self.guarded(async { handler.sample(request).await }).await?;
        Ok(wire::sampling::response_to_sdk(&response))
    }

    /// Handles an elicitation request of the server.
    pub(super) async fn elicit(
        &self,
        request: ElicitRequestParams,
        trace: Option<TraceContext>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(handler) = &self.elicitation else { return Err(not_offered("elicitation")) };
        let request = wire::elicitation::request_from_sdk(request)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        match request {
            ElicitationRequest::Form { .. } if !handler.supports_forms() => {
                return Err(ErrorData::invalid_params(
                    "this client does not support elicitation with forms",
                    None,
                ));
            }
            ElicitationRequest::Url { .. } if !handler.supports_urls() => {
                return Err(ErrorData::invalid_params(
                    "this client does not support elicitation with URLs",
                    None,
                ));
            }
            _ => {}
        }
        let response = self.guarded(async { handler.elicit_traced(request, trace).await }).await?;
        Ok(wire::elicitation::response_to_sdk(response))
    }

    /// Returns the response to a server that requests the roots. Returns an error if the client was built without
    /// roots.
    pub(super) fn list_roots(&self) -> Result<ListRootsResult, ErrorData> {
        let Some(roots) = &self.roots else { return Err(not_offered("roots")) };
        Ok(wire::root::to_sdk(&roots.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Notifies the elicitation handler that the user has finished on the web page of the elicitation `id`.
    pub(super) fn elicitation_completed(&self, id: &str) {
        if let Some(handler) = &self.elicitation {
            survive("elicitation", || handler.completed(id));
        }
    }

    /// Counts a new sampling or elicitation request as open, until the returned value is dropped. Returns an error if
    /// the number of open requests, or of requests in the last 60 seconds, is at its limit.
    fn begin(&self) -> Result<Question<'_>, ErrorData> {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |limit: String| {
            tracing::warn!(target: "neuron_mcp", limit, "refused a request of the server");
            Err(handler_failed(format!("this client handles at most {limit}: try again later")))
        };
        if questions.open >= AT_ONCE {
            return refused(format!("{AT_ONCE} requests concurrently"));
        }
        let now = Instant::now();
        questions.came.retain(|came| now.duration_since(*came) < MINUTE);
        if questions.came.len() >= PER_MINUTE {
            return refused(format!("{PER_MINUTE} requests per minute"));
        }
        questions.came.push_back(now);
        questions.open += 1;
        Ok(Question(&self.questions))
    }

    /// Runs a handler (`work`) and returns its result. Returns an error if a limit of the requests is reached, or
    /// if the handler fails or panics.
    async fn guarded<T>(
        &self,
        work: impl Future<Output = Result<T, McpError>>,
    ) -> Result<T, ErrorData> {
        let _question = self.begin()?;
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(result) => result.map_err(handler_failed),
            Err(_) => Err(handler_failed("the handler of the client panicked")),
        }
    }
}

/// A sampling or elicitation request that a handler is answering. Dropping the value decrements [`Questions::open`].
struct Question<'a>(&'a Mutex<Questions>);

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.open = questions.open.saturating_sub(1);
    }
}

/// Runs a callback of the user, and logs a panic of the callback. Otherwise a panic would end the task that receives
/// messages, and so the connection. `what` names the callback in the log.
pub(super) fn survive(what: &'static str, work: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!(target: "neuron_mcp", what, "a handler of the client panicked");
    }
}

/// Returns the error for a server request that needs a capability that the client does not have. `what` names the
/// capability.
fn not_offered(what: &str) -> ErrorData {
    let code = rmcp::model::ErrorCode::METHOD_NOT_FOUND;
    ErrorData::new(code, format!("this client does not support {what}"), None)
}

erased! {
    /// A type-erased [`SamplingHandler`].
    trait Sampling<'a>: SamplingHandler {
        async fn sample(request: SamplingRequest) -> Result<SamplingResponse, McpError>;
    }
}

erased! {
    /// A type-erased [`ElicitationHandler`].
    trait Elicitation<'a>: ElicitationHandler {
        async fn elicit_traced(request: ElicitationRequest, trace: Option<TraceContext>)
            -> Result<ElicitationResponse, McpError>;
        fn supports_forms() -> bool;
        fn supports_urls() -> bool;
        fn completed(id: &str) -> ();
    }
}
