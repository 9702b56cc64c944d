//! Deferred tools that the vendors search themselves, over the wire of each vendor.

use neuron::anthropic::Anthropic;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::router::{Route, Router};
use neuron::tool::ToolSearch;
use neuron::types::{BoxedProvider, CALL_TOOL, SEARCH_TOOLS};
use neuron_testing::{AnthropicServer, OllamaServer, OpenAiServer, Reply};
use serde_json::{Value, json};

use super::GetWeather;

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for number in 0..99 {
        let mut other = ToolRegistry::new();
        other.register(GetWeather);
        tools.merge_prefixed(&format!("region_{number}_"), other).unwrap();
    }
    tools.register(GetWeather);
    tools.defer_tools(ToolSearch::new().prefer_vendor()).unwrap();
    tools
}

fn raw(provider: &str, json: Value, portable: Option<ContentBlock>) -> ContentBlock {
    ContentBlock::Raw { provider: provider.into(), json, portable: portable.map(Box::new) }
}

fn oslo(id: &str, name: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: id.into(), name: name.into(), input: json!({ "city": "Oslo" }) }
}

/// Returns a response in which Anthropic finds two tools, and the model calls one of them.
fn found_by_anthropic(id: &str) -> Reply {
    let search = json!({
        "type": "server_tool_use", "id": format!("srvtoolu_{id}"),
        "name": "tool_search_tool_bm25", "input": { "query": "weather" },
    });
    let reference = |name: &str| json!({ "type": "tool_reference", "tool_name": name });
    let result = json!({
        "type": "tool_search_tool_result", "tool_use_id": format!("srvtoolu_{id}"),
        "content": {
            "type": "tool_search_tool_search_result",
            "tool_references": [reference("region_7_get_weather"), reference("get_weather")],
        },
    });
    let blocks = [search, result].map(|json| raw("anthropic", json, None));
    Reply::message(blocks.into_iter().chain([oslo(id, "get_weather")]).collect())
}

/// Returns a response in which OpenAI finds `name`, and the model calls this tool.
fn found_by_openai(id: &str, name: &str) -> Reply {
    let call = json!({
        "type": "tool_search_call", "id": format!("tsc_{id}"), "execution": "server",
        "call_id": null, "status": "completed", "arguments": { "paths": [name] },
    });
    let tool = json!({
        "type": "function", "name": name, "description": "Returns the weather",
        "parameters": {}, "strict": false, "defer_loading": true,
    });
    let output = json!({
        "type": "tool_search_output", "id": format!("tso_{id}"), "execution": "server",
        "call_id": null, "status": "completed", "tools": [tool],
    });
    let function = json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "namespace": name, "arguments": r#"{"city":"Oslo"}"#, "status": "completed",
    });
    let blocks = [call, output].map(|json| raw("openai", json, None));
    let function = raw("openai", function, Some(oslo(id, name)));
    Reply::message(blocks.into_iter().chain([function]).collect())
}

/// Runs an agent on the conversation, and asserts that its last tool call succeeded.
async fn run(provider: BoxedProvider, conversation: &mut Conversation, streams: bool) {
    let agent = Agent::builder(provider).request(|request| request.cache = None);
    let agent = agent.tools(tools()).build();
    let run = agent.run(conversation, "Weather?");
    if streams {
        let mut events = run.stream();
        while let Some(event) = events.next().await {
            event.unwrap();
        }
    } else {
        run.await.unwrap();
    }
    assert_eq!(conversation.messages().last().unwrap().text(), "Sunny.");
    let results = format!("{:?}", &conversation.messages()[conversation.messages().len() - 2]);
    assert!(results.contains("Oslo: sunny"), "{results}");
}

fn anthropic(server: &AnthropicServer) -> BoxedProvider {
    BoxedProvider::new(Anthropic::new(AnthropicServer::API_KEY).base_url(server.url()))
}

fn responses(server: &OpenAiServer) -> BoxedProvider {
    let provider = OpenAi::new(OpenAiServer::API_KEY).base_url(server.url()).responses_api();
    BoxedProvider::new(provider.model("gpt-5.4-mini"))
}

fn ollama(server: &OllamaServer) -> BoxedProvider {
    BoxedProvider::new(Ollama::new().base_url(server.url()))
}

/// Returns the names of the tools in a body, or their types if they have no name.
fn names(body: &Value) -> Vec<&str> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().or(tool["type"].as_str()).unwrap()).collect()
}

