//! What the tests share: a provider for a server, an answer, and a server that can misbehave.

use std::future::Future;
use std::time::Duration;

use futures_util::StreamExt;
use neuron_provider_openai::OpenAi;
use neuron_testing::openai::{Dialect, chat_body, chat_bytes, responses_body, responses_bytes};
use neuron_testing::{OpenAiServer, ServerReply, Wire};
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, ProviderError, Role, StopReason,
    StreamEvent, StreamHandle, TokenUsage, ToolDefinition,
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
) -> OpenAiServer {
    OpenAiServer::start(replies).await.unwrap()
}

/// Which of the two APIs answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
}

pub(crate) const APIS: [Api; 2] = [Api::Chat, Api::Responses];

impl Api {
    pub(crate) fn provider(self, url: impl Into<String>) -> OpenAi {
        self.with(OpenAi::new(OpenAiServer::API_KEY).base_url(url))
    }

    pub(crate) fn with(self, provider: OpenAi) -> OpenAi {
        match self {
            Self::Chat => provider,
            Self::Responses => provider.responses_api(),
        }
    }

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }

    /// The whole answer as the API sends it.
    pub(crate) fn body(self, response: &CompletionResponse) -> String {
        let body = match self {
            Self::Chat => chat_body(response, &Dialect::default()),
            Self::Responses => responses_body(response),
        };
        body.to_string()
    }

    /// The stream as the API sends it.
    pub(crate) fn bytes(self, response: &CompletionResponse) -> Vec<u8> {
        match self {
            Self::Chat => chat_bytes(response, 16, &Wire::default(), &Dialect::default()),
            Self::Responses => responses_bytes(response, 16, &Wire::default()),
        }
    }

    /// The answer as the provider reads it: the one API has items where the other has a message.
    pub(crate) fn read(self, response: &CompletionResponse) -> CompletionResponse {
        use neuron_provider_openai::wire;
        let body = self.body(response);
        match self {
            Self::Chat => wire::read_response(body.as_bytes()),
            Self::Responses => wire::responses::read_response(body.as_bytes()),
        }
        .unwrap()
    }
}

pub(crate) fn ask(text: &str) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message::user(text)],
        max_tokens: Some(64),
        ..Default::default()
    }
}

pub(crate) fn look() -> ToolDefinition {
    ToolDefinition {
        name: "look".into(),
        title: None,
        description: "Looks".into(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        annotations: None,
        cache_control: None,
    }
}

/// A small answer with a text and a call.
pub(crate) fn answer() -> CompletionResponse {
    let content = vec![
        ContentBlock::Text("añ🦀".into()),
        ContentBlock::ToolUse { id: "c1".into(), name: "look".into(), input: json!({"a": 1}) },
    ];
    CompletionResponse {
        id: "answer_7".into(),
        model: "m".into(),
        message: Message { role: Role::Assistant, content },
        usage: TokenUsage {
            input_tokens: 50,
            output_tokens: 9,
            cache_read_tokens: Some(40),
            ..Default::default()
        },
        stop_reason: StopReason::ToolUse,
    }
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
