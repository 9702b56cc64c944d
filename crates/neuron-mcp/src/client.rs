//! The client of an MCP server, with its methods for users.

mod authorization;
mod builder;
mod callbacks;
mod clock;
mod connection;
mod deep_tools;
mod events;
mod handlers;
pub(crate) mod http;
mod io;
mod line_transport;
mod link;
mod listen;
mod lists;
mod negotiation;
#[cfg(feature = "oauth")]
pub(crate) mod oauth;
pub(crate) mod page_url;
mod program;
mod request;
mod request_error;
mod server_task;
mod settings;
mod stdio;
mod subscriptions;
mod task;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::HashMap;
use std::sync::Arc;

use neuron_types::{McpError, ToolContext, ToolOutput};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, CompleteRequest, CustomRequest,
    CustomResult, GetPromptRequest, GetPromptRequestParams, PingRequest, ReadResourceRequest,
    ReadResourceRequestParams, ServerResult,
};
use rmcp::service::{Peer, RoleClient};
use serde_json::{Map, Value};

pub use self::builder::McpClientBuilder;
use self::connection::{Connection, Connector};
pub use self::events::{McpEvent, McpEvents};
use self::link::Link;
use self::request::{Scope, Unmet};
pub use self::request_error::{
    McpCancelled, McpLimitExceeded, McpNotSubscribed, McpRequestError, McpTimeout,
};
use self::settings::Shared;
use crate::text::{cleaned, shortened};
use crate::wire;
use crate::{
    CompletionQuery, HttpConfig, LogLevel, McpCompletion, McpImplementation, McpPromptResult,
    McpResourceContents, McpRoot, McpVersion, StdioConfig,
};

/// A client of an MCP server.
///
/// If the future of a request is dropped, or a request is cancelled or times out, the client sends a cancellation to
/// the server.
///
/// If the connection is lost, pending requests fail with [`McpError::Transport`]. The client does not retry these
/// requests, because the server may have acted on them. Only the requests about a task are repeated. The next request opens a new connection.
///
/// If the server responds that it has forgotten the session (HTTP 404), the client retries the request once over a new
/// connection. Exceptions are [`subscribe`](Self::subscribe), [`unsubscribe`](Self::unsubscribe) and
/// [`set_log_level`](Self::set_log_level), which are not retried.
///
/// Dropping the client closes the connection, and kills a server that is a child process. [`close`](Self::close) first
/// asks the child process to exit.
///
/// # Example
///
/// ```no_run
/// use neuron_mcp::{McpClient, StdioConfig};
///
/// # async fn example() -> Result<(), neuron_mcp::McpError> {
/// let client = McpClient::connect_stdio(StdioConfig {
///     command: "npx".to_string(),
///     args: vec!["-y".to_string(), "@modelcontextprotocol/server-everything".to_string()],
///     env: vec![],
/// })
/// .await?;
/// for tool in client.list_all_tools().await? {
///     println!("{}: {}", tool.name, tool.description);
/// }
/// # Ok(())
/// # }
/// ```
pub struct McpClient {
    shared: Arc<Shared>,
    link: Arc<Link>,
}

impl std::fmt::Debug for McpClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpClient")
            .field("server", &self.server_info())
            .field("version", &self.version())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Connection methods.
impl McpClient {
    /// Creates a builder of a client, to change the default settings.
    pub fn builder() -> McpClientBuilder {
        McpClientBuilder::default()
    }

    /// Starts a server as a child process and connects to it.
    ///
    /// # Errors
    ///
    /// See [`McpClientBuilder::connect_stdio`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future kills the child process.
    pub async fn connect_stdio(config: StdioConfig) -> Result<Self, McpError> {
        Self::builder().connect_stdio(config).await
    }