#[tokio::test]
async fn vendor_finds_tools_and_the_prefix_of_requests_stays() {
    for streams in [false, true] {
        let replies = [
            found_by_anthropic("call_1"),
            Reply::message(vec![oslo("call_2", "region_7_get_weather")]),
            Reply::text("Sunny."),
        ];
        let server = AnthropicServer::start(replies).await.unwrap();
        run(anthropic(&server), &mut Conversation::new(), streams).await;
        check(server.requests().iter().map(|request| request.body.to_vec()).collect());

        let replies = [
            found_by_openai("call_1", "get_weather"),
            found_by_openai("call_2", "region_7_get_weather"),
            Reply::text("Sunny."),
        ];
        let server = OpenAiServer::start(replies).await.unwrap();
        run(responses(&server), &mut Conversation::new(), streams).await;
        check(server.requests().iter().map(|request| request.body.to_vec()).collect());
    }
}

/// Asserts that each body begins with the previous one, and has all tools and the search of the vendor.
#[track_caller]
fn check(bodies: Vec<Vec<u8>>) {
    assert_eq!(bodies.len(), 3);
    for pair in bodies.windows(2) {
        assert!(pair[1].starts_with(pair[0].strip_suffix(b"]}").unwrap()));
    }
    let body: Value = serde_json::from_slice(&bodies[2]).unwrap();
    let tools = body["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 101);
    assert_eq!(tools.iter().filter(|tool| tool["defer_loading"] == true).count(), 100);
    let text = body.to_string();
    assert!(!text.contains("x-neuron-options") && !text.contains(SEARCH_TOOLS), "{text}");
    assert!(text.contains("tool_search_tool_result") || text.contains("tool_search_output"));
}

#[tokio::test]
async fn conversation_moves_between_vendors_with_and_without_a_search() {
    for streams in [false, true] {
        let done = || Reply::text("Sunny.");
        let claude = [found_by_anthropic("call_1"), done(), found_by_anthropic("call_5"), done()];
        let claude = AnthropicServer::start(claude).await.unwrap();
        let gpt = [
            found_by_openai("call_2", "region_1_get_weather"),
            done(),
            found_by_openai("call_6", "region_1_get_weather"),
            done(),
        ];
        let gpt = OpenAiServer::start(gpt).await.unwrap();
        let find = json!({ "query": "weather region_1" });
        let call = json!({ "name": "region_1_get_weather", "arguments": { "city": "Oslo" } });
        let local = [
            Reply::tool_call("call_3", SEARCH_TOOLS, find),
            Reply::tool_call("call_4", CALL_TOOL, call),
            done(),
        ];
        let local = OllamaServer::start(local).await.unwrap();
        let mut conversation = Conversation::new();
        for provider in [
            anthropic(&claude),
            responses(&gpt),
            ollama(&local),
            anthropic(&claude),
            responses(&gpt),
        ] {
            run(provider, &mut conversation, streams).await;
        }
        // The servers have checked each request as the vendors do.
        let body = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
        let first = body(&gpt.requests()[0].body);
        assert_eq!(names(&first).len(), 101);
        let tools = first["tools"].as_array().unwrap();
        let loaded = tools.iter().filter(|tool| tool["type"] == "function");
        let loaded: Vec<&Value> = loaded.filter(|tool| tool["defer_loading"] != true).collect();
        assert_eq!(loaded.len(), 1, "the tool that Anthropic called has no namespace here");
        assert_eq!(loaded[0]["name"], "get_weather");
        assert_eq!(names(&body(&local.requests()[0].body)), ["function", "function"]);
        let text = String::from_utf8(local.requests()[0].body.to_vec()).unwrap();
        assert!(text.len() < 5_000 && text.contains(SEARCH_TOOLS), "{text}");
        let last = body(&claude.requests()[3].body).to_string();
        assert_eq!(last.matches("tool_search_tool_result").count(), 2, "{last}");
    }
}

#[tokio::test]
async fn each_route_of_a_router_gets_the_search_that_it_supports() {
    let busy = || Reply::error(ProviderError::ServiceUnavailable("busy".into()));
    let claude = AnthropicServer::start([busy(), busy()]).await.unwrap();
    let find = json!({ "query": "get_weather" });
    let replies = [
        Reply::tool_call("call_1", SEARCH_TOOLS, find),
        Reply::message(vec![oslo("call_2", "get_weather")]),
        Reply::text("Sunny."),
    ];
    let local = OllamaServer::start(replies).await.unwrap();
    let routes = [Route::new("claude", anthropic(&claude)), Route::new("local", ollama(&local))];
    let router = routes.into_iter().fold(Router::builder(), |router, route| router.route(route));
    run(BoxedProvider::new(router.build().unwrap()), &mut Conversation::new(), false).await;
    let body: Value = serde_json::from_slice(&claude.requests()[0].body).unwrap();
    assert_eq!(names(&body).len(), 101);
    assert_eq!(names(&body)[0], "tool_search_tool_bm25");
    let body: Value = serde_json::from_slice(&local.requests()[0].body).unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 2);
}
