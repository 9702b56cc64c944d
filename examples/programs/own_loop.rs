//! Runs tools in a loop that is written by hand, beside an agent that does the same.

// ANCHOR: imports
use neuron::anthropic::Anthropic;
use neuron::prelude::*;
// ANCHOR_END: imports

// ANCHOR: tool
/// Returns the current weather in a city.
#[neuron_tool]
async fn get_weather(city: String) -> Result<String, ToolError> {
    Ok(format!("{city}: 22 °C, sunny"))
}
// ANCHOR_END: tool

// ANCHOR: loop
/// Calls the model until it answers without a tool call.
async fn own_loop(
    provider: &impl Provider,
    tools: &ToolRegistry,
    messages: &mut Vec<Message>,
) -> Result<String, Box<dyn std::error::Error>> {
    let ctx = ToolContext::default();
    for _ in 0..10 {
        let request = CompletionRequest {
            messages: messages.clone(),
            tools: tools.definitions(),
            ..Default::default()
        };
        let message = provider.complete(request).await?.message;
        let mut results = Vec::new();
        for call in message.tool_uses() {
            let output = match tools.execute_ref(call, &ctx).await {
                Ok(output) => output,
                // The model must receive a result for each of its calls.
                Err(error) => ToolOutput::error(error.to_string()),
            };
            results.push(ContentBlock::ToolResult {
                tool_use_id: call.id.to_owned(),
                content: output.content,
                is_error: output.is_error,
            });
        }
        let text = message.text();
        messages.push(message);
        if results.is_empty() {
            return Ok(text);
        }
        messages.push(Message { content: results, ..Message::user("") });
    }
    Err("the model called tools in 10 turns".into())
}
// ANCHOR_END: loop

// ANCHOR: agent
/// Does the same with an agent.
async fn with_agent(
    provider: Anthropic,
    tools: ToolRegistry,
    question: &str,
) -> Result<String, LoopError> {
    let agent = Agent::builder(provider)
        .tools(tools)
        .max_turns(10)
        .config(|config| config.tool_errors = ToolErrorPolicy::ReturnToModel)
        .build();
    let mut conversation = Conversation::new();
    let result = agent.run(&mut conversation, question).await?;
    Ok(result.response)
}
// ANCHOR_END: agent

// ANCHOR: main
#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let provider = Anthropic::from_env()?;
    let mut tools = ToolRegistry::new();
    tools.register(GetWeatherTool);

    let mut messages = vec![Message::user("What's the weather in Tokyo?")];
    println!("by hand: {}", own_loop(&provider, &tools, &mut messages).await?);
    println!("messages: {}", messages.len());

    let response = with_agent(provider, tools, "What's the weather in Tokyo?").await?;
    println!("agent:   {response}");
    Ok(())
}
// ANCHOR_END: main
