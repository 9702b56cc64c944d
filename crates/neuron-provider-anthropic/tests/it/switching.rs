//! Regression tests of conversations that move from another vendor, or return from one.

use neuron_model::{CompletionRequest, ContentBlock, Message, Provider, Role, StopReason};
use neuron_testing::Reply;
use serde_json::{Value, json};

use crate::support::*;

fn raw(json: Value) -> ContentBlock {
    ContentBlock::Raw { provider: "anthropic".into(), json, portable: None }
}

fn search() -> ContentBlock {
    let query = json!({"query": "rust"});
    raw(json!({
        "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": query,
    }))
}

fn found() -> ContentBlock {
    raw(json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}))
}

/// Sends the conversation to a server with the rules of Anthropic, and returns its messages in the request.
async fn sent(messages: Vec<Message>) -> Value {
    let server = start(["Fine."]).await;
    let request = CompletionRequest { messages, ..Default::default() };
    provider(server.url()).complete(request).await.unwrap();
    server.bodies()[0]["messages"].clone()
}

/// Anthropic rejected each later request, because the call of its own tool never got a result.
#[tokio::test]
async fn search_is_left_out_after_another_vendor_ends_a_paused_response() {
    let paused = Reply::message(vec![ContentBlock::Text("I search.".into()), search()])
        .stop_reason(StopReason::PauseTurn);
    let server = start([paused]).await;
    let paused = provider(server.url()).complete(ask("hi")).await.unwrap().message;
    let conversation = |more: Vec<Message>| {
        let mut messages = vec![Message::user("hi"), paused.clone()];
        messages.extend(more);
        messages
    };
    let said =
        |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let messages = conversation(vec![Message::assistant("Found."), Message::user("thanks")]);
    let expected = json!([
        said("user", "hi"),
        said("assistant", "I search."),
        said("assistant", "Found."),
        said("user", "thanks"),
    ]);
    assert_eq!(sent(messages).await, expected);
    // The user interrupts the paused response.
    let expected =
        json!([said("user", "hi"), said("assistant", "I search."), said("user", "stop")]);
    assert_eq!(sent(conversation(vec![Message::user("stop")])).await, expected);
}

#[tokio::test]
async fn search_of_a_paused_response_is_sent_back_to_continue() {
    let paused = Message { role: Role::Assistant, content: vec![search()] };
    let messages = sent(vec![Message::user("hi"), paused.clone()]).await;
    assert_eq!(messages[1]["content"][0]["id"], "srvtoolu_1");
    let ended = Message { role: Role::Assistant, content: vec![found()] };
    let messages = sent(vec![Message::user("hi"), paused, ended, Message::user("thanks")]).await;
    assert_eq!(messages[1]["content"][0]["id"], "srvtoolu_1");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], "srvtoolu_1");
}

/// Models of other vendors call tools that do not exist, with names that Anthropic does not accept.
#[tokio::test]
async fn name_of_a_call_is_converted_to_a_name_that_the_api_accepts() {
    let call = ContentBlock::ToolUse {
        id: "c1".into(),
        name: "default_api.look up".into(),
        input: json!({}),
    };
    let result =
        ContentBlock::ToolResult { tool_use_id: "c1".into(), content: Vec::new(), is_error: false };
    let messages = sent(vec![
        Message::user("hi"),
        Message { role: Role::Assistant, content: vec![call] },
        Message { role: Role::User, content: vec![result] },
    ])
    .await;
    assert_eq!(messages[1]["content"][0]["name"], "default_api_look_up");
}

/// Other vendors accept a blank message. Anthropic rejects it, and the conversation then began or ended with the model.
#[tokio::test]
async fn blank_message_of_the_user_is_replaced() {
    let blank = || Message::user(" ");
    let messages = sent(vec![blank(), Message::assistant("Yes?\n"), blank()]).await;
    let said =
        |role: &str, text: &str| json!({"role": role, "content": [{"type": "text", "text": text}]});
    let blank_message = said("user", "[blank message]");
    assert_eq!(messages, json!([blank_message, said("assistant", "Yes?\n"), blank_message]));
    let messages = sent(vec![blank(), Message::user("hi"), blank()]).await;
    assert_eq!(messages, json!([said("user", "hi")]));
}

/// The API rejected each later request, because the message ended with thinking after the open search was left out.
#[tokio::test]
async fn thinking_at_the_end_of_a_message_is_left_out() {
    let thought = ContentBlock::Thinking { thinking: "hm".into(), signature: "s".into() };
    let redacted = ContentBlock::RedactedThinking { data: "x".into() };
    let answer = |content| Message { role: Role::Assistant, content };
    let text = || ContentBlock::Text("I search.".into());
    let messages = sent(vec![
        Message::user("hi"),
        answer(vec![thought.clone(), text(), thought.clone(), search()]),
        Message::user("stop"),
        answer(vec![thought, redacted]),
        Message::user("why?"),
    ])
    .await;
    let roles: Vec<&Value> =
        messages.as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "user"]);
    let kinds = [0, 1].map(|place| &messages[1]["content"][place]["type"]);
    assert_eq!(kinds, ["thinking", "text"]);
    assert_eq!(messages[1]["content"].as_array().unwrap().len(), 2);
}
