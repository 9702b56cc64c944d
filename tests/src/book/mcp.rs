//! Tests the chapter of neuron's book on MCP, with clients, the bridge, and a server.
//!
//! Snippets that start `npx` servers are compiled and never executed. The tests use a server that this file defines.

use std::collections::HashMap;
use std::sync::Arc;

use neuron_mcp::{
    HttpConfig, HttpServerConfig, McpClient, McpError, McpPrompt, McpPromptArgument, McpResource,
    McpResourceContents, McpServer, McpToolBridge, PaginatedList, StdioConfig,
};
use neuron_tool::ToolRegistry;
use neuron_types::{ToolContext, ToolDefinition, ToolDyn};
use serde_json::json;

use super::runtime::Shout;

// The section "Quick Example" of the book.

#[expect(dead_code, reason = "it needs npx")]
async fn quick_example() -> Result<(), Box<dyn std::error::Error>> {
    // Connect to an MCP server via stdio
    let client = Arc::new(
        McpClient::connect_stdio(StdioConfig {
            command: "npx".to_string(),
            args: vec![
                "-y".to_string(),
                "@modelcontextprotocol/server-filesystem".to_string(),
                "/tmp".to_string(),
            ],
            env: vec![],
        })
        .await?,
    );

    // Discover tools and register them
    let tools = McpToolBridge::discover(&client).await?;
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(tool);
    }

    Ok(())
}

// The section "McpClient" of the book.

#[expect(dead_code, reason = "it needs npx")]
async fn stdio() -> Result<(), McpError> {
    let client = McpClient::connect_stdio(StdioConfig {
        command: "npx".to_string(),
        args: vec!["-y".to_string(), "@modelcontextprotocol/server-everything".to_string()],
        env: vec![("NODE_ENV".to_string(), "production".to_string())],
    })
    .await?;
    drop(client);
    Ok(())
}

#[expect(dead_code, reason = "it needs a server at that address")]
async fn streamable_http() -> Result<(), McpError> {
    let client = McpClient::connect_http(HttpConfig {
        url: "http://localhost:8080/mcp".to_string(),
        auth_header: Some("Bearer my-token".to_string()),
        headers: vec![],
    })
    .await?;
    drop(client);
    Ok(())
}

/// Starts the book's server over HTTP, and calls `use_client` with a client of this server.
async fn with_server<T, Fut>(use_client: impl FnOnce(Arc<McpClient>) -> Fut) -> T
where
    Fut: Future<Output = T>,
{
    let listening = server().bind_http(HttpServerConfig::default()).await.unwrap();
    let (url, shutdown) = (listening.url(), listening.shutdown_token());
    let serving = tokio::spawn(listening.serve());
    let client = McpClient::connect_http(HttpConfig { url, ..Default::default() }).await.unwrap();
    let client = Arc::new(client);
    let result = use_client(client.clone()).await;
    client.close().await;
    assert!(client.is_closed());
    shutdown.cancel();
    serving.await.unwrap().unwrap();
    result
}

#[tokio::test]
async fn client_has_the_methods_of_the_table() {
    with_server(async |client| {
        let page: PaginatedList<ToolDefinition> = client.list_tools(None).await.unwrap();
        assert_eq!((page.items.len(), page.next_cursor), (1, None));
        assert_eq!(client.list_all_tools().await.unwrap()[0].name, "shout");
        let arguments = json!({ "text": "a" }).as_object().unwrap().clone();
        let output = client.call_tool("shout", arguments).await.unwrap();
        assert_eq!(output.content[0].to_string(), "A");
        let output = client.call_tool_json("shout", json!({ "text": "b" })).await.unwrap();
        assert_eq!(output.content[0].to_string(), "B");
        assert!(!client.is_closed());
        // The section "Accessing the Raw rmcp Peer" of the book.
        let peer = client.peer();
        assert!(peer.peer_info().is_some());
    })
    .await;
}

#[expect(dead_code, reason = "the server above has neither")]
async fn resources_and_prompts(client: McpClient) -> Result<(), McpError> {
    let resources: PaginatedList<McpResource> = client.list_resources(None).await?;
    let contents: Vec<McpResourceContents> = client.read_resource("file:///a").await?;
    let prompts: PaginatedList<McpPrompt> = client.list_prompts(None).await?;
    let arguments: HashMap<String, String> = HashMap::new();
    let prompt = client.get_prompt("greeting", arguments).await?;
    drop((resources, contents, prompts, prompt));
    Ok(())
}

