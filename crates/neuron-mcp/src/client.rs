//! The client of a server.

mod authorization;
mod builder;
mod callbacks;
mod clock;
mod connection;
mod events;
mod handlers;
mod http;
mod io;
mod line_transport;
mod link;
mod listen;
mod lists;
#[cfg(feature = "oauth")]
pub(crate) mod oauth;
mod program;
mod request;
mod request_error;
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
    GetPromptRequest, GetPromptRequestParams, PingRequest, ReadResourceRequest,
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
use crate::wire;
use crate::{
    CompletionQuery, HttpConfig, LogLevel, McpCompletion, McpImplementation, McpPromptResult,
    McpResourceContents, McpRoot, McpVersion, StdioConfig,
};

/// The client of a server.
///
/// A request that is dropped, cancelled or too late is cancelled at the server, too. A request that was on
/// its way when the connection was lost fails with [`McpError::Transport`] and is not repeated, because the
/// server may have acted on it; the next one makes the connection anew. A call or a question that a server
/// did not take because it has forgotten the session (HTTP 404) is repeated once, over a new connection.
///
/// Dropping the client ends the connection, and a server that is a program; [`close`](Self::close) lets it
/// finish.
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

/// Connecting.
impl McpClient {
    /// Sets up a client with more than the defaults.
    pub fn builder() -> McpClientBuilder {
        McpClientBuilder::default()
    }

    /// Starts a server that is a program, and connects to it.
    ///
    /// # Errors
    ///
    /// See [`McpClientBuilder::connect_stdio`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the program.
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
    /// Dropping the future ends the connection.
    pub async fn connect_http(config: HttpConfig) -> Result<Self, McpError> {
        Self::builder().connect_http(config).await
    }

    /// Connects over whatever carries messages.
    async fn connect(connector: impl Connector, shared: Shared) -> Result<Self, McpError> {
        let shared = Arc::new(shared);
        let link = Link::open(connector, Arc::clone(&shared)).await?;
        Ok(Self { shared, link })
    }

    /// Closes the connection for good, and waits until the server is gone. Requests on their way fail with
    /// [`McpError::Transport`].
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the connection is closed, but the server may not be gone.
    pub async fn close(&self) {
        self.link.close().await;
    }

    /// Returns `true` if the connection is closed. If it was lost and not [closed](Self::close), the next
    /// request restores it, unless [reconnecting is off](McpClientBuilder::reconnect).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.link.is_closed()
    }

    /// The connection, which may be lost.
    fn current(&self) -> Arc<Connection> {
        self.link.current()
    }

    /// The connection, made anew if it was lost.
    async fn live(&self) -> Result<Arc<Connection>, McpError> {
        self.link.live().await
    }

    /// Asks the server, over a connection that is made anew if it must be.
    async fn request(
        &self,
        scope: &Scope,
        request: ClientRequest,
    ) -> Result<ServerResult, McpError> {
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

/// Tools.
impl McpClient {
    /// Calls a tool. An error of the tool is a result ([`ToolOutput::is_error`]) and not an error here.
    ///
    /// # Errors
    ///
    /// [`McpError::ToolCall`]: the server refused the call: it does not know the tool, for one.
    /// [`McpError::Transport`]: the connection was lost. [`McpError::Connection`] or
    /// [`McpError::Initialization`]: it was lost earlier and cannot be made anew. [`McpError::Other`]: a
    /// time limit was reached ([`McpTimeout`]), or input that the server wanted cannot be given.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the call; what the server did until then is done.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, arguments, &Scope::default()).await
    }

    /// Calls a tool with arguments that are an object, or `null` for none.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool); [`McpError::ToolCall`] also for arguments that are no object.
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn call_tool_json(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, object(arguments)?, &Scope::default()).await
    }

    /// Calls a tool as a part of a run. Progress goes to [`ToolContext::progress_reporter`],
    /// [`ToolContext::cancellation_token`] cancels the call, and a [`TraceContext`](crate::TraceContext) in
    /// [`ToolContext::extensions`] is propagated.
    ///
    /// # Errors
    ///
    /// As [`call_tool_json`](Self::call_tool_json); a cancelled call is an [`McpError::Other`] with
    /// [`McpCancelled`].
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn call_tool_in(
        &self,
        name: &str,
        arguments: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, McpError> {
        self.call(name, object(arguments)?, &Scope::of(ctx)).await
    }

    /// As [`call_tool_in`](Self::call_tool_in), for a tool of a run that is this call and nothing else. A
    /// refusal is an [`McpError::Other`] with [`McpRequestError`], which has its code.
    pub(crate) async fn call_tool_refusable(
        &self,
        name: &str,
        arguments: Value,
        ctx: &ToolContext,
    ) -> Result<ToolOutput, McpError> {
        self.call_refusable(name, object(arguments)?, &Scope::of_tool(ctx)).await
    }

    async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        scope: &Scope,
    ) -> Result<ToolOutput, McpError> {
        let result = self.call_refusable(name, arguments, scope).await;
        result.map_err(wire::error::refused_call)
    }

    async fn call_refusable(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        scope: &Scope,
    ) -> Result<ToolOutput, McpError> {
        let mut params = CallToolRequestParams::new(name.to_owned());
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.request(scope, request).await? {
            ServerResult::CallToolResult(result) => Ok(wire::tool::output_from_sdk(result)),
            ServerResult::CreateTaskResult(_) => {
                let text = format!(
                    "the server made a task of the call of `{name}`, which it was not asked to"
                );
                Err(McpError::ToolCall(text))
            }
            _ => Err(unexpected("tools/call")),
        }
    }
}

