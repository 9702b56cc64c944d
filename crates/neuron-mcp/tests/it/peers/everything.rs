//! Tests of the MCP client with the official server `everything`. An agent calls each tool of the server, and the
//! client uses the resources, prompts, completions and subscriptions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_loop::{Agent, Conversation};
use neuron_mcp::{
    AllowAll, CompletionQuery, CompletionTarget, ElicitationHandler, ElicitationRequest,
    ElicitationResponse, HttpConfig, LogLevel, McpClient, McpClientBuilder, McpError, McpEvent,
    McpEvents, McpRequestError, McpRoot, McpToolBridge, McpVersion, ProviderSampling, StdioConfig,
};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_testkit::mcp::{EverythingServer, LegacyEverythingServer, Suite};
use neuron_tool::ToolRegistry;
use neuron_types::{ContentBlock, ContentItem, ImageSource, ProgressReporter, ToolContext};
use serde_json::{Value, json};

use crate::peers::support;

/// An environment variable of the test process, with its value. The server must not inherit the variable.
const SECRET: (&str, &str) = ("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"));

#[tokio::test]
async fn everything_server_works_over_stdio() {
    let Some(suite) = Suite::or_skip() else {
        return;
    };
    let program = suite.server_everything();
    let mut args = program.args;
    args.push("stdio".to_owned());
    let env = vec![("GREETING".to_owned(), "hello".to_owned())];
    let config = StdioConfig { command: program.program, args, env };
    let person = Person::default();
    let client = Arc::new(builder(&person).connect_stdio(config).await.unwrap());
    let results = call_every_tool(&client, &person).await;

    // The server sees the configured variable, and no other variable of the test process.
    assert_eq!(std::env::var(SECRET.0).as_deref(), Ok(SECRET.1));
    let environment: BTreeMap<String, String> =
        serde_json::from_str(&results["get-env"].text()).unwrap();
    assert_eq!(environment.get("GREETING").map(String::as_str), Some("hello"));
    assert!(!environment.keys().any(|name| name.starts_with("CARGO")), "{environment:?}");

    use_the_rest(&client).await;
    client.close().await;
    assert!(client.is_closed());
}

#[tokio::test]
async fn everything_server_works_over_http() {
    let Some(server) = EverythingServer::or_skip() else {
        return;
    };
    let config = HttpConfig { url: server.url(), auth_header: None, headers: vec![] };
    let person = Person::default();
    let client = Arc::new(builder(&person).connect_http(config).await.unwrap());
    call_every_tool(&client, &person).await;
    use_the_rest(&client).await;
    client.close().await;
}

#[tokio::test]
async fn everything_server_works_over_legacy_http() {
    let Some(server) = LegacyEverythingServer::or_skip() else {
        return;
    };
    let config = HttpConfig { url: server.url(), auth_header: None, headers: vec![] };
    let person = Person::default();
    let client = Arc::new(builder(&person).connect_http(config).await.unwrap());
    call_every_tool(&client, &person).await;
    use_the_rest(&client).await;
    client.close().await;
    assert!(client.is_closed());
}

/// Returns a builder of a client that supports sampling, elicitation and roots.
fn builder(person: &Person) -> McpClientBuilder {
    let model = ScriptedProvider::new([Reply::text("Four.").model("scripted-model")]);
    support::builder()
        .sampling(ProviderSampling::new(model, AllowAll))
        .elicitation(person.clone())
        .roots(vec![McpRoot::new("file:///srv/project").with_name("project")])
}

/// An elicitation handler that accepts every form and URL, and records the requests.
#[derive(Debug, Clone, Default)]
struct Person(Arc<Mutex<Vec<ElicitationRequest>>>);

impl ElicitationHandler for Person {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        self.0.lock().unwrap().push(request.clone());
        Ok(ElicitationResponse::Accept(match request {
            ElicitationRequest::Form { .. } => json!({"name": "Ada", "integer": 7}),
            _ => Value::Null,
        }))
    }

    fn supports_urls(&self) -> bool {
        true
    }
}

