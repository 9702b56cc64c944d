//! Tests of the MCP client with three servers of other vendors. They are a knowledge graph server from npm, a clock
//! server from PyPI, and a server that uses FastMCP.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neuron_loop::{Agent, Conversation};
use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, HttpConfig, McpClient, McpError,
    McpToolBridge, McpVersion, StdioConfig,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_testkit::mcp::{Suite, python_or_skip};
use neuron_tool::ToolRegistry;
use neuron_types::{ContentBlock, ContentItem, ProgressReporter, ToolContext};
use serde_json::{Value, json};

use crate::peers::support::{PythonServer, builder, text};

#[tokio::test]
async fn knowledge_graph_of_an_agent_is_stored_and_found_again() {
    let Some(suite) = Suite::or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("memory.jsonl");
    let program = suite.server_memory();
    let env = vec![("MEMORY_FILE_PATH".to_owned(), file.display().to_string())];
    let config = StdioConfig { command: program.program, args: program.args, env };
    let client = Arc::new(builder().connect_stdio(config.clone()).await.unwrap());

    let mut tools = ToolRegistry::new();
    for tool in McpToolBridge::discover(&client).await.unwrap() {
        tools.register_dyn(tool);
    }
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["writes programs"]});
    let bees = json!({"name": "bees", "entityType": "animal", "observations": []});
    let keeps = json!({"from": "Ada", "to": "bees", "relationType": "keeps"});
    let provider = ScriptedProvider::new([
        Reply::tool_call("1", "create_entities", json!({"entities": [ada, bees]})),
        Reply::tool_call("2", "create_relations", json!({"relations": [keeps]})),
        // The arguments do not match the server's schema, so the model receives an error as the tool result.
        Reply::tool_call("3", "create_relations", json!({"relations": [{"from": "Ada"}]})),
        Reply::text("Stored."),
    ]);
    let agent = Agent::builder(provider).tools(tools).build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, "Remember Ada and her bees.").await.unwrap();
    assert_eq!(result.response, "Stored.");
    let results: Vec<_> = conversation
        .messages()
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(|block| match block {
            ContentBlock::ToolResult { is_error, .. } => Some(*is_error),
            _ => None,
        })
        .collect();
    assert_eq!(results, [false, false, true]);
    client.close().await;

    // A second process of the server has the same graph as the first process.
    let client = builder().connect_stdio(config).await.unwrap();
    let found = client.call_tool_json("search_nodes", json!({"query": "programs"})).await.unwrap();
    let found = found.structured_content.unwrap();
    assert_eq!(found["entities"], json!([ada]));
    let graph = client.read_resource("memory://knowledge-graph").await.unwrap();
    let graph: Value = serde_json::from_str(graph[0].text.as_deref().unwrap()).unwrap();
    assert_eq!(graph["relations"], json!([keeps]));
    client.close().await;
}

#[tokio::test]
async fn clock_converts_times_and_refuses_unknown_zones() {
    let Some(python) = python_or_skip() else { return };
    let config = StdioConfig {
        command: python.display().to_string(),
        args: vec!["-m".to_owned(), "mcp_server_time".to_owned()],
        env: Vec::new(),
    };
    let client = builder().connect_stdio(config).await.unwrap();
    assert_eq!(client.version(), McpVersion::V2026_07_28);
    let names: Vec<_> =
        client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["get_current_time", "convert_time"]);
    let convert = async |zone: &str| {
        let arguments =
            json!({"source_timezone": "Asia/Tokyo", "time": "12:30", "target_timezone": zone});
        client.call_tool_json("convert_time", arguments).await.unwrap()
    };
    let converted = convert("Asia/Kolkata").await;
    assert!(!converted.is_error, "{converted:?}");
    let converted: Value = serde_json::from_str(&text(&converted)).unwrap();
    assert_eq!(converted["time_difference"], "-3.5h");
    let refused = convert("Nowhere/Town").await;
    assert!(refused.is_error && text(&refused).contains("Nowhere/Town"), "{refused:?}");
    client.close().await;
}

