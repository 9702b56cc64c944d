// ANCHOR: imports
use genai::Client;
use genai::chat::printer::print_chat_stream;
use genai::chat::{ChatMessage, ChatRequest, Tool, ToolResponse};
use serde_json::json;
// ANCHOR_END: imports

const MODEL: &str = "gpt-4o-mini";

// ANCHOR: stream
async fn ask(client: &Client, question: &str) -> Result<(), Box<dyn std::error::Error>> {
    let request = ChatRequest::new(vec![
        ChatMessage::system("Answer in one sentence."),
        ChatMessage::user(question),
    ]);
    let response = client.exec_chat(MODEL, request.clone(), None).await?;
    println!("{}", response.first_text().unwrap_or_default());

    let stream = client.exec_chat_stream(MODEL, request, None).await?;
    print_chat_stream(stream, None).await?;
    Ok(())
}
// ANCHOR_END: stream

// ANCHOR: tool
async fn ask_with_tool(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let tool = Tool::new("get_weather")
        .with_description("Returns the current weather in a city.")
        .with_schema(json!({
            "type": "object",
            "properties": { "city": { "type": "string" } },
            "required": ["city"],
        }));
    let question = ChatMessage::user("What's the weather in Tokyo?");
    let mut request = ChatRequest::new(vec![question]).with_tools(vec![tool]);

    for _ in 0..10 {
        let response = client.exec_chat(MODEL, request.clone(), None).await?;
        let text = response.first_text().unwrap_or_default().to_owned();
        let calls = response.into_tool_calls();
        if calls.is_empty() {
            println!("{text}");
            return Ok(());
        }
        request = request.append_message(calls.clone());
        for call in calls {
            let city = call.fn_arguments["city"].as_str().unwrap_or("unknown");
            let result = format!("{city}: 22 °C, sunny");
            request = request.append_message(ToolResponse::new(call.call_id.clone(), result));
        }
    }
    Err("the model called tools in 10 turns".into())
}
// ANCHOR_END: tool

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::default();
    ask(&client, "Why is the sky blue?").await?;
    ask_with_tool(&client).await
}
// ANCHOR_END: main
