//! The handlers of a client: what answers when a server asks.
#![expect(deprecated, reason = "roots and sampling are left to older versions of the protocol")]

use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use neuron_types::McpError;
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorData,
    InputRequest, ListRootsResult,
};
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::wire::capabilities::Abilities;
use crate::wire::{self, error::handler_failed};
use crate::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpRoot, SamplingHandler,
    SamplingRequest, SamplingResponse, TraceContext,
};

/// So many questions of a server are answered at the same time; further ones are refused.
const AT_ONCE: usize = 32;

/// What answers when a server asks, in every version of the protocol: by requests of its own, or by
/// results that want input.
pub(super) struct Handlers {
    sampling: Option<Box<dyn Sampling>>,
    elicitation: Option<Box<dyn Elicitation>>,
    roots: Option<Mutex<Vec<McpRoot>>>,
    slots: Semaphore,
}

impl Default for Handlers {
    fn default() -> Self {
        Self { sampling: None, elicitation: None, roots: None, slots: Semaphore::new(AT_ONCE) }
    }
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

    pub(super) fn declare_roots(&mut self, roots: Vec<McpRoot>) {
        self.roots = Some(Mutex::new(roots));
    }

    /// Replaces the roots; `false` if there were none to be asked for.
    pub(super) fn replace_roots(&self, roots: Vec<McpRoot>) -> bool {
        let Some(current) = &self.roots else { return false };
        *current.lock().unwrap_or_else(PoisonError::into_inner) = roots;
        true
    }

    pub(super) fn abilities(&self) -> Abilities {
        let elicitation = self.elicitation.as_ref();
        Abilities {
            sampling: self.sampling.is_some(),
            forms: elicitation.is_some_and(|handler| handler.supports_forms()),
            urls: elicitation.is_some_and(|handler| handler.supports_urls()),
            roots: self.roots.is_some(),
        }
    }

    /// Answers a question that is part of a result (MCP specification 2026-07-28, `input_required`).
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
            _ => return Err(ErrorData::invalid_params("a question that is not known", None)),
        };
        answer.map_err(handler_failed)
    }

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
                return Err(ErrorData::invalid_params("this client shows no forms", None));
            }
            ElicitationRequest::Url { .. } if !handler.supports_urls() => {
                return Err(ErrorData::invalid_params("this client opens no pages", None));
            }
            _ => {}
        }
        let response = self.guarded(async { handler.elicit(request, trace).await }).await?;
        Ok(wire::elicitation::response_to_sdk(response))
    }

    pub(super) fn list_roots(&self) -> Result<ListRootsResult, ErrorData> {
        let Some(roots) = &self.roots else { return Err(not_offered("roots")) };
        Ok(wire::root::to_sdk(&roots.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Tells the handler that what a person did on a page is done.
    pub(super) fn elicitation_completed(&self, id: &str) {
        if let Some(handler) = &self.elicitation {
            survive("elicitation", || handler.completed(id));
        }
    }

    /// Runs a handler: one that panics has failed, and too many at once are refused.
    async fn guarded<T>(
        &self,
        work: impl Future<Output = Result<T, McpError>>,
    ) -> Result<T, ErrorData> {
        let Ok(_slot) = self.slots.try_acquire() else {
            return Err(handler_failed("this client answers too many questions already"));
        };
        match AssertUnwindSafe(work).catch_unwind().await {
            Ok(result) => result.map_err(handler_failed),
            Err(_) => Err(handler_failed("the handler of the client panicked")),
        }
    }
}

/// Runs what a user wrote on the way of the messages: a panic there must not end the connection.
pub(super) fn survive(what: &'static str, work: impl FnOnce()) {
    if std::panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!(target: "neuron_mcp", what, "a handler of the client panicked");
    }
}

fn not_offered(what: &str) -> ErrorData {
    let code = rmcp::model::ErrorCode::METHOD_NOT_FOUND;
    ErrorData::new(code, format!("this client offers no {what}"), None)
}

/// [`SamplingHandler`], whatever its type.
trait Sampling: Send + Sync {
    fn sample(&self, request: SamplingRequest)
    -> BoxFuture<'_, Result<SamplingResponse, McpError>>;
}

impl<T: SamplingHandler> Sampling for T {
    fn sample(
        &self,
        request: SamplingRequest,
    ) -> BoxFuture<'_, Result<SamplingResponse, McpError>> {
        Box::pin(SamplingHandler::sample(self, request))
    }
}

/// [`ElicitationHandler`], whatever its type.
trait Elicitation: Send + Sync {
    fn elicit(
        &self,
        request: ElicitationRequest,
        trace: Option<TraceContext>,
    ) -> BoxFuture<'_, Result<ElicitationResponse, McpError>>;
    fn supports_forms(&self) -> bool;
    fn supports_urls(&self) -> bool;
    fn completed(&self, id: &str);
}

impl<T: ElicitationHandler> Elicitation for T {
    fn elicit(
        &self,
        request: ElicitationRequest,
        trace: Option<TraceContext>,
    ) -> BoxFuture<'_, Result<ElicitationResponse, McpError>> {
        Box::pin(self.elicit_traced(request, trace))
    }

    fn supports_forms(&self) -> bool {
        ElicitationHandler::supports_forms(self)
    }

    fn supports_urls(&self) -> bool {
        ElicitationHandler::supports_urls(self)
    }

    fn completed(&self, id: &str) {
        ElicitationHandler::completed(self, id);
    }
}