    /// Connects to a server over Streamable HTTP.
    ///
    /// # Errors
    ///
    /// See [`McpClientBuilder::connect_http`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn connect_http(config: HttpConfig) -> Result<Self, McpError> {
        Self::builder().connect_http(config).await
    }

    /// Opens the first connection through a connector, and creates the client.
    async fn connect(connector: impl Connector, shared: Shared) -> Result<Self, McpError> {
        let shared = Arc::new(shared);
        let link = Link::open(connector, Arc::clone(&shared)).await?;
        Ok(Self { shared, link })
    }

    /// Closes the connection permanently, and waits until a server in a child process has ended. Pending requests fail
    /// with [`McpError::Transport`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the connection is closed, but the child process may still be running.
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// Returns `true` if the connection is closed or lost. The next request restores a lost connection, unless
    /// [reconnecting is off](McpClientBuilder::reconnect).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// Returns the current connection, which may be lost.
    fn current(&self) -> Arc<Connection> {
        self.link.current()
    }

    /// Returns a connection that accepts requests. Restores a lost connection first.
    async fn live(&self) -> Result<Arc<Connection>, McpError> {
        self.link.live().await
    }

    /// Sends a request and waits for its response. Restores a lost connection first.
    async fn request(
        &self,
        scope: &Scope,
        request: ClientRequest,
    ) -> Result<ServerResult, McpError> {
        // The request is retried once if the server has forgotten the session. A retry needs a new connection, so there
        // is no retry if reconnecting is off.
        let mut repeated = !self.shared.settings.reconnect;
        loop {
            let connection = tokio::select! {
                biased;
                () = scope.cancelled() => return Err(request::cancelled(request.method())),
                connection = self.live() => connection?,
            };
            let answer = tokio::select! {
                biased;
                answer = request::attempt(&connection, &self.shared, scope, request.clone()) => answer,
                error = self.link.closed_meanwhile(&connection) => return Err(error),
            };
            match answer {
                Err(Unmet::Forgotten(_)) if !repeated => repeated = true,
                answer => return answer.map_err(McpError::from),
            }
        }
    }
}

/// Tool methods.
impl McpClient {
    /// Calls a tool. If the tool itself fails, returns `Ok` with [`ToolOutput::is_error`] set.
    ///
    /// A server of MCP 2026-07-28 may create a task for the call (extension `io.modelcontextprotocol/tasks`). This method
    /// then waits for the end of the task. If the connection is lost meanwhile, the client reconnects and continues to
    /// wait.
    ///
    /// # Errors
    ///
    /// - [`McpError::ToolCall`] if the server refuses the call, for example because the tool is unknown.
    /// - [`McpError::Transport`] if the connection is lost during the call.
    /// - [`McpError::Connection`] or [`McpError::Initialization`] if the connection was lost earlier and cannot be
    ///   restored.
    /// - [`McpError::Other`] if a time limit is exceeded ([`McpTimeout`]), or if the client cannot provide input that
    ///   the server requires.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call and its task. Effects that the call already had on the server remain.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, arguments, &Scope::default()).await
    }

    /// Calls a tool with arguments as JSON. The arguments must be an object, or `null` for no arguments.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`call_tool`](Self::call_tool). Returns [`McpError::ToolCall`] if the arguments are
    /// neither an object nor `null`.
    ///
    /// # Cancel safety
    ///
    /// The same as [`call_tool`](Self::call_tool).
    pub async fn call_tool_json(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, object(arguments)?, &Scope::default()).await
    }

    /// Calls a tool as part of a run.
    ///
    /// `ctx` is used as follows:
    ///
    /// - [`ToolContext::progress_reporter`] receives the progress of the call.
    /// - [`ToolContext::cancellation_token`] cancels the call.
    /// - A [`TraceContext`](crate::TraceContext) in [`ToolContext::extensions`] is sent to the server.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`call_tool_json`](Self::call_tool_json). Returns [`McpError::Other`] with
    /// [`McpCancelled`] if the call is cancelled.
    ///
    /// # Cancel safety
    ///
    /// The same as [`call_tool`](Self::call_tool).
    pub async fn call_tool_in(
        &self,
        name: &str,
        arguments: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, object(arguments)?, &Scope::of(ctx)).await
    }

    /// Calls a tool for an [`McpToolBridge`](crate::McpToolBridge). Uses `ctx` like
    /// [`call_tool_in`](Self::call_tool_in).
    ///
    /// If the server refuses the call, returns [`McpError::Other`] with an [`McpRequestError`]. Unlike
    /// [`McpError::ToolCall`], it contains the error code.
    pub(crate) async fn call_tool_refusable(
        &self,
        name: &str,
        arguments: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, McpError> {
        self.call_refusable(name, object(arguments)?, &Scope::of_tool(ctx)).await
    }

    /// Calls a tool. Returns [`McpError::ToolCall`] if the server refuses the call.
    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        scope: &Scope,
    ) -> Result<ToolOutput, McpError> {
        let result = self.call_refusable(name, arguments, scope).await;
        result.map_err(wire::error::refused_call)
    }

    /// Calls a tool. Returns [`McpError::Other`] with [`McpRequestError`] if the server refuses the call.
    async fn call_refusable(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        scope: &Scope,
    ) -> Result<ToolOutput, McpError> {
        let mut params = CallToolRequestParams::new(name.to_owned());
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut result = self.request(scope, request).await?;
        if let Some(created) = wire::task::created(&result) {
            result = self.follow_task(name, scope, &created).await?;
        }
        match result {
            ServerResult::CallToolResult(result) => Ok(wire::tool::output_from_sdk(result)),
            // The SDK parses a result with an invalid member as a custom result, and a result without content as an
            // empty result.
            result => {
                let result = serde_json::to_value(result).unwrap_or_default();
                // A result of another type is no result of the tool, for example a request for input.
                if result.get("resultType").is_some_and(|kind| kind != "complete") {
                    return Err(unexpected("tools/call"));
                }
                wire::tool::output_from_json(&result).ok_or_else(|| unreadable(name, &result))
            }
        }
    }
}

