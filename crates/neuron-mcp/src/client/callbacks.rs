//! What a server asks a client by requests of its own (MCP until 2025-11-25).
#![expect(deprecated, reason = "roots and sampling are left to older versions of the protocol")]

use std::future::Future;
use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ErrorData, ListRootsResult,
};
use rmcp::service::{RequestContext, RoleClient};

use super::handlers::Handlers;
use super::watch::Watch;
use crate::wire;
use crate::wire::error::handler_failed;

/// Answers the requests of a server. Its notifications are seen earlier, in the order in which they come:
/// see [`Watch`].
#[derive(Debug)]
pub(super) struct Callbacks {
    pub(super) config: ClientConfig,
    pub(super) handlers: Arc<Handlers>,
    pub(super) watch: Arc<Watch>,
}

impl Callbacks {
    /// Waits for a handler, unless the server takes its question back or the connection ends.
    async fn answer<T>(
        &self,
        context: RequestContext<RoleClient>,
        work: impl Future<Output = Result<T, ErrorData>> + Send,
    ) -> Result<T, ErrorData> {
        let _asking = self.watch.asking();
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(handler_failed("the server took its question back")),
            () = self.watch.ended() => Err(handler_failed("the connection is closed")),
            answer = work => answer,
        }
    }
}

impl ClientHandler for Callbacks {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let trace = wire::trace::from_meta(&context.meta);
        self.answer(context, self.handlers.sample(params, trace)).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let trace = wire::trace::from_meta(&context.meta);
        self.answer(context, self.handlers.elicit(params, trace)).await
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        self.handlers.list_roots()
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}
