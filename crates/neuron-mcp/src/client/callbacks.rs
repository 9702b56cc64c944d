//! Requests of a server to the client (MCP until 2025-11-25).
#![expect(deprecated, reason = "roots and sampling are left to older versions of the protocol")]

use std::future::Future;
use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, ListRootsResult,
};
use rmcp::service::{RequestContext, RoleClient};
use tracing::Instrument;

use super::handlers::Handlers;
use super::watch::Watch;
use crate::propagation::Propagation;
use crate::span::{Failure, RequestSpan, Subject};
use crate::wire::{self, error::handler_failed};

/// Name of the request for a response of the client's model.
const SAMPLING: &str = "sampling/createMessage";

/// The handler of the server's requests. The server's notifications are handled by [`Watch`], because the SDK may
/// change their order.
#[derive(Debug)]
pub(super) struct Callbacks {
    pub(super) config: ClientConfig,
    pub(super) handlers: Arc<Handlers>,
    pub(super) watch: Arc<Watch>,
    pub(super) propagation: Propagation,
}

impl Callbacks {
    /// Runs `work`, which handles a server request, inside a span. Returns an error if the server cancels the request
    /// or the connection ends before `work` is done.
    async fn answer<T>(
        &self,
        method: &str,
        context: RequestContext<RoleClient>,
        work: impl Future<Output = Result<T, ErrorData>> + Send,
    ) -> Result<T, ErrorData> {
        let _asking = self.watch.asking();
        let span = self.span(method, &context);
        let (answer, failure) = async {
            tokio::select! {
                biased;
                () = context.ct.cancelled() => {
                    let error = handler_failed("the server cancelled its request");
                    (Err(error), Some(Failure::CANCELLED))
                }
                () = self.watch.ended() => {
                    (Err(handler_failed("the connection is closed")), Some(Failure::TRANSPORT))
                }
                answer = work => {
                    let failure = answer.as_ref().err().map(|error| Failure::Code(error.code.0));
                    (answer, failure)
                }
            }
        }
        .instrument(span.to_enter())
        .await;
        span.end(failure);
        answer
    }

    /// Creates the span of a server request. Its parent comes from the trace context of the request. The current span
    /// is not the parent, because it belongs to the connection.
    fn span(&self, method: &str, context: &RequestContext<RoleClient>) -> RequestSpan {
        let server = context.peer.peer_info();
        let version =
            server.and_then(|server| wire::peer_info::version_from_sdk(&server.protocol_version));
        let subject = Subject::method(method);
        let span = RequestSpan::server(&subject, version, self.watch.route(), None);
        span.has_id(&context.id);
        if let Some(parent) = wire::trace::from_meta(&context.meta) {
            self.propagation.set_parent(span.span(), &parent);
        }
        span
    }
}

impl ClientHandler for Callbacks {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let trace = wire::trace::from_meta(&context.meta);
        self.answer(SAMPLING, context, self.handlers.sample(params, trace)).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        // The SDK parses a request with an invalid message as a custom request.
        if request.method == SAMPLING
            && let Some(params) = request.params.and_then(wire::sampling::params_from_json)
        {
            let answer = self.create_message(params, context).await?;
            let answer = serde_json::to_value(answer).map_err(handler_failed)?;
            return Ok(CustomResult(answer));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let trace = wire::trace::from_meta(&context.meta);
        self.answer("elicitation/create", context, self.handlers.elicit(params, trace)).await
    }

    async fn list_roots(
        &self,
        context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.answer("roots/list", context, async { self.handlers.list_roots() }).await
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