// The section "McpToolBridge" of the book.

#[tokio::test]
async fn registry_contains_local_tools_and_server_tools() {
    with_server(async |client| {
        // Discover returns Vec<Arc<dyn ToolDyn>>
        let bridges: Vec<Arc<dyn ToolDyn>> = McpToolBridge::discover(&client).await.unwrap();

        let mut registry = ToolRegistry::new();
        for bridge in bridges {
            registry.register_dyn(bridge);
        }
        registry.register(super::tools::search_tool());
        let names: Vec<String> =
            registry.definitions().into_iter().map(|definition| definition.name).collect();
        assert_eq!(names, ["shout", "search"]);
        let ctx = ToolContext::default();
        let output = registry.execute("shout", json!({ "text": "hi" }), &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "HI");
    })
    .await;
}

#[tokio::test]
async fn listed_tools_can_be_bridged_one_by_one() {
    with_server(async |client| {
        let tools = McpClient::discover_tools(&client).await.unwrap();
        assert_eq!(tools[0].name(), "shout");

        let tool_definition = client.list_all_tools().await.unwrap().remove(0);
        let mut registry = ToolRegistry::new();
        let bridge = McpToolBridge::new(Arc::clone(&client), tool_definition);
        registry.register_dyn(Arc::new(bridge));
        let ctx = ToolContext::default();
        let output = registry.execute("shout", json!({ "text": "one" }), &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "ONE");
    })
    .await;
}

// The section "McpServer" of the book.

fn server() -> McpServer {
    let mut registry = ToolRegistry::new();
    registry.register(Shout);

    McpServer::new(registry)
        .with_name("my-agent-tools")
        .with_version("1.0.0")
        .with_instructions("Tools for file manipulation")
}

#[expect(dead_code, reason = "the test's own standard input is not a client")]
async fn serve() -> Result<(), McpError> {
    let server = server();
    // Serve over stdio (blocks until client disconnects)
    server.serve_stdio().await?;
    Ok(())
}

#[tokio::test]
async fn server_reports_its_name_version_and_instructions() {
    with_server(async |client| {
        let info = client.server_info();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("my-agent-tools", "1.0.0"));
        assert_eq!(client.instructions().as_deref(), Some("Tools for file manipulation"));
    })
    .await;
}

// The section "MCP-Specific Types" of the book.

#[expect(dead_code, reason = "the fields of the table")]
fn fields(
    resource: McpResource,
    content: McpResourceContents,
    prompt: McpPrompt,
    argument: McpPromptArgument,
) {
    let McpResource { uri, name, title, description, mime_type, .. } = resource;
    drop((uri, name, title, description, mime_type));
    let McpResourceContents { uri, mime_type, text, blob, .. } = content;
    drop((uri, mime_type, text, blob));
    let McpPrompt { name, title, description, arguments, .. } = prompt;
    drop((name, title, description, arguments));
    let McpPromptArgument { name, description, required, .. } = argument;
    drop((name, description, required));
}

// The section "Error Handling" of the book.

#[tokio::test]
async fn program_that_does_not_start_is_a_connection_error() {
    let config = StdioConfig { command: "/nowhere/at-all".into(), ..Default::default() };
    let error = McpClient::connect_stdio(config).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error}");
}

#[tokio::test]
async fn missing_tool_is_a_call_error() {
    with_server(async |client| {
        let error = client.call_tool_json("whisper", json!({})).await.unwrap_err();
        assert!(matches!(error, McpError::ToolCall(_)), "{error}");
    })
    .await;
}

// The section "Tool Annotations" of the book.

#[tokio::test]
async fn tool_definition_contains_the_annotations() {
    with_server(async |client| {
        let tools = client.list_all_tools().await.unwrap();
        for tool in &tools {
            if let Some(ann) = &tool.annotations {
                println!("{}: read_only={:?}", tool.name, ann.read_only_hint);
            }
        }
        assert_eq!(tools.len(), 1);
    })
    .await;
}
