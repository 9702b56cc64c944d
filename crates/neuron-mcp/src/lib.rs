//! Model Context Protocol (MCP) for agents, with a client for any server, a bridge from its tools to an agent's
//! registry, and a server for a registry of your own.
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
//! // A server: its tools are those of a registry. Here it is in this process; `serve_stdio` and
//! // `serve_http` let others come.
//! let mut tools = ToolRegistry::new();
//! tools.register(AddTool);
//! let server = McpServer::new(tools).with_name("calculator");
//! let (theirs, ours) = tokio::io::duplex(64 * 1024);
//! let (input, output) = tokio::io::split(theirs);
//! tokio::spawn(async move { server.serve_io(input, output).await });
//!
//! // A client, and the server's tools in the registry of an agent.
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
//! # The tools of a server, in an agent
//!
//! A server is a program on this machine, or it is reached over HTTP:
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
//! | what you need | where it is |
//! |---|---|
//! | time limits, versions, roots, answers to what servers ask | [`McpClient::builder`] |
//! | names with a prefix, only some tools, limits, trust in a server's hints | [`BridgeOptions`] |
//! | asking about tools that a server changed after they were approved | [`McpToolPins`] |
//! | a registry that follows a server whose tools change | [`McpToolset`] |
//! | resources, prompts, completions, subscriptions | [`McpClient`] |
//! | what a server tells by itself | [`McpClient::events`] |
//! | a server that wants to use your model | [`ProviderSampling`], or a [`SamplingHandler`] of your own |
//! | a server that asks a person | [`ElicitationHandler`] |
//!
//! **A server is not trusted.** A program sees no environment but [`StdioConfig::env`] and a few harmless
//! variables. What it says of its tools (that one only reads, for one) is a claim, and no permission. What it
//! sends is limited in size, and every request in time.
//!
//! # A server of your own
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
//! | what you need | where it is |
//! |---|---|
//! | HTTP | [`McpServer::serve_http`]; with hosts, limits and authentication [`McpServer::bind_http`] |
//! | HTTP within a server of your own | [`McpServer::http_service`] |
//! | access tokens of OAuth 2.1 | [`HttpServerConfig::authorize`] with a [`ProtectedResource`] |
//! | resources and prompts | [`McpServer::with_resources`], [`McpServer::with_prompts`] |
//! | logs, questions to the client, who called, from inside a tool | [`McpPeer`] |
//! | progress from inside a tool | [`ToolContext::progress_reporter`], or [`McpPeer::report_progress`] |
//! | progress from inside a resource or a prompt | [`McpPeer::report_progress`] |
//! | telling clients what changed | [`McpServer::notifier`] |
//!
//! A tool that fails is a result that says so, with which a model can do something; only what the protocol has
//! as an error (a tool that is not there) is one.
//!
//! # Versions
//!
//! Both ends speak 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28, over stdio and Streamable HTTP
//! (not the HTTP with two endpoints of 2024-11-05, and no batches).
//!
//! The protocol itself is the official SDK's, `rmcp`. Its types appear at one place: [`McpClient::peer`], for what
//! this crate does not have.
//!
//! # Tracing
//!
//! Requests have [`tracing`] spans at level `INFO`, target `neuron_mcp`, with the names and attributes of
//! OpenTelemetry's conventions for MCP (version 1.41). A layer of `tracing-opentelemetry` exports them as they are;
//! nothing else of OpenTelemetry is needed here.
//!
//! | span | of which requests |
//! |---|---|
//! | `mcp.client.request` (CLIENT) | those of a client, pings included; until 2025-11-25, a server's questions to its client |
//! | `mcp.server.request` (SERVER) | those of a client, at the server, but for pings; a server's questions, at the client |
//!
//! Their name for OpenTelemetry is the method, and the tool or prompt: `tools/call echo`. They have the ids of
//! request and session, the version, the transport and the address of the other end as far as these are known (of a
//! server's questions to its client no address: their direction is not that of the connection). A
//! request that is sent several times, with input that the server asked for, is one span of the client, with the
//! first id.
//!
//! - **Without a span:** the handshake at the client, streams on which a client listens, notifications, what the SDK
//!   refuses before it comes to this crate, and requests for which no connection could be made. Questions that are
//!   part of a result (2026-07-28) belong to the span of the request.
//! - **Not known:** the transport of [`connect_io`](McpClientBuilder::connect_io) and [`McpServer::serve_io`], and
//!   the client's address in an HTTP server of your own, unless its requests have a
//!   [`SocketAddr`](std::net::SocketAddr) among their extensions.
//! - **Nothing that was said** is in a span: no arguments, no results, no texts. The address of a resource is, and
//!   the names of tools and prompts. The description of an error is what its code means in general, because the
//!   message may quote any of these. Of a session's id they have the beginning, as log lines of this crate do at `INFO`
//!   and above. The log of the SDK itself (target `rmcp`) has whole messages, at `DEBUG` and partly at `INFO`, inside
//!   spans of its own, and at `INFO` the id of each session of a server over HTTP. Leave that target out of logs that
//!   others read: `info,rmcp=warn` for `tracing_subscriber::EnvFilter`.
//! - **`error.type`** is the code of a JSON-RPC error, or `tool_error` for a tool that failed, `cancelled` (also for
//!   a future that was dropped), `timeout`, `transport`, `_OTHER`.
//! - **One span for a tool.** A call of an [`McpToolBridge`] inside the span `execute_tool` of the crate `neuron-otel`
//!   has no second one: that span learns of the request.
//! - The span of a request that comes in is below the one that was current in the HTTP request, if any, and else
//!   begins a trace: what surrounds [`McpServer::serve_io`] belongs to the connection.
//!
//! ## Trace contexts
//!
//! The trace context of the W3C goes with requests in their `_meta`, both ways.
//!
//! A client: put a [`TraceContext`] into [`ToolContext::extensions`]. What is asked with this context carries it:
//! [`call_tool_in`](McpClient::call_tool_in), [`read_resource_in`](McpClient::read_resource_in),
//! [`get_prompt_in`](McpClient::get_prompt_in) and the tools of [`McpToolBridge`]. Other requests carry that of their
//! span, if [`McpClientBuilder::trace_context`] says how to find it. What a server asks back comes with that of the
//! server: [`SamplingRequest::trace_context`], [`ElicitationHandler::elicit_traced`].
//!
//! A server: a tool finds the client's in its context's extensions (or its own span's, with
//! [`McpServer::with_trace_context`]), resources and prompts find it by [`McpPeer::trace_context`]. Questions to the
//! client carry it on.
//!
//! With the crate `neuron-otel`, spans of both ends are one trace:
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
//! | feature | what it adds | default |
//! |---|---|---|
//! | `oauth` | authorization of HTTP clients by OAuth 2.1 (servers need no feature for it) | no |
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
    McpPrompts, McpResourceSet, McpResources, McpServer, PromptRequest, ProtectedResource,
    ResourceRequest, TokenClaims, TokenVerifier,
};
