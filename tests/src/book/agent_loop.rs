//! Tests the snippets in the chapter of neuron's book on the agent loop. `agent_loop/behaviour.rs` tests the chapter's
//! statements about the behaviour.

mod behaviour;

use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{AgentLoop, AgentResult, LoopConfig, LoopError, TurnResult};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionResponse, ContentBlock, DurableContext, HookAction, HookError, HookEvent, Message,
    ObservabilityHook, Provider, StreamEvent, SystemPrompt, ToolContext, ToolDefinition, ToolError,
    UsageLimits,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Query {
    query: String,
}

macro_rules! tool {
    ($name:ident, $wire_name:literal) => {
        struct $name;

        impl neuron_types::Tool for $name {
            const NAME: &'static str = $wire_name;
            type Args = Query;
            type Output = String;
            type Error = ToolError;

            fn definition(&self) -> ToolDefinition {
                ToolDefinition {
                    name: $wire_name.into(),
                    title: None,
                    description: String::new(),
                    input_schema: schemars::schema_for!(Query).into(),
                    output_schema: None,
                    annotations: None,
                    cache_control: None,
                }
            }

            async fn call(&self, args: Query, _ctx: &ToolContext) -> Result<String, ToolError> {
                Ok(format!("{} {}", $wire_name, args.query))
            }
        }
    };
}

tool!(MySearchTool, "search");
tool!(MyCalculateTool, "calculate");

fn context() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(20, 100_000)
}

fn registry() -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register(MySearchTool);
    tools
}

fn search(id: &str) -> Reply {
    Reply::tool_call(id, "search", json!({ "query": "q" }))
}

/// Contains the code of the section "Quick example" of neuron's book.
async fn quick_example(provider: impl Provider) -> Result<AgentResult, LoopError> {
    let context = SlidingWindowStrategy::new(20, 100_000);

    let mut tools = ToolRegistry::new();
    tools.register(MySearchTool);
    tools.register(MyCalculateTool);

    let mut agent = AgentLoop::builder(provider, context)
        .tools(tools)
        .system_prompt("You are a helpful research assistant.")
        .max_turns(15)
        .parallel_tool_execution(true)
        .build();

    let ctx = ToolContext::default();
    let result = agent.run_text("Find the population of Tokyo", &ctx).await?;
    println!("Response: {}", result.response);
    println!(
        "Turns: {}, Tokens: {} in / {} out",
        result.turns, result.usage.input_tokens, result.usage.output_tokens
    );
    Ok(result)
}

#[tokio::test]
async fn quick_example_runs() {
    let provider = ScriptedProvider::new([search("c1"), Reply::text("14 million")]);
    let result = quick_example(provider.clone()).await.unwrap();
    assert_eq!((result.response.as_str(), result.turns), ("14 million", 2));
    let request = &provider.requests()[0];
    assert_eq!(
        request.system,
        Some(SystemPrompt::Text("You are a helpful research assistant.".into()))
    );
    let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["search", "calculate"]);
}

/// Contains the code of the sections "The builder pattern" and "Durable execution" of neuron's book.
#[expect(dead_code, reason = "a check that it compiles")]
fn builder<P: Provider>(
    provider: P,
    registry: ToolRegistry,
    limits: UsageLimits,
    my_logging_hook: impl ObservabilityHook + 'static,
    my_durable_ctx: impl DurableContext,
) {
    let agent = AgentLoop::builder(provider, context())
        .tools(registry) // ToolRegistry (default: empty)
        .system_prompt("You are helpful.") // SystemPrompt (default: empty)
        .max_turns(10) // Option<usize> (default: None = unlimited)
        .parallel_tool_execution(true) // bool (default: false)
        .usage_limits(limits) // UsageLimits (default: no limits)
        .hook(my_logging_hook) // ObservabilityHook (can add multiple)
        .durability(my_durable_ctx) // DurableContext (optional)
        .build();
    drop(agent);
}

