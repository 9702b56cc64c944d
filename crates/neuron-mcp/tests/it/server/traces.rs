//! Tests of trace contexts and progress in tools, resources, prompts and requests to the client, in every version.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, InputRequest, McpClient, McpError,
    McpPeer, McpPrompt, McpPromptMessage, McpPromptResult, McpPromptSet, McpResource,
    McpResourceContents, McpResourceSet, McpRoot, McpServer, McpVersion, SamplingHandler,
    SamplingRequest, SamplingResponse, TraceContext,
};
use neuron_types::{Message, ProgressReporter, ToolContext, ToolOutput};
use serde_json::{Value, json};

use super::{Client, add, one, peer};

const TRACE: &str = "00-ab-cd-01";

/// Kind of a request that the client received, and the request's trace context.
type Question = (&'static str, Option<TraceContext>);

/// Handler of sampling and elicitation requests that records each request.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<Question>>>);

impl Asked {
    fn add(&self, what: &'static str, trace: Option<TraceContext>) {
        self.0.lock().unwrap().push((what, trace));
    }

    /// Removes and returns the recorded requests, sorted by kind. Requests that the server sends together may arrive in
    /// any order.
    fn take(&self) -> Vec<Question> {
        let mut asked = std::mem::take(&mut *self.0.lock().unwrap());
        asked.sort_by_key(|(what, _)| *what);
        asked
    }
}

impl SamplingHandler for Asked {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        self.add("sampling", request.trace_context);
        let message = Message::assistant("Hello");
        Ok(SamplingResponse { message, model: "m".into(), stop_reason: None })
    }
}

impl ElicitationHandler for Asked {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        panic!("the other one is called");
    }

    async fn elicit_traced(
        &self,
        _: ElicitationRequest,
        trace_context: Option<TraceContext>,
    ) -> Result<ElicitationResponse, McpError> {
        self.add("elicitation", trace_context);
        Ok(ElicitationResponse::Decline)
    }
}

#[derive(Default)]
struct Progress(Mutex<Vec<f64>>);

impl ProgressReporter for Progress {
    fn report(&self, progress: f64, _total: Option<f64>, _message: Option<&str>) {
        self.0.lock().unwrap().push(progress);
    }
}

fn form() -> ElicitationRequest {
    ElicitationRequest::form("Well?", json!({ "type": "object", "properties": {} }))
}

/// Reports progress three times. The second report has no higher value than the first. Returns the `traceparent` of the
/// client's request, or an empty string if there is none.
fn told(peer: &McpPeer) -> String {
    peer.report_progress(1.0, Some(2.0), None);
    peer.report_progress(1.0, Some(2.0), Some("the same again"));
    peer.report_progress(2.0, Some(2.0), None);
    peer.trace_context().map(|trace| trace.traceparent).unwrap_or_default()
}

fn server() -> McpServer {
    let mut tools = one("ask", |_, ctx| async move {
        let sampling = SamplingRequest { max_tokens: 9, ..Default::default() };
        let questions =
            [("form", InputRequest::from(form())), ("text", sampling.into())].into_iter();
        peer(&ctx).ask(questions.chain([("roots", InputRequest::Roots)])).await?;
        Ok(ToolOutput::text("asked"))
    });
    add(&mut tools, "ask_elsewhere", |_, ctx| async move {
        let trace_context = Some(TraceContext::new("00-ef-01-01"));
        let sampling = SamplingRequest { max_tokens: 9, trace_context, ..Default::default() };
        peer(&ctx).sample("text", sampling).await?;
        Ok(ToolOutput::text("asked"))
    });
    add(&mut tools, "told", |_, ctx| async move { Ok(ToolOutput::text(told(&peer(&ctx)))) });
    let resources = McpResourceSet::new()
        .with_resource(McpResource::new("x://1", "one"), |read| async move {
            Ok(vec![McpResourceContents::text(read.uri, told(&read.peer))])
        });
    let prompts = McpPromptSet::new().with_prompt(McpPrompt::new("p"), |get| async move {
        let messages = vec![McpPromptMessage::user(told(&get.peer))];
        Ok(McpPromptResult { messages, ..McpPromptResult::default() })
    });
    McpServer::new(tools).with_resources(resources).with_prompts(prompts)
}

