//! An MCP server that offers the tools of a [`ToolRegistry`](neuron_tool::ToolRegistry), and optionally resources and
//! prompts.

mod call;
mod cursor;
mod form;
mod handler;
mod http;
mod input;
mod inputs;
mod mcp_server;
pub(crate) mod notifier;
mod outbox;
mod peer;
mod progress;
mod prompts;
mod question;
mod resources;
mod rounds;
mod serving;
mod session;
mod stdio;
mod tasks;
mod tool_result;
mod traced;
mod uri_template;

pub use http::{
    HttpIdentity, HttpRefusal, HttpRequestHead, HttpServerConfig, McpHttpBody, McpHttpServer,
    McpHttpService, ProtectedResource, TokenClaims, TokenVerifier,
};
pub use mcp_server::McpServer;
pub use notifier::McpNotifier;
pub use peer::McpPeer;
pub use prompts::{McpPromptSet, McpPrompts, PromptRequest};
pub use question::{InputAnswer, InputAnswers, InputRequest};
pub use resources::{McpResourceSet, McpResources, ResourceRequest};
pub use tasks::{McpTask, McpTaskState, McpTasks, TaskSource};
