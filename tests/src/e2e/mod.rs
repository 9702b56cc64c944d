//! Tests of a complete agent over real HTTP, with successful runs and with the errors that a user sees.

mod deferred_tools;
mod vendor_search;

use std::time::Duration;

use neuron::anthropic::Anthropic;
use neuron::prelude::*;
use neuron::types::{ToolCall, transcript};
use neuron_testing::{AnthropicServer, Reply, ServerReply, Wire};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct GetWeatherArgs {
    city: String,
}

struct GetWeather;

impl Tool for GetWeather {
    const NAME: &'static str = "get_weather";
    type Args = GetWeatherArgs;
    type Output = String;
    type Error = ToolError;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: Self::NAME.into(),
            title: None,
            description: "Returns the weather".into(),
            input_schema: schemars::schema_for!(GetWeatherArgs).into(),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    async fn call(&self, args: GetWeatherArgs, _ctx: &ToolContext) -> Result<String, ToolError> {
        match args.city.as_str() {
            "Atlantis" => Err(ToolError::ModelRetry("there is no such city".into())),
            city => Ok(format!("{city}: sunny")),
        }
    }
}

type Agent = AgentLoop<Anthropic, SlidingWindowStrategy>;

fn agent(provider: Anthropic) -> Agent {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);
    AgentLoop::builder(provider, SlidingWindowStrategy::new(50, 100_000)).tools(tools).build()
}

fn client(server: &AnthropicServer) -> Anthropic {
    Anthropic::new(AnthropicServer::API_KEY).base_url(server.url())
}

async fn start<R: Into<ServerReply>>(replies: impl IntoIterator<Item = R>) -> AnthropicServer {
    AnthropicServer::start(replies).await.unwrap()
}

/// Runs an agent with streaming, and reads all events. Returns the streamed text and the result of the run.
async fn stream(agent: &mut Agent, text: &str) -> (String, Result<AgentResult, String>) {
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user(text), &ctx).await;
    let mut streamed = String::new();
    let mut outcome = None;
    while let Some(event) = events.recv().await {
        assert!(outcome.is_none(), "nothing follows the end");
        match event {
            StreamEvent::TextDelta(delta) => streamed.push_str(&delta),
            StreamEvent::RunComplete(result) => outcome = Some(Ok(*result)),
            StreamEvent::Error(error) => outcome = Some(Err(error.to_string())),
            _ => {}
        }
    }
    (streamed, outcome.expect("an end"))
}

fn conversation() -> Vec<Reply> {
    let usage = TokenUsage {
        input_tokens: 120,
        output_tokens: 30,
        cache_read_tokens: Some(100),
        ..Default::default()
    };
    let replies = [
        Reply::tool_calls([
            ("toolu_1", "get_weather", json!({"city": "Atlantis"})),
            ("toolu_2", "get_weather", json!({"city": "Zürich"})),
        ])
        .thinking("Two cities.", "c2ln")
        .with_text("Let me look."),
        Reply::tool_call("toolu_3", "get_weather", json!({"city": "Oslo"})),
        Reply::text("Sunny in Zürich and Oslo. 日本語も。"),
    ];
    replies.map(|reply| reply.usage(usage.clone())).into()
}

#[tokio::test]
async fn conversation_with_tools_is_equal_whole_and_streamed() {
    let server = start(conversation()).await;
    let ctx = ToolContext::default();
    let whole = agent(client(&server)).run_text("Weather?", &ctx).await.unwrap();
    server.assert_complete();
    let bodies = server.bodies();

    for wire in [Wire::default(), Wire::default().split_every(1), Wire::default().crlf().comments()]
    {
        let server = AnthropicServer::builder().wire(wire).start(conversation()).await.unwrap();
        let mut agent = agent(client(&server));
        let (text, streamed) = stream(&mut agent, "Weather?").await;
        assert_eq!(streamed.unwrap(), whole);
        assert_eq!(text, "Let me look.Sunny in Zürich and Oslo. 日本語も。");
        let messages = |bodies: &[serde_json::Value]| -> Vec<_> {
            bodies.iter().map(|body| body["messages"].clone()).collect()
        };
        assert_eq!(messages(&server.bodies()), messages(&bodies));
    }
    assert_eq!((whole.turns, whole.response.as_str()), (3, "Sunny in Zürich and Oslo. 日本語も。"));
    assert_eq!((whole.usage.input_tokens, whole.usage.cache_read_tokens), (360, Some(300)));
    assert_eq!(transcript::validate(&whole.messages), Ok(()));
}

