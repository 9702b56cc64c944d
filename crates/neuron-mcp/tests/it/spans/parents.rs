//! Tests of the propagation of trace contexts from spans into requests, and from requests to spans.

use std::sync::{Arc, Mutex};

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, InputRequest, McpClient, McpError,
    McpPeer, McpRoot, McpServer, McpVersion, SamplingHandler, SamplingRequest, SamplingResponse,
    TraceContext,
};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{Message, ToolContext, ToolError};
use serde_json::json;
use tracing::Span;

use super::recorder::Recorder;

/// Returns a trace context with the id of the current span. The server and the client call this function instead of a
/// tracing system.
fn current() -> Option<TraceContext> {
    Some(TraceContext::new(format!("span {}", Span::current().id()?.into_u64())))
}

/// Records each span id for which a parent was set, with the `traceparent` of that parent.
#[derive(Clone, Default)]
struct Parents(Arc<Mutex<Vec<(u64, String)>>>);

impl Parents {
    /// Returns a function that records the parent of a span. The server and the client call it instead of a tracing
    /// system.
    fn set(&self, recorder: &Recorder) -> impl Fn(&Span, &TraceContext) + Send + Sync + 'static {
        let (parents, recorder) = (self.clone(), recorder.clone());
        move |span, parent| {
            let id = span.id().unwrap().into_u64();
            assert!(!recorder.span(id).was_entered, "it is too late for a parent");
            parents.0.lock().unwrap().push((id, parent.traceparent.clone()));
        }
    }

    /// Returns the `traceparent` of the recorded parent of a span. Returns `None` if no parent was recorded.
    fn of(&self, span: u64) -> Option<String> {
        let parents = self.0.lock().unwrap();
        parents.iter().find(|(id, _)| *id == span).map(|(_, parent)| parent.clone())
    }
}

/// Sends the client an elicitation, a sampling and a roots request, and returns the trace context of the call
#[neuron_tool]
async fn ask(ctx: &ToolContext) -> Result<String, ToolError> {
    let peer = ctx.extensions.get::<McpPeer>().unwrap();
    let schema = json!({ "type": "object", "properties": {} });
    let sampling = SamplingRequest { max_tokens: 9, ..Default::default() };
    peer.ask([
        ("form", InputRequest::from(ElicitationRequest::form("Well?", schema))),
        ("text", sampling.into()),
        ("roots", InputRequest::Roots),
    ])
    .await?;
    Ok(ctx.extensions.get::<TraceContext>().unwrap().traceparent.clone())
}

/// A handler that records the `traceparent` of each sampling and elicitation request.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<String>>>);

impl Asked {
    fn add(&self, trace: Option<TraceContext>) {
        self.0.lock().unwrap().push(trace.unwrap().traceparent);
    }
}

impl SamplingHandler for Asked {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        self.add(request.trace_context);
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
        trace: Option<TraceContext>,
    ) -> Result<ElicitationResponse, McpError> {
        self.add(trace);
        Ok(ElicitationResponse::Decline)
    }
}

/// A client connected to a server, with the recorded spans and trace contexts of both.
struct Ends {
    client: McpClient,
    recorder: Recorder,
    /// The recorded parents of the spans that the client and the server created.
    parents: Parents,
    asked: Asked,
}

async fn connect(version: McpVersion, recorder: Recorder) -> Ends {
    let (parents, asked) = (Parents::default(), Asked::default());
    let mut tools = ToolRegistry::new();
    tools.register(AskTool);
    let server =
        McpServer::new(tools).with_trace_context(current).with_trace_parent(parents.set(&recorder));
    let builder = McpClient::builder()
        .versions([version])
        .sampling(asked.clone())
        .elicitation(asked.clone())
        .roots(vec![McpRoot::new("file:///work")])
        .trace_context(current)
        .trace_parent(parents.set(&recorder));
    let client = super::connect(server, builder).await;
    Ends { client, recorder, parents, asked }
}