/// A tool result that the agent's model received.
#[derive(Debug)]
struct Seen {
    content: Vec<ContentItem>,
    is_error: bool,
}

impl Seen {
    /// Returns the text items of the result, joined with line breaks.
    fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|item| match item {
            ContentItem::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// Content of the file that the tool `gzip-file-as-resource` compresses, as a data URL.
const TEXT: &str = "data:text/plain;base64,SGVsbG8sIHdvcmxkIQ==";

/// Returns the name of each tool of the server, with arguments for one call.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("echo", json!({"message": "hello"})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-env", json!({})),
        ("get-resource-links", json!({"count": 2})),
        ("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 3})),
        ("get-structured-content", json!({"location": "Chicago"})),
        ("get-sum", json!({"a": 2, "b": 40})),
        ("get-tiny-image", json!({})),
        ("gzip-file-as-resource", json!({"name": "a.gz", "data": TEXT, "outputType": "resource"})),
        ("toggle-simulated-logging", json!({})),
        ("toggle-subscriber-updates", json!({})),
        ("trigger-long-running-operation", json!({"duration": 0.3, "steps": 3})),
        ("simulate-research-query", json!({"topic": "bees"})),
        ("get-roots-list", json!({})),
        ("trigger-elicitation-request", json!({})),
        ("trigger-url-elicitation", json!({"url": "https://example.com/a", "message": "Log in"})),
        ("trigger-sampling-request", json!({"prompt": "2 + 2?", "maxTokens": 50})),
    ]
}

/// Lets an agent call each tool once, and checks the results, the progress, and the events of a subscription. Returns
/// the results by tool name.
async fn call_every_tool(client: &Arc<McpClient>, person: &Person) -> HashMap<String, Seen> {
    let mut events = client.events();
    client.set_log_level(LogLevel::Debug).await.unwrap();
    client.subscribe(WATCHED).await.unwrap();

    let progress = Progress::default();
    let results = run_agent(client, progress.clone()).await;
    for (name, seen) in &results {
        // This tool requires a client with the task feature of MCP 2025-11-25, so it returns an error.
        assert_eq!(seen.is_error, name == "simulate-research-query", "{name}: {seen:?}");
    }
    check_results(&results);
    assert_eq!(*progress.0.lock().unwrap(), [(1.0, 3.0), (2.0, 3.0), (3.0, 3.0)]);
    check_elicitations(person);

    // The called tool `toggle-subscriber-updates` has started to send updates of the subscribed resource.
    wait_for(&mut events, |event| match event {
        McpEvent::ResourceUpdated { uri } => uri == WATCHED,
        _ => false,
    })
    .await;
    let mut events = client.events();
    let simulated = |event: &McpEvent| match event {
        McpEvent::Log(message) => message.data.as_str().is_some_and(|text| text.contains("level")),
        _ => false,
    };
    // The agent has already started the simulated logging. The first call stops the logging, and the second call
    // restarts it.
    for _ in 0..2 {
        client.call_tool_json("toggle-simulated-logging", json!({})).await.unwrap();
    }
    wait_for(&mut events, simulated).await;
    client.call_tool_json("toggle-simulated-logging", json!({})).await.unwrap();
    client.call_tool_json("toggle-subscriber-updates", json!({})).await.unwrap();
    client.unsubscribe(WATCHED).await.unwrap();
    results
}

/// URI of the resource to which the client subscribes.
const WATCHED: &str = "demo://resource/dynamic/text/1";

/// Runs an agent whose model calls every tool in one turn. Returns the results by tool name.
async fn run_agent(client: &Arc<McpClient>, progress: Progress) -> HashMap<String, Seen> {
    let mut tools = ToolRegistry::new();
    for tool in McpToolBridge::discover(client).await.unwrap() {
        tools.register_dyn(tool);
    }
    let calls = calls();
    let mut known: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    known.sort_unstable();
    let mut offered: Vec<&str> = tools.names().collect();
    offered.sort_unstable();
    assert_eq!(offered, known);

    let calls = calls.into_iter().map(|(name, input)| (name, name, input));
    let provider = ScriptedProvider::new([Reply::tool_calls(calls), Reply::text("All done.")]);
    let agent = Agent::builder(provider).tools(tools).build();
    let mut conversation = Conversation::new();
    let ctx = ToolContext { progress_reporter: Some(Arc::new(progress)), ..Default::default() };
    let result = agent.run(&mut conversation, "Try everything.").context(&ctx).await.unwrap();
    assert_eq!(result.response, "All done.");

    let blocks = conversation.messages().to_vec().into_iter().flat_map(|message| message.content);
    let results = blocks.filter_map(|block| match block {
        ContentBlock::ToolResult { tool_use_id, content, is_error } => {
            Some((tool_use_id, Seen { content, is_error }))
        }
        _ => None,
    });
    results.collect()
}

/// Asserts that each tool result has the expected content.
fn check_results(results: &HashMap<String, Seen>) {
    let text = |name: &str| results[name].text();
    let says =
        |name: &str, part: &str| assert!(text(name).contains(part), "{name}: {}", text(name));
    assert_eq!(text("echo"), "Echo: hello");
    assert_eq!(text("get-sum"), "The sum of 2 and 40 is 42.");
    says("get-annotated-message", "Error: Operation failed");
    says("get-structured-content", "\"humidity\":82");
    says("get-roots-list", "file:///srv/project");
    says("trigger-elicitation-request", "- Name: Ada");
    says("trigger-url-elicitation", "User completed the URL elicitation flow");
    says("trigger-sampling-request", "\"text\": \"Four.\"");
    says("trigger-sampling-request", "\"model\": \"scripted-model\"");
    says("trigger-long-running-operation", "Steps: 3");
    says("toggle-simulated-logging", "Started simulated");
    says("toggle-subscriber-updates", "Started simulated");
    says("simulate-research-query", "requires task augmentation");

    for name in ["get-tiny-image", "get-annotated-message"] {
        let is_png = |item: &ContentItem| match item {
            ContentItem::Image { source: ImageSource::Base64 { media_type, data } } => {
                media_type == "image/png" && data.starts_with("iVBORw0KGgo")
            }
            _ => false,
        };
        assert!(results[name].content.iter().any(is_png), "{name}");
    }
    let links = results["get-resource-links"].content.iter().filter_map(|item| match item {
        ContentItem::ResourceLink { resource } => Some(resource.uri.as_str()),
        _ => None,
    });
    assert_eq!(
        links.collect::<Vec<_>>(),
        ["demo://resource/dynamic/blob/1", "demo://resource/dynamic/text/2"]
    );
    let resource = |name: &str| {
        let mut found = results[name].content.iter().filter_map(|item| match item {
            ContentItem::Resource { resource } => Some(resource.clone()),
            _ => None,
        });
        found.next().unwrap()
    };
    let reference = resource("get-resource-reference");
    assert_eq!(reference.uri, "demo://resource/dynamic/blob/3");
    assert!(reference.blob.is_some() && reference.text.is_none());
    let compressed = resource("gzip-file-as-resource");
    assert_eq!(compressed.mime_type.as_deref(), Some("application/gzip"));
    // The magic bytes of gzip (RFC 1952), in base64.
    assert!(compressed.blob.is_some_and(|blob| blob.starts_with("H4sI")));
}

/// Asserts that the server has requested one form and one URL.
fn check_elicitations(person: &Person) {
    let asked = person.0.lock().unwrap();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for request in asked.iter() {
        match request {
            ElicitationRequest::Form { message, schema } => {
                assert_eq!(message, "Please provide inputs for the following fields:");
                assert_eq!(schema["required"], json!(["name"]));
                assert_eq!(schema["properties"]["integer"]["default"], 42);
            }
            ElicitationRequest::Url { message, url, .. } => {
                assert_eq!((message.as_str(), url.as_str()), ("Log in", "https://example.com/a"));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Checks the server information, resources, resource templates, prompts, completions and roots. These are all features
/// of the server except its tools.
async fn use_the_rest(client: &McpClient) {
    assert_eq!(client.server_info().name, "mcp-servers/everything");
    assert_eq!(client.version(), McpVersion::V2025_11_25);
    assert!(client.instructions().is_some_and(|text| !text.is_empty()));
    client.ping().await.unwrap();

    let resources = client.list_all_resources().await.unwrap();
    let document = resources.iter().find(|resource| resource.name == "architecture.md").unwrap();
    assert_eq!(document.mime_type.as_deref(), Some("text/markdown"));
    let content = client.read_resource(&document.uri).await.unwrap();
    assert!(content[0].text.as_deref().is_some_and(|text| text.starts_with('#')), "{content:?}");
    // The file compressed by the tool is a resource until the end of the session.
    let content = client.read_resource("demo://resource/session/a.gz").await.unwrap();
    assert!(content[0].blob.is_some());
    let error = client.read_resource("demo://resource/nowhere").await.unwrap_err();
    let McpError::Other(error) = error else { panic!("{error:?}") };
    assert!(error.is::<McpRequestError>(), "{error:?}");

    let templates = client.list_all_resource_templates().await.unwrap();
    let mut templates: Vec<&str> =
        templates.iter().map(|template| template.uri_template.as_str()).collect();
    templates.sort_unstable();
    assert_eq!(
        templates,
        ["demo://resource/dynamic/blob/{resourceId}", "demo://resource/dynamic/text/{resourceId}"]
    );

    let prompts = client.list_all_prompts().await.unwrap();
    let mut names: Vec<&str> = prompts.iter().map(|prompt| prompt.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["args-prompt", "completable-prompt", "resource-prompt", "simple-prompt"]);
    let arguments = HashMap::from([("city".to_owned(), "Bern".to_owned())]);
    let prompt = client.get_prompt("args-prompt", arguments).await.unwrap();
    assert_eq!(prompt.messages[0].content, ContentItem::Text("What's weather in Bern?".to_owned()));
    assert!(client.get_prompt("args-prompt", HashMap::new()).await.is_err());

    let query = CompletionQuery {
        target: CompletionTarget::Prompt("completable-prompt".to_owned()),
        argument: "name".to_owned(),
        value: "B".to_owned(),
        context: vec![("department".to_owned(), "Engineering".to_owned())],
    };
    assert_eq!(client.complete(query).await.unwrap().values, ["Bob"]);
    let query = CompletionQuery {
        target: CompletionTarget::Resource("demo://resource/dynamic/text/{resourceId}".to_owned()),
        argument: "resourceId".to_owned(),
        value: "17".to_owned(),
        context: Vec::new(),
    };
    assert_eq!(client.complete(query).await.unwrap().values, ["17"]);

    // The server requests the roots again after a change, and logs their number.
    let mut events = client.events();
    let folders = ["file:///a", "file:///b", "file:///c"].map(McpRoot::new);
    client.set_roots(folders.into()).await.unwrap();
    wait_for(&mut events, |event| match event {
        McpEvent::Log(message) => {
            message.data.as_str().is_some_and(|text| text.starts_with("Roots updated: 3"))
        }
        _ => false,
    })
    .await;
    let folders = client.call_tool_json("get-roots-list", json!({})).await.unwrap();
    assert!(folders.content[0].to_string().contains("file:///c"), "{folders:?}");
}

/// Waits for an event for which `wanted` returns `true`. Discards other events. Panics after 60 seconds.
async fn wait_for(events: &mut McpEvents, wanted: impl Fn(&McpEvent) -> bool) {
    let found = async {
        while let Some(event) = events.next().await {
            if wanted(&event) {
                return true;
            }
        }
        false
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), found).await, Ok(true));
}

/// Records the progress and the total of each progress report.
#[derive(Debug, Clone, Default)]
struct Progress(Arc<Mutex<Vec<(f64, f64)>>>);

impl ProgressReporter for Progress {
    fn report(&self, progress: f64, total: Option<f64>, _message: Option<&str>) {
        self.0.lock().unwrap().push((progress, total.unwrap_or_default()));
    }
}
