//! The connector for a server in a child process. Each connection starts a new process.

use neuron_types::McpError;

use super::connection::{Connector, Opened};
use super::stdio::{StdioOptions, StdioTransport};
use crate::StdioConfig;
use crate::route::Route;

/// A connector that starts a child process for each connection.
#[derive(Debug)]
pub(super) struct StdioConnector {
    config: StdioConfig,
    options: StdioOptions,
}

impl StdioConnector {
    pub(super) fn new(config: StdioConfig, options: StdioOptions) -> Self {
        Self { config, options }
    }
}

impl Connector for StdioConnector {
    type Transport = StdioTransport;

    fn name(&self) -> &str {
        &self.config.command
    }

    async fn open(&self) -> Result<Opened<Self::Transport>, McpError> {
        let transport = StdioTransport::spawn(&self.config, &self.options)?;
        let exit_report = Some(transport.exit_report());
        Ok(Opened { transport, route: Route::pipe(), exit_report })
    }
}
