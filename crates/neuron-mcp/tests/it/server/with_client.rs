//! Tests of this crate's server with this crate's client, in every version of the protocol.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, InputRequest, LogLevel, McpClient,
    McpError, McpEvent, McpPrompt, McpPromptMessage, McpPromptResult, McpPromptSet, McpResource,
    McpResourceSet, McpRoot, McpServer, McpVersion, SamplingHandler, SamplingRequest,
    SamplingResponse, TraceContext,
};
use neuron_tool::ToolRegistry;
use neuron_types::{Message, ProgressReporter, ToolContext, ToolOutput};
use serde_json::json;

use super::{LIMIT, add, one, peer};

/// A sampling handler that responds with the text of the request.
struct Parrot;

impl SamplingHandler for Parrot {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        let text = request.messages.iter().map(Message::text).collect::<String>();
        Ok(SamplingResponse {
            message: Message::assistant(text),
            model: "parrot".into(),
            stop_reason: None,
        })
    }
}

/// An elicitation handler that accepts every form with the name Ada.
struct Ada;

impl ElicitationHandler for Ada {
    async fn elicit(&self, _request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        Ok(ElicitationResponse::Accept(json!({ "name": "Ada" })))
    }
}

/// Records each reported progress value with its message.
#[derive(Default)]
struct Progress(Mutex<Vec<(f64, Option<String>)>>);

impl ProgressReporter for Progress {
    fn report(&self, progress: f64, _total: Option<f64>, message: Option<&str>) {
        self.0.lock().unwrap().push((progress, message.map(str::to_owned)));
    }
}

/// Creates a server whose tools ask the client, report progress, and return the trace context.
fn server() -> McpServer {
    let mut tools = ToolRegistry::new();
    add(&mut tools, "ask", |_, ctx| async move {
        let schema = json!({
            "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
        });
        let sampling = SamplingRequest {
            messages: vec![Message::user("Hi")],
            max_tokens: 9,
            ..Default::default()
        };
        let answers = peer(&ctx)
            .ask([
                ("name", InputRequest::from(ElicitationRequest::form("Name?", schema))),
                ("text", sampling.into()),
                ("roots", InputRequest::Roots),
            ])
            .await?;
        let Some(ElicitationResponse::Accept(form)) = answers.elicitation("name") else {
            return Ok(ToolOutput::error("no name"));
        };
        let text = answers.sampling("text").unwrap().message.text();
        Ok(ToolOutput::text(format!("{form} {text} {}", answers.roots("roots").unwrap()[0].uri)))
    });
    add(&mut tools, "work", |_, ctx| async move {
        let reporter = ctx.progress_reporter.clone().unwrap();
        reporter.report(1.0, Some(2.0), Some("half"));
        reporter.report(2.0, Some(2.0), None);
        peer(&ctx).log(LogLevel::Warning, Some("work"), "careful");
        let trace = ctx.extensions.get::<TraceContext>().map(|trace| trace.traceparent.clone());
        Ok(ToolOutput::text(trace.unwrap_or_default()))
    });
    let resources = McpResourceSet::new().with_text(McpResource::new("x://1", "one"), "1");
    let prompts = McpPromptSet::new().with_prompt(McpPrompt::new("p"), |_| async {
        let messages = vec![McpPromptMessage::user("Hello")];
        Ok(McpPromptResult { messages, ..McpPromptResult::default() })
    });
    McpServer::new(tools).with_name("both").with_resources(resources).with_prompts(prompts)
}

async fn connect(server: &McpServer, version: McpVersion) -> McpClient {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    let server = server.clone();
    tokio::spawn(async move { server.serve_io(input, output).await });
    let (input, output) = tokio::io::split(ours);
    McpClient::builder()
        .versions([version])
        .sampling(Parrot)
        .elicitation(Ada)
        .roots(vec![McpRoot::new("file:///work")])
        .log_level(LogLevel::Info)
        .connect_io(input, output)
        .await
        .unwrap()
}

#[tokio::test]
async fn client_and_server_work_together_in_every_version() {
    for version in McpVersion::ALL {
        let client = connect(&server(), version).await;
        assert_eq!((client.version(), client.server_info().name.as_str()), (version, "both"));

        let output = client.call_tool_json("ask", json!({})).await.unwrap();
        assert_eq!(
            output.content[0].to_string(),
            r#"{"name":"Ada"} Hi file:///work"#,
            "{version}: {output:?}"
        );

        let mut events = client.events();
        let progress = Arc::new(Progress::default());
        let mut ctx =
            ToolContext { progress_reporter: Some(progress.clone()), ..ToolContext::default() };
        ctx.extensions.insert(TraceContext::new("00-ab-cd-01"));
        let output = client.call_tool_in("work", json!({}), &ctx).await.unwrap();
        assert_eq!(output.content[0].to_string(), "00-ab-cd-01");
        assert_eq!(
            *progress.0.lock().unwrap(),
            [(1.0, Some("half".to_owned())), (2.0, None)],
            "{version}"
        );
        loop {
            let event = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
            if let McpEvent::Log(message) = event.expect("a log message comes") {
                assert_eq!((message.level, message.data), (LogLevel::Warning, json!("careful")));
                break;
            }
        }

        let contents = client.read_resource("x://1").await.unwrap();
        assert_eq!(contents[0].text.as_deref(), Some("1"));
        let prompt = client.get_prompt("p", HashMap::new()).await.unwrap();
        assert_eq!(prompt.messages, [McpPromptMessage::user("Hello")]);
        client.close().await;
    }
}

#[tokio::test]
async fn client_receives_changes_in_every_version() {
    for version in McpVersion::ALL {
        let server = server();
        let client = connect(&server, version).await;
        let mut events = client.events();
        client.subscribe("x://1").await.unwrap();
        let tools = one("new", |_, _| async { Ok(ToolOutput::text("new")) });
        server.notifier().replace_tools(tools);
        server.notifier().resource_updated("x://1");
        let (mut tools_changed, mut updated) = (false, false);
        while !(tools_changed && updated) {
            let event = tokio::time::timeout(LIMIT, events.next()).await;
            match event.unwrap_or_else(|_| panic!("{version}")) {
                Some(McpEvent::ToolsChanged) => tools_changed = true,
                Some(McpEvent::ResourceUpdated { uri }) => updated = uri == "x://1",
                Some(_) => {}
                None => panic!("{version}: the connection ended"),
            }
        }
        let names: Vec<String> =
            client.list_all_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["new"], "{version}");
        client.close().await;
    }
}