/// Creates the error for the result of a tool that cannot be read. The model must not think that the tool did not run.
fn unreadable(name: &str, result: &Value) -> McpError {
    let shown = shortened(&result.to_string());
    McpError::ToolCall(format!(
        "the tool `{name}` ran, but the server's result cannot be read: {shown}"
    ))
}

/// Converts the arguments of a tool to a JSON object. `null` becomes an empty object. Returns an error for any other
/// value, because the protocol requires an object.
fn object(arguments: Value) -> Result<Map<String, Value>, McpError> {
    match arguments {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Ok(Map::new()),
        _ => Err(McpError::ToolCall("the arguments are not an object".to_owned())),
    }
}

/// Methods for resources, prompts and completions.
impl McpClient {
    /// Reads a resource. A resource may have several contents, such as the files of a folder.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`] if the server refuses the request, for example because the resource
    /// is unknown. All other errors are those of [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<McpResourceContents>, McpError> {
        self.read(uri, &Scope::default()).await
    }

    /// Reads a resource as part of a run. [`call_tool_in`](Self::call_tool_in) describes the use of `ctx`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read_resource`](Self::read_resource). Returns [`McpError::Other`] with [`McpCancelled`]
    /// if the request is cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn read_resource_in(
        &self,
        uri: &str,
        ctx: &ToolContext,
    ) -> Result<Vec<McpResourceContents>, McpError> {
        self.read(uri, &Scope::of(ctx)).await
    }

    /// Reads a resource. `scope` contains the progress receiver, the cancellation token and the trace context of the
    /// request.
    async fn read(&self, uri: &str, scope: &Scope) -> Result<Vec<McpResourceContents>, McpError> {
        let params = ReadResourceRequestParams::new(uri);
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        match self.request(scope, request).await? {
            ServerResult::ReadResourceResult(result) => {
                Ok(result.contents.into_iter().map(wire::content::contents_from_sdk).collect())
            }
            ServerResult::CustomResult(CustomResult(result)) => {
                let contents = result.get("contents").and_then(Value::as_array);
                let contents = contents.ok_or_else(|| unexpected("resources/read"))?.iter();
                let read = |contents| wire::content::contents_from_json(contents, uri);
                Ok(contents.map(read).collect())
            }
            _ => Err(unexpected("resources/read")),
        }
    }

    /// Gets the messages of a prompt. The server inserts `arguments` into the messages.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`] if the server refuses the request, for example because an argument
    /// is missing. All other errors are those of [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: HashMap<String, String>,
    ) -> Result<McpPromptResult, McpError> {
        self.prompt(name, arguments, &Scope::default()).await
    }

    /// Gets the messages of a prompt as part of a run. [`call_tool_in`](Self::call_tool_in) describes the use of `ctx`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`get_prompt`](Self::get_prompt). Returns [`McpError::Other`] with [`McpCancelled`] if the
    /// request is cancelled.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn get_prompt_in(
        &self,
        name: &str,
        arguments: HashMap<String, String>,
        ctx: &ToolContext,
    ) -> Result<McpPromptResult, McpError> {
        self.prompt(name, arguments, &Scope::of(ctx)).await
    }

    /// Gets the messages of a prompt. `scope` contains the progress receiver, the cancellation token and the trace
    /// context of the request.
    async fn prompt(
        &self,
        name: &str,
        arguments: HashMap<String, String>,
        scope: &Scope,
    ) -> Result<McpPromptResult, McpError> {
        let mut params = GetPromptRequestParams::new(name);
        if !arguments.is_empty() {
            let arguments = arguments.into_iter().map(|(name, value)| (name, Value::String(value)));
            params.arguments = Some(arguments.collect());
        }
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        match self.request(scope, request).await? {
            ServerResult::GetPromptResult(result) => Ok(wire::prompt::result_from_sdk(result)),
            ServerResult::CustomResult(CustomResult(result)) => {
                wire::prompt::result_from_json(&result).ok_or_else(|| unexpected("prompts/get"))
            }
            _ => Err(unexpected("prompts/get")),
        }
    }

    /// Requests completions for an argument of a prompt or of a resource template.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`] if the server refuses the request or does not support completions.
    /// All other errors are those of [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn complete(&self, query: CompletionQuery) -> Result<McpCompletion, McpError> {
        let params = wire::completion::query_to_sdk(query);
        let request = ClientRequest::CompleteRequest(CompleteRequest::new(params));
        match self.request(&Scope::default(), request).await? {
            ServerResult::CompleteResult(result) => {
                Ok(wire::completion::from_sdk(result.completion))
            }
            _ => Err(unexpected("completion/complete")),
        }
    }
}

