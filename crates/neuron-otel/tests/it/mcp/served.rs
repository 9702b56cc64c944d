//! An MCP server in the test's process, its client, and an agent with its tools.

use std::sync::Arc;
use std::time::Duration;

use neuron_mcp::{
    HttpConfig, HttpServerConfig, McpClient, McpPrompt, McpPromptMessage, McpPromptResult,
    McpPromptSet, McpResource, McpResourceSet, McpServer, McpVersion,
};
use neuron_testing::{AnthropicServer, ServerReply};
use neuron_tool::ToolRegistry;
use neuron_types::ToolDyn;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::within::User;
use crate::support::agents::Chat;
use crate::support::conventions::Version;
use crate::support::look::{Behavior, Look};
use crate::support::setup::{Case, Server, Setup, Vendor};
use crate::support::telemetry::Telemetry;
use crate::support::tree::{Forest, Tree};

/// Text in arguments, results, errors and messages. No trace may contain it.
pub(super) const SECRET: &str = "SENTINEL";

/// The type of connection between a client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Streams within the test's process.
    Streams,
    /// HTTP on the loopback interface.
    Http,
}

/// A test case. It consists of a connection type, a protocol version and a version of the conventions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) way: Way,
    pub(super) protocol: McpVersion,
    pub(super) conventions: Version,
}

/// Returns all combinations of a connection type, a protocol version and a version of the conventions. The protocol
/// versions are one with sessions and one without.
pub(super) fn kinds() -> impl Iterator<Item = Kind> {
    let protocols = [McpVersion::V2025_11_25, McpVersion::V2026_07_28];
    [Way::Streams, Way::Http].into_iter().flat_map(move |way| {
        protocols.into_iter().flat_map(move |protocol| {
            Version::ALL.map(|conventions| Kind { way, protocol, conventions })
        })
    })
}

/// A running server and its client.
pub(super) struct Served {
    pub(super) client: Arc<McpClient>,
    /// Port of the server. `None` if the connection does not use HTTP.
    pub(super) port: Option<i64>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Kind {
    /// Starts a model server with these responses, and an export pipeline that excludes the log of the MCP SDK.
    pub(super) async fn start<R: Into<ServerReply>>(
        self,
        replies: impl IntoIterator<Item = R>,
    ) -> Setup {
        let server = Server::Anthropic(AnthropicServer::start(replies).await.unwrap());
        let case = Case { vendor: Vendor::Anthropic, version: self.conventions };
        Setup { case, server, telemetry: Telemetry::without("rmcp") }
    }

    /// Starts an MCP server with the tool `look`, the prompt `greet` and the resource `x://1`, and a client.
    pub(super) async fn serve(self, look: Behavior) -> Served {
        self.serve_tool(Arc::new(Look(look))).await
    }

    /// Starts an MCP server with the given tool instead of `look`, and a client.
    pub(super) async fn serve_tool(self, tool: Arc<dyn ToolDyn>) -> Served {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(tool);
        let resources = McpResourceSet::new().with_text(McpResource::new("x://1", "one"), SECRET);
        let prompts = McpPromptSet::new().with_prompt(McpPrompt::new("greet"), |get| async move {
            let text = format!("{SECRET} {:?}", get.arguments);
            let messages = vec![McpPromptMessage::user(text)];
            Ok(McpPromptResult { messages, ..McpPromptResult::default() })
        });
        let stop = CancellationToken::new();
        let server = McpServer::new(tools)
            .with_resources(resources)
            .with_prompts(prompts)
            .with_shutdown(stop.clone())
            .with_trace_context(neuron_otel::current_trace_context)
            .with_trace_parent(neuron_otel::set_trace_parent);
        let builder = McpClient::builder()
            .versions([self.protocol])
            .elicitation(User)
            .trace_context(neuron_otel::current_trace_context)
            .trace_parent(neuron_otel::set_trace_parent);
        match self.way {
            Way::Streams => {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                let (input, output) = tokio::io::split(theirs);
                let serving =
                    tokio::spawn(async move { server.serve_io(input, output).await.unwrap() });
                let (input, output) = tokio::io::split(ours);
                let client = Arc::new(builder.connect_io(input, output).await.unwrap());
                Served { client, port: None, stop, serving }
            }
            Way::Http => {
                let listening = server
                    .bind_http(HttpServerConfig::default().shutdown_grace(Duration::ZERO))
                    .await
                    .unwrap();
                let port = Some(i64::from(listening.local_addr().port()));
                let config = HttpConfig {
                    url: format!("{}?key={SECRET}", listening.url()),
                    ..HttpConfig::default()
                };
                let serving = tokio::spawn(async move { listening.serve().await.unwrap() });
                let client = Arc::new(builder.connect_http(config).await.unwrap());
                Served { client, port, stop, serving }
            }
        }
    }

    /// Returns the expected values of the span attributes `network.transport` and `network.protocol.name`. `None` means
    /// that the attribute must be absent.
    pub(super) fn network(self) -> (Option<&'static str>, Option<&'static str>) {
        match self.way {
            Way::Streams => (None, None),
            Way::Http => (Some("tcp"), Some("http")),
        }
    }

    pub(super) fn has_sessions(self) -> bool {
        self.way == Way::Http && self.protocol.has_handshake()
    }
}

impl Served {
    /// Returns an agent named `planner` with the tools of the MCP server.
    pub(super) async fn agent(&self, setup: &Setup) -> Chat {
        agent(setup, McpClient::discover_tools(&self.client).await.unwrap())
    }

    /// Closes the connection and stops the server.
    pub(super) async fn end(self) {
        self.client.close().await;
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}

/// Returns an agent named `planner` with the given tools and an `OtelHook`.
pub(super) fn agent(setup: &Setup, tools: Vec<Arc<dyn ToolDyn>>) -> Chat {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(tool);
    }
    Chat::new(setup.plain(Behavior::Echo).tools(registry).hook(setup.hook()))
}

/// Returns only the span tree of the agent's run. The trees of requests that set up the MCP connection are left out.
#[track_caller]
pub(super) fn run_of(forest: &Forest) -> Forest {
    Forest(vec![forest.one("invoke_agent planner").clone()])
}

/// Checks that every span of a tree belongs to the trace of the root.
#[track_caller]
pub(super) fn assert_one_trace(tree: &Tree) {
    for child in &tree.children {
        assert_eq!(child.span.trace_id, tree.span.trace_id, "{child:?}");
        assert_one_trace(child);
    }
}

/// Waits until `is_enough` returns `true` for the received spans. The server's spans may end after the client has
/// continued.
pub(super) async fn until_arrived(telemetry: &Telemetry, is_enough: impl Fn(&Forest) -> bool) {
    let arrived = async {
        loop {
            // On a slow machine a flush may time out. A later flush then sends the pending spans.
            let _ = telemetry.flush();
            let forest = Forest::new(&telemetry.receiver().spans());
            if is_enough(&forest) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), arrived).await.expect("all spans end");
}