#[tokio::test]
async fn each_request_begins_with_the_bytes_of_the_previous_one() {
    let server = start(conversation()).await;
    agent(client(&server)).run_text("Weather?", &ToolContext::default()).await.unwrap();
    let bodies: Vec<_> = server
        .requests()
        .into_iter()
        .map(|request| String::from_utf8(request.body.to_vec()).unwrap())
        .collect();
    for pair in bodies.windows(2) {
        let prefix = pair[0].strip_suffix("]}").unwrap();
        assert!(pair[1].starts_with(prefix), "{pair:#?}");
    }
}

#[tokio::test]
async fn first_text_arrives_before_the_response_is_complete() {
    let server = start([Reply::text("first and then nothing").chunk_chars(5).hang_after(4)]).await;
    let mut agent = agent(client(&server));
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let first = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
    let Ok(Some(StreamEvent::TextDelta(text))) = first else { panic!("{first:?}") };
    assert_eq!(text, "first");
}

#[tokio::test]
async fn slow_reader_receives_ten_thousand_events() {
    let answer = "x".repeat(10_000);
    let server = start([Reply::text(answer.clone()).chunk_chars(1)]).await;
    let mut agent = agent(client(&server));
    let ctx = ToolContext::default();
    let mut events = agent.run_stream(Message::user("go"), &ctx).await;
    let (mut text, mut complete) = (String::new(), false);
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::TextDelta(delta) => {
                text.push_str(&delta);
                // The reader is slow, so that other tasks run between two events.
                tokio::task::yield_now().await;
            }
            StreamEvent::RunComplete(_) => complete = true,
            StreamEvent::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
    assert!(complete && text == answer);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let server = start([
        Reply::text("x".repeat(10_000)).chunk_chars(1).event_delay(Duration::from_millis(1)).into(),
        ServerReply::from(Reply::text("back")),
    ])
    .await;
    let mut agent = agent(client(&server));
    let ctx = ToolContext::default();
    {
        let mut events = agent.run_stream(Message::user("go"), &ctx).await;
        assert!(matches!(events.recv().await, Some(StreamEvent::TextDelta(_))));
    }
    let seen = server.wait_for_disconnect();
    tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the server sees it");
    assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "back");
}

#[tokio::test]
async fn cancellation_closes_the_connection_of_a_hanging_server() {
    let server = start([Reply::hang()]).await;
    let mut agent = agent(client(&server));
    let ctx = ToolContext::default();
    let token = ctx.cancellation_token.clone();
    let (result, ()) = tokio::join!(agent.run_text("go", &ctx), async {
        server.wait_for_requests(1).await;
        token.cancel();
    });
    assert!(matches!(result, Err(LoopError::Cancelled)), "{result:?}");
    let seen = server.wait_for_disconnect();
    tokio::time::timeout(Duration::from_secs(60), seen).await.expect("the server sees it");
}

/// Checks that a run fails with the error text `expected` if the server sends `reply`, both with and without streaming.
/// The next run of the agent must succeed.
async fn check_error(reply: impl Fn() -> ServerReply, expected: &str) {
    let ctx = ToolContext::default();
    for streamed in [false, true] {
        let server = start([reply(), Reply::text("recovered").into()]).await;
        let mut agent = agent(client(&server));
        let error = match streamed {
            false => agent.run_text("go", &ctx).await.unwrap_err().to_string(),
            true => stream(&mut agent, "go").await.1.unwrap_err(),
        };
        assert_eq!(error, expected, "streamed: {streamed}");
        assert_eq!(transcript::validate(agent.messages()), Ok(()));
        assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
    }
}

