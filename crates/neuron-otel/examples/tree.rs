//! Prints a trace as a tree in the terminal, without a collector. The tree shows the operations of an agent with their
//! durations and tokens.
//!
//! ```sh
//! cargo run -p neuron-otel --example tree
//! ```
//!
//! The agent calls two tools in parallel, and one of the calls fails. Then the agent calls another agent. Its own
//! conversation is compacted during the run. A server in this process acts as the model, so no API key is needed, but
//! the HTTP requests are real. [`Tree`] is a normal exporter. Copy it to inspect traces during development.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, Conversation};
use neuron_otel::OtelHook;
use neuron_provider_anthropic::Anthropic;
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{AnthropicServer, Reply};
use neuron_tool::{ToolRegistry, neuron_tool};
use neuron_types::{MainError, ToolError};
use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use serde_json::json;
use tracing::Instrument;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

/// An exporter that collects the spans that have ended.
#[derive(Debug, Clone, Default)]
struct Tree(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Tree {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

impl Tree {
    /// Prints each span below its parent.
    fn print(&self) {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        spans.sort_by_key(|span| span.start_time);
        let is_known = |id| spans.iter().any(|span| span.span_context.span_id() == id);
        for root in spans.iter().filter(|span| !is_known(span.parent_span_id)) {
            print_within(root, 0, &spans);
        }
    }
}

fn print_within(span: &SpanData, depth: usize, spans: &[SpanData]) {
    let name = format!("{}{}", "  ".repeat(depth), span.name);
    let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
    let line = format!("{name:<40}{:>6} ms  {}", took.as_millis(), details(span).join(", "));
    println!("{}", line.trim_end());
    let id = span.span_context.span_id();
    for inner in spans.iter().filter(|inner| inner.parent_span_id == id) {
        print_within(inner, depth + 1, spans);
    }
}

/// Returns the token counts and the error of a span, as texts.
fn details(span: &SpanData) -> Vec<String> {
    let attribute = |key: &str| {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map(|attribute| attribute.value.to_string())
    };
    let mut details = Vec::new();
    for (key, unit) in [
        ("gen_ai.usage.input_tokens", "tokens in"),
        ("gen_ai.usage.output_tokens", "out"),
        ("neuron.context.old_tokens", "tokens before"),
        ("neuron.context.new_tokens", "after"),
    ] {
        details.extend(attribute(key).map(|count| format!("{count} {unit}")));
    }
    if let Status::Error { description } = &span.status {
        let kind = attribute("error.type").unwrap_or_default();
        details.push(format!("ERROR {kind} {description}").trim_end().to_owned());
    }
    details
}

/// Returns tomorrow's weather in a city
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    // The spans that a tool creates are children of its call.
    let request = async {
        tokio::time::sleep(Duration::from_millis(30)).await;
        format!("{city}: 14 °C, dry")
    };
    Ok(request.instrument(tracing::info_span!("GET /forecast")).await)
}

/// Books a table in a restaurant
#[neuron_tool]
async fn book_table(restaurant: String) -> Result<String, ToolError> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Err(ToolError::ModelRetry(format!("{restaurant} is closed tomorrow")))
}

/// Searches the guide book
#[neuron_tool]
async fn search_guide(topic: String) -> Result<String, ToolError> {
    Ok(format!("three pages about {topic}"))
}

#[tokio::main]
async fn main() -> Result<(), MainError> {
    let tree = Tree::default();
    let traces = SdkTracerProvider::builder().with_simple_exporter(tree.clone()).build();
    let spans = tracing_opentelemetry::layer().with_tracer(traces.tracer("tree"));
    tracing_subscriber::registry().with(spans.with_filter(LevelFilter::INFO)).init();

    let server = AnthropicServer::start(script()).await?;
    let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());

    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    tools.register(BookTableTool);
    tools.register(SearchGuideTool);
    let mut agents = SubAgentManager::new();
    agents.register(
        "guide",
        SubAgentConfig {
            description: "Knows the sights of a city.".into(),
            system_prompt: "You are a guide. Search the guide book.".into(),
            tools: vec!["search_guide".into()],
            ..Default::default()
        },
    );
    agents.add_to(&mut tools, provider.clone())?;

    // The context window is small, so that the conversation is compacted.
    let agent = Agent::builder(provider)
        .context(SlidingWindowStrategy::new(4, 440))
        .name("planner")
        .tools(tools)
        .config(|config| config.parallel_tool_execution = true)
        .hook(OtelHook::default())
        .build();
    let result = agent.run(&mut Conversation::new(), "Plan my day in Oslo tomorrow.").await?;
    println!("agent: {}\n", result.response);

    traces.shutdown()?;
    tree.print();
    Ok(())
}

/// Returns the responses of the scripted model.
fn script() -> [Reply; 6] {
    let pace = Duration::from_millis(15);
    [
        Reply::tool_calls([
            ("toolu_1", "get_weather", json!({ "city": "Oslo" })),
            ("toolu_2", "book_table", json!({ "restaurant": "Fjord" })),
        ]),
        Reply::tool_call("toolu_3", "guide", json!({ "prompt": "What is there to see in Oslo?" })),
        // The next two responses are the turns of the guide agent.
        Reply::tool_call("toolu_4", "search_guide", json!({ "topic": "Oslo" })),
        Reply::text("The Viking ships, and the opera's roof."),
        Reply::tool_call("toolu_5", "book_table", json!({ "restaurant": "Skog" })),
        Reply::text("See the ships, walk on the opera's roof; for dinner, both places are closed."),
    ]
    .map(|reply| reply.delay(pace))
}