#[test]
fn config_defaults_match_the_comments() {
    let agent = AgentLoop::builder(ScriptedProvider::new([Reply::text("")]), context()).build();
    let config = agent.config();
    assert!(agent.tools().is_empty());
    assert_eq!(config.system_prompt, SystemPrompt::default());
    assert!(config.system_prompt.is_empty());
    assert_eq!(config.max_turns, None);
    assert!(!config.parallel_tool_execution);
    assert_eq!(config.usage_limits, None);
    assert_eq!(*config, LoopConfig::default());
    assert!(agent.messages().is_empty());
}

/// Tests the section "Direct construction" of neuron's book.
#[tokio::test]
async fn agent_is_constructed_directly() {
    let (provider, tools) = (ScriptedProvider::new([Reply::text("fine")]), registry());

    let config = LoopConfig {
        system_prompt: SystemPrompt::Text("You are a code reviewer.".into()),
        max_turns: Some(20),
        parallel_tool_execution: true,
        ..Default::default()
    };

    let mut agent = AgentLoop::new(provider.clone(), tools, context(), config);

    let result = agent.run_text("Review", &ToolContext::default()).await;
    assert_eq!(result.unwrap().response, "fine");
    assert_eq!(provider.requests()[0].system, Some("You are a code reviewer.".into()));
}

/// Tests the sections "run()" and "run_text()" of neuron's book.
#[tokio::test]
async fn run_text_equals_run_with_a_user_message() {
    async fn both(provider: impl Provider) -> Result<[AgentResult; 2], LoopError> {
        let tool_ctx = ToolContext::default();
        let mut agent = AgentLoop::builder(&provider, context()).build();
        let first = agent.run(Message::user("What is 2 + 2?"), &tool_ctx).await?;
        // result: AgentResult { response, messages, usage, turns }

        let mut agent = AgentLoop::builder(&provider, context()).build();
        let second = agent.run_text("What is 2 + 2?", &tool_ctx).await?;
        Ok([first, second])
    }
    let four = || Reply::text("4");
    let [first, second] = both(ScriptedProvider::new([four(), four()])).await.unwrap();
    assert_eq!(first, second);
    let AgentResult { response, messages, usage, turns, .. } = first;
    assert_eq!((response.as_str(), turns), ("4", 1));
    let expected = [Message::user("What is 2 + 2?"), Message::assistant("4")];
    assert_eq!(messages, expected);
    assert!(usage.input_tokens > 0 && usage.output_tokens > 0);
}

/// Tests the section "run_stream()" of neuron's book.
#[tokio::test]
async fn stream_has_text_calls_usage_and_messages() {
    let provider = ScriptedProvider::new([search("c1"), Reply::text("Ownership is…")]);
    let mut agent = AgentLoop::builder(provider, context()).tools(registry()).build();
    let tool_ctx = ToolContext::default();
    let mut seen = Vec::new();

    let mut rx = agent.run_stream(Message::user("Explain Rust ownership"), &tool_ctx).await;

    while let Some(event) = rx.recv().await {
        seen.push(match &event {
            StreamEvent::TextDelta(_) => "text",
            StreamEvent::ToolUse { .. } => "tool",
            StreamEvent::Usage(_) => "usage",
            StreamEvent::MessageComplete(_) => "done",
            StreamEvent::Error(_) => "error",
            _ => "",
        });
        match event {
            StreamEvent::TextDelta(text) => print!("{text}"),
            StreamEvent::ToolUse { name, .. } => println!("\n[calling {name}...]"),
            StreamEvent::Usage(usage) => println!("\n[{} tokens]", usage.output_tokens),
            StreamEvent::MessageComplete(_) => println!("\n[done]"),
            StreamEvent::Error(err) => eprintln!("Error: {err}"),
            _ => {}
        }
    }
    seen.retain(|kind| !kind.is_empty());
    seen.dedup();
    assert_eq!(seen, ["tool", "done", "usage", "text", "done", "usage"]);
}

