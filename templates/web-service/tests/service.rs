//! Runs the service against a local server that sends scripted responses.

use std::path::Path;
use std::process::Stdio;
#[cfg(unix)]
use std::time::Duration;

use neuron_testing::{AnthropicServer, Reply};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A running service.
struct Service {
    address: String,
    process: Child,
}

impl Service {
    async fn start(folder: &Path, model: &AnthropicServer) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_service"))
            .current_dir(folder)
            .env("ADDRESS", "127.0.0.1:0")
            .env("ANTHROPIC_API_KEY", AnthropicServer::API_KEY)
            .env("ANTHROPIC_BASE_URL", model.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let url = lines.next_line().await.unwrap().expect("the service prints its URL");
        Self { address: url.trim_start_matches("http://").to_owned(), process }
    }

    /// Sends a request about the conversation `a`, and returns the body of the response.
    async fn request(&self, method: &str, body: &str) -> String {
        let response = self.respond(method, "a", body).await;
        response.split_once("\r\n\r\n").expect("a response with a head").1.to_owned()
    }

    /// Sends a request about a conversation, and returns the whole response. In HTTP/1.0 its body has no framing.
    async fn respond(&self, method: &str, id: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} /conversations/{id} HTTP/1.0\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    /// Sends a message, and returns the events of the response.
    async fn send(&self, message: &str) -> String {
        self.request("POST", &json!({ "message": message }).to_string()).await
    }

    /// Returns the texts of the conversation.
    async fn read(&self) -> Vec<String> {
        let lines: Value = serde_json::from_str(&self.request("GET", "").await).unwrap();
        let lines = lines.as_array().unwrap().iter();
        lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn responses_stream_and_conversations_outlive_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let model = AnthropicServer::start([
        Reply::tool_call("call_1", "add", json!({"a": 2.0, "b": 3.0})),
        Reply::text("It is 5.").chunk_chars(4),
        Reply::text("It was 5."),
    ])
    .await
    .unwrap();
    let service = Service::start(folder.path(), &model).await;
    let events = service.send("2 + 3?").await;
    let expected = ["event: tool\ndata: \"add\"", "event: text\ndata: \"It i\"", "event: done\n"];
    for event in expected {
        assert!(events.contains(event), "{event}: {events}");
    }
    drop(service);

    let service = Service::start(folder.path(), &model).await;
    let events = service.send("What was it?").await;
    assert!(events.contains("It was 5."), "{events}");
    assert_eq!(service.read().await, ["2 + 3?", "It is 5.", "What was it?", "It was 5."]);
    model.assert_complete();
}

#[tokio::test]
async fn a_client_that_disconnects_ends_its_run() {
    let folder = tempfile::tempdir().unwrap();
    let model = AnthropicServer::start([Reply::text("one two three").chunk_chars(3).hang_after(4)])
        .await
        .unwrap();
    let service = Service::start(folder.path(), &model).await;
    let response = service.send("Tell me");
    tokio::select! {
        events = response => panic!("the response ended: {events}"),
        () = model.wait_for_requests(1) => {}
    }
    model.wait_for_disconnect().await;
}

#[tokio::test]
async fn an_error_of_the_model_is_an_event_without_its_details() {
    let folder = tempfile::tempdir().unwrap();
    let error = neuron::prelude::ProviderError::Authentication("bad key".into());
    let model = AnthropicServer::start([Reply::error(error)]).await.unwrap();
    let service = Service::start(folder.path(), &model).await;
    assert_eq!(service.send("Tell me").await, "event: error\ndata: \"Provider\"\n\n");
}

#[tokio::test]
async fn an_invalid_id_is_a_bad_request() {
    let folder = tempfile::tempdir().unwrap();
    let model = AnthropicServer::start(Vec::<Reply>::new()).await.unwrap();
    let service = Service::start(folder.path(), &model).await;
    let response = service.respond("GET", "a%2Fb", "").await;
    assert!(response.starts_with("HTTP/1.0 400"), "{response}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_stopped_service_does_not_wait_for_a_response_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let model = AnthropicServer::start([Reply::hang()]).await.unwrap();
    let mut service = Service::start(folder.path(), &model).await;
    let id = service.process.id().unwrap().to_string();
    let address = service.address.clone();
    let request = tokio::spawn(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "POST /conversations/a HTTP/1.0\r\ncontent-type: application/json\r\n\
                    content-length: 17\r\n\r\n{\"message\": \"hi\"}";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.ok();
    });
    model.wait_for_requests(1).await;
    assert!(Command::new("kill").args(["-TERM", &id]).status().await.unwrap().success());
    let ended = tokio::time::timeout(Duration::from_secs(60), service.process.wait()).await;
    assert!(ended.expect("the service ends").unwrap().success());
    request.await.unwrap();
}
