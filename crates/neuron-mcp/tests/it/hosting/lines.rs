//! Tests of a server over a pair of streams, including malformed input and the end of the connection.

use std::time::Duration;

use neuron_mcp::{McpError, McpServer};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::raw::{call_message, initialize_message, within};
use super::server::{Waiting, mcp_server};

/// A client that writes and reads messages as lines, with the task that runs its server.
struct Client {
    input: BufReader<ReadHalf<DuplexStream>>,
    output: Option<WriteHalf<DuplexStream>>,
    serving: JoinSet<Result<(), McpError>>,
}

impl Client {
    /// Starts the server and connects to it. Does not send any message.
    fn of(server: McpServer) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(theirs);
        let mut serving = JoinSet::new();
        serving.spawn(async move { server.serve_io(input, output).await });
        let (input, output) = tokio::io::split(ours);
        Self { input: BufReader::new(input), output: Some(output), serving }
    }

    /// Starts the server, connects to it, and completes the handshake.
    async fn begin(server: McpServer) -> Self {
        let mut client = Self::of(server);
        client.send(&initialize_message()).await;
        assert_eq!(client.next().await["result"]["serverInfo"]["name"], "hosted");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.output.as_mut().unwrap().write_all(bytes.as_ref()).await.unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n")).await;
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(within(self.input.read_line(&mut line)).await.unwrap(), 0, "the server closed");
        serde_json::from_str(&line).unwrap()
    }

    /// Calls the tool `echo`, and asserts its result.
    async fn echo(&mut self, text: &str) {
        self.send(&call_message("echo", &json!({ "text": text }))).await;
        assert_eq!(self.next().await["result"]["content"][0]["text"], text);
    }

    /// Waits until the server has ended. Returns the server's result.
    async fn ended(&mut self) -> Result<(), McpError> {
        within(self.serving.join_next()).await.unwrap().unwrap()
    }
}

fn server() -> McpServer {
    mcp_server(&Waiting::default())
}

#[tokio::test]
async fn server_ends_after_the_client_closes_its_output() {
    let mut client = Client::begin(server()).await;
    client.echo("one").await;
    client.echo("two").await;
    client.output.take().unwrap().shutdown().await.unwrap();
    client.ended().await.unwrap();
    let mut rest = String::new();
    assert_eq!(client.input.read_line(&mut rest).await.unwrap(), 0, "{rest}");
}

#[tokio::test]
async fn client_that_sends_nothing_is_no_error() {
    let mut client = Client::of(server());
    client.output.take().unwrap().shutdown().await.unwrap();
    client.ended().await.unwrap();
}