#[tokio::test]
async fn error_names_an_unknown_tool() {
    check_error(
        || Reply::tool_call("toolu_1", "get_wether", json!({})).into(),
        "tool error: tool not found: get_wether",
    )
    .await;
}

#[tokio::test]
async fn error_names_invalid_arguments() {
    check_error(
        || Reply::tool_call("toolu_1", "get_weather", json!({"town": "Bern"})).into(),
        "tool error: invalid input: arguments of `get_weather`: missing field `city`",
    )
    .await;
}

#[tokio::test]
async fn error_shows_arguments_that_are_not_json() {
    let cut = || ToolCall::invalid_json_input(r#"{"city": "Be"#);
    check_error(
        || Reply::tool_call("toolu_1", "get_weather", cut()).into(),
        r#"tool error: invalid input: the arguments of `get_weather` are not JSON (EOF while parsing a string at line 1 column 12): {"city": "Be"#,
    )
    .await;
}

#[tokio::test]
async fn error_shows_a_body_that_is_not_json() {
    let page =
        || ServerReply::raw(502, [("content-type", "text/html")], "<html>Bad gateway</html>");
    let server = start([page(), Reply::text("recovered").into()]).await;
    let mut agent = agent(client(&server));
    let ctx = ToolContext::default();
    let error = agent.run_text("go", &ctx).await.unwrap_err();
    assert!(
        error.to_string().starts_with(
            "provider error: service unavailable: 502: the response is not the API's: <html>Bad gateway</html>"
        ),
        "{error}"
    );
    assert!(error.is_retryable());
    assert_eq!(agent.run_text("again", &ctx).await.unwrap().response, "recovered");
}

#[tokio::test]
async fn vendor_errors_are_shown_without_the_key() {
    let builder = AnthropicServer::builder().models(["claude-sonnet-4-6"]);
    let server = builder.start([Reply::text("never")]).await.unwrap();
    let ctx = ToolContext::default();
    let key = "sk-ant-wrong-key";
    let wrong = Anthropic::new(key).base_url(server.url());
    let error = agent(wrong).run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(&error, LoopError::Provider(ProviderError::Authentication(_))), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("401 authentication_error: invalid x-api-key (request id req_"),
        "{text}"
    );
    assert!(!text.contains(key) && !format!("{error:?}").contains(key));

    let unknown = client(&server).model("claude-nonesuch");
    let error = agent(unknown).run_text("go", &ctx).await.unwrap_err();
    assert!(matches!(&error, LoopError::Provider(ProviderError::ModelNotFound(_))), "{error:?}");
    assert!(error.to_string().contains("404 not_found_error: model: claude-nonesuch"), "{error}");
}

/// Compares the bytes of the tool definitions in a request with the expected bytes. Prompt caches require that these
/// bytes are equal in every process.
#[test]
fn equal_registries_have_equal_bytes_in_every_process() {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeather);
    let request = CompletionRequest { tools: tools.definitions(), ..Default::default() };
    let schema = r##"{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"title":"GetWeatherArgs","$schema":"https://json-schema.org/draft/2020-12/schema"}"##;
    let function = format!(
        r#""name":"get_weather","description":"Returns the weather","parameters":{schema}"#
    );
    let anthropic = format!(
        r#""tools":[{{"name":"get_weather","description":"Returns the weather","input_schema":{schema}}}]"#
    );
    let chat = format!(r#""tools":[{{"type":"function","function":{{{function}}}}}]"#);
    let responses = format!(r#""tools":[{{"type":"function",{function},"strict":false}}]"#);
    for (body, expected) in [
        (neuron::anthropic::wire::write_request(request.view(), false), &anthropic),
        (neuron::openai::wire::write_request(request.view(), false), &chat),
        (neuron::openai::wire::responses::write_request(request.view(), false), &responses),
        (neuron::ollama::wire::write_request(request.view(), false), &chat),
    ] {
        let body = String::from_utf8(body.unwrap()).unwrap();
        assert!(body.contains(expected.as_str()), "{body}");
    }
}
