//! A server that the test drives message by message. Reads and writes JSON-RPC messages as lines.

use neuron_types::ToolOutput;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

/// The server of a connection, whose messages the test reads and writes one by one.
pub(crate) struct Script {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Script {
    /// Creates a server. Returns the server, and the read half and write half for a client.
    pub(crate) fn new() -> (Self, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let (reader, writer) = tokio::io::split(ours);
        let (client_reader, client_writer) = tokio::io::split(theirs);
        (Self { lines: BufReader::new(reader).lines(), writer }, client_reader, client_writer)
    }

    /// Reads the next message of the client. Returns `None` once the client has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).expect("a message is a line of JSON"))
    }

    /// Reads the next message of the client. Panics unless the message has this method.
    #[track_caller]
    pub(crate) fn expect(&mut self, method: &str) -> impl Future<Output = Value> {
        let method = method.to_owned();
        async move {
            let message = self.next().await.expect("the client is there");
            assert_eq!(message["method"], *method, "{message}");
            message
        }
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.expect("the client reads");
        self.writer.write_all(b"\n").await.expect("the client reads");
    }

    pub(crate) async fn reply(&mut self, to: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": to["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, to: &Value, code: i32, message: &str) {
        let error = json!({ "code": code, "message": message });
        self.send(json!({ "jsonrpc": "2.0", "id": to["id"], "error": error })).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn ask(&mut self, id: &str, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// Answers the handshake like a server without `server/discover`. Returns the client's `initialize` request.
    pub(crate) async fn shake_hands(&mut self, version: &str, capabilities: Value) -> Value {
        let mut hello = self.next().await.expect("the client is there");
        if hello["method"] == "server/discover" {
            self.refuse(&hello, -32601, "what is that?").await;
            hello = self.next().await.expect("the client is there");
        }
        assert_eq!(hello["method"], "initialize", "{hello}");
        self.welcome(&hello, version, capabilities).await;
        hello
    }

    /// Responds to `initialize`, and waits for the client's `notifications/initialized`.
    pub(crate) async fn welcome(&mut self, hello: &Value, version: &str, capabilities: Value) {
        let result = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": { "name": "script", "version": "1", "title": "A script" },
            "instructions": "Be kind.",
        });
        self.reply(hello, result).await;
        self.expect("notifications/initialized").await;
    }

    /// Answers `server/discover` like a server of version 2026-07-28. Returns the client's request.
    pub(crate) async fn tell_versions(&mut self, capabilities: Value) -> Value {
        let hello = self.expect("server/discover").await;
        self.describe(&hello, capabilities).await;
        hello
    }

    /// Responds to `server/discover` like a server of version 2026-07-28.
    pub(crate) async fn describe(&mut self, hello: &Value, capabilities: Value) {
        let result = json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {
                "io.modelcontextprotocol/serverInfo": { "name": "script", "version": "1" },
            },
        });
        self.reply(hello, result).await;
    }
}

/// Returns a tool result with one text item.
pub(crate) fn said(word: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": word }] })
}

/// Returns the content of a tool's output as one string.
pub(crate) fn text(output: &ToolOutput) -> String {
    output.content.iter().map(ToString::to_string).collect()
}