async fn connect(version: McpVersion, asked: &Asked) -> McpClient {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (input, output) = tokio::io::split(theirs);
    tokio::spawn(async move { server().serve_io(input, output).await });
    let (input, output) = tokio::io::split(ours);
    let client = McpClient::builder()
        .versions([version])
        .sampling(asked.clone())
        .elicitation(asked.clone())
        .roots(vec![McpRoot::new("file:///work")]);
    client.connect_io(input, output).await.unwrap()
}

#[tokio::test]
async fn tools_resources_and_prompts_get_trace_context_and_progress() {
    for version in McpVersion::ALL {
        let client = connect(version, &Asked::default()).await;
        let progress = Arc::new(Progress::default());
        let reporter: Arc<dyn ProgressReporter> = progress.clone();
        let mut ctx = ToolContext { progress_reporter: Some(reporter), ..ToolContext::default() };
        ctx.extensions.insert(TraceContext::new(TRACE));
        let told = || std::mem::take(&mut *progress.0.lock().unwrap());

        let output = client.call_tool_in("told", json!({}), &ctx).await.unwrap();
        assert_eq!((output.content[0].to_string(), told()), (TRACE.into(), vec![1.0, 2.0]));
        let contents = client.read_resource_in("x://1", &ctx).await.unwrap();
        assert_eq!((contents[0].text.as_deref(), told()), (Some(TRACE), vec![1.0, 2.0]));
        let prompt = client.get_prompt_in("p", HashMap::new(), &ctx).await.unwrap();
        assert_eq!(
            (prompt.messages, told()),
            (vec![McpPromptMessage::user(TRACE)], vec![1.0, 2.0]),
            "{version}"
        );
        // A request without a trace context has an empty `traceparent`.
        let contents = client.read_resource("x://1").await.unwrap();
        assert_eq!(contents[0].text.as_deref(), Some(""));
        client.close().await;
    }
}

#[tokio::test]
async fn requests_to_the_client_carry_the_trace_context_of_the_call() {
    for version in McpVersion::ALL {
        let asked = Asked::default();
        let client = connect(version, &asked).await;
        let mut trace = TraceContext::new(TRACE);
        trace.tracestate = Some("v=1".to_owned());
        let mut ctx = ToolContext::default();
        ctx.extensions.insert(trace.clone());
        client.call_tool_in("ask", json!({}), &ctx).await.unwrap();
        let trace = Some(trace);
        assert_eq!(
            asked.take(),
            [("elicitation", trace.clone()), ("sampling", trace)],
            "{version}"
        );

        client.call_tool_in("ask_elsewhere", json!({}), &ctx).await.unwrap();
        let elsewhere = TraceContext::new("00-ef-01-01");
        assert_eq!(asked.take(), [("sampling", Some(elsewhere))], "{version}");

        client.call_tool_json("ask", json!({})).await.unwrap();
        assert_eq!(asked.take(), [("elicitation", None), ("sampling", None)], "{version}");
        client.close().await;
    }
}

/// Returns the method and the `traceparent` of each request, sorted by method.
fn metas(questions: &[Value]) -> Vec<(&str, Option<&str>)> {
    let mut metas: Vec<_> = questions
        .iter()
        .map(|question| {
            (
                question["method"].as_str().unwrap(),
                question["params"]["_meta"]["traceparent"].as_str(),
            )
        })
        .collect();
    metas.sort_unstable();
    metas
}

#[tokio::test]
async fn trace_context_is_sent_in_meta_of_every_question() {
    let expected = [
        ("elicitation/create", Some(TRACE)),
        ("roots/list", Some(TRACE)),
        ("sampling/createMessage", Some(TRACE)),
    ];
    let everything = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    let params = json!({ "name": "ask", "arguments": {}, "_meta": { "traceparent": TRACE } });

    let mut client = Client::older(&server(), "2025-11-25", everything.clone()).await;
    client.begin("tools/call", params.clone()).await;
    let questions = [client.receive().await, client.receive().await, client.receive().await];
    assert_eq!(metas(&questions), expected, "{questions:?}");

    let mut client = Client::modern(&server(), everything);
    let response = client.request("tools/call", params).await;
    let asked = response["result"]["inputRequests"].as_object().unwrap();
    let questions: Vec<Value> = asked.values().cloned().collect();
    assert_eq!(metas(&questions), expected, "{response}");
}