/// The arguments of a tool, which the protocol wants to be an object.
fn object(arguments: Value) -> Result<Map<String, Value>, McpError> {
    match arguments {
        Value::Object(arguments) => Ok(arguments),
        Value::Null => Ok(Map::new()),
        _ => Err(McpError::ToolCall("the arguments are no object".to_owned())),
    }
}

/// Resources, prompts, completions.
impl McpClient {
    /// Reads a resource, which may have several contents.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`]: the server refused: it does not know the resource, for
    /// one. Else as [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request.
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<McpResourceContents>, McpError> {
        self.read(uri, &Scope::default()).await
    }

    /// Reads a resource as a part of a run. The context is used as in [`call_tool_in`](Self::call_tool_in).
    ///
    /// # Errors
    ///
    /// As [`read_resource`](Self::read_resource); if it was cancelled an [`McpError::Other`] with
    /// [`McpCancelled`].
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

    async fn read(&self, uri: &str, scope: &Scope) -> Result<Vec<McpResourceContents>, McpError> {
        let params = ReadResourceRequestParams::new(uri);
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(params));
        match self.request(scope, request).await? {
            ServerResult::ReadResourceResult(result) => {
                Ok(result.contents.into_iter().map(wire::content::contents_from_sdk).collect())
            }
            _ => Err(unexpected("resources/read")),
        }
    }

    /// Gets a prompt with its arguments filled in.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`]: the server refused: an argument is missing, for one.
    /// Else as [`call_tool`](Self::call_tool).
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

    /// Gets a prompt as a part of a run. The context is used as in [`call_tool_in`](Self::call_tool_in).
    ///
    /// # Errors
    ///
    /// As [`get_prompt`](Self::get_prompt); if it was cancelled an [`McpError::Other`] with [`McpCancelled`].
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
            _ => Err(unexpected("prompts/get")),
        }
    }

    /// Asks what could stand in an argument of a prompt or of a resource template.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`]: the server refused, or has no completions. Else as
    /// [`call_tool`](Self::call_tool).
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

/// Notifications and properties of the server.
impl McpClient {
    /// Returns the events from now on, which are changes at the server, its log messages, and lost connections
    /// ([`McpEvent::Disconnected`]). A connection that is lost already is not reported, but
    /// [`is_closed`](Self::is_closed) returns `true`.
    #[must_use]
    pub fn events(&self) -> McpEvents {
        self.shared.events.subscribe()
    }

