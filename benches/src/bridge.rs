//! Calls of a tool on an MCP server, through neuron's bridge and through the bare SDK for comparison. In both cases the
//! server and the connection are in memory.

use std::error::Error;
use std::sync::Arc;

use neuron_mcp::{McpClient, McpServer, McpToolBridge};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDyn};
use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use tokio::io::DuplexStream;

use crate::turn::Echo;

type Failure = Box<dyn Error + Send + Sync>;

/// Size of the buffer between a client and its server, in bytes.
const BUFFER: usize = 64 * 1024;

/// Starts a server on a task of the current runtime, and returns the client's end of its connection.
fn serve() -> DuplexStream {
    let (client, server) = tokio::io::duplex(BUFFER);
    tokio::spawn(async move {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Echo));
        let (reader, writer) = tokio::io::split(server);
        McpServer::new(tools).serve_io(reader, writer).await
    });
    client
}

fn arguments() -> Value {
    json!({ "text": "hello" })
}

/// The tool of an MCP server, called through neuron's bridge.
#[expect(missing_debug_implementations, reason = "a tool has no `Debug`")]
pub struct Bridge {
    tool: Arc<dyn ToolDyn>,
    context: ToolContext,
}

impl Bridge {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub async fn connect() -> Result<Self, Failure> {
        let (reader, writer) = tokio::io::split(serve());
        let client = Arc::new(McpClient::builder().connect_io(reader, writer).await?);
        let tool = McpToolBridge::discover(&client).await?.pop().ok_or("there is no tool")?;
        Ok(Self { tool, context: ToolContext::default() })
    }

    /// Calls the tool.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn call(&self) -> Result<(), Failure> {
        self.tool.call_dyn(arguments(), &self.context).await?;
        Ok(())
    }
}

/// The tool of an MCP server, called through the bare SDK.
#[derive(Debug)]
pub struct Sdk(RunningService<RoleClient, ()>);

impl Sdk {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection fails.
    pub async fn connect() -> Result<Self, Failure> {
        Ok(Self(().serve(tokio::io::split(serve())).await?))
    }

    /// Calls the tool.
    ///
    /// # Errors
    ///
    /// Returns an error if the call fails.
    pub async fn call(&self) -> Result<(), Failure> {
        let Value::Object(arguments) = arguments() else { return Ok(()) };
        let mut call = CallToolRequestParams::new(Echo.name().to_owned());
        call.arguments = Some(arguments);
        self.0.call_tool(call).await?;
        Ok(())
    }
}
