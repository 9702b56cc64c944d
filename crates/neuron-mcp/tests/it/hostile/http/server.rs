//! A hostile HTTP server. It uses no HTTP library, so that the tests control every byte of its responses.

use std::io;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::hostile::server::Wire;

/// A hostile HTTP server on a free port of 127.0.0.1. Stops when dropped.
pub(super) struct HttpServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HttpServer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    // Ignore errors, because the client may close the connection.
                    let _ = one_request(stream).await;
                });
            }
        });
        Self { address, task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}

/// Reads one HTTP request and responds to it.
async fn one_request(stream: TcpStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let is_post = line.starts_with("POST");
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        match line.trim().to_ascii_lowercase().split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let mut stream = stream.into_inner();
    if !is_post {
        return reply(&mut stream, "405 Method Not Allowed", "text/plain", "").await;
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    match message["method"].as_str() {
        Some("initialize") => answer(&mut stream, &message, Wire::hello()).await,
        Some("tools/call") => {
            let tool = message["params"]["name"].as_str().unwrap().to_owned();
            behave(&mut stream, &message, &tool).await
        }
        Some(_) if message.get("id").is_some() => answer(&mut stream, &message, json!({})).await,
        _ => reply(&mut stream, "202 Accepted", "text/plain", "").await,
    }
}

/// Responds to a tool call. The name of the tool selects how the server misbehaves.
async fn behave(stream: &mut TcpStream, call: &Value, tool: &str) -> io::Result<()> {
    let id = &call["id"];
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    match tool {
        "fine" => answer(stream, call, text("fine")).await,
        "huge" => {
            head(stream, "200 OK", "application/json").await?;
            let begin = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":\"");
            stream.write_all(begin.as_bytes()).await?;
            hundred_megabytes(stream).await?;
            stream.write_all(b"\"}}").await
        }
        "huge event" => {
            head(stream, "200 OK", "text/event-stream").await?;
            let begin = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":\"");
            stream.write_all(begin.as_bytes()).await?;
            hundred_megabytes(stream).await?;
            stream.write_all(b"\"}}\n\n").await
        }
        "huge refusal" => {
            head(stream, "500 Internal Server Error", "text/plain").await?;
            hundred_megabytes(stream).await
        }
        "no JSON" => reply(stream, "200 OK", "application/json", "}{").await,
        "no message" => reply(stream, "200 OK", "application/json", "[1, 2]").await,
        "nested" => {
            let nested = "[".repeat(100_000);
            let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{nested}");
            reply(stream, "200 OK", "application/json", &body).await
        }
        "page" => reply(stream, "200 OK", "text/html", "<html>Log in first</html>").await,
        "server error" => reply(stream, "503 Service Unavailable", "text/plain", "later").await,
        "cut" => {
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{",
                )
                .await
        }
        "closed" => Ok(()),
        "silence" => std::future::pending().await,
        "silent event stream" => {
            head(stream, "200 OK", "text/event-stream").await?;
            loop {
                stream.write_all(b": still here\n\n").await?;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        "endless head" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").await?;
            loop {
                stream.write_all(b"x").await?;
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        "flood" => {
            head(stream, "200 OK", "text/event-stream").await?;
            let log = json!({"level": "info", "data": "a line of a log"});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": log});
            let event = format!("data: {message}\n\n").repeat(100);
            for _ in 0..500 {
                stream.write_all(event.as_bytes()).await?;
            }
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": text("fine")});
            stream.write_all(format!("data: {answer}\n\n").as_bytes()).await
        }
        tool => panic!("no tool {tool}"),
    }
}

/// Writes 100 MB of the letter `x`.
async fn hundred_megabytes(stream: &mut TcpStream) -> io::Result<()> {
    let megabyte = vec![b'x'; 1_000_000];
    for _ in 0..100 {
        stream.write_all(&megabyte).await?;
    }
    Ok(())
}

/// Writes a JSON-RPC response to a request.
async fn answer(stream: &mut TcpStream, request: &Value, result: Value) -> io::Result<()> {
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
    reply(stream, "200 OK", "application/json", &body).await
}

/// Writes a complete HTTP response, and closes the write half of the connection.
async fn reply(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> io::Result<()> {
    head(stream, status, kind).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// Writes the head of a response without a length. The body ends when the connection is closed.
async fn head(stream: &mut TcpStream, status: &str, kind: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await
}
