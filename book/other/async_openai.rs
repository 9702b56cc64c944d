// ANCHOR: imports
use std::error::Error;

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionRequestAssistantMessageArgs,
    ChatCompletionRequestMessage, ChatCompletionRequestSystemMessage,
    ChatCompletionRequestToolMessageArgs, ChatCompletionRequestUserMessage, ChatCompletionTool,
    ChatCompletionTools, CreateChatCompletionRequestArgs, FunctionObjectArgs,
};
use futures::StreamExt;
use serde_json::{Value, json};
// ANCHOR_END: imports

// ANCHOR: stream
async fn print_stream(client: &Client<OpenAIConfig>, question: &str) -> Result<(), Box<dyn Error>> {
    let messages: Vec<ChatCompletionRequestMessage> = vec![
        ChatCompletionRequestSystemMessage::from("Answer in one sentence.").into(),
        ChatCompletionRequestUserMessage::from(question).into(),
    ];
    let request = CreateChatCompletionRequestArgs::default()
        .model("gpt-4o-mini")
        .messages(messages)
        .build()?;
    let mut stream = client.chat().create_stream(request).await?;
    while let Some(chunk) = stream.next().await {
        for choice in &chunk?.choices {
            if let Some(text) = &choice.delta.content {
                print!("{text}");
            }
        }
    }
    println!();
    Ok(())
}
// ANCHOR_END: stream

// ANCHOR: tool
fn get_weather(arguments: &str) -> Result<String, serde_json::Error> {
    let arguments: Value = serde_json::from_str(arguments)?;
    Ok(format!("{}: 22 °C, sunny", arguments["city"].as_str().unwrap_or("unknown")))
}

async fn ask_with_tool(client: &Client<OpenAIConfig>) -> Result<(), Box<dyn Error>> {
    let function = FunctionObjectArgs::default()
        .name("get_weather")
        .description("Returns the current weather in a city.")
        .parameters(json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }))
        .build()?;
    let tools = vec![ChatCompletionTools::Function(ChatCompletionTool { function })];
    let question = "What's the weather in Tokyo?";
    let mut messages: Vec<ChatCompletionRequestMessage> =
        vec![ChatCompletionRequestUserMessage::from(question).into()];

    for _ in 0..10 {
        let request = CreateChatCompletionRequestArgs::default()
            .model("gpt-4o-mini")
            .messages(messages.clone())
            .tools(tools.clone())
            .build()?;
        let response = client.chat().create(request).await?;
        let message = response.choices.into_iter().next().ok_or("no choice")?.message;
        let Some(calls) = message.tool_calls.filter(|calls| !calls.is_empty()) else {
            println!("{}", message.content.unwrap_or_default());
            return Ok(());
        };
        messages.push(
            ChatCompletionRequestAssistantMessageArgs::default()
                .tool_calls(calls.clone())
                .build()?
                .into(),
        );
        for call in calls {
            if let ChatCompletionMessageToolCalls::Function(call) = call {
                messages.push(
                    ChatCompletionRequestToolMessageArgs::default()
                        .content(get_weather(&call.function.arguments)?)
                        .tool_call_id(call.id)
                        .build()?
                        .into(),
                );
            }
        }
    }
    Err("the model called tools in 10 turns".into())
}
// ANCHOR_END: tool

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let client = Client::new();
    print_stream(&client, "Why is the sky blue?").await?;
    ask_with_tool(&client).await
}
// ANCHOR_END: main