/// Methods for notifications and properties of the server.
impl McpClient {
    /// Subscribes to the events of this client.
    ///
    /// Events report changes at the server, log messages of the server, and lost connections
    /// ([`McpEvent::Disconnected`]). Events before this call are not received. If the connection was lost before this
    /// call, [`is_closed`](Self::is_closed) returns `true`.
    #[must_use]
    pub fn events(&self) -> McpEvents {
        self.shared.events.subscribe()
    }

    /// Subscribes to the updates of a resource, which are [events](Self::events). The client subscribes again over each
    /// new connection.
    ///
    /// # Errors
    ///
    /// - [`McpError::Other`] with [`McpRequestError`] if the server refuses or does not support subscriptions.
    /// - [`McpError::Other`] with [`McpNotSubscribed`] if a server of MCP 2026-07-28 responds without confirming the
    ///   resource.
    /// - All other errors are those of [`call_tool`](Self::call_tool).
    ///
    /// After an error, the client has no new subscription.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no subscription is added, but the server may send updates until the connection ends.
    pub async fn subscribe(&self, uri: &str) -> Result<(), McpError> {
        let connection = self.live().await?;
        subscriptions::subscribe(connection, Arc::clone(&self.shared), uri.to_owned()).await
    }

    /// Ends the subscription to a resource. Does nothing if there is no subscription.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`subscribe`](Self::subscribe). After an error, the subscription remains, and the call can
    /// be repeated. In MCP 2025-11-25 and earlier, however, a refusal of the server ([`McpRequestError`]) removes the
    /// subscription.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the subscription may remain. The call can be repeated.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), McpError> {
        if !self.shared.has_subscription(uri) {
            return Ok(());
        }
        let connection = self.live().await?;
        subscriptions::unsubscribe(connection, Arc::clone(&self.shared), uri.to_owned()).await
    }

    /// Requests log messages of at least this level from the server. The messages are received as
    /// [events](Self::events).
    ///
    /// Since MCP 2026-07-28, a server sends log messages only while it handles a request of the client.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`] if the server refuses or does not support logging. All other errors
    /// are those of [`call_tool`](Self::call_tool).
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), McpError> {
        let connection = self.live().await?;
        subscriptions::log_level(&connection, &self.shared, level).await?;
        self.shared.set_log_level(level);
        Ok(())
    }

    /// Replaces the roots, which are the folders in which the server may work, and notifies the server.
    ///
    /// # Errors
    ///
    /// - [`McpError::Other`] if the client was built without [roots](McpClientBuilder::roots). The roots are not
    ///   replaced, because servers of such a client never request roots.
    /// - [`McpError::Other`] with [`McpTimeout`] if the server does not accept the notification in time.
    /// - [`McpError::Connection`] or [`McpError::Initialization`] if the connection was lost earlier and cannot be
    ///   restored.
    /// - [`McpError::Transport`] if the connection is lost or closed.
    ///
    /// After all other errors, the roots are replaced, and a server that requests them receives the new roots.
    ///
    /// # Cancel safety
    ///
    /// The roots are replaced at the first poll. If the future is dropped later, the server may not have been notified.
    pub async fn set_roots(&self, roots: Vec<McpRoot>) -> Result<(), McpError> {
        if !self.shared.handlers.replace_roots(roots) {
            let text = "the client was built without roots: set them in the builder, if only to an empty list";
            return Err(McpError::Other(text.into()));
        }
        let connection = self.live().await?;
        subscriptions::roots_changed(&connection, &self.shared).await
    }

    /// Sends a request without effect, to check that the server responds.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`] if the server refuses the request. All other errors are those of
    /// [`call_tool`](Self::call_tool).
    pub async fn ping(&self) -> Result<(), McpError> {
        let connection = self.live().await?;
        // MCP 2026-07-28 has no `ping`. Over HTTP, the SDK's own `DiscoverRequest` would wait until no other request is
        // pending, and would block new requests.
        let request = match connection.version.has_handshake() {
            true => ClientRequest::PingRequest(PingRequest::default()),
            false => ClientRequest::CustomRequest(CustomRequest::new("server/discover", None)),
        };
        self.request(&Scope::default(), request).await?;
        Ok(())
    }

    /// Returns the name and version of the server. The texts are empty if the server does not report them.
    #[must_use]
    pub fn server_info(&self) -> McpImplementation {
        let connection = self.current();
        let implementation = connection.server.server_info.as_ref();
        implementation.map(wire::peer_info::implementation_from_sdk).unwrap_or_default()
    }

    /// Returns the protocol version that was negotiated for the current connection.
    #[must_use]
    pub fn version(&self) -> McpVersion {
        self.current().version
    }

    /// Returns the server's instructions for the model. Returns `None` if the server has none.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.current().server.instructions.clone().map(cleaned)
    }

    /// Returns the SDK's handle to the current connection, for features that this client does not offer.
    ///
    /// The time limits of this client do not apply to requests over this handle. The caller must cancel these requests,
    /// and provide the input that the server requires. The handle cannot be used after the connection has ended.
    #[must_use]
    pub fn peer(&self) -> Peer<RoleClient> {
        self.current().peer.clone()
    }
}

/// Returns the error for a response whose type does not belong to the request's `method`.
fn unexpected(method: &str) -> McpError {
    McpError::Transport(format!("the server sent the wrong type of response to {method}"))
}
