// ANCHOR: imports
use genai::Client;
use genai::chat::printer::print_chat_stream;
use genai::chat::{ChatMessage, ChatRequest, Tool, ToolResponse};
use serde_json::json;
// ANCHOR_END: imports
use genai::ServiceTarget;
use genai::resolver::{AuthData, Endpoint, ServiceTargetResolver};

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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = match std::env::var("OPENAI_BASE_URL") {
        Ok(url) => client_of(url)?,
        Err(_) => Client::new()?,
    };
    ask(&client, "Why is the sky blue?").await?;
    ask_with_tool(&client).await
}

/// Returns a client that calls the server at `url`, because genai does not read `OPENAI_BASE_URL`.
fn client_of(url: String) -> genai::Result<Client> {
    let resolver = ServiceTargetResolver::from_resolver_fn(move |target: ServiceTarget| {
        let endpoint = Endpoint::from_owned(format!("{url}/"));
        Ok(ServiceTarget { endpoint, auth: AuthData::from_env("OPENAI_API_KEY"), ..target })
    });
    Client::builder().with_service_target_resolver(resolver).build()
}
