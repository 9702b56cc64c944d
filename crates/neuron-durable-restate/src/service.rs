//! Hosts an agent on Restate ([`AgentService`]).

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use neuron_tool::ToolRegistry;
use neuron_types::{DurableAgent, Provider};
use restate_sdk::endpoint::{Builder, Endpoint};
use restate_sdk::http_server::HttpServer;
use tokio::net::TcpListener;

use crate::RestateOptions;
use crate::definition::{object, service};
use crate::host::Host;
use crate::running::RunningTools;

/// An agent that is hosted on Restate, with the handlers for its runs and its tools.
///
/// The [crate's page](crate) has a complete example, and describes the input and output of each handler.
pub struct AgentService<P> {
    host: Host<P>,
}

impl<P: Provider + 'static> AgentService<P> {
    /// Hosts an agent as the Restate service `name`. The name consists of letters, digits, `.`, `_` and `-`, and starts
    /// with a letter.
    ///
    /// `provider` makes all model calls, and `tools` run all tool calls. If `agent` has its own provider and tools,
    /// they are not called. The agent's own tools must have the same definitions as `tools`.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        provider: Arc<P>,
        tools: Arc<ToolRegistry>,
        agent: impl DurableAgent + 'static,
    ) -> Self {
        let host = Host {
            name: name.into(),
            provider,
            tools,
            agent: Box::new(agent),
            options: Arc::default(),
            running: RunningTools::default(),
        };
        Self { host }
    }

    /// Sets the options of the agent's runs, [`DurableOptions`](neuron_durable::DurableOptions) or [`RestateOptions`].
    /// Replaces all options, also those that only Restate has.
    #[must_use]
    pub fn options(mut self, options: impl Into<RestateOptions>) -> Self {
        self.host.options = Arc::new(options.into());
        self
    }

    /// Adds the service to an endpoint, which may have other services and may verify requests.
    ///
    /// # Errors
    ///
    /// [`InvalidServiceName`] if Restate does not accept the name of the service.
    pub fn bind(self, endpoint: Builder) -> Result<Builder, InvalidServiceName> {
        let host = Arc::new(self.host);
        let invalid = || InvalidServiceName(host.name.clone());
        let object = object(&host).ok_or_else(invalid)?;
        let service = service(host.clone()).ok_or_else(invalid)?;
        Ok(endpoint.bind(service).bind(object))
    }

    /// Serves the agent until the future `cancel` completes. Requests in progress then have up to ten seconds to
    /// complete.
    ///
    /// The address must be registered with Restate, see the [crate's page](crate). The endpoint accepts requests from
    /// any client, so the listener should be reachable only by Restate.
    ///
    /// # Errors
    ///
    /// [`InvalidServiceName`] if Restate does not accept the name of the service.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no further connections are accepted. Requests in progress continue until the runtime
    /// ends, and Restate repeats the requests that did not end.
    pub async fn serve(
        self,
        listener: TcpListener,
        cancel: impl Future,
    ) -> Result<(), InvalidServiceName> {
        let endpoint = self.bind(Endpoint::builder())?.build();
        HttpServer::new(endpoint).serve_with_cancel(listener, cancel).await;
        Ok(())
    }
}

impl<P> fmt::Debug for AgentService<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentService")
            .field("name", &self.host.name)
            .field("options", &self.host.options)
            .finish_non_exhaustive()
    }
}

/// The error for a service name that Restate does not accept. It contains the name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name for a service: letters, digits, `.`, `_` and `-`, a letter first")]
pub struct InvalidServiceName(String);
