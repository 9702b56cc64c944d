//! Serves MCP on a route of an axum server, with a function that authenticates each request.

use axum::Router;
use axum::routing::get;
use neuron::mcp::{
    HttpConfig, HttpIdentity, HttpRefusal, HttpServerConfig, McpClient, McpPeer, McpServer,
};
use neuron::prelude::*;
use serde_json::json;
use tokio::net::TcpListener;

// ANCHOR: tool
/// Returns the name of the caller.
#[neuron_tool]
async fn who_am_i(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>();
    let identity = peer.as_ref().and_then(|peer| peer.extension::<HttpIdentity>());
    identity
        .map(|identity| identity.subject().to_owned())
        .ok_or_else(|| ToolError::ModelRetry("the caller is unknown".into()))
}
// ANCHOR_END: tool

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    // ANCHOR: service
    let config = HttpServerConfig::default()
        // Names that clients use for this server in their URL.
        .allowed_hosts(["127.0.0.1", "tools.example.com"])
        .authenticate(|request| async move {
            // A real server looks up the key in its database.
            match request.headers.get("x-api-key").map(|key| key.as_bytes()) {
                Some(b"key-of-alice") => Ok(HttpIdentity::new("alice")),
                _ => Err(HttpRefusal::unauthorized()),
            }
        });
    let mut tools = ToolRegistry::new();
    tools.register(WhoAmITool);
    let service = McpServer::new(tools).with_name("example").http_service(config)?;
    let app = Router::new().route("/health", get(async || "ok")).route_service("/mcp", service);
    // ANCHOR_END: service

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, app).into_future());

    let headers = vec![("x-api-key".to_owned(), "key-of-alice".to_owned())];
    let config = HttpConfig { url: url.clone(), auth_header: None, headers };
    let client = McpClient::connect_http(config).await?;
    let result = client.call_tool_json("who_am_i", json!({})).await?;
    for item in result.content {
        println!("with a key: {item}");
    }
    client.close().await;

    let refused = McpClient::connect_http(HttpConfig { url, ..Default::default() }).await;
    println!("without a key: {}", if refused.is_err() { "refused" } else { "accepted" });
    Ok(())
}
