//! The kinds of clients that are measured. They are an agent, the provider without an agent, and a plain HTTP client.
//!
//! Every client sends the same two requests. The first contains a question, and the model responds with a tool call.
//! The second contains the result of the tool.

use std::error::Error;
use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, Conversation, RunEvent};
use neuron_provider_anthropic::{Anthropic, wire};
use neuron_testing::{AnthropicServer, Reply};
use neuron_tool::ToolRegistry;
use neuron_types::{CompletionRequest, ContentBlock, Message, Provider, Role, ToolDyn};
use serde_json::json;
use tokio::task::JoinSet;

use crate::bare::BareClient;
use crate::turn::Echo;

const INSTRUCTIONS: &str = "You are a helpful assistant. Use the tools that you have.";
const QUESTION: &str = "What does the echo say, and what does it mean?";
const ANSWER: &str = "It says what was called: that is what an echo is, and it means nothing else.";

/// An error that ends a measurement.
pub(super) type Failure = Box<dyn Error + Send + Sync>;

/// A client, and the kind of response that it requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The kind of client.
    pub client: Client,
    /// `true` if the client requests streamed responses.
    pub streamed: bool,
    name: &'static str,
}

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A plain hyper client with the same connection pool as the providers. The client sends prepared bodies and
    /// discards the responses.
    Bare,
    /// The provider, which encodes requests and parses responses. Hand-written code runs the tool.
    Provider,
    /// A shared `Agent` with a sliding window. Each client has its own conversation.
    Agent,
}

impl Case {
    /// All cases. Cases with whole responses come before cases with streams. The bare client is the first case of each
    /// group.
    pub const ALL: [Self; 6] = [
        Self { client: Client::Bare, streamed: false, name: "bare client, whole" },
        Self { client: Client::Provider, streamed: false, name: "provider, whole" },
        Self { client: Client::Agent, streamed: false, name: "agent, whole" },
        Self { client: Client::Bare, streamed: true, name: "bare client, streamed" },
        Self { client: Client::Provider, streamed: true, name: "provider, streamed" },
        Self { client: Client::Agent, streamed: true, name: "agent, streamed" },
    ];

    /// Returns the name of the case.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|case| case.name == name);
        found.ok_or_else(|| format!("there is no case `{name}`"))
    }
}

/// Returns the replies of the server in order. They are `agents` tool calls, then `others + agents` texts. `others` is
/// the number of requests besides the two requests of each agent.
///
/// The n-th request gets the n-th reply. The server must therefore not send any reply before it has received the first
/// request of every agent.
pub fn script(agents: usize, others: usize) -> impl Iterator<Item = Reply> {
    let call = || Reply::tool_call("call_1", Echo.name(), json!({}));
    let calls = std::iter::repeat_with(call).take(agents);
    calls.chain(std::iter::repeat_with(|| Reply::text(ANSWER)).take(others + agents))
}

/// The values that all clients of a measured case share. A case is a kind of client, with or without streaming.
#[derive(Debug)]
pub struct Clients {
    case: Case,
    bare: Bare,
    provider: Anthropic,
    agent: Agent,
}

impl Clients {
    /// Creates the clients without sending a request.
    ///
    /// # Errors
    ///
    /// Returns an error if the URL is invalid.
    pub fn new(case: Case, url: &str) -> Result<Self, Failure> {
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Echo));
        let provider = Anthropic::new(AnthropicServer::API_KEY).base_url(url);
        let agent = Agent::builder(provider.clone())
            .context(SlidingWindowStrategy::new(20, 100_000))
            .tools(tools)
            .system_prompt(INSTRUCTIONS)
            .max_turns(5)
            // Without prompt caching, the provider sends the same bytes as the bare client.
            .request(|settings| settings.cache = None)
            .build();
        Ok(Self { case, bare: Bare::new(case, url)?, provider, agent })
    }

    /// Starts a client as a task in `running`. The client sends both of its requests.
    pub fn start(&self, running: &mut JoinSet<Result<(), Failure>>) {
        let (provider, streamed) = (self.provider.clone(), self.case.streamed);
        match self.case.client {
            Client::Bare => running.spawn(self.bare.clone().converse()),
            Client::Provider => running.spawn(by_hand(provider, streamed)),
            Client::Agent => running.spawn(converse(self.agent.clone(), streamed)),
        };
    }

    /// Sends the request that the server waits for before it responds to any client.
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not respond.
    pub async fn ask_once(&self) -> Result<(), Failure> {
        self.bare.ask(&self.bare.bodies.0).await
    }
}

#[derive(Debug, Clone)]
struct Bare {
    client: BareClient,
    bodies: (Bytes, Bytes),
}

impl Bare {
    fn new(case: Case, url: &str) -> Result<Self, Failure> {
        let mut request = question();
        let first = wire::write_request(request.view(), case.streamed)?;
        let (id, name, input) = ("call_1".to_owned(), Echo.name().to_owned(), json!({}));
        let content = vec![ContentBlock::ToolUse { id, name, input }];
        answer_calls(&mut request, Message { role: Role::Assistant, content });
        let second = wire::write_request(request.view(), case.streamed)?;
        Ok(Self { client: BareClient::new(url)?, bodies: (first.into(), second.into()) })
    }

    async fn converse(self) -> Result<(), Failure> {
        self.ask(&self.bodies.0).await?;
        self.ask(&self.bodies.1).await
    }

    async fn ask(&self, body: &Bytes) -> Result<(), Failure> {
        let response = self.client.post(body.clone()).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, Bytes::len);
        }
        match (status.is_success(), bytes) {
            (true, 1..) => Ok(()),
            _ => Err(format!("{status} with {bytes} bytes").into()),
        }
    }
}

/// Runs the conversation of the benchmark with the provider, in a hand-written loop that supports only this
/// conversation.
async fn by_hand(provider: Anthropic, streamed: bool) -> Result<(), Failure> {
    let mut request = question();
    loop {
        let response = match streamed {
            true => provider.complete_stream_ref(request.view()).await?.into_response().await?,
            false => provider.complete_ref(request.view()).await?,
        };
        if response.message.tool_uses().next().is_none() {
            return check(&response.message.text());
        }
        answer_calls(&mut request, response.message);
    }
}

async fn converse(agent: Agent, streamed: bool) -> Result<(), Failure> {
    let mut conversation = Conversation::new();
    let run = agent.run(&mut conversation, QUESTION);
    if !streamed {
        return check(&run.await?.response);
    }
    let mut events = run.stream();
    while let Some(event) = events.next().await {
        if let RunEvent::Ended(result) = event? {
            return check(&result.response);
        }
    }
    Err("the stream has no end".into())
}

fn check(answer: &str) -> Result<(), Failure> {
    if answer == ANSWER { Ok(()) } else { Err(format!("another answer: {answer}").into()) }
}

fn question() -> CompletionRequest {
    CompletionRequest {
        system: Some(INSTRUCTIONS.into()),
        tools: vec![Echo.definition()],
        messages: vec![Message::user(QUESTION)],
        ..Default::default()
    }
}

/// Appends a message with tool calls, and a message with their results.
fn answer_calls(request: &mut CompletionRequest, message: Message) {
    let result = |call: neuron_types::ToolUseRef<'_>| ContentBlock::ToolResult {
        tool_use_id: call.id.to_owned(),
        content: Echo.run().content,
        is_error: false,
    };
    let content = message.tool_uses().map(result).collect();
    request.messages.push(message);
    request.messages.push(Message { role: Role::User, content });
}