    /// Subscribes to a resource, whose updates are [events](Self::events). A new connection subscribes again.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`]: the server refused, or has no subscriptions; with
    /// [`McpNotSubscribed`]: it answered, but will not tell of this resource (MCP 2026-07-28). Else as
    /// [`call_tool`](Self::call_tool). After an error there is no new subscription.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, there is no new subscription, but the server may tell of updates until the
    /// connection ends.
    pub async fn subscribe(&self, uri: &str) -> Result<(), McpError> {
        let connection = self.live().await?;
        subscriptions::subscribe(connection, Arc::clone(&self.shared), uri.to_owned()).await
    }

    /// Ends a subscription. Without one, it does nothing.
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe). Where the server did not answer, there is still a subscription, and
    /// it may be ended again; where it refused with [`McpRequestError`], there is none (until 2025-11-25).
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, there may still be a subscription, which may be ended again.
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), McpError> {
        if !self.shared.has_subscription(uri) {
            return Ok(());
        }
        let connection = self.live().await?;
        subscriptions::unsubscribe(connection, Arc::clone(&self.shared), uri.to_owned()).await
    }

    /// Requests log messages from this level up, which are [events](Self::events). A server of MCP 2026-07-28
    /// sends them only while it works on a request.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`] with [`McpRequestError`]: the server refused, or writes no log. Else as
    /// [`call_tool`](Self::call_tool).
    pub async fn set_log_level(&self, level: LogLevel) -> Result<(), McpError> {
        let connection = self.live().await?;
        subscriptions::log_level(&connection, &self.shared, level).await?;
        self.shared.set_log_level(level);
        Ok(())
    }

    /// Replaces the folders in which the server may work, and tells it so.
    ///
    /// # Errors
    ///
    /// [`McpError::Other`]: the client was built without [roots](McpClientBuilder::roots), so that servers
    /// do not ask for them; or the server did not take the message in time ([`McpTimeout`]).
    /// [`McpError::Transport`]: the server could not be told. But for the first, the roots are replaced: a
    /// server that asks gets the new ones, and a new connection will know.
    ///
    /// # Cancel safety
    ///
    /// The roots are replaced at once; when the future is dropped, the server may not have been told.
    pub async fn set_roots(&self, roots: Vec<McpRoot>) -> Result<(), McpError> {
        if !self.shared.handlers.replace_roots(roots) {
            let text = "the client was built without roots: set them in the builder, if only to an empty list";
            return Err(McpError::Other(text.into()));
        }
        let connection = self.live().await?;
        subscriptions::roots_changed(&connection, &self.shared).await
    }

    /// Asks the server for a sign of life.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn ping(&self) -> Result<(), McpError> {
        let connection = self.live().await?;
        // From 2026-07-28 on there is no `ping`. Over HTTP, the SDK's own `DiscoverRequest` would wait until
        // no other request is on its way, and let none begin.
        let request = match connection.version.has_handshake() {
            true => ClientRequest::PingRequest(PingRequest::default()),
            false => ClientRequest::CustomRequest(CustomRequest::new("server/discover", None)),
        };
        self.request(&Scope::default(), request).await?;
        Ok(())
    }

    /// Returns the name and version of the server. Empty if it does not report them.
    #[must_use]
    pub fn server_info(&self) -> McpImplementation {
        let connection = self.current();
        let implementation = connection.server.server_info.as_ref();
        implementation.map(wire::peer_info::implementation_from_sdk).unwrap_or_default()
    }

    /// The version of the protocol that is spoken.
    #[must_use]
    pub fn version(&self) -> McpVersion {
        self.current().version
    }

    /// Returns the server's instructions for the model.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.current().server.instructions.clone()
    }

    /// Returns the SDK's handle to the current connection, for features that are not offered here. Time limits,
    /// cancellation and input for the server are then up to you, and the handle ends with the connection.
    #[must_use]
    pub fn peer(&self) -> Peer<RoleClient> {
        self.current().peer.clone()
    }
}

/// An answer to another question.
fn unexpected(method: &str) -> McpError {
    McpError::Transport(format!("the server answered {method} with something else"))
}
