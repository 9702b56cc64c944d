//! A Model Context Protocol (MCP) client, a bridge from a server's tools to an agent's registry, and a server for the
//! tools of a registry.
//!
//! ```
//! use std::sync::Arc;
//! use neuron_mcp::{McpClient, McpServer};
//! use neuron_tool::{ToolRegistry, neuron_tool};
//! use neuron_types::{ToolContext, ToolError};
//!
//! /// Adds two numbers
//! #[neuron_tool]
//! async fn add(a: f64, b: f64) -> Result<f64, ToolError> {
//!     Ok(a + b)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server for the tools of a registry. This one serves a client in the same process.
//! // Use `serve_stdio` or `serve_http` for other clients.
//! let mut tools = ToolRegistry::new();
//! tools.register(AddTool);
//! let server = McpServer::new(tools).with_name("calculator");
//! let (theirs, ours) = tokio::io::duplex(64 * 1024);
//! let (input, output) = tokio::io::split(theirs);
//! tokio::spawn(async move { server.serve_io(input, output).await });
//!
//! // A client, with the server's tools in the registry of an agent.
//! let (input, output) = tokio::io::split(ours);
//! let client = Arc::new(McpClient::builder().connect_io(input, output).await?);
//! let mut registry = ToolRegistry::new();
//! for tool in McpClient::discover_tools(&client).await? {
//!     registry.try_register_dyn(tool)?;
//! }
//!
//! let args = serde_json::json!({ "a": 2, "b": 0.5 });
//! let sum = registry.execute("add", args, &ToolContext::default()).await?;
//! assert_eq!(sum.content[0].to_string(), "2.5");
//! # client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Using the tools of a server in an agent
//!
//! A server is either a local program or reached over HTTP:
//!
//! ```no_run
//! use std::sync::Arc;
//! use neuron_mcp::{HttpConfig, McpClient, McpToolBridge, StdioConfig};
//! use neuron_tool::ToolRegistry;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let files = Arc::new(McpClient::connect_stdio(StdioConfig {
//!     command: "npx".to_string(),
//!     args: vec!["-y".to_string(), "@modelcontextprotocol/server-filesystem".to_string(), "/tmp".to_string()],
//!     env: vec![],
//! }).await?);
//! let database = Arc::new(McpClient::connect_http(HttpConfig {
//!     url: "http://localhost:8080/mcp".to_string(),
//!     auth_header: Some("Bearer my-token".to_string()),
//!     headers: vec![],
//! }).await?);
//!
//! let mut registry = ToolRegistry::new(); // with tools of your own, if you like
//! for client in [&files, &database] {
//!     for tool in McpToolBridge::discover(client).await? {
//!         registry.try_register_dyn(tool)?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | task | API |
//! |---|---|
//! | timeouts, protocol versions, roots, handlers of server requests | [`McpClient::builder`] |
//! | name prefixes, selection of tools, limits, trusted annotations | [`BridgeOptions`] |
//! | approval of tools that a server changed after a review | [`McpToolPins`] |
//! | a registry that is kept in sync with a server | [`McpToolset`] |
//! | resources, prompts, completions, subscriptions | [`McpClient`] |
//! | notifications of a server | [`McpClient::events`] |
//! | sampling requests of a server | [`ProviderSampling`], or your own [`SamplingHandler`] |
//! | elicitation requests of a server, also in tasks | [`ElicitationHandler`] |
//!
//! **Servers are not trusted.** A server program gets only [`StdioConfig::env`] and a few harmless environment
//! variables. The annotations of a server's tools, such as read-only, do not grant permissions by default. The size of
//! a server's messages and the duration of every request are limited.
//!
//! # Running a server
//!
//! ```no_run
//! use neuron_mcp::McpServer;
//! use neuron_tool::ToolRegistry;
//!
//! # async fn example() -> Result<(), neuron_mcp::McpError> {
//! let mut registry = ToolRegistry::new();
//! // ... register your tools ...
//!
//! let server = McpServer::new(registry)
//!     .with_name("my-agent-tools")
//!     .with_version("1.0.0")
//!     .with_instructions("Tools for file manipulation");
//!
//! // Serve over stdio (blocks until client disconnects)
//! server.serve_stdio().await?;
//! # Ok(())
//! # }
//! ```
//!
//! | task | API |
//! |---|---|
//! | HTTP | [`McpServer::serve_http`], or [`McpServer::bind_http`] with hosts, limits and authentication |
//! | HTTP as a service in another HTTP server | [`McpServer::http_service`] |
//! | OAuth 2.1 access tokens | [`HttpServerConfig::authorize`] with a [`ProtectedResource`] |
//! | resources and prompts | [`McpServer::with_resources`], [`McpServer::with_prompts`] |
//! | logs, requests to the client and the caller's identity, inside a tool | [`McpPeer`] |
//! | progress inside a tool | [`ToolContext::progress_reporter`], or [`McpPeer::report_progress`] |
//! | progress inside a resource or a prompt | [`McpPeer::report_progress`] |
//! | change notifications to clients | [`McpServer::notifier`] |
//! | long calls, and durable runs with approvals, as tasks | [`McpServer::with_tasks`] |
//!
//! If a tool fails, the client receives a result with the error text, so that the model can react. Errors that the
//! protocol defines, such as an unknown tool, are JSON-RPC errors.
//!
//! # Versions
//!
//! Client and server support 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28, over stdio and Streamable
//! HTTP. The client also supports the two-endpoint HTTP transport of 2024-11-05, and reads JSON-RPC batches over stdio.
//! The server supports neither of them.
//!
//! The protocol is implemented by the official SDK, `rmcp`. Its types are public only in [`McpClient::peer`], for
//! features that this crate lacks.
//!
//! # Tracing
//!
//! Requests have [`tracing`] spans at level `INFO`, target `neuron_mcp`, with the names and attributes of
//! OpenTelemetry's conventions for MCP (version 1.41). A layer of `tracing-opentelemetry` exports them unchanged. No
//! other part of OpenTelemetry is required.
//!
//! | span | requests |
//! |---|---|
//! | `mcp.client.request` (CLIENT) | requests that a client sends, including pings; up to version 2025-11-25 also requests that a server sends to its client |
//! | `mcp.server.request` (SERVER) | requests that a server receives, except pings; also requests of a server that its client receives |
//!
//! The OpenTelemetry name of a span is the method followed by the tool or prompt: `tools/call echo`. Spans have the
//! request id, the session id, the version, the transport and the peer's address, if known. The span of a server's
//! request to its client has no address. A request that is repeated with required input has one client span, with the
//! id of the first sending.
//!
//! - **Without a span:** the handshake at the client, listening streams, notifications, requests that the SDK rejects
//!   before this crate receives them, and requests without a connection. Server requests that are part of a result
//!   (2026-07-28) belong to the span of the client's request.
//! - **Tasks:** the span of a call that becomes a task ends when the task is created. Each request about the task has a
//!   span of its own.
//! - **Unknown attributes:** the transport of [`connect_io`](McpClientBuilder::connect_io) and [`McpServer::serve_io`].
//!   If another HTTP server hosts the service, the client's address is known only if that server adds a
//!   [`SocketAddr`](std::net::SocketAddr) to the extensions of each request.
//! - **No message content:** spans contain no arguments, results or texts. They contain resource URIs and the names of
//!   tools and prompts. The description of an error is the general meaning of its code, because the message may quote
//!   content. Spans, and log lines of this crate at `INFO` and above, contain only the beginning of a session id.
//! - **Log of the SDK:** the SDK logs under the target `rmcp`. Its log contains complete messages at `DEBUG` and partly
//!   at `INFO`, and the ids of HTTP server sessions at `INFO`. Exclude this target from logs that others read, for
//!   example with `info,rmcp=warn` for `tracing_subscriber::EnvFilter`.
//! - **`error.type`** is the code of a JSON-RPC error, or `tool_error` for a failed tool, `cancelled` (also for a
//!   dropped future), `timeout`, `transport` or `_OTHER`.
//! - **One span for each tool call.** A call of an [`McpToolBridge`] inside an `execute_tool` span of the crate
//!   `neuron-otel` has no second span. The attributes of the request are recorded in that span.
//! - **Parents of incoming requests:** the span in which the HTTP server handles the request, if any. Otherwise the
//!   request starts a new trace. The span around a call of [`McpServer::serve_io`] is not a parent, because it belongs
//!   to the whole connection.
//!
//! ## Trace contexts
//!
//! Requests carry W3C trace context in their `_meta`, in both directions.
//!
//! In a client, add a [`TraceContext`] to [`ToolContext::extensions`]. The requests that take a tool context then carry
//! this trace context: [`call_tool_in`](McpClient::call_tool_in), [`read_resource_in`](McpClient::read_resource_in),
//! [`get_prompt_in`](McpClient::get_prompt_in) and the tools of [`McpToolBridge`]. Other requests carry the trace
//! context of their span, if [`McpClientBuilder::trace_context`] is set. A handler of server requests receives the
//! server's trace context in [`SamplingRequest::trace_context`] or [`ElicitationHandler::elicit_traced`].
//!
//! In a server, a tool finds the client's trace context in the extensions of its tool context. With
//! [`McpServer::with_trace_context`], the tool instead finds the trace context of its own span. Resources and prompts
//! find the client's trace context with [`McpPeer::trace_context`]. Requests of the server to the client carry the
//! trace context of the current span, if [`McpServer::with_trace_context`] provides one. Otherwise they carry the
//! client's trace context.
//!
//! With the crate `neuron-otel`, the spans of client and server form one trace:
//!
//! ```
//! use neuron_mcp::{McpClient, McpServer};
//! # use neuron_tool::ToolRegistry;
//! # mod neuron_otel {
//! #     pub fn current_trace_context() -> Option<neuron_mcp::TraceContext> { None }
//! #     pub fn set_trace_parent(_: &tracing::Span, _: &neuron_mcp::TraceContext) {}
//! # }
//!
//! let client = McpClient::builder()
//!     .trace_context(neuron_otel::current_trace_context)
//!     .trace_parent(neuron_otel::set_trace_parent);
//! # let registry = ToolRegistry::new();
//! let server = McpServer::new(registry)
//!     .with_trace_context(neuron_otel::current_trace_context)
//!     .with_trace_parent(neuron_otel::set_trace_parent);
//! ```
//!
//! # Features
//!
//! | feature | description | default |
//! |---|---|---|
//! | `oauth` | OAuth 2.1 authorization of HTTP clients (servers do not need it) | no |
//!
//! [`ToolContext::extensions`]: neuron_types::ToolContext::extensions
//! [`ToolContext::progress_reporter`]: neuron_types::ToolContext::progress_reporter

