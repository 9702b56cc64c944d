//! Tests of requests and notifications that the server sends to the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, LogLevel, McpClient, McpError,
    McpEvent, McpLogMessage, SamplingHandler, SamplingRequest, SamplingResponse,
};
use neuron_types::Message;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::connected;
use crate::script::{Script, said, text};

/// A sampling handler that responds with the text of the first message.
struct Echo;

impl SamplingHandler for Echo {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        let text = request.messages[0].text();
        Ok(SamplingResponse {
            message: Message::assistant(format!("you said: {text}")),
            model: "echo".to_owned(),
            stop_reason: None,
        })
    }
}

/// Returns the parameters of a sampling request with one user message.
fn sampling(text: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "messages": [message], "maxTokens": 10 })
}

/// Returns the parameters of an elicitation request with an empty form.
fn form() -> Value {
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } })
}

#[tokio::test]
async fn sampling_request_with_an_odd_block_is_read() {
    let (_client, mut server) = connected(McpClient::builder().sampling(Echo)).await;
    for (block, expected) in [
        (json!({ "type": "text", "text": "hi", "annotations": 1 }), "hi"),
        (json!({ "type": "text", "text": 1 }), "1"),
        (json!({ "type": "chart" }), r#"{"type":"chart"}"#),
    ] {
        let mut request = sampling("");
        request["messages"][0]["content"] = block;
        server.ask("q", "sampling/createMessage", request).await;
        let answer = server.next().await.unwrap();
        assert_eq!(
            answer["result"]["content"]["text"],
            format!("you said: {expected}"),
            "{answer}"
        );
    }
    let mut invalid = sampling("hi");
    invalid["messages"] = json!("hi");
    server.ask("q", "sampling/createMessage", invalid).await;
    let answer = server.next().await.unwrap();
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

/// A sampling handler that counts its requests.
struct Counting(Arc<AtomicUsize>);

impl SamplingHandler for Counting {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingResponse, McpError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Echo.sample(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn questions_above_the_limit_per_minute_reach_no_handler() {
    let count = Arc::new(AtomicUsize::new(0));
    let builder = McpClient::builder().sampling(Counting(count.clone()));
    let (_client, mut server) = connected(builder).await;
    let mut refused = 0;
    for number in 0..200 {
        server.ask(&format!("q{number}"), "sampling/createMessage", sampling("hi")).await;
        let answer = server.next().await.unwrap();
        let text = answer["error"]["message"].as_str().unwrap_or_default();
        refused += usize::from(text.contains("at most 60 requests per minute"));
    }
    assert_eq!((count.load(Ordering::Relaxed), refused), (60, 140));
    tokio::time::advance(Duration::from_secs(60)).await;
    server.ask("later", "sampling/createMessage", sampling("hi")).await;
    assert_eq!(server.next().await.unwrap()["result"]["model"], "echo");
}

#[tokio::test]
async fn undeclared_request_is_refused() {
    let (_client, mut server) = connected(McpClient::builder()).await;
    for (method, params) in [
        ("sampling/createMessage", sampling("hi")),
        ("elicitation/create", form()),
        ("roots/list", json!({})),
        ("made/up", json!({})),
    ] {
        server.ask("q1", method, params).await;
        let answer = server.next().await.unwrap();
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
}

/// An elicitation handler that panics, fails, declines, cancels or accepts, depending on the text of the message.
struct Person;

impl ElicitationHandler for Person {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, .. } = request else { panic!("no form") };
        match message.as_str() {
            "panic" => panic!("a fault of the user"),
            "fail" => Err(McpError::Other("the window is closed".into())),
            "decline" => Ok(ElicitationResponse::Decline),
            "cancel" => Ok(ElicitationResponse::Cancel),
            _ => Ok(ElicitationResponse::Accept(json!({ "name": "Ann" }))),
        }
    }
}

#[tokio::test]
async fn elicitation_can_be_accepted_declined_or_cancelled() {
    let (_client, mut server) = connected(McpClient::builder().elicitation(Person)).await;
    for (message, action) in [("accept", "accept"), ("decline", "decline"), ("cancel", "cancel")] {
        let mut params = form();
        params["message"] = message.into();
        server.ask("q1", "elicitation/create", params).await;
        let answer = server.next().await.unwrap();
        assert_eq!(answer["result"]["action"], action, "{answer}");
    }
}

#[tokio::test]
async fn failed_handler_returns_an_error_and_keeps_the_connection() {
    let (_client, mut server) = connected(McpClient::builder().elicitation(Person)).await;
    for (message, told) in [("panic", "panicked"), ("fail", "the window is closed")] {
        let mut params = form();
        params["message"] = message.into();
        server.ask("q1", "elicitation/create", params).await;
        let answer = server.next().await.unwrap();
        assert!(answer["error"]["message"].as_str().unwrap().contains(told), "{answer}");
    }
    server.ask("q2", "ping", json!({})).await;
    assert_eq!(server.next().await.unwrap()["result"], json!({}));
}

#[tokio::test]
async fn url_elicitation_is_refused_by_a_form_handler() {
    let (_client, mut server) = connected(McpClient::builder().elicitation(Person)).await;
    let params = json!({ "mode": "url", "message": "Pay", "url": "https://a.example", "elicitationId": "1" });
    server.ask("q1", "elicitation/create", params).await;
    assert_eq!(server.next().await.unwrap()["error"]["code"], -32602);
}

/// A sampling handler that never returns. Notifies the test when it starts and when its future is dropped.
struct Patient {
    begun: Arc<Notify>,
    dropped: Arc<Notify>,
}

/// Guard that notifies the test when it is dropped.
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl SamplingHandler for Patient {
    async fn sample(&self, _: SamplingRequest) -> Result<SamplingResponse, McpError> {
        let _bell = Bell(Arc::clone(&self.dropped));
        self.begun.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn handler_blocks_no_other_request_and_is_dropped_on_cancel() {
    let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = Patient { begun: Arc::clone(&begun), dropped: Arc::clone(&dropped) };
    let (client, mut server) = connected(McpClient::builder().sampling(handler)).await;
    server.ask("q1", "sampling/createMessage", sampling("hi")).await;
    begun.notified().await;
    let serving = async {
        let call = server.expect("tools/call").await;
        server.reply(&call, said("hello")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    output.unwrap();
    server.notify("notifications/cancelled", json!({ "requestId": "q1" })).await;
    dropped.notified().await;
    // The handler's future is also dropped when the connection ends.
    server.ask("q2", "sampling/createMessage", sampling("hi")).await;
    begun.notified().await;
    drop(server);
    dropped.notified().await;
}

#[tokio::test]
async fn concurrent_requests_above_the_limit_are_refused() {
    let handler = Patient { begun: Arc::default(), dropped: Arc::default() };
    let builder = McpClient::builder().sampling(handler);
    let (_client, mut server) = connected(builder).await;
    for number in 0..9 {
        server.ask(&format!("q{number}"), "sampling/createMessage", sampling("hi")).await;
    }
    let answer = server.next().await.unwrap();
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("at most 8 requests concurrently"), "{answer}");
}

/// An elicitation handler for URLs. Sends the id of each completed elicitation to the test.
struct Pages(mpsc::UnboundedSender<String>);

impl ElicitationHandler for Pages {
    async fn elicit(&self, _: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        Ok(ElicitationResponse::Accept(Value::Null))
    }

    fn supports_urls(&self) -> bool {
        true
    }

    fn completed(&self, id: &str) {
        self.0.send(id.to_owned()).unwrap();
    }
}

#[tokio::test]
async fn completed_url_elicitation_is_reported_to_the_handler() {
    let (sender, mut done) = mpsc::unbounded_channel();
    let (_client, mut server) = connected(McpClient::builder().elicitation(Pages(sender))).await;
    let params = json!({ "mode": "url", "message": "Pay", "url": "https://a.example", "elicitationId": "7" });
    server.ask("q1", "elicitation/create", params).await;
    assert_eq!(server.next().await.unwrap()["result"], json!({ "action": "accept" }));
    server.notify("notifications/elicitation/complete", json!({ "elicitationId": "7" })).await;
    assert_eq!(done.recv().await.as_deref(), Some("7"));
}

#[tokio::test]
async fn unsafe_url_reaches_no_elicitation_handler() {
    let (sender, _done) = mpsc::unbounded_channel();
    let (_client, mut server) = connected(McpClient::builder().elicitation(Pages(sender))).await;
    for (url, is_allowed) in [
        ("https://a.example/pay?id=1", true),
        ("http://127.0.0.1:8080/pay", true),
        ("http://[::1]/pay", true),
        ("http://localhost/pay", true),
        ("http://a.example/pay", false),
        ("javascript:alert(1)", false),
        ("file:///etc/passwd", false),
        ("https://a.example@b.example/", false),
        ("https://:secret@b.example/", false),
        ("pay", false),
    ] {
        let params = json!({ "mode": "url", "message": "Pay", "url": url, "elicitationId": "1" });
        server.ask("q1", "elicitation/create", params).await;
        let answer = server.next().await.unwrap();
        match is_allowed {
            true => assert_eq!(answer["result"]["action"], "accept", "{url}: {answer}"),
            false => assert_eq!(answer["error"]["code"], -32602, "{url}: {answer}"),
        }
    }
}

/// Sends a log message to the client.
async fn log(server: &mut Script, data: Value) {
    let params = json!({ "level": "warning", "logger": "db", "data": data });
    server.notify("notifications/message", params).await;
}

#[tokio::test]
async fn notifications_become_events() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let mut events = client.events();
    server.notify("notifications/tools/list_changed", json!({})).await;
    server.notify("notifications/resources/list_changed", json!({})).await;
    server.notify("notifications/prompts/list_changed", json!({})).await;
    server.notify("notifications/resources/updated", json!({ "uri": "file:///a" })).await;
    log(&mut server, json!({ "full": true })).await;
    assert_eq!(events.next().await, Some(McpEvent::ToolsChanged));
    assert_eq!(events.next().await, Some(McpEvent::ResourcesChanged));
    assert_eq!(events.next().await, Some(McpEvent::PromptsChanged));
    assert_eq!(events.next().await, Some(McpEvent::ResourceUpdated { uri: "file:///a".into() }));
    let message = McpLogMessage {
        level: LogLevel::Warning,
        logger: Some("db".to_owned()),
        data: json!({ "full": true }),
    };
    assert_eq!(events.next().await, Some(McpEvent::Log(message)));
}

#[tokio::test]
async fn slow_event_reader_gets_the_latest_events() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let mut events = client.events();
    let flooding = async {
        for number in 0..5000 {
            log(&mut server, json!(number)).await;
        }
        let call = server.expect("tools/call").await;
        server.reply(&call, said("still here")).await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), flooding);
    assert_eq!(text(&output.unwrap()), "still here");
    let Some(McpEvent::Lagged { missed }) = events.next().await else { panic!("all is there") };
    assert_eq!(missed, 5000 - 256);
    let Some(McpEvent::Log(message)) = events.next().await else { panic!("no message") };
    assert_eq!(message.data, json!(5000 - 256));
}

#[tokio::test]
async fn long_log_message_is_truncated() {
    let (client, mut server) = connected(McpClient::builder()).await;
    let mut events = client.events();
    let huge = "ä".repeat(1_000_000);
    log(&mut server, json!(huge)).await;
    log(&mut server, json!({ "text": huge })).await;
    for _ in 0..2 {
        let Some(McpEvent::Log(message)) = events.next().await else { panic!("no message") };
        let Value::String(text) = message.data else { panic!("no text") };
        assert!(text.len() <= 64 * 1024 && text.len() > 64 * 1024 - 2, "{}", text.len());
    }
}