#[tokio::test]
async fn every_feature_of_fastmcp_works_over_stdio() {
    let Some(python) = python_or_skip() else { return };
    let args = ["-P", "-B", FASTMCP_SERVER, "stdio"].map(str::to_owned).into();
    let config = StdioConfig { command: python.display().to_string(), args, env: Vec::new() };
    let user = User::default();
    let client = builder().elicitation(user.clone()).connect_stdio(config).await.unwrap();
    use_fastmcp(&client, &user).await;
    client.close().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn every_feature_of_fastmcp_works_over_http() {
    let Some(server) = PythonServer::or_skip(FASTMCP_SERVER, &["http"]) else { return };
    let config = HttpConfig { url: server.url(), ..HttpConfig::default() };
    let user = User::default();
    let client = builder().elicitation(user.clone()).connect_http(config).await.unwrap();
    use_fastmcp(&client, &user).await;
    client.close().await;
}

const FASTMCP_SERVER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/peers/python/fastmcp_server.py");

/// An elicitation handler that fills in each form, and records the message and the field names of the form.
#[derive(Debug, Clone, Default)]
struct User(Arc<Mutex<Vec<String>>>);

impl ElicitationHandler for User {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, schema } = request else { panic!() };
        let mut fields: Vec<_> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        self.0.lock().unwrap().push(format!("{message} {}", fields.join(" ")));
        Ok(ElicitationResponse::Accept(json!({"plant": "peas", "rows": 3})))
    }
}

#[derive(Debug, Clone, Default)]
struct Progress(Arc<Mutex<Vec<String>>>);

impl ProgressReporter for Progress {
    fn report(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let (total, message) = (total.unwrap_or_default(), message.unwrap_or_default());
        self.0.lock().unwrap().push(format!("{progress} of {total}: {message}"));
    }
}

async fn use_fastmcp(client: &McpClient, user: &User) {
    let info = client.server_info();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("garden", "1.2.3"));
    assert_eq!(client.version(), McpVersion::V2026_07_28);
    assert_eq!(client.instructions().as_deref(), Some("Water it."));

    // The lists have pages of two entries.
    let tools = client.list_all_tools().await.unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ask", "count", "fail", "grow", "plant"]);
    let call =
        async |name: &str, arguments: Value| client.call_tool_json(name, arguments).await.unwrap();
    let bed = json!({"bed": {"plant": "peas", "rows": 2}, "notes": ["shade"]});
    let planted = call("plant", bed).await;
    assert_eq!(planted.structured_content, Some(json!({"plant": "peas", "rows": 3})));
    // FastMCP wraps results that are not objects.
    let counted = call("count", json!({"text": "grüße"})).await;
    assert_eq!(counted.structured_content, Some(json!({"result": 5})));
    let invalid = call("count", json!({"text": 5})).await;
    assert!(invalid.is_error, "{invalid:?}");
    let failed = call("fail", json!({})).await;
    assert!(failed.is_error && text(&failed).contains("no rain"), "{failed:?}");
    let asked = call("ask", json!({})).await;
    assert_eq!(text(&asked), "asked, accept: peas");
    assert_eq!(*user.0.lock().unwrap(), ["Which bed? plant rows"]);

    let progress = Progress::default();
    let ctx = ToolContext {
        progress_reporter: Some(Arc::new(progress.clone())),
        ..ToolContext::default()
    };
    let grown = client.call_tool_in("grow", json!({}), &ctx).await.unwrap();
    assert_eq!(text(&grown), "grown");
    assert_eq!(*progress.0.lock().unwrap(), ["1 of 2: half", "2 of 2: all"]);

    let resources = client.list_all_resources().await.unwrap();
    assert_eq!(resources.iter().map(|found| found.uri.as_str()).collect::<Vec<_>>(), [MAP]);
    let read = async |uri: &str| client.read_resource(uri).await.unwrap()[0].text.clone();
    assert_eq!(read(MAP).await.as_deref(), Some("north is up"));
    assert_eq!(read("garden://bed/peas").await.as_deref(), Some("the bed of peas"));
    assert!(client.read_resource("garden://shed").await.is_err());
    let templates = client.list_all_resource_templates().await.unwrap();
    assert_eq!(templates[0].uri_template, "garden://bed/{name}");

    let arguments = HashMap::from([("plant".to_owned(), "peas".to_owned())]);
    let prompt = client.get_prompt("advise", arguments).await.unwrap();
    let expected = ContentItem::Text("How do I grow peas?".to_owned());
    assert_eq!(prompt.messages[0].content, expected);
    client.ping().await.unwrap();
}

const MAP: &str = "garden://map";
