//! An agent that is hosted on Restate ([`AgentService`]).

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
/// See the [crate's page](crate) for a whole one, and for what each handler takes and gives.
pub struct AgentService<P> {
    host: Host<P>,
}

impl<P: Provider + 'static> AgentService<P> {
    /// Hosts an agent under a name of letters, digits, `.`, `_` and `-` that starts with a letter.
    ///
    /// `provider` answers the calls of the model and `tools` run the calls of tools, whatever the agent
    /// that `agent` builds holds itself; its registry must describe the same tools.
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

    /// Sets how the agent runs.
    #[must_use]
    pub fn with_options(mut self, options: RestateOptions) -> Self {
        self.host.options = Arc::new(options);
        self
    }

    /// Adds the agent to an endpoint, which may have other services and may authenticate callers.
    ///
    /// # Errors
    ///
    /// [`InvalidServiceName`].
    pub fn bind(self, endpoint: Builder) -> Result<Builder, InvalidServiceName> {
        let host = Arc::new(self.host);
        let invalid = || InvalidServiceName(host.name.clone());
        let object = object(&host).ok_or_else(invalid)?;
        let service = service(host.clone()).ok_or_else(invalid)?;
        Ok(endpoint.bind(service).bind(object))
    }

    /// Serves the agent until `cancel` ends, and then what has begun for up to ten seconds.
    ///
    /// Restate must be told of the address; see the [crate's page](crate). The endpoint takes requests
    /// from anyone who reaches it: let it listen where only Restate does.
    ///
    /// # Errors
    ///
    /// [`InvalidServiceName`].
    ///
    /// # Cancel safety
    ///
    /// Dropped, it stops taking connections. What has begun goes on until the runtime ends; Restate does
    /// again what did not end.
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

/// The name of a service is none that Restate takes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name for a service: letters, digits, `.`, `_` and `-`, a letter first")]
pub struct InvalidServiceName(String);
