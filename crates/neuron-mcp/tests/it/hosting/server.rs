//! The server of the hosting tests, with its tools and with functions to start it.

use std::net::SocketAddr;
use std::sync::Arc;

use neuron_mcp::{
    ElicitationRequest, HttpIdentity, HttpServerConfig, McpError, McpPeer, McpServer, TokenClaims,
};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{ToolContext, ToolError};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::raw::within;

/// Returns the argument `text` unchanged
#[neuron_tool]
async fn echo(text: String) -> Result<String, ToolError> {
    Ok(text)
}

/// Returns a text of the given length in bytes
#[neuron_tool]
async fn much(bytes: usize) -> Result<String, ToolError> {
    Ok("x".repeat(bytes))
}

/// Sends an elicitation request to the client
#[neuron_tool]
async fn ask(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let schema = serde_json::json!({ "type": "object", "properties": {} });
    let answer = peer.elicit("name", ElicitationRequest::form("Well?", schema)).await?;
    Ok(format!("{answer:?}"))
}

/// Signals between a test and the calls of the tool `wait`.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    /// Notified when a call starts.
    pub(super) began: Arc<Notify>,
    /// Notified when a call returns or is dropped.
    pub(super) ended: Arc<Notify>,
    /// Notify to let a call return.
    pub(super) release: Arc<Notify>,
}

/// Guard that notifies the test when it is dropped.
struct Ended(Arc<Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Waits until the test releases the call
#[neuron_tool]
async fn wait(ctx: &ToolContext) -> Result<String, ToolError> {
    let waiting = ctx.extensions.get::<Waiting>().unwrap();
    let _ended = Ended(waiting.ended.clone());
    waiting.began.notify_one();
    waiting.release.notified().await;
    Ok("waited".to_owned())
}

/// A value that the authentication hook attaches to an identity.
#[derive(Clone)]
pub(super) struct Tenant(pub(super) u32);

/// Returns the subject, the tenant and the IP address of the caller
#[neuron_tool]
async fn whoami(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let subject = peer.extension::<HttpIdentity>().map(|identity| identity.subject().to_owned());
    let tenant = peer.extension::<Tenant>().map(|tenant| tenant.0);
    let connected = peer.extension::<SocketAddr>().map(SocketAddr::ip);
    Ok(format!("{subject:?} {tenant:?} {connected:?}"))
}

/// Returns the scopes of the caller's token and the visible request headers
#[neuron_tool]
async fn claims(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let scopes = peer.extension::<TokenClaims>().map(|claims| claims.scopes.clone());
    let (token, other) = (peer.header("authorization"), peer.header("x-other"));
    let scopes = scopes.unwrap_or_default();
    Ok(format!("{scopes:?} authorization: {token:?}, x-other: {other:?}"))
}

pub(super) fn tools() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    registry.register(AskTool);
    registry.register(ClaimsTool);
    registry.register(EchoTool);
    registry.register(MuchTool);
    registry.register(WaitTool);
    registry.register(WhoamiTool);
    registry
}

/// Creates a server with the tools of this file.
pub(super) fn mcp_server(waiting: &Waiting) -> McpServer {
    let mut context = ToolContext::default();
    context.extensions.insert(waiting.clone());
    McpServer::new(tools()).with_name("hosted").with_tool_context(context)
}

/// A running HTTP server. Ends when dropped.
pub(super) struct Running {
    pub(super) addr: SocketAddr,
    pub(super) url: String,
    pub(super) waiting: Waiting,
    pub(super) shutdown: CancellationToken,
    serving: JoinSet<Result<(), McpError>>,
}

impl Running {
    /// Waits until `McpHttpServer::serve` has returned, and returns its result.
    pub(super) async fn ended(&mut self) -> Result<(), McpError> {
        within(self.serving.join_next()).await.unwrap().unwrap()
    }

    /// Drops the future of `McpHttpServer::serve`, which ends the server without a shutdown.
    pub(super) async fn drop_server(&mut self) {
        self.serving.shutdown().await;
    }
}

/// Starts a server on a free port of 127.0.0.1. `configure` can change the default configuration.
pub(super) async fn start(configure: impl FnOnce(HttpServerConfig) -> HttpServerConfig) -> Running {
    start_with(|server| server, configure).await
}

/// Starts a server like [`start`]. `change` can change the settings of the server.
pub(super) async fn start_with(
    change: impl FnOnce(McpServer) -> McpServer,
    configure: impl FnOnce(HttpServerConfig) -> HttpServerConfig,
) -> Running {
    let waiting = Waiting::default();
    let config = configure(HttpServerConfig::default());
    let listening = change(mcp_server(&waiting)).bind_http(config).await.unwrap();
    let (addr, url) = (listening.local_addr(), listening.url());
    let shutdown = listening.shutdown_token();
    let mut serving = JoinSet::new();
    serving.spawn(listening.serve());
    Running { addr, url, waiting, shutdown, serving }
}