mod bridge;
mod causes;
mod client;
mod completion;
mod config;
mod elicitation;
mod erased;
mod json_length;
mod lines;
mod log;
mod page;
mod peer_info;
mod prompt;
mod propagation;
mod provider_sampling;
mod resource;
mod root;
mod route;
mod sampling;
mod server;
mod span;
mod text;
mod wire;

pub use bridge::{
    BridgeOptions, McpLeftOut, McpNameTaken, McpPinnedPolicy, McpToolBridge, McpToolChanges,
    McpToolPins, McpToolset,
};
#[cfg(feature = "oauth")]
pub use client::oauth::{
    LoopbackRedirect, MemoryOAuthStorage, OAuthApplicationType, OAuthConfig, OAuthCredentials,
    OAuthError, OAuthRedirect, OAuthStorage,
};
pub use client::{
    McpCancelled, McpClient, McpClientBuilder, McpEvent, McpEvents, McpLimitExceeded,
    McpNotSubscribed, McpRequestError, McpTimeout,
};
pub use completion::{CompletionQuery, CompletionTarget, McpCompletion};
pub use config::{HttpConfig, StdioConfig};
pub use elicitation::{ElicitationHandler, ElicitationRequest, ElicitationResponse};
pub use log::{LogLevel, McpLogMessage};
pub use neuron_types::{McpError, TraceContext};
pub use page::PaginatedList;
pub use peer_info::{McpImplementation, McpVersion};
pub use prompt::{McpPrompt, McpPromptArgument, McpPromptMessage, McpPromptResult};
pub use provider_sampling::{
    AllowAll, ProviderSampling, SamplingDecision, SamplingPolicy, SamplingRefused,
};
pub use resource::{McpResource, McpResourceContents, McpResourceTemplate};
pub use root::McpRoot;
pub use sampling::{ModelPreferences, SamplingHandler, SamplingRequest, SamplingResponse};
pub use server::{
    HttpIdentity, HttpRefusal, HttpRequestHead, HttpServerConfig, InputAnswer, InputAnswers,
    InputRequest, McpHttpBody, McpHttpServer, McpHttpService, McpNotifier, McpPeer, McpPromptSet,
    McpPrompts, McpResourceSet, McpResources, McpServer, McpTask, McpTaskState, McpTasks,
    PromptRequest, ProtectedResource, ResourceRequest, TaskSource, TokenClaims, TokenVerifier,
};
