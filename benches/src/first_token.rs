//! The time until the first piece of a streamed response, with an agent and with a plain HTTP client.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use neuron_loop::{Agent, Conversation, RunEvent};
use neuron_provider_anthropic::{Anthropic, wire};
use neuron_testing::{AnthropicServer, Reply};
use neuron_types::{CompletionRequest, Message, StreamEvent};

use crate::bare::BareClient;

type Failure = Box<dyn Error + Send + Sync>;

const QUESTION: &str = "What is an echo?";

/// Text from which the streamed response is made.
const ANSWER: &str = "A sound that comes back. ";

/// A server of Anthropic's API on its own thread.
#[derive(Debug)]
pub struct Server {
    server: AnthropicServer,
    /// Dropping this sender ends the thread of the server.
    _end: tokio::sync::oneshot::Sender<()>,
}

impl Server {
    /// Starts the server.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen.
    pub fn start() -> Result<Self, Failure> {
        let (started, server) = std::sync::mpsc::channel();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let _ = started.send(AnthropicServer::start([] as [Reply; 0]).await);
                let _ = ended.await;
            });
        });
        Ok(Self { server: server.recv()??, _end: end })
    }

    fn expect_request(&self) {
        self.server.push(Reply::text(ANSWER.repeat(20)).chunk_chars(ANSWER.len()));
    }
}

/// An agent whose runs are streamed, to measure the time until the first text.
#[derive(Debug)]
pub struct AgentSide {
    agent: Agent,
}

impl AgentSide {
    /// Creates the agent. Its connection stays open between runs.
    #[must_use]
    pub fn new(server: &Server) -> Self {
        let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(server.server.url());
        Self { agent: Agent::builder(provider).build() }
    }

    /// Returns the time from the start of a run to the first text of the response. Also reads the rest of the response.
    ///
    /// # Errors
    ///
    /// Returns an error if the run fails.
    pub async fn first_token(&self, server: &Server) -> Result<Duration, Failure> {
        server.expect_request();
        let mut conversation = Conversation::new();
        let start = Instant::now();
        let mut stream = self.agent.run(&mut conversation, QUESTION).stream();
        let mut first = None;
        while let Some(event) = stream.next().await {
            if let RunEvent::Event(StreamEvent::TextDelta(_)) = event? {
                first.get_or_insert_with(|| start.elapsed());
            }
        }
        first.ok_or_else(|| "the run has no text".into())
    }
}

/// A client that sends a prepared body and looks for the first text in the bytes of the response.
#[derive(Debug)]
pub struct BareSide {
    client: BareClient,
    body: Bytes,
}

impl BareSide {
    /// Creates the client. Its connection stays open between requests.
    ///
    /// # Errors
    ///
    /// Returns an error if the request cannot be encoded.
    pub fn new(server: &Server) -> Result<Self, Failure> {
        let request = CompletionRequest {
            messages: vec![Message::user(QUESTION)],
            ..CompletionRequest::default()
        };
        Ok(Self {
            client: BareClient::new(&server.server.url())?,
            body: wire::write_request(request.view(), true)?.into(),
        })
    }

    /// Returns the time from sending a request to the first text of the response. Also reads the rest of the response.
    ///
    /// # Errors
    ///
    /// Returns an error if the request fails.
    pub async fn first_token(&self, server: &Server) -> Result<Duration, Failure> {
        server.expect_request();
        let start = Instant::now();
        let mut body = self.client.post(self.body.clone()).await?.into_body();
        let (mut first, mut seen) = (None, Vec::new());
        while let Some(frame) = body.frame().await {
            if let (None, Ok(data)) = (first, frame?.into_data()) {
                seen.extend_from_slice(&data);
                if memchr::memmem::find(&seen, b"text_delta").is_some() {
                    first = Some(start.elapsed());
                }
            }
        }
        first.ok_or_else(|| "the response has no text".into())
    }
}
