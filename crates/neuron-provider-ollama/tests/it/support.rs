//! What the tests share: a provider for a server, an answer, and a server that can misbehave.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use neuron_provider_ollama::Ollama;
use neuron_testing::ollama::{Dialect, chat_bytes};
use neuron_testing::{OllamaServer, ServerReply, Wire};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    StreamEvent, StreamHandle, TokenUsage,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A limit for what must not take for ever.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(30);
    tokio::time::timeout(limit, work).await.expect("too slow")
}

pub(crate) async fn start<R: Into<ServerReply>>(
    replies: impl IntoIterator<Item = R>,
) -> OllamaServer {
    OllamaServer::start(replies).await.unwrap()
}

pub(crate) fn provider(url: impl Into<String>) -> Ollama {
    Ollama::new().base_url(url)
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

/// A small answer with a thought, a text and a call.
pub(crate) fn answer() -> CompletionResponse {
    let content = vec![
        ContentBlock::Thinking { thinking: "hm".into(), signature: String::new() },
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!({"a": 1}) },
    ];
    CompletionResponse {
        id: String::new(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage { input_tokens: 50, output_tokens: 9, ..Default::default() },
        stop_reason: StopReason::ToolUse,
    }
}

/// An answer's lines, with so many characters in each.
pub(crate) fn lines(response: &CompletionResponse, chunk_chars: usize) -> Vec<u8> {
    chat_bytes(response, chunk_chars, &Wire::default(), &Dialect::default())
}

/// Reads a stream to its end.
pub(crate) async fn events(handle: StreamHandle) -> Vec<StreamEvent> {
    soon(handle.receiver.collect()).await
}

/// Checks that a stream ends with one error and no answer, and returns it.
#[track_caller]
pub(crate) fn broken(events: Vec<StreamEvent>) -> ProviderError {
    let mut events = events.into_iter().rev();
    let Some(StreamEvent::Error(error)) = events.next() else {
        panic!("no error at the end");
    };
    for event in events {
        let ends = matches!(
            event,
            StreamEvent::Error(_)
                | StreamEvent::MessageComplete(_)
                | StreamEvent::ResponseComplete(_)
        );
        assert!(!ends, "{event:?} before the error");
    }
    error.into()
}

/// A server that does with a connection whatever a test wants.
pub(crate) struct RawServer(TcpListener);

impl RawServer {
    pub(crate) async fn bind() -> Self {
        Self(TcpListener::bind(("127.0.0.1", 0)).await.unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    /// Takes a connection and reads a request from it.
    pub(crate) async fn request(&self) -> Connection {
        let (stream, _) = self.0.accept().await.unwrap();
        let mut connection = Connection(stream);
        connection.request().await;
        connection
    }
}

pub(crate) struct Connection(pub(crate) TcpStream);

impl Connection {
    /// Reads a request.
    pub(crate) async fn request(&mut self) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let length = head.split_once("content-length: ").unwrap().1;
        let length = length.split_once("\r\n").unwrap().0.parse().unwrap();
        self.0.read_exact(&mut vec![0; length]).await.unwrap();
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Writes the head of an answer whose body is that long.
    pub(crate) async fn head(&mut self, status: u16, content_type: &str, length: usize) {
        self.write(format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
        ))
        .await;
    }

    /// Closes the connection as a machine that fails does: the client sees a reset.
    pub(crate) fn reset(self) {
        // Nothing waits: what is not sent is thrown away.
        self.0.set_zero_linger().unwrap();
    }
}
