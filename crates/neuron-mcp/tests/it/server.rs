//! Tests of a server over an in-memory connection, mostly with a client that sends raw JSON-RPC messages.

mod calls;
mod changes;
mod connection;
mod deferred;
mod ending;
mod identity;
mod lists;
mod questions;
mod rounds;
mod tasks;
mod traces;
mod with_client;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use neuron_mcp::{McpPeer, McpServer};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDefinition, ToolDyn, ToolError, ToolOutput};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// Timeout after which a hanging test fails. Every tested operation takes much less time.
const LIMIT: Duration = Duration::from_secs(60);

type Call =
    dyn Fn(Value, ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync;

/// A tool that calls a closure.
struct FnTool {
    name: String,
    call: Arc<Call>,
}

impl ToolDyn for FnTool {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            title: None,
            description: format!("the tool {}", self.name),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        (self.call)(input, ctx.clone())
    }
}

/// Registers a tool that calls the closure `call`.
fn add<F>(
    registry: &mut ToolRegistry,
    name: &str,
    call: impl Fn(Value, ToolContext) -> F + Send + Sync + 'static,
) where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let call: Arc<Call> = Arc::new(move |input, ctx| Box::pin(call(input, ctx)));
    registry.register_dyn(Arc::new(FnTool { name: name.to_owned(), call }));
}

/// Creates a registry with one tool, which calls the closure `call`.
fn one<F>(
    name: &str,
    call: impl Fn(Value, ToolContext) -> F + Send + Sync + 'static,
) -> ToolRegistry
where
    F: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    let mut registry = ToolRegistry::new();
    add(&mut registry, name, call);
    registry
}

/// Returns the handle of the client that called the tool, from the extensions of the tool's context.
fn peer(ctx: &ToolContext) -> McpPeer {
    ctx.extensions.get::<McpPeer>().expect("a tool of a server has a peer").clone()
}

/// A client that writes and reads JSON-RPC messages as lines. Sends only the messages that the test requests.
pub(crate) struct Client {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    /// Messages that arrived while a method waited for a different message. In order of arrival.
    heard: VecDeque<Value>,
    next_id: u64,
    /// Members added to `_meta` of every request. Set for version 2026-07-28, which has no handshake.
    meta: Option<Value>,
    /// The task that runs the server.
    serving: tokio::task::JoinHandle<()>,
}

impl Client {
    /// Starts the server in a task and connects to it. Does not send any message.
    fn connect(server: &McpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let server = server.clone();
        let serving = tokio::spawn(async move {
            server.serve_io(input, output).await.expect("the connection is fine");
        });
        let (input, output) = tokio::io::split(ours);
        let input = BufReader::new(input).lines();
        Self { output, input, heard: VecDeque::new(), next_id: 0, meta: None, serving }
    }

    /// Connects with a version before 2026-07-28, and completes the handshake.
    pub(crate) async fn older(server: &McpServer, version: &str, capabilities: Value) -> Self {
        let mut client = Self::connect(server);
        let result = client.initialize(version, capabilities).await;
        assert_eq!(result["protocolVersion"], version, "{result}");
        client
    }

    /// Runs the handshake of the versions before 2026-07-28. Returns the result of `initialize`.
    async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "raw", "version": "1" },
        });
        let response = self.request("initialize", params).await;
        self.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        response["result"].clone()
    }

    /// Connects with version 2026-07-28, which has no handshake. Every request carries the version and capabilities.
    fn modern(server: &McpServer, capabilities: Value) -> Self {
        let mut client = Self::connect(server);
        client.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }));
        client
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        let sent = tokio::time::timeout(LIMIT, self.output.write_all(line.as_bytes())).await;
        sent.expect("the server reads").expect("the server is there");
    }

    /// Sends a request without waiting for the response. Returns the request id.
    async fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if let (Some(meta), Some(params)) = (&self.meta, params.as_object_mut()) {
            let given = params.entry("_meta").or_insert_with(|| json!({}));
            for (name, value) in meta.as_object().unwrap() {
                given.as_object_mut().unwrap().entry(name).or_insert(value.clone());
            }
        }
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Returns the next message of any kind. Messages that an earlier wait has queued come first.
    async fn receive(&mut self) -> Value {
        match self.heard.pop_front() {
            Some(message) => message,
            None => self.read().await.expect("the server goes on"),
        }
    }

    /// Reads the next message from the stream. Returns `None` at the end of the stream.
    async fn read(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(LIMIT, self.input.next_line()).await;
        let line = line.expect("the server answers").expect("the server can be read")?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    /// Waits for the response to the request with this id. Queues other messages in `heard`.
    async fn response(&mut self, id: u64) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(position) = self.heard.iter().position(is_it) {
            return self.heard.remove(position).unwrap();
        }
        loop {
            let message = self.read().await.expect("the server goes on");
            if is_it(&message) {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    /// Waits for the next message with this method. Queues other messages in `heard`.
    async fn hear(&mut self, method: &str) -> Value {
        if let Some(position) = self.heard.iter().position(|message| message["method"] == method) {
            return self.heard.remove(position).unwrap();
        }
        loop {
            let message = self.read().await.expect("the server goes on");
            if message["method"] == method {
                return message;
            }
            self.heard.push_back(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.response(id).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Calls a tool again with the client's responses, and with the state that the result of the previous call
    /// contains.
    async fn next_round(&mut self, tool: &str, responses: Value, state: &Value) -> Value {
        let params = json!({
            "name": tool, "arguments": {}, "inputResponses": responses, "requestState": state,
        });
        self.request("tools/call", params).await
    }

    /// Closes the client's write half. The client can still read.
    async fn end_input(&mut self) {
        self.output.shutdown().await.expect("the server is there");
    }

    /// Closes the connection, and waits until the server task has ended.
    async fn close(self) {
        drop((self.output, self.input));
        tokio::time::timeout(LIMIT, self.serving).await.expect("it ends").expect("without a panic");
    }
}

/// Returns the text of the first content item of a tool result.
#[track_caller]
fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Returns the error code of an error response.
#[track_caller]
fn code(response: &Value) -> i64 {
    response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{response}"))
}
