//! Tests of `McpToolset`, which keeps a registry in sync with the tools of a server.

use std::sync::Arc;

use neuron_loop::{Agent, Conversation};
use neuron_mcp::{
    BridgeOptions, McpClient, McpError, McpNameTaken, McpServer, McpToolChanges, McpToolset,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    CALL_TOOL, ContentBlock, SEARCH_TOOLS, ToolContext, ToolDefinition, ToolDyn, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::fake_server::{Answer, FakeServer, tool};

const CHANGED: &str = "notifications/tools/list_changed";

/// Starts a fake server with these tools, and connects a client. Each tool returns its own name.
async fn started(names: &[&str]) -> (Arc<FakeServer>, Arc<McpClient>) {
    let tools: Vec<Value> = names.iter().map(|name| tool(name)).collect();
    FakeServer::start(McpClient::builder(), "fake", tools, |params| {
        Answer::text(params["name"].as_str().unwrap())
    })
    .await
}

/// A tool that does not come from a server.
struct Native(&'static str);

impl ToolDyn for Native {
    fn name(&self) -> &str {
        self.0
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.0.into(),
            title: None,
            description: "A tool of our own".into(),
            input_schema: json!({ "type": "object" }),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        _input: Value,
        _ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move { Ok(ToolOutput::text(format!("our own {}", self.0))) })
    }
}

fn with_native(names: &[&'static str]) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for name in names {
        registry.register_dyn(Arc::new(Native(name)));
    }
    registry
}

fn names(registry: &ToolRegistry) -> Vec<&str> {
    registry.names().collect()
}

/// Asserts the names of the added, replaced and removed tools.
#[track_caller]
fn check(changes: &McpToolChanges, added: &[&str], replaced: &[&str], removed: &[&str]) {
    assert_eq!(changes.added, added, "added");
    assert_eq!(changes.replaced, replaced, "replaced");
    assert_eq!(changes.removed, removed, "removed");
    assert_eq!(changes.is_empty(), added.is_empty() && replaced.is_empty() && removed.is_empty());
}

#[tokio::test]
async fn sync_updates_the_registry() {
    let (server, client) = started(&["a", "b"]).await;
    let mut registry = with_native(&["ours"]);
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    assert!(toolset.has_changed(), "nothing was listed yet");
    check(&toolset.sync(&mut registry).await.unwrap(), &["a", "b"], &[], &[]);
    assert_eq!(names(&registry), ["ours", "a", "b"]);
    assert!(!toolset.has_changed());

    // A tool added at the end or removed from the middle does not move other tools.
    registry.register_dyn(Arc::new(Native("later")));
    server.set_tools([tool("a"), tool("b"), tool("c")]);
    check(&toolset.sync(&mut registry).await.unwrap(), &["c"], &[], &[]);
    assert_eq!(names(&registry), ["ours", "a", "b", "later", "c"]);
    server.set_tools([tool("a"), tool("c")]);
    check(&toolset.sync(&mut registry).await.unwrap(), &[], &[], &["b"]);
    assert_eq!(names(&registry), ["ours", "a", "later", "c"]);

    // A tool added in front moves the tools of the server to the end. A changed description replaces the tool.
    let mut other = tool("c");
    other["description"] = json!("Does something else");
    server.set_tools([tool("z"), tool("a"), other]);
    check(&toolset.sync(&mut registry).await.unwrap(), &["z"], &["c"], &[]);
    assert_eq!(names(&registry), ["ours", "later", "z", "a", "c"]);
    assert_eq!(registry.definition("c").unwrap().description, "Does something else");

    // A changed order also moves the tools of the server to the end.
    server.set_tools([tool("a"), tool("z")]);
    check(&toolset.sync(&mut registry).await.unwrap(), &[], &[], &["c"]);
    assert_eq!(names(&registry), ["ours", "later", "a", "z"]);
    check(&toolset.sync(&mut registry).await.unwrap(), &[], &[], &[]);

    server.set_tools([]);
    check(&toolset.sync(&mut registry).await.unwrap(), &[], &[], &["a", "z"]);
    assert_eq!(names(&registry), ["ours", "later"]);
}

#[tokio::test]
async fn sync_without_changes_keeps_the_same_tool() {
    let (_server, client) = started(&["a"]).await;
    let mut registry = ToolRegistry::new();
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    toolset.sync(&mut registry).await.unwrap();
    let before = registry.get("a").unwrap();
    toolset.sync(&mut registry).await.unwrap();
    assert!(Arc::ptr_eq(&before, &registry.get("a").unwrap()));
}

#[tokio::test]
async fn many_notifications_cause_one_listing() {
    let (server, client) = started(&["a"]).await;
    let mut registry = ToolRegistry::new();
    let mut toolset = McpToolset::new(Arc::clone(&client), BridgeOptions::new());
    toolset.sync(&mut registry).await.unwrap();
    assert_eq!(server.count("tools/list"), 1);

    server.set_tools([tool("b")]);
    for _ in 0..1000 {
        server.notify(CHANGED);
    }
    // The response to this call arrives after all notifications.
    client.call_tool_json("a", json!({})).await.unwrap();
    toolset.changed().await;
    assert!(toolset.has_changed());
    check(&toolset.sync(&mut registry).await.unwrap(), &["b"], &[], &["a"]);
    assert_eq!(server.count("tools/list"), 2);
}

#[tokio::test]
async fn other_events_change_nothing() {
    let (server, client) = started(&["a"]).await;
    let mut toolset = McpToolset::new(Arc::clone(&client), BridgeOptions::new());
    toolset.sync(&mut ToolRegistry::new()).await.unwrap();
    server.notify("notifications/prompts/list_changed");
    server.notify("notifications/resources/list_changed");
    client.call_tool_json("a", json!({})).await.unwrap();
    assert!(!toolset.has_changed());
    client.close().await;
    assert!(!toolset.has_changed());
}

#[tokio::test]
async fn failed_listing_does_not_change_the_registry() {
    let (server, client) = started(&["a"]).await;
    let mut registry = ToolRegistry::new();
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    toolset.sync(&mut registry).await.unwrap();
    server.refuse_to_list("out of order");
    let error = toolset.sync(&mut registry).await.unwrap_err();
    assert!(error.to_string().contains("out of order"), "{error}");
    assert_eq!(names(&registry), ["a"]);
    assert!(toolset.has_changed());
    server.set_tools([tool("b")]);
    check(&toolset.sync(&mut registry).await.unwrap(), &["b"], &[], &["a"]);
}

#[tokio::test]
async fn taken_name_is_an_error_that_names_both_tools() {
    let (_server, client) = started(&["other", "read.file"]).await;
    let mut registry = with_native(&["read_file"]);
    let mut toolset = McpToolset::new(Arc::clone(&client), BridgeOptions::new());
    let error = toolset.sync(&mut registry).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the tool `read.file` of the server `fake` cannot be added as `read_file`: another tool is \
         registered as `read_file`; a prefix or a filter in BridgeOptions keeps them apart"
    );
    let McpError::Other(source) = error else { panic!("another error") };
    assert_eq!(source.downcast_ref::<McpNameTaken>().unwrap().tool, "read.file");
    assert_eq!(names(&registry), ["read_file"], "nothing was added");

    let mut toolset = McpToolset::new(client, BridgeOptions::new().with_prefix("fs"));
    toolset.sync(&mut registry).await.unwrap();
    assert_eq!(names(&registry), ["read_file", "fs_other", "fs_read_file"]);
}