/// Tests the section "run_step()" of neuron's book.
#[expect(unused_variables, reason = "as printed")]
#[tokio::test]
async fn step_loop_injects_a_message() {
    let provider = ScriptedProvider::new([search("c1"), Reply::text("Go to Oslo")]);
    let mut agent = AgentLoop::builder(provider.clone(), context()).tools(registry()).build();
    let tool_ctx = ToolContext::default();

    let mut steps = agent.run_step(Message::user("Plan a trip"), &tool_ctx);

    while let Some(turn) = steps.next().await {
        match turn {
            TurnResult::ToolsExecuted { calls, results } => {
                println!("Executed {} tools", calls.len());
                // Optionally inject guidance between turns
                steps.inject_message(Message::user("Focus on budget options."));
            }
            TurnResult::FinalResponse(result) => {
                println!("Final: {}", result.response);
            }
            TurnResult::CompactionOccurred { old_tokens, new_tokens } => {
                println!("Compacted: {old_tokens} -> {new_tokens} tokens");
            }
            TurnResult::MaxTurnsReached => {
                println!("Hit turn limit");
            }
            TurnResult::Error(e) => {
                eprintln!("Error: {e}");
            }
        }
    }

    // The step iterator also exposes the conversation and the tools.
    assert_eq!(steps.messages().len(), 5);
    steps.tools_mut().register(MyCalculateTool);
    drop(steps);
    assert_eq!(agent.tools().len(), 2);
    assert_eq!(
        provider.requests()[1].messages.last(),
        Some(&Message::user("Focus on budget options."))
    );
}

/// Tests the section "Distinguishing text responses from tool calls" of neuron's book.
#[tokio::test]
async fn step_loop_names_each_call() {
    let provider = ScriptedProvider::new([search("c1"), Reply::text("4")]);
    let mut agent = AgentLoop::builder(provider, context()).tools(registry()).build();
    let tool_ctx = ToolContext::default();
    let mut said = Vec::new();

    let mut steps = agent.run_step(Message::user("What's 2 + 2?"), &tool_ctx);

    while let Some(turn) = steps.next().await {
        match turn {
            TurnResult::ToolsExecuted { calls, results } => {
                // The model requested tool calls — they've been executed
                for (call_id, tool_name, input) in &calls {
                    println!("Model called tool '{tool_name}' with {input}");
                    said.push(format!("{call_id} {tool_name} {input}"));
                }
                // The loop automatically sends these back to the model
                said.push(results[0].content[0].to_string());
            }
            TurnResult::FinalResponse(result) => {
                // The model returned a text response — no more tool calls
                println!("Final answer: {}", result.response);
                println!("Total turns: {}", result.turns);
                said.push(format!("{} {}", result.response, result.turns));
            }
            TurnResult::CompactionOccurred { old_tokens, new_tokens } => {
                println!("Context compacted: {old_tokens} → {new_tokens} tokens");
                // Loop continues automatically
            }
            TurnResult::MaxTurnsReached => {
                println!("Turn limit reached without a final response");
            }
            TurnResult::Error(e) => {
                eprintln!("Loop error: {e}");
            }
        }
    }
    assert_eq!(said, [r#"c1 search {"query":"q"}"#, "search q", "4 2"]);
}

/// Tests step 2 of the section "How tool call processing works" of neuron's book.
#[test]
fn tool_calls_are_extracted_as_tuples() {
    fn extract(response: &CompletionResponse) -> Vec<(String, String, serde_json::Value)> {
        let tool_calls: Vec<_> = response
            .message
            .content
            .iter()
            .filter_map(|block| {
                if let ContentBlock::ToolUse { id, name, input } = block {
                    Some((id.clone(), name.clone(), input.clone()))
                } else {
                    None
                }
            })
            .collect();
        tool_calls
    }
    let response = CompletionResponse {
        id: String::new(),
        model: String::new(),
        message: Message {
            role: neuron_types::Role::Assistant,
            content: vec![
                ContentBlock::Text("Let me look that up.".into()),
                ContentBlock::ToolUse {
                    id: "call_1".into(),
                    name: "get_weather".into(),
                    input: json!({ "city": "Tokyo" }),
                },
            ],
        },
        usage: Default::default(),
        stop_reason: neuron_types::StopReason::ToolUse,
    };
    let call = ("call_1".to_owned(), "get_weather".to_owned(), json!({ "city": "Tokyo" }));
    assert_eq!(extract(&response), [call]);
}

/// Tests the section "Cancellation" of neuron's book.
#[tokio::test(start_paused = true)]
async fn another_task_can_cancel_the_run() {
    let provider = ScriptedProvider::new([Reply::hang()]);
    let mut agent = AgentLoop::builder(provider, context()).build();

    let token = CancellationToken::new();
    let ctx = ToolContext { cancellation_token: token.clone(), ..Default::default() };

    // Cancel from another task
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        token.cancel();
    });

    let start = tokio::time::Instant::now();
    match agent.run_text("Long task...", &ctx).await {
        Err(LoopError::Cancelled) => println!("Cancelled!"),
        Ok(result) => panic!("{}", result.response),
        Err(e) => panic!("{e}"),
    }
    assert_eq!(start.elapsed().as_secs(), 30);
}