#[tokio::test]
async fn wrong_first_message_is_an_error() {
    let mut client = Client::of(server());
    client.send(&json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
    assert!(matches!(client.ended().await, Err(McpError::Initialization(_))));
}

#[tokio::test]
async fn requests_before_end_of_input_are_answered() {
    let mut client = Client::of(server());
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let call = call_message("echo", &json!({ "text": "last" }));
    // The last line has no line break.
    client.write(format!("{}\n{initialized}\r\n\n{call}", initialize_message())).await;
    client.output.take().unwrap().shutdown().await.unwrap();
    assert_eq!(client.next().await["id"], 0);
    assert_eq!(client.next().await["result"]["content"][0]["text"], "last");
    client.ended().await.unwrap();
}

#[tokio::test]
async fn message_can_arrive_byte_by_byte() {
    let mut client = Client::begin(server()).await;
    let call = call_message("echo", &json!({ "text": "ü" }));
    for byte in format!("{call}\n").into_bytes() {
        client.write([byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(client.next().await["result"]["content"][0]["text"], "ü");
}

#[tokio::test]
async fn too_long_line_is_refused_and_the_next_is_read() {
    let mut client = Client::begin(server()).await;
    let long = call_message("echo", &json!({ "text": "x".repeat(17 * 1024 * 1024) }));
    client.send(&long).await;
    let error = client.next().await;
    assert_eq!(error["error"]["code"], -32600, "{error}");
    assert_eq!(
        error["error"]["message"],
        "the message is too long: at most 16777216 bytes are allowed"
    );
    client.echo("next").await;
}

#[tokio::test]
async fn long_line_within_the_limit_is_read() {
    let mut client = Client::begin(server()).await;
    let text = "y".repeat(1024 * 1024);
    let call = call_message("echo", &json!({ "text": text }));
    let (mut input, mut output) = (client.input, client.output.take().unwrap());
    let write = async { output.write_all(format!("{call}\n").as_bytes()).await.unwrap() };
    let mut line = String::new();
    let read = async { input.read_line(&mut line).await.unwrap() };
    within(futures_util::future::join(write, read)).await;
    assert!(line.contains(&text));
}

#[tokio::test]
async fn malformed_lines_do_not_end_the_connection() {
    let mut client = Client::begin(server()).await;
    // The server skips text that is not JSON, empty lines, and unknown notifications.
    client.write("Starting up...\n\n   \n{\"jsonrpc\":\n").await;
    client.write(b"\xff\xfe\n").await;
    client.send(&json!({ "jsonrpc": "2.0", "method": "$/other", "params": 7 })).await;
    client.echo("still").await;
    // JSON that is not a message gets an error response, with its id if present.
    client.send(&json!({ "id": 5, "method": 7 })).await;
    let error = client.next().await;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(5), &json!(-32600)));
    client.send(&json!([])).await;
    assert_eq!(client.next().await["error"]["code"], -32600);
    client.echo("still").await;
}

#[tokio::test(start_paused = true)]
async fn running_call_is_cancelled_after_end_of_input() {
    let waiting = Waiting::default();
    let mut client = Client::begin(mcp_server(&waiting)).await;
    client.send(&call_message("wait", &json!({}))).await;
    waiting.began.notified().await;
    client.output.take().unwrap().shutdown().await.unwrap();
    waiting.ended.notified().await;
    client.ended().await.unwrap();
}

#[tokio::test]
async fn shutdown_token_ends_the_server() {
    let waiting = Waiting::default();
    let shutdown = CancellationToken::new();
    let mut client = Client::begin(mcp_server(&waiting).with_shutdown(shutdown.clone())).await;
    client.send(&call_message("wait", &json!({}))).await;
    waiting.began.notified().await;
    shutdown.cancel();
    within(waiting.ended.notified()).await;
    assert!(client.next().await["error"].is_object());
    client.ended().await.unwrap();
}

#[tokio::test]
async fn cancelled_shutdown_token_ends_the_server_immediately() {
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    let mut client = Client::of(server().with_shutdown(shutdown));
    client.ended().await.unwrap();
}

#[tokio::test]
async fn dropped_server_closes_the_stream() {
    let waiting = Waiting::default();
    let mut client = Client::begin(mcp_server(&waiting)).await;
    client.send(&call_message("wait", &json!({}))).await;
    waiting.began.notified().await;
    client.serving.shutdown().await;
    within(waiting.ended.notified()).await;
    // The call may end with an error, and then the stream is closed.
    let mut rest = String::new();
    within(client.input.read_to_string(&mut rest)).await.unwrap();
    assert!(!rest.contains("waited"), "{rest}");
}

#[tokio::test]
async fn server_ends_if_the_client_drops_unread_responses() {
    let mut client = Client::begin(server()).await;
    for _ in 0..10 {
        let call = call_message("echo", &json!({ "text": "z".repeat(20 * 1024) }));
        client.send(&call).await;
    }
    // The in-memory stream is closed only when both of its halves are dropped.
    drop((client.input, client.output));
    within(client.serving.join_next()).await.unwrap().unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_server_has_no_timeout() {
    let mut client = Client::begin(server()).await;
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    client.echo("still there").await;
}
