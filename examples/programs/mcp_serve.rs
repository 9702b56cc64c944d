//! Serves tools and a resource over Streamable HTTP to clients with a token, and connects a client to the server.

use neuron::mcp::{
    HttpConfig, HttpServerConfig, LogLevel, McpClient, McpEvent, McpPeer, McpResource,
    McpResourceSet, McpServer,
};
use neuron::prelude::*;
use serde_json::json;

/// Adds two numbers.
#[neuron_tool(effect = Pure)]
async fn add(a: f64, b: f64) -> Result<f64, ToolError> {
    Ok(a + b)
}

// ANCHOR: peer
/// Returns the price of an article in euros.
#[neuron_tool]
async fn price(
    /// The name of the article
    article: String,
    ctx: &ToolContext,
) -> Result<f64, ToolError> {
    // The client that calls this tool. There is no such value if an agent of this program calls the tool.
    if let Some(client) = ctx.extensions.get::<McpPeer>() {
        client.log(LogLevel::Info, Some("prices"), format!("looking up {article}"));
    }
    match article.as_str() {
        "lamp" => Ok(49.9),
        _ => Err(ToolError::ModelRetry(format!("there is no article `{article}`"))),
    }
}
// ANCHOR_END: peer

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: server
    let mut tools = ToolRegistry::new();
    tools.register(AddTool);
    tools.register(PriceTool);
    let about = McpResource::new("shop://terms", "terms");
    let server = McpServer::new(tools)
        .with_name("shop")
        .with_version("1.0.0")
        .with_instructions("Prices of the shop, in euros.")
        .with_resources(
            McpResourceSet::new().with_text(about, "Goods may be returned within 30 days."),
        );

    // Port 0 selects a free port. The tools have the URL http://127.0.0.1:PORT/mcp.
    let config = HttpServerConfig::new("127.0.0.1:0".parse()?).bearer_token("secret-of-the-shop");
    let listening = server.bind_http(config).await?;
    let url = listening.url();
    let shutdown = listening.shutdown_token();
    let serving = tokio::spawn(listening.serve());
    // ANCHOR_END: server

    // ANCHOR: client
    let client = McpClient::builder()
        .log_level(LogLevel::Info)
        .connect_http(HttpConfig {
            url,
            auth_header: Some("Bearer secret-of-the-shop".into()),
            headers: vec![],
        })
        .await?;
    let mut events = client.events();
    println!("instructions: {}", client.instructions().unwrap_or_default());
    for tool in client.list_all_tools().await? {
        println!("tool: {}: {}", tool.name, tool.description);
    }
    let lamp = client.call_tool_json("price", json!({ "article": "lamp" })).await?;
    println!("price: {}", text(&lamp));
    let chair = client.call_tool_json("price", json!({ "article": "chair" })).await?;
    println!("failed: {}, {}", chair.is_error, text(&chair));
    for contents in client.read_resource("shop://terms").await? {
        println!("terms: {}", contents.text.unwrap_or_default());
    }
    if let Some(McpEvent::Log(line)) = events.next().await {
        println!("log of the server: {}", line.data);
    }
    client.close().await;
    // ANCHOR_END: client

    // Running calls have ten seconds to end.
    shutdown.cancel();
    serving.await??;
    Ok(())
}

/// Returns the text of a result.
fn text(result: &ToolOutput) -> String {
    result.content.iter().map(ToString::to_string).collect()
}
