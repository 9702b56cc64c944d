//! Tests of conversations that move from one provider to another.

use neuron_model::{
    CompletionRequest, ContentBlock, ContentItem, Message, Provider, Role, ToolChoice, transcript,
};
use neuron_provider_anthropic::Anthropic;
use neuron_provider_gemini::Gemini;
use neuron_testing::{AnthropicServer, GeminiServer, Reply};
use serde_json::{Value, json};

use crate::support::*;

fn results(message: &Message) -> Message {
    let result = |id: &str| ContentBlock::ToolResult {
        tool_use_id: id.to_owned(),
        content: vec![ContentItem::Text(format!("result of {id}"))],
        is_error: false,
    };
    let content = message.tool_uses().map(|call| result(call.id)).collect();
    Message { role: Role::User, content }
}

fn talk(messages: Vec<Message>) -> CompletionRequest {
    let tools = vec![
        serde_json::from_value(json!({
            "name": "look", "description": "", "input_schema": {"type": "object"},
        }))
        .unwrap(),
    ];
    CompletionRequest { messages, tools, max_tokens: Some(64), ..Default::default() }
}

/// Returns a conversation with Gemini that waits for its next turn.
async fn history() -> Vec<Message> {
    let calls = json!([
        {"text": "summary", "thought": true},
        {"text": "Let me see."},
        {"functionCall": {"name": "look", "args": {"a": 1}, "id": "own/1"}, "thoughtSignature": "sig1"},
        {"functionCall": {"name": "look", "args": {}}},
    ]);
    let end = [json!({"text": "Here."}), json!({"text": "", "thoughtSignature": "sig2"})];
    let server = start([whole(&calls), streamed(&end)]).await;
    let provider = provider(server.url());
    let mut messages = vec![Message::user("hi")];
    let called = provider.complete(talk(messages.clone())).await.unwrap().message;
    messages.extend([called.clone(), results(&called)]);
    let handle = provider.complete_stream(talk(messages.clone())).await.unwrap();
    let ended = handle.into_response().await.unwrap().message;
    messages.extend([ended, Message::user("thanks")]);
    // Sessions store the conversation as JSON.
    let stored = serde_json::to_string(&messages).unwrap();
    serde_json::from_str(&stored).unwrap()
}

#[tokio::test]
async fn conversation_with_gemini_continues_elsewhere() {
    let history = history().await;
    assert_eq!(transcript::validate(&history), Ok(()));
    let server = AnthropicServer::start(["Fine."]).await.unwrap();
    let anthropic = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    anthropic.complete(talk(history)).await.unwrap();
    let sent = server.bodies()[0].to_string();
    for said in ["Let me see.", "own_1", "result of own/1", "result of call_", "Here."] {
        assert!(sent.contains(said), "{said} is not in {sent}");
    }
    for private in ["sig1", "sig2", "summary", "thoughtSignature"] {
        assert!(!sent.contains(private), "{private} is in {sent}");
    }
}

#[tokio::test]
async fn returning_conversation_keeps_signatures_and_ids() {
    let mut history = history().await;
    let reply = Reply::tool_calls([("toolu_1", "look", json!({"a": 2}))]).thinking("hm", "sig3");
    let server = AnthropicServer::start([reply]).await.unwrap();
    let anthropic = Anthropic::new(AnthropicServer::API_KEY).base_url(server.url());
    let message = anthropic.complete(talk(history.clone())).await.unwrap().message;
    let answers = results(&message);
    history.extend([message, answers]);
    let server = start([whole(&json!([{"text": "Welcome."}]))]).await;
    provider(server.url()).complete(talk(history)).await.unwrap();
    let contents = server.bodies()[0]["contents"].clone();
    let args = |args: Value| json!({"name": "look", "args": args});
    assert_eq!(
        contents.as_array().unwrap()[1..],
        [
            json!({"role": "model", "parts": [
                {"text": "summary", "thought": true},
                {"text": "Let me see."},
                {
                    "functionCall": {"name": "look", "args": {"a": 1}, "id": "own/1"},
                    "thoughtSignature": "sig1",
                },
                {"functionCall": args(json!({}))},
            ]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"id": "own/1", "name": "look", "response": {"output": "result of own/1"}}},
                contents[2]["parts"][1],
            ]}),
            json!({"role": "model", "parts": [
                {"text": "Here."}, {"text": "", "thoughtSignature": "sig2"},
            ]}),
            json!({"role": "user", "parts": [{"text": "thanks"}]}),
            json!({"role": "model", "parts": [
                {
                    "functionCall": args(json!({"a": 2})),
                    "thoughtSignature": "skip_thought_signature_validator",
                },
            ]}),
            json!({"role": "user", "parts": [
                {"functionResponse": {"name": "look", "response": {"output": "result of toolu_1"}}},
            ]}),
        ]
    );
    assert_eq!(contents[2]["parts"][1]["functionResponse"].get("id"), None);
}

