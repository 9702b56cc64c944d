//! The example "In production". An agent with a sandbox uses a function, a tool of an MCP server, another agent and a
//! program.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use neuron::mcp::{HttpConfig, HttpServerConfig, McpClient, McpServer, McpToolBridge};
use neuron::prelude::*;
use neuron::runtime::{CommandTool, Confined, ProcessSandbox};
use neuron::types::ToolCommand;
use neuron_testing::{Reply, ScriptedProvider};
use serde_json::json;

/// Reads a file. The function runs in this process.
#[neuron_tool]
async fn read_file(
    /// The file
    path: PathBuf,
) -> Result<String, ToolError> {
    println!("read_file {}", path.display());
    std::fs::read_to_string(path).map_err(|error| ToolError::ModelRetry(error.to_string()))
}

/// Reads the news. This tool belongs to an MCP server.
#[neuron_tool]
async fn read_news() -> Result<String, ToolError> {
    println!("read_news");
    Ok("no news".into())
}

/// A tool that runs a shell script in the sandbox.
struct ReadWithShell;

// Arguments of `ReadWithShell`. Not a doc comment, because a doc comment would become a part of the schema.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Script {
    script: String,
}

impl CommandTool for ReadWithShell {
    const NAME: &'static str = "read_with_shell";
    type Args = Script;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Runs a script".into(),
            input_schema: schemars::schema_for!(Script).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn command(&self, args: Script, _ctx: &ToolContext) -> Result<ToolCommand, ToolError> {
        Ok(ToolCommand::new("sh").args(["-c", &args.script]))
    }
}

#[tokio::main]
pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    // The kernel of this machine may be too old for the sandbox. The test is then skipped.
    if let Err(error) = ProcessSandbox::builder("project").build() {
        println!("no sandbox: {error}");
        return Ok(());
    }
    let storage = FileSessionStorage::new("./sessions".into());
    let mut session = Session::new("chat-42", ".".into());
    session.messages = vec![Message::user("Hello"), Message::assistant("Hello!")];
    storage.save(&session).await?;

    // The sandbox must prevent a connection that succeeds outside of the sandbox.
    let port = std::net::TcpListener::bind("127.0.0.1:0")?;
    let connect = format!(
        "exec 3<>/dev/tcp/{} && echo connected",
        port.local_addr()?.to_string().replace(':', "/")
    );
    let outside = std::process::Command::new("bash").args(["-c", &connect]).output();
    println!("network: {}", outside.is_ok_and(|output| output.status.success()));
    let script = |script: &str| ("read_with_shell", json!({"script": script}));
    let calls = [
        ("read_file", json!({"path": "project/a.txt"})),
        ("read_news", json!({})),
        script("cat a.txt && echo b > out/b.txt && echo written"),
        script("echo c > c.txt"),
        script("cat ../secret.txt"),
        script(&format!("bash -c '{connect}'")),
        ("read_file", json!({"path": "project/.env"})),
        ("reviewer", json!({"prompt": "Review a.txt"})),
    ];
    let mut replies: Vec<Reply> = Vec::new();
    for (number, (tool, input)) in calls.into_iter().enumerate() {
        replies.push(Reply::tool_call(format!("c{number}"), tool, input));
        if tool == "reviewer" {
            // The other agent uses the same provider, so its replies come next.
            replies.push(Reply::tool_call("r1", "read_file", json!({"path": "project/a.txt"})));
            replies.push(Reply::text("I have no objection."));
        }
    }
    replies.push(Reply::text("At the review."));
    let provider = ScriptedProvider::new(replies);
    example(provider.clone()).await?;
    provider.assert_complete();
    let session = storage.load("chat-42").await?;
    for block in session.messages.iter().flat_map(|message| &message.content) {
        if block.as_tool_use().is_none() {
            println!("{block}");
        }
    }

    // The output guardrail refuses the e-mail address in this response.
    let provider = ScriptedProvider::new(["Ask somebody@example.org."]);
    println!("{}", example(provider).await.expect_err("the guardrail ends the run"));
    let is_unchanged = storage.load("chat-42").await?.messages == session.messages;
    println!("the session is as before: {is_unchanged}");
    // No permission rule matches this call, so it is denied.
    let call = Reply::tool_call("c", "write_file", json!({"path": "a"}));
    example(ScriptedProvider::new([call, Reply::text("I may not.")])).await?;
    let session = storage.load("chat-42").await?;
    let last = session.messages.iter().rev().take(2).rev();
    last.flat_map(|message| &message.content).for_each(|block| println!("{block}"));
    Ok(())
}

/// Writes a file.
#[neuron_tool]
async fn write_file(
    /// The file
    path: PathBuf,
) -> Result<String, ToolError> {
    println!("write_file {}", path.display());
    Ok("written".into())
}

/// Starts the MCP server, and runs the example with a scripted provider.
async fn example(provider: ScriptedProvider) -> Result<(), Box<dyn Error>> {
    let mut news = ToolRegistry::new();
    news.register(ReadNewsTool);
    let server =
        McpServer::new(news).bind_http(HttpServerConfig::new("127.0.0.1:0".parse()?)).await?;
    let config = HttpConfig { url: server.url(), ..HttpConfig::default() };
    let server = tokio::spawn(server.serve());
    let client = Arc::new(McpClient::connect_http(config).await?);

    let mut tools = ToolRegistry::new();
    tools.register(ReadFileTool);
    tools.register(WriteFileTool);
    tools.register_dyn(Arc::new(Confined(ReadWithShell)));
    for tool in McpToolBridge::discover(&client).await? {
        tools.try_register_dyn(tool)?;
    }
    include!(concat!(env!("OUT_DIR"), "/in-production.rs"));
    server.abort();
    Ok(())
}