#[tokio::test]
async fn two_servers_share_a_registry() {
    let (first, first_client) = started(&["echo"]).await;
    let (_second, second_client) = started(&["echo", "more"]).await;
    let mut registry = ToolRegistry::new();
    let of =
        |client, prefix: &str| McpToolset::new(client, BridgeOptions::new().with_prefix(prefix));
    let mut first_tools = of(first_client, "one");
    let mut second_tools = of(second_client, "two");
    first_tools.sync(&mut registry).await.unwrap();
    second_tools.sync(&mut registry).await.unwrap();
    assert_eq!(names(&registry), ["one_echo", "two_echo", "two_more"]);
    let output = registry.execute("two_echo", json!({}), &ToolContext::default()).await.unwrap();
    assert_eq!(output, ToolOutput::text("echo"));

    first.set_tools([tool("new")]);
    first_tools.sync(&mut registry).await.unwrap();
    assert_eq!(names(&registry), ["two_echo", "two_more", "one_new"]);
    second_tools.remove_from(&mut registry);
    assert_eq!(names(&registry), ["one_new"]);
    assert!(second_tools.has_changed());
    check(&second_tools.sync(&mut registry).await.unwrap(), &["two_echo", "two_more"], &[], &[]);
}

#[tokio::test]
async fn replaced_tool_is_not_removed_by_the_toolset() {
    let (server, client) = started(&["a", "b"]).await;
    let mut registry = ToolRegistry::new();
    let mut toolset = McpToolset::new(client, BridgeOptions::new());
    toolset.sync(&mut registry).await.unwrap();
    registry.register_dyn(Arc::new(Native("a")));
    let error = toolset.sync(&mut registry).await.unwrap_err();
    assert!(error.to_string().contains("cannot be added as `a`"), "{error}");
    server.set_tools([]);
    toolset.sync(&mut registry).await.unwrap();
    assert_eq!(names(&registry), ["a"]);
    toolset.remove_from(&mut registry);
    assert_eq!(names(&registry), ["a"]);
}

