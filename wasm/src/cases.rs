//! The tests, which JavaScript calls by name. A failed assertion is a panic, whose message goes to `console.error`.

use std::cell::RefCell;
use std::future::pending;
use std::time::Duration;

use futures_util::future::join;
use neuron::agent::SessionHandle;
use neuron::anthropic::Anthropic;
use neuron::bedrock::Bedrock;
use neuron::gemini::Gemini;
use neuron::ollama::Ollama;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::router::{Route, Router};
use neuron::tool::builtin::{RateLimit, TimeoutMiddleware, ToolCache};
use neuron::types::{Start, clock};
use wasm_bindgen::prelude::*;

const KEY: &str = "test-key";

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn error(text: &str);
}

type Outcome = Result<String, JsError>;

/// Runs the test `case` against the server at `url`, and returns a text that the host checks.
///
/// # Errors
///
/// Returns the error of the test, or an error if `case` is unknown.
#[wasm_bindgen]
pub async fn run(case: String, url: String) -> Outcome {
    std::panic::set_hook(Box::new(|panic| error(&panic.to_string())));
    let anthropic = Anthropic::new(KEY).base_url(&url);
    let short = Duration::from_millis(200);
    match case.as_str() {
        "anthropic" => calls_a_tool(anthropic).await,
        "openai" => calls_a_tool(OpenAi::new(KEY).base_url(&url)).await,
        "openai_responses" => calls_a_tool(OpenAi::new(KEY).responses_api().base_url(&url)).await,
        "ollama" => calls_a_tool(Ollama::new().base_url(&url)).await,
        "gemini" => calls_a_tool(Gemini::new(KEY).base_url(&url)).await,
        "bedrock" => calls_a_tool(Bedrock::new("us-east-1", KEY).base_url(&url)).await,
        "stream_anthropic" => streams(anthropic).await,
        "stream_openai" => streams(OpenAi::new(KEY).base_url(&url)).await,
        "stream_ollama" => streams(Ollama::new().base_url(&url)).await,
        "stream_gemini" => streams(Gemini::new(KEY).base_url(&url)).await,
        "stream_bedrock" => streams(Bedrock::new("us-east-1", KEY).base_url(&url)).await,
        "cancel" => cancels_a_stream(anthropic).await,
        "drop" => drops_a_stream(anthropic).await,
        "timeout" => failure(anthropic.timeout(short)).await,
        "idle_timeout" => stream_failure(anthropic.idle_timeout(short)).await,
        "network" => failure(anthropic.base_url("http://127.0.0.1:9")).await,
        "rate_limit" => retries(anthropic).await,
        "router" => falls_back(anthropic).await,
        "tool_timeout" => times_out_a_tool(anthropic).await,
        "middleware" => limits_and_caches_calls(anthropic).await,
        "parallel_tools" => runs_tools_concurrently(anthropic).await,
        "approval" => continues_after_an_approval(anthropic).await,
        "context" => shortens_the_context(anthropic).await,
        "sub_agent" => delegates(anthropic).await,
        "guardrail" => rejects_input(anthropic).await,
        "clock" => measures_time().await,
        _ => Err(JsError::new(&format!("there is no case `{case}`"))),
    }
}

/// Returns the weather in a city.
#[neuron_tool(effect = Pure)]
async fn get_weather(city: String) -> Result<String, ToolError> {
    LOG.with_borrow_mut(|log| log.push("weather"));
    Ok(format!("{city}: sunny"))
}

fn tools() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);
    tools
}

fn agent(provider: impl Provider + 'static) -> Agent {
    Agent::builder(provider).tools(tools()).build()
}

async fn calls_a_tool(provider: impl Provider + 'static) -> Outcome {
    let result = agent(provider).run(&mut Conversation::new(), "How is Tokyo?").await?;
    assert_eq!(result.turns, 2);
    assert!(result.usage.input_tokens > 0);
    Ok(result.response)
}

/// Falls back from a route that hangs, with a deadline of the whole call and a second call beside the first.
async fn falls_back(provider: Anthropic) -> Outcome {
    let router = Router::builder()
        .route(Route::new("slow", provider.clone()))
        .route(Route::new("fast", provider))
        .hedge_after(Duration::from_millis(200))
        .deadline(Duration::from_secs(30))
        .build()?;
    let result = Agent::builder(router).build().run(&mut Conversation::new(), "Hello").await?;
    Ok(result.response)
}