#[tokio::test]
async fn server_span_is_a_child_of_the_client_span_and_parent_of_questions() {
    let (recorder, _guard) = Recorder::start();
    let ends = connect(McpVersion::V2025_11_25, recorder).await;
    let output = ends.client.call_tool_json("ask", json!({})).await.unwrap();
    let ours = ends.recorder.ended("tools/call ask", "client");
    let theirs = ends.recorder.ended("tools/call ask", "server");
    assert_eq!(ends.parents.of(theirs.id), Some(format!("span {}", ours.id)));
    // A tool finds the trace context of the server's span, for its own requests to other systems.
    assert_eq!(output.content[0].to_string(), format!("span {}", theirs.id));

    let mut questions = Vec::new();
    for method in ["elicitation/create", "sampling/createMessage", "roots/list"] {
        let asks = ends.recorder.ended(method, "client");
        let answers = ends.recorder.ended(method, "server");
        assert_eq!((asks.parent, answers.parent), (Some(theirs.id), None), "{method}");
        assert_eq!(ends.parents.of(answers.id), Some(format!("span {}", asks.id)), "{method}");
        let id = asks.get("jsonrpc.request.id").unwrap();
        for (span, kind) in [(&asks, "client"), (&answers, "server")] {
            assert_eq!(
                span.fields,
                json!({
                    "otel.name": method,
                    "otel.kind": kind,
                    "mcp.method.name": method,
                    "mcp.protocol.version": "2025-11-25",
                    "jsonrpc.request.id": id,
                })
            );
        }
        questions.push(format!("span {}", asks.id));
    }
    let mut asked = ends.asked.0.lock().unwrap().clone();
    asked.sort();
    questions.pop();
    questions.sort();
    assert_eq!(asked, questions);
    ends.client.close().await;
}

#[tokio::test]
async fn questions_in_a_result_have_no_span() {
    let (recorder, _guard) = Recorder::start();
    let ends = connect(McpVersion::V2026_07_28, recorder).await;
    ends.client.call_tool_json("ask", json!({})).await.unwrap();
    let ours = ends.recorder.ended("tools/call ask", "client");
    // The call has two rounds. The client has one span for both, and the server has one span for each.
    let theirs = ends.recorder.named("tools/call ask", "server");
    assert_eq!(theirs.len(), 2);
    for span in &theirs {
        assert_eq!(ends.parents.of(span.id), Some(format!("span {}", ours.id)));
        assert_eq!(span.get("error.type"), None);
    }
    assert_eq!(ours.get("jsonrpc.request.id"), theirs[0].get("jsonrpc.request.id"));
    let first = format!("span {}", theirs[0].id);
    assert_eq!(*ends.asked.0.lock().unwrap(), [first.clone(), first]);
    let methods: Vec<_> = ends
        .recorder
        .spans()
        .into_iter()
        .map(|span| span.get("mcp.method.name").unwrap().to_owned())
        .collect();
    assert_eq!(methods, ["server/discover", "tools/call", "tools/call", "tools/call"]);
    ends.client.close().await;
}

#[tokio::test]
async fn trace_context_of_the_caller_overrides_the_span() {
    let (recorder, _guard) = Recorder::start();
    let ends = connect(McpVersion::V2025_11_25, recorder).await;
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(TraceContext::new("of the caller"));
    ends.client.call_tool_in("ask", json!({}), &ctx).await.unwrap();
    let theirs = ends.recorder.ended("tools/call ask", "server");
    assert_eq!(ends.parents.of(theirs.id).as_deref(), Some("of the caller"));
    ends.client.close().await;
}

#[tokio::test]
async fn panicking_propagation_functions_do_not_fail_requests() {
    let (recorder, _guard) = Recorder::start();
    let server = super::server().with_trace_parent(|_, _| panic!("not today"));
    let builder = McpClient::builder().trace_context(|| panic!("nor tomorrow"));
    let client = super::connect(server, builder).await;
    let mut ctx = ToolContext::default();
    client.call_tool_in("echo", json!({ "text": "" }), &ctx).await.unwrap();
    ctx.extensions.insert(TraceContext::new("of the caller"));
    client.call_tool_in("echo", json!({ "text": "" }), &ctx).await.unwrap();
    assert_eq!(recorder.named("tools/call echo", "server").len(), 2);
    client.close().await;
}
