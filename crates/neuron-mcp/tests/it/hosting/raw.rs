//! An HTTP client that writes raw bytes, with builders for the requests of an MCP client.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A complete HTTP response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the JSON-RPC messages of the body, which is an event stream or a single message.
    pub(super) fn messages(&self) -> Vec<Value> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
        let events: Vec<Value> =
            data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
        match events.is_empty() {
            true => serde_json::from_str(&self.body).into_iter().collect(),
            false => events,
        }
    }

    /// Returns the text of a tool's result. Panics if the last message in the body is not such a result.
    #[track_caller]
    pub(super) fn tool_text(&self) -> String {
        let messages = self.messages();
        let text = messages.last().and_then(|last| last["result"]["content"][0]["text"].as_str());
        text.unwrap_or_else(|| panic!("no text of a tool in {self:?}")).to_owned()
    }

    /// Parses a response. Returns `None` if the bytes contain no complete head.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        let response = Self { status, headers, body: String::new() };
        let body = match response.header("transfer-encoding") {
            Some("chunked") => dechunk(body),
            _ => body.to_owned(),
        };
        Some(Self { body, ..response })
    }
}

/// Decodes a body in chunked transfer encoding. Ignores an incomplete last chunk.
fn dechunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length) else { break };
        whole.push_str(chunk);
        body = rest.get(length + 2..).unwrap_or_default();
        if length == 0 {
            break;
        }
    }
    whole
}

/// A TCP connection on which a test writes arbitrary bytes.
pub(super) struct Connection(TcpStream);

impl Connection {
    pub(super) async fn open(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.unwrap())
    }

    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Reads until the received text contains `text`. Returns everything that was read. Panics at the end of the
    /// stream.
    pub(super) async fn read_until(&mut self, text: &str) -> String {
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(text) {
            let mut buffer = [0; 4096];
            let length = within(self.0.read(&mut buffer)).await.unwrap();
            assert_ne!(length, 0, "no `{text}` in {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8_lossy(&read).into_owned()
    }

    /// Reads until the server closes the connection. Returns `None` if the received bytes are not a response.
    pub(super) async fn read_to_end(&mut self) -> Option<Response> {
        let mut read = Vec::new();
        // Ignore errors. If the server closes the connection while unread bytes arrive, the system resets the
        // connection.
        let _ = within(self.0.read_to_end(&mut read)).await;
        Response::parse(&read)
    }
}

/// Waits for a future, and panics after 60 seconds. Makes a hanging test fail.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("this takes too long")
}

/// Sends bytes on a new connection, and returns the response. Panics if the server sends no response.
#[track_caller]
pub(super) fn send(addr: SocketAddr, bytes: impl AsRef<[u8]>) -> impl Future<Output = Response> {
    async move {
        let mut connection = Connection::open(addr).await;
        connection.write(&bytes).await;
        let response = connection.read_to_end().await;
        response
            .unwrap_or_else(|| panic!("no response to {}", String::from_utf8_lossy(bytes.as_ref())))
    }
}

/// Builder of a raw HTTP request. By default the request asks the server to close the connection after the response.
pub(super) struct Request {
    method: &'static str,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Request {
    pub(super) fn new(method: &'static str) -> Self {
        Self { method, target: "/mcp".to_owned(), headers: vec![], body: None }
            .header("host", "localhost")
            .header("connection", "close")
    }

    /// Creates a POST of a JSON-RPC message with the headers that the protocol requires.
    pub(super) fn post(message: &Value) -> Self {
        Self::new("POST")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.to_string())
    }

    /// Creates a GET that opens the stream for messages of the server.
    pub(super) fn listen() -> Self {
        Self::new("GET").header("accept", "text/event-stream")
    }

    pub(super) fn target(mut self, target: &str) -> Self {
        target.clone_into(&mut self.target);
        self
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    pub(super) fn session(self, id: &str) -> Self {
        self.header("mcp-session-id", id)
    }

    pub(super) fn body(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            text += &format!("content-length: {}\r\n", body.len());
        }
        text += "\r\n";
        text += self.body.as_deref().unwrap_or_default();
        text.into_bytes()
    }

    pub(super) async fn send(&self, addr: SocketAddr) -> Response {
        send(addr, self.to_bytes()).await
    }
}

/// Creates the request that opens a session.
pub(super) fn initialize() -> Request {
    Request::post(&initialize_message())
}

pub(super) fn initialize_message() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "raw", "version": "1" },
        },
    })
}

/// Opens a session, and returns its id. `with` can change the requests before they are sent, for example to add a
/// header.
pub(super) async fn begin(addr: SocketAddr, with: impl Fn(Request) -> Request) -> String {
    let response = with(initialize()).send(addr).await;
    assert_eq!(response.status, 200, "{response:?}");
    let id = response.header("mcp-session-id").expect("a session").to_owned();
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let response = with(Request::post(&initialized).session(&id)).send(addr).await;
    assert_eq!(response.status, 202, "{response:?}");
    id
}

pub(super) fn call_message(tool: &str, arguments: &Value) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": tool, "arguments": arguments },
    })
}

/// Creates a tool call in a session.
pub(super) fn call(session: &str, tool: &str, arguments: &Value) -> Request {
    Request::post(&call_message(tool, arguments))
        .session(session)
        .header("mcp-protocol-version", "2025-11-25")
}

/// Creates a request of version 2026-07-28, which has no sessions.
pub(super) fn modern(method: &str, params: Value) -> Request {
    modern_with(method, params, json!({}))
}

/// Creates a request of version 2026-07-28 from a client with these capabilities.
pub(super) fn modern_with(method: &str, mut params: Value, capabilities: Value) -> Request {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = params["name"].as_str().or(params["taskId"].as_str()).map(str::to_owned);
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = Request::post(&message)
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    match name {
        Some(name) => request.header("mcp-name", &name),
        None => request,
    }
}

/// Creates a tool call of version 2026-07-28.
pub(super) fn modern_call(tool: &str, arguments: &Value) -> Request {
    modern("tools/call", json!({ "name": tool, "arguments": arguments }))
}