/// Gemini rejected a conversation that ended with the paused response of another vendor.
#[tokio::test]
async fn paused_response_of_another_vendor_is_continued() {
    let server = GeminiServer::start(["Here."]).await.unwrap();
    let provider = Gemini::new(GeminiServer::API_KEY).base_url(server.url());
    let messages = vec![Message::user("hi"), Message::assistant("Let me see.")];
    provider.complete(talk(messages)).await.unwrap();
    let last = json!({"role": "user", "parts": [{"text": "Continue."}]});
    assert_eq!(server.bodies()[0]["contents"][2], last);
}

/// Gemini rejected a conversation without contents, and a conversation that begins with the model.
#[tokio::test]
async fn blank_beginning_is_replaced() {
    let server = GeminiServer::start(["a", "b", "c"]).await.unwrap();
    let provider = Gemini::new(GeminiServer::API_KEY).base_url(server.url());
    let video = ContentBlock::Raw {
        provider: "aws.bedrock".into(),
        json: json!({"video": {}}),
        portable: None,
    };
    let blank = Message::user("");
    for beginning in [
        vec![blank.clone()],
        vec![blank, Message::assistant("ok"), Message::user("next")],
        vec![
            Message { role: Role::User, content: vec![video] },
            Message::assistant("ok"),
            Message::user("next"),
        ],
    ] {
        provider.complete(talk(beginning)).await.unwrap();
    }
    let user = |text: &str| json!({"role": "user", "parts": [{"text": text}]});
    let model = json!({"role": "model", "parts": [{"text": "ok"}]});
    let filler = user("[blank message]");
    let long = json!([filler, model, user("next")]);
    for (body, expected) in server.bodies().iter().zip([json!([filler]), long.clone(), long]) {
        assert_eq!(body["contents"], expected);
    }
}

/// Gemini rejected every request with a tool whose name begins with a digit.
#[tokio::test]
async fn names_of_tools_are_replaced_there_and_back() {
    let reply = || Reply::tool_call("a", "_1mcp_search", json!({"q": 1}));
    let server = GeminiServer::start([reply(), reply(), Reply::text("done")]).await.unwrap();
    let provider = Gemini::new(GeminiServer::API_KEY).base_url(server.url());
    let mut request = talk(vec![Message::user("hi")]);
    request.tools[0].name = "1mcp_search".into();
    request.tool_choice = Some(ToolChoice::Specific { name: "1mcp_search".into() });
    let whole = provider.complete(request.clone()).await.unwrap().message;
    let handle = provider.complete_stream(request.clone()).await.unwrap();
    let streamed = handle.into_response().await.unwrap().message;
    for message in [&whole, &streamed] {
        assert_eq!(message.tool_uses().next().unwrap().name, "1mcp_search");
    }
    let sent = &server.bodies()[0];
    assert_eq!(sent["tools"][0]["functionDeclarations"][0]["name"], "_1mcp_search");
    let allowed = &sent["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"];
    assert_eq!(*allowed, json!(["_1mcp_search"]));
    let answers = results(&whole);
    request.messages.extend([whole, answers]);
    assert_eq!(provider.complete(request).await.unwrap().message.text(), "done");
}

/// The server rejects the signature of another model, and ids for models before Gemini 3.
#[tokio::test]
async fn turn_continues_with_another_model() {
    let calls = Reply::tool_calls([("a", "look", json!({"a": 1})), ("b", "look", json!({}))]);
    let replies = [calls, Reply::text("seven"), Reply::text("two"), Reply::text("eight")];
    let server = GeminiServer::start(replies).await.unwrap();
    let provider = Gemini::new(GeminiServer::API_KEY).base_url(server.url());
    let mut messages = vec![Message::user("hi")];
    let called = provider.complete(talk(messages.clone())).await.unwrap().message;
    let answers = results(&called);
    messages.extend([called, answers]);
    for (model, text) in
        [("gemini-3.7-flash", "seven"), ("gemini-2.5-flash", "two"), ("gemini-3.8-flash", "eight")]
    {
        let provider = provider.clone().model(model);
        let response = provider.complete(talk(messages.clone())).await.unwrap();
        assert_eq!(response.message.text(), text);
    }
}
