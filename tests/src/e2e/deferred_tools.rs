//! Deferred tools over the wire of each vendor.

use neuron::anthropic::Anthropic;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::tool::ToolSearch;
use neuron::types::{BoxedProvider, CALL_TOOL, SEARCH_TOOLS};
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply};
use serde_json::{Value, json};

use super::GetWeather;

/// Returns a registry of 1,000 tools that defers all of them.
fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for number in 0..999 {
        let mut other = ToolRegistry::new();
        other.register(GetWeather);
        tools.merge_prefixed(&format!("region_{number}_"), other).unwrap();
    }
    tools.register(GetWeather);
    tools.defer_tools(ToolSearch::new().max_results(2)).unwrap();
    tools
}

fn replies() -> Vec<Reply> {
    let find =
        |id: &str, query: &str| Reply::tool_call(id, SEARCH_TOOLS, json!({ "query": query }));
    let call = |id: &str, name: &str| {
        let input = json!({ "name": name, "arguments": { "city": "Oslo" } });
        Reply::tool_call(id, CALL_TOOL, input)
    };
    vec![
        find("call_1", "weather"),
        call("call_2", "region_0_get_weather"),
        find("call_3", "get_weather"),
        call("call_4", "get_weather"),
        Reply::text("Sunny."),
    ]
}

/// Runs an agent, and asserts the results that its model received.
async fn run(provider: BoxedProvider) {
    // The cache breakpoint is on the last message, so it moves with each turn.
    let agent = Agent::builder(provider).request(|request| request.cache = None);
    let mut conversation = Conversation::new();
    let agent = agent.tools(tools()).build();
    let result = agent.run(&mut conversation, "Weather?").await.unwrap();
    assert_eq!(result.response, "Sunny.");
    let text = format!("{:?}", conversation.messages());
    assert_eq!(text.matches("Oslo: sunny").count(), 2, "{text}");
}

/// Asserts that each body begins with all bytes of the previous one up to the end of its conversation, and that it has
/// no definition of a deferred tool outside of the conversation. `end` is the end of a body.
#[track_caller]
fn check(bodies: Vec<Vec<u8>>, end: &str) {
    let bodies: Vec<String> =
        bodies.into_iter().map(|body| String::from_utf8(body).unwrap()).collect();
    assert_eq!(bodies.len(), 5);
    for pair in bodies.windows(2) {
        let prefix = pair[0].strip_suffix(end).unwrap_or_else(|| panic!("{}", pair[0]));
        assert!(pair[1].starts_with(prefix), "{pair:#?}");
    }
    let first: Value = serde_json::from_str(&bodies[0]).unwrap();
    assert_eq!(first["tools"].as_array().unwrap().len(), 2);
    assert!(bodies[0].len() < 2_000, "{}", bodies[0].len());
    assert!(bodies[4].len() < 6_000, "{}", bodies[4].len());
}

#[tokio::test]
async fn anthropic_requests_only_grow_at_their_end() {
    let server = AnthropicServer::start(replies()).await.unwrap();
    let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    run(BoxedProvider::new(provider)).await;
    check(server.requests().into_iter().map(|request| request.body.to_vec()).collect(), "]}");
}

#[tokio::test]
async fn chat_completions_requests_only_grow_at_their_end() {
    let server = OpenAiServer::start(replies()).await.unwrap();
    let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url());
    run(BoxedProvider::new(provider)).await;
    check(server.requests().into_iter().map(|request| request.body.to_vec()).collect(), "]}");
}

#[tokio::test]
async fn responses_requests_only_grow_at_their_end() {
    let server = OpenAiServer::start(replies()).await.unwrap();
    let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url()).responses_api();
    run(BoxedProvider::new(provider)).await;
    check(server.requests().into_iter().map(|request| request.body.to_vec()).collect(), "]}");
}

#[tokio::test]
async fn ollama_requests_only_grow_at_their_end() {
    let server = OllamaServer::start(replies()).await.unwrap();
    run(BoxedProvider::new(Ollama::new().base_url(server.url()))).await;
    check(server.requests().into_iter().map(|request| request.body.to_vec()).collect(), "]}");
}