/// Returns the text, and the number of its pieces that arrived at different times.
async fn streams(provider: impl Provider + 'static) -> Outcome {
    let (mut text, mut pieces) = (String::new(), 0);
    let mut last = js_sys::Date::now();
    let mut conversation = Conversation::new();
    let agent = agent(provider);
    let mut events = agent.run(&mut conversation, "Tell me").stream();
    while let Some(event) = events.next().await {
        if let RunEvent::Event(StreamEvent::TextDelta(delta)) = event? {
            text.push_str(&delta);
            let now = js_sys::Date::now();
            if now > last {
                pieces += 1;
                last = now;
            }
        }
    }
    Ok(format!("{text} in {}", if pieces > 2 { "pieces" } else { "one piece" }))
}

/// Cancels a run whose stream hangs after its first text. The conversation can be continued.
async fn cancels_a_stream(provider: Anthropic) -> Outcome {
    let context = ToolContext::default();
    let mut conversation = Conversation::new();
    let agent = agent(provider);
    let mut events = agent.run(&mut conversation, "Tell me").context(&context).stream();
    let mut failure = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(RunEvent::Event(StreamEvent::TextDelta(_))) => context.cancellation_token.cancel(),
            Ok(_) => {}
            Err(error) => failure = Some(error),
        }
    }
    drop(events);
    assert!(matches!(failure, Some(LoopError::Cancelled)), "{failure:?}");
    Ok(agent.run(&mut conversation, "Again").await?.response)
}

/// Drops a run whose stream hangs after its first text. The next run continues the conversation.
async fn drops_a_stream(provider: Anthropic) -> Outcome {
    let mut conversation = Conversation::new();
    let agent = agent(provider);
    {
        let mut events = agent.run(&mut conversation, "Tell me").stream();
        while let Some(event) = events.next().await {
            if let RunEvent::Event(StreamEvent::TextDelta(_)) = event? {
                break;
            }
        }
    }
    Ok(agent.run(&mut conversation, "Again").await?.response)
}

async fn failure(provider: Anthropic) -> Outcome {
    let outcome = agent(provider).run(&mut Conversation::new(), "Tell me").await;
    Ok(outcome.map_or_else(|error| error.to_string(), |result| result.response))
}

async fn stream_failure(provider: Anthropic) -> Outcome {
    let mut conversation = Conversation::new();
    let agent = agent(provider);
    let mut events = agent.run(&mut conversation, "Tell me").stream();
    while let Some(event) = events.next().await {
        if let Err(error) = event {
            return Ok(error.to_string());
        }
    }
    Ok("no error".to_owned())
}

/// The server asks for a pause of one second before the retry.
async fn retries(provider: Anthropic) -> Outcome {
    let start = js_sys::Date::now();
    let result = agent(provider).run(&mut Conversation::new(), "Tell me").await?;
    let paused = js_sys::Date::now() - start >= 990.0;
    Ok(format!("{}, paused: {paused}", result.response))
}

/// A tool that never ends.
#[neuron_tool]
async fn hang() -> Result<String, ToolError> {
    pending().await
}

async fn times_out_a_tool(provider: Anthropic) -> Outcome {
    let mut tools = tools();
    tools.register(HangTool);
    let agent =
        Agent::builder(provider).tools(tools).tool_timeout(Duration::from_millis(100)).build();
    let mut conversation = Conversation::new();
    let response = agent.run(&mut conversation, "Wait").await?.response;
    Ok(format!("{response}, error: {}", tool_errors(&conversation) > 0))
}