#[tokio::test]
async fn agent_gets_changed_tools_between_runs() {
    let server = McpServer::new(with_native(&["first"])).with_name("native");
    let notifier = server.notifier();
    let (ours, theirs) = tokio::io::duplex(1024 * 1024);
    let (input, output) = tokio::io::split(ours);
    let serving = tokio::spawn(async move { server.serve_io(input, output).await });
    let (reader, writer) = tokio::io::split(theirs);
    let client = Arc::new(McpClient::builder().connect_io(reader, writer).await.unwrap());

    let provider = ScriptedProvider::new([
        Reply::tool_call("c1", "mcp_first", json!({})),
        Reply::text("one"),
        Reply::tool_call("c2", "mcp_second", json!({})),
        Reply::text("two"),
    ]);
    let mut agent = Agent::builder(provider.clone()).build();
    let (mut tools, mut conversation) = (ToolRegistry::new(), Conversation::new());
    let mut toolset = McpToolset::new(Arc::clone(&client), BridgeOptions::new().with_prefix("mcp"));
    toolset.sync(&mut tools).await.unwrap();
    agent = agent.to_builder().tools(tools.clone()).build();
    assert_eq!(agent.run(&mut conversation, "go").await.unwrap().response, "one");

    notifier.replace_tools(with_native(&["second"]));
    toolset.changed().await;
    check(&toolset.sync(&mut tools).await.unwrap(), &["mcp_second"], &[], &["mcp_first"]);
    agent = agent.to_builder().tools(tools).build();
    assert_eq!(agent.run(&mut conversation, "again").await.unwrap().response, "two");

    let last = &provider.requests()[3];
    let offered: Vec<&str> = last.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["mcp_second"]);
    let result = last.messages.last().unwrap().content[0].to_string();
    assert_eq!(result, "[tool result c2: our own second]");
    serving.abort();
}

#[tokio::test]
async fn deferred_tools_follow_the_server() {
    let (server, client) = started(&["list_issues", "star"]).await;
    let mut registry = with_native(&["ours"]);
    registry.defer_tools(ToolSearch::new().visible(["ours"])).unwrap();
    let mut toolset = McpToolset::new(client, BridgeOptions::new().with_prefix("github"));
    toolset.sync(&mut registry).await.unwrap();
    let find =
        |id: &str, query: &str| Reply::tool_call(id, SEARCH_TOOLS, json!({ "query": query }));
    let call = |id: &str, name: &str| {
        Reply::tool_call(id, CALL_TOOL, json!({ "name": name, "arguments": {} }))
    };
    let provider = ScriptedProvider::new([
        find("a", "issues"),
        call("b", "github_list_issues"),
        Reply::text("listed"),
        call("c", "github_list_issues"),
        find("d", "label"),
        call("e", "github_add_label"),
        Reply::text("labelled"),
    ]);
    let agent = Agent::builder(provider.clone()).tools(registry.clone()).build();
    let mut conversation = Conversation::new();
    agent.run(&mut conversation, "List").await.unwrap();

    server.set_tools([tool("star"), tool("add_label")]);
    server.notify(CHANGED);
    toolset.changed().await;
    check(
        &toolset.sync(&mut registry).await.unwrap(),
        &["github_add_label"],
        &[],
        &["github_list_issues"],
    );
    let agent = agent.to_builder().tools(registry).build();
    agent.run(&mut conversation, "Label").await.unwrap();

    let mut results = Vec::new();
    for block in conversation.messages().iter().flat_map(|message| &message.content) {
        if let ContentBlock::ToolResult { tool_use_id, content, .. } = block {
            results.push((&**tool_use_id, content[0].to_string()));
        }
    }
    let result = |id: &str| &results.iter().find(|(of, _)| *of == id).unwrap().1;
    assert!(result("a").starts_with(r#"{"name":"github_list_issues""#), "{results:?}");
    assert_eq!(result("b"), "list_issues");
    assert!(result("c").starts_with("tool not found: github_list_issues;"), "{results:?}");
    assert!(result("d").starts_with(r#"{"name":"github_add_label""#), "{results:?}");
    assert_eq!(result("e"), "add_label");
    let requests = provider.requests();
    assert!(requests.iter().all(|request| request.tools == requests[0].tools));
    assert_eq!(requests[0].tools.len(), 3);
}
