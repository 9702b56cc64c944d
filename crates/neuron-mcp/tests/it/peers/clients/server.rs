//! The server that the client programs of other vendors use in these tests.

use neuron_mcp::{
    ElicitationRequest, ElicitationResponse, LogLevel, McpPeer, McpPrompt, McpPromptArgument,
    McpPromptMessage, McpPromptResult, McpPromptSet, McpResource, McpResourceContents,
    McpResourceSet, McpResourceTemplate, McpServer, SamplingRequest,
};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{Message, ToolContext, ToolError};
use serde::Serialize;
use serde_json::json;

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

/// Adds two numbers.
#[neuron_tool]
async fn add(a: i64, b: i64) -> Result<Sum, ToolError> {
    Ok(Sum { sum: a + b })
}

/// Fails.
#[neuron_tool]
async fn fail() -> Result<String, ToolError> {
    Err(ToolError::ModelRetry("not today".to_owned()))
}

/// Reports its progress and logs.
#[neuron_tool]
async fn work(ctx: &ToolContext) -> Result<String, ToolError> {
    peer(ctx).log(LogLevel::Debug, Some("work"), "not asked for");
    peer(ctx).log(LogLevel::Info, Some("work"), "working");
    // A client that asks for no progress gets none.
    if let Some(reporter) = &ctx.progress_reporter {
        reporter.report(1.0, Some(2.0), Some("half"));
        reporter.report(2.0, Some(2.0), Some("all"));
    }
    Ok("worked".to_owned())
}

/// Sends an elicitation request to the client.
#[neuron_tool]
async fn ask(ctx: &ToolContext) -> Result<String, ToolError> {
    let fields = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": fields, "required": ["name", "age"]});
    match peer(ctx).elicit("who", ElicitationRequest::form("Who are you?", schema)).await? {
        ElicitationResponse::Accept(form) => {
            Ok(format!("{} is {}", form["name"].as_str().unwrap_or_default(), form["age"]))
        }
        other => Ok(format!("{other:?}")),
    }
}

/// Sends a sampling request to the client.
#[neuron_tool]
async fn think(ctx: &ToolContext) -> Result<String, ToolError> {
    let request = SamplingRequest {
        messages: vec![Message::user("What is 6 times 7?")],
        system_prompt: Some("Be brief.".to_owned()),
        max_tokens: 20,
        ..Default::default()
    };
    let answer = peer(ctx).sample("product", request).await?;
    Ok(format!("{}: {}", answer.model, answer.message.text()))
}

fn peer(ctx: &ToolContext) -> &McpPeer {
    ctx.extensions.get().unwrap()
}

/// Creates the server with all features that the client programs use, such as tools, resources, prompts and
/// completions.
pub(super) fn new() -> McpServer {
    let mut tools = ToolRegistry::new();
    tools.register(AddTool);
    tools.register(FailTool);
    tools.register(WorkTool);
    tools.register(AskTool);
    tools.register(ThinkTool);
    let readme = McpResource {
        mime_type: Some("text/plain".to_owned()),
        ..McpResource::new("docs://readme", "readme")
    };
    let resources = McpResourceSet::new().with_text(readme, "Read me.").with_template(
        McpResourceTemplate::new("docs://{name}", "document"),
        |request| async move {
            let text = format!("About {}.", request.variables["name"]);
            Ok(vec![McpResourceContents::text(request.uri, text)])
        },
    );
    let argument = |name: &str| McpPromptArgument { name: name.to_owned(), ..Default::default() };
    let review = McpPrompt {
        arguments: vec![argument("file"), argument("language")],
        ..McpPrompt::new("review")
    };
    let prompts = McpPromptSet::new()
        .with_prompt(review, |request| async move {
            let text = format!("Review {}.", request.arguments["file"]);
            let messages = vec![McpPromptMessage::user(text)];
            Ok(McpPromptResult { messages, ..Default::default() })
        })
        .with_completion("review", "language", |query| {
            let known = ["rust", "ruby", "python"].into_iter();
            known.filter(|name| name.starts_with(&query.value)).map(str::to_owned).collect()
        });
    McpServer::new(tools)
        .with_name("peer")
        .with_version("1.2.3")
        .with_instructions("Use it well.")
        .with_resources(resources)
        .with_prompts(prompts)
}