/// Tests the section "Usage limits" of neuron's book.
#[tokio::test]
async fn limits_can_be_set_in_three_ways() {
    let limits = UsageLimits::default()
        .with_input_tokens_limit(500_000)
        .with_output_tokens_limit(50_000)
        .with_total_tokens_limit(600_000)
        .with_request_limit(25)
        .with_tool_calls_limit(100);

    let agent = AgentLoop::builder(ScriptedProvider::new([Reply::text("")]), context())
        .tools(registry())
        .usage_limits(limits.clone())
        .build();
    assert_eq!(agent.config().usage_limits, Some(limits.clone()));

    let UsageLimits {
        input_tokens_limit: Some(500_000),
        output_tokens_limit: Some(50_000),
        total_tokens_limit: Some(600_000),
        request_limit: Some(25),
        tool_calls_limit: Some(100),
    } = limits
    else {
        panic!("{limits:?}")
    };

    let limits = UsageLimits {
        input_tokens_limit: Some(500_000),
        output_tokens_limit: Some(50_000),
        total_tokens_limit: None,
        request_limit: Some(25),
        tool_calls_limit: None,
    };
    assert_ne!(limits, UsageLimits::default());

    let config = LoopConfig {
        usage_limits: Some(
            UsageLimits::default().with_total_tokens_limit(1_000_000).with_request_limit(50),
        ),
        ..Default::default()
    };
    assert_eq!(config.max_turns, None);
}

struct TokenBudgetHook {
    max_tokens: usize,
}

#[expect(clippy::single_match, clippy::collapsible_match, reason = "as printed")]
impl ObservabilityHook for TokenBudgetHook {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        match event {
            HookEvent::PostLlmCall { response } => {
                if response.usage.output_tokens > self.max_tokens {
                    return Ok(HookAction::Terminate { reason: "token budget exceeded".into() });
                }
            }
            _ => {}
        }
        Ok(HookAction::Continue)
    }
}

/// Tests the section "Observability hooks" of neuron's book.
#[tokio::test]
async fn budget_hook_ends_a_run_that_exceeds_it() {
    let usage = |output_tokens| neuron_types::TokenUsage { output_tokens, ..Default::default() };
    let provider = ScriptedProvider::new([
        Reply::text("short").usage(usage(10_000)),
        Reply::text("long").usage(usage(10_001)),
    ]);
    let mut agent = AgentLoop::builder(provider, context())
        .hook(TokenBudgetHook { max_tokens: 10_000 })
        .build();
    let ctx = ToolContext::default();
    assert_eq!(agent.run_text("1", &ctx).await.unwrap().response, "short");
    match agent.run_text("2", &ctx).await {
        Err(LoopError::HookTerminated(reason)) => assert_eq!(reason, "token budget exceeded"),
        other => panic!("{other:?}"),
    }
}
