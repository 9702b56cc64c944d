//! A server to test with: its tools, and how it is started.

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

/// Says what it was told
#[neuron_tool]
async fn echo(text: String) -> Result<String, ToolError> {
    Ok(text)
}

/// Says as much as it is told to
#[neuron_tool]
async fn much(bytes: usize) -> Result<String, ToolError> {
    Ok("x".repeat(bytes))
}

/// Asks the person at the client
#[neuron_tool]
async fn ask(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let schema = serde_json::json!({ "type": "object", "properties": {} });
    let answer = peer.elicit("name", ElicitationRequest::form("Well?", schema)).await?;
    Ok(format!("{answer:?}"))
}

/// What a test knows of calls of `wait`, and what lets them end.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    pub(super) began: Arc<Notify>,
    pub(super) ended: Arc<Notify>,
    pub(super) release: Arc<Notify>,
}

struct Ended(Arc<Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Waits until the test lets it go on
#[neuron_tool]
async fn wait(ctx: &ToolContext) -> Result<String, ToolError> {
    let waiting = ctx.extensions.get::<Waiting>().unwrap();
    let _ended = Ended(waiting.ended.clone());
    waiting.began.notify_one();
    waiting.release.notified().await;
    Ok("waited".to_owned())
}

/// A value that a hook attaches.
#[derive(Clone)]
pub(super) struct Tenant(pub(super) u32);

/// Says in whose name it was called
#[neuron_tool]
async fn whoami(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let subject = peer.extension::<HttpIdentity>().map(|identity| identity.subject().to_owned());
    let tenant = peer.extension::<Tenant>().map(|tenant| tenant.0);
    let connected = peer.extension::<SocketAddr>().map(SocketAddr::ip);
    Ok(format!("{subject:?} {tenant:?} {connected:?}"))
}

/// Says which scopes the caller has, and which headers it sees
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

/// A server of these tools.
pub(super) fn mcp_server(waiting: &Waiting) -> McpServer {
    let mut context = ToolContext::default();
    context.extensions.insert(waiting.clone());
    McpServer::new(tools()).with_name("hosted").with_tool_context(context)
}

/// A server that runs, and ends with the test.
pub(super) struct Running {
    pub(super) addr: SocketAddr,
    pub(super) url: String,
    pub(super) waiting: Waiting,
    pub(super) shutdown: CancellationToken,
    serving: JoinSet<Result<(), McpError>>,
}

impl Running {
    /// Waits until `serve` has returned.
    pub(super) async fn ended(&mut self) -> Result<(), McpError> {
        within(self.serving.join_next()).await.unwrap().unwrap()
    }

    /// Drops the future of `serve`.
    pub(super) async fn drop_server(&mut self) {
        self.serving.shutdown().await;
    }
}

/// Starts a server on a free port of 127.0.0.1.
pub(super) async fn start(configure: impl FnOnce(HttpServerConfig) -> HttpServerConfig) -> Running {
    let waiting = Waiting::default();
    let config = configure(HttpServerConfig::default());
    let listening = mcp_server(&waiting).bind_http(config).await.unwrap();
    let (addr, url) = (listening.local_addr(), listening.url());
    let shutdown = listening.shutdown_token();
    let mut serving = JoinSet::new();
    serving.spawn(listening.serve());
    Running { addr, url, waiting, shutdown, serving }
}