thread_local! {
    /// The calls of `get_weather`, and the starts and ends of the tool `work`, in order.
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Works for a moment.
#[neuron_tool]
async fn work() -> Result<String, ToolError> {
    LOG.with_borrow_mut(|log| log.push("start"));
    clock::sleep(Duration::from_millis(50)).await;
    LOG.with_borrow_mut(|log| log.push("end"));
    Ok("done".to_owned())
}

async fn runs_tools_concurrently(provider: Anthropic) -> Outcome {
    let mut tools = ToolRegistry::new();
    tools.register(WorkTool);
    let agent = Agent::builder(provider)
        .tools(tools)
        .config(|config| config.parallel_tool_execution = true)
        .build();
    agent.run(&mut Conversation::new(), "Work").await?;
    Ok(LOG.with_borrow(|log| log.join(" ")))
}

/// Runs a tool with a timeout, a cache and a rate of one call in 100 milliseconds.
async fn limits_and_caches_calls(provider: Anthropic) -> Outcome {
    let mut tools = tools();
    tools.register(HangTool);
    tools
        .add_tool_middleware("hang", TimeoutMiddleware::new(Duration::from_millis(50)))
        .add_tool_middleware("get_weather", ToolCache::new(Duration::from_secs(60)))
        .add_middleware(RateLimit::new(1, Duration::from_millis(100)));
    let start = js_sys::Date::now();
    let agent = Agent::builder(provider).tools(tools).build();
    let mut conversation = Conversation::new();
    agent.run(&mut conversation, "Work").await?;
    let paused = js_sys::Date::now() - start >= 200.0;
    let runs = LOG.with_borrow(|log| log.iter().filter(|entry| **entry == "weather").count());
    assert_eq!(runs, 1, "the second call is answered from the cache");
    Ok(format!("errors: {}, paused: {paused}", tool_errors(&conversation)))
}

/// Returns the number of tool results that are errors.
fn tool_errors(conversation: &Conversation) -> usize {
    let results = conversation.messages().iter().flat_map(|message| &message.content);
    results.filter(|block| matches!(block, ContentBlock::ToolResult { is_error: true, .. })).count()
}

/// Pauses for an approval, stores the conversation as JSON, and continues the stored conversation. The continued
/// conversation is stored in a session in memory.
async fn continues_after_an_approval(provider: Anthropic) -> Outcome {
    struct AskAlways;
    impl PermissionPolicy for AskAlways {
        fn check(&self, _tool: &str, _input: &serde_json::Value) -> PermissionDecision {
            PermissionDecision::Ask("may I?".to_owned())
        }
    }
    let agent = Agent::builder(provider)
        .tools(tools())
        .permission_policy(AskAlways)
        .config(|config| config.pause_for_approval = true)
        .build();
    let mut conversation = Conversation::new();
    let outcome = agent.run(&mut conversation, "How is Tokyo?").await;
    assert!(matches!(outcome, Err(LoopError::ApprovalRequired(_))), "{outcome:?}");
    let stored = serde_json::to_string(&conversation)?;

    let mut conversation: Conversation = serde_json::from_str(&stored)?;
    let pending = conversation.pending().ok_or_else(|| JsError::new("no call is pending"))?;
    let start = Start::from(ApprovalDecisions::approve_all(&pending));
    let session = SessionHandle::new(InMemorySessionStorage::new(), "approved");
    let response = agent.run(&mut conversation, start).store(&session).await?.response;
    assert_eq!(session.load().await?.messages(), conversation.messages());
    Ok(response)
}

/// Runs ten turns with a context of at most four messages. The host checks the requests.
async fn shortens_the_context(provider: Anthropic) -> Outcome {
    let agent = Agent::builder(provider).context(SlidingWindowStrategy::new(4, 1)).build();
    let mut conversation = Conversation::new();
    for turn in 0..10 {
        agent.run(&mut conversation, format!("question {turn}").as_str()).await?;
    }
    Ok(conversation.messages().len().to_string())
}

async fn delegates(provider: Anthropic) -> Outcome {
    let mut agents = SubAgentManager::new();
    let config = SubAgentConfig {
        description: "Translates into French.".into(),
        ..SubAgentConfig::default()
    };
    agents.register("translator", config);
    let mut tools = ToolRegistry::new();
    agents.add_to(&mut tools, provider.clone())?;
    let agent = Agent::builder(provider).tools(tools).build();
    Ok(agent.run(&mut Conversation::new(), "Translate: Good morning").await?.response)
}

/// Runs an agent whose guardrail rejects the input, and returns the error.
async fn rejects_input(provider: Anthropic) -> Outcome {
    struct NoSecrets;
    impl InputGuardrail for NoSecrets {
        async fn check(&self, input: &str) -> GuardrailResult {
            match input.contains("secret") {
                true => GuardrailResult::Tripwire("a secret".to_owned()),
                false => GuardrailResult::Pass,
            }
        }
    }
    let agent =
        Agent::builder(provider).hook(GuardrailHook::new().input_guardrail(NoSecrets)).build();
    let outcome = agent.run(&mut Conversation::new(), "my secret").await;
    Ok(outcome.map_or_else(|error| error.to_string(), |result| result.response))
}

async fn measures_time() -> Outcome {
    let start = js_sys::Date::now();
    assert!(!clock::sleep(Duration::ZERO).await);
    assert!(clock::sleep(Duration::from_millis(100)).await);
    assert!(js_sys::Date::now() - start >= 99.0);
    let limit = Duration::from_millis(20);
    assert_eq!(clock::within(limit, pending::<()>()).await, None);
    assert_eq!(clock::within(Duration::from_secs(3600), async { 1 }).await, Some(1));
    // The timers run concurrently, and the shorter one ends first.
    let order = RefCell::new(String::new());
    let wait = async |name: &str, millis| {
        clock::sleep(Duration::from_millis(millis)).await;
        order.borrow_mut().push_str(name);
    };
    join(wait("long", 80), wait("short ", 20)).await;
    Ok(order.into_inner())
}
