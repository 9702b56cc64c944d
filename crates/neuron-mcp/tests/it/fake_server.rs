//! A server that runs in a background task. The test sets its tools and can replace them at any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_mcp::{McpClient, McpClientBuilder};
use neuron_types::{ContextError, ContextStrategy, Message};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};

/// Response of the fake server to a tool call.
pub(crate) enum Answer {
    Result(Value),
    Error(i32, String),
    /// Sends these messages and no response. The string `"TOKEN"` in the messages is replaced with the call's progress
    /// token.
    Nothing(Vec<Value>),
    /// Closes the connection without a response.
    HangUp,
}

impl Answer {
    pub(crate) fn text(text: &str) -> Self {
        Self::Result(json!({ "content": [{ "type": "text", "text": text }] }))
    }
}

type Answers = Box<dyn Fn(&Value) -> Answer + Send + Sync>;

/// A server that runs in a background task, responds to the client, and records the client's messages.
pub(crate) struct FakeServer {
    name: String,
    /// Tools for `tools/list`, or the message of the error response to `tools/list`.
    tools: Mutex<Result<Vec<Value>, String>>,
    /// Function that returns the response to a tool call, given the parameters of the call.
    answers: Answers,
    /// Number of received requests and notifications, by method.
    counts: watch::Sender<HashMap<String, usize>>,
    /// The received requests and notifications, in order.
    received: Mutex<Vec<Value>>,
    /// Messages to the client. `None` closes the connection.
    outbox: mpsc::UnboundedSender<Option<Value>>,
    /// Channels for the client's responses to pending requests of the server, by request id. The id of a request is the
    /// name of its method.
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
}

impl FakeServer {
    /// Starts a server in a background task, and connects a client. Returns both. `answers` returns the response to the
    /// parameters of a tool call.
    pub(crate) async fn start(
        builder: McpClientBuilder,
        name: &str,
        tools: impl IntoIterator<Item = Value>,
        answers: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) -> (Arc<Self>, Arc<McpClient>) {
        let (ours, theirs) = tokio::io::duplex(1024 * 1024);
        let (outbox, mut outgoing) = mpsc::unbounded_channel::<Option<Value>>();
        let server = Arc::new(Self {
            name: name.to_owned(),
            tools: Mutex::new(Ok(tools.into_iter().collect())),
            answers: Box::new(answers),
            counts: watch::Sender::new(HashMap::new()),
            received: Mutex::default(),
            outbox,
            asked: Mutex::default(),
        });
        let (reader, mut writer) = tokio::io::split(ours);
        let reading = Arc::clone(&server);
        let read = async move {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                reading.receive(serde_json::from_str(&line).unwrap());
            }
        };
        let write = async move {
            while let Some(Some(message)) = outgoing.recv().await {
                let line = format!("{message}\n");
                if writer.write_all(line.as_bytes()).await.is_err() {
                    break;
                }
            }
        };
        // The connection is closed as soon as one of its two directions ends.
        tokio::spawn(async move {
            tokio::select! {
                () = read => {}
                () = write => {}
            }
        });
        let (reader, writer) = tokio::io::split(theirs);
        let client = builder.connect_io(reader, writer).await.unwrap();
        (server, Arc::new(client))
    }

    /// Records each request and notification of the client. Also responds to requests. Passes a response of the client
    /// to the test that waits for it.
    fn receive(&self, message: Value) {
        let id = message["id"].clone();
        let Some(method) = message["method"].as_str().map(str::to_owned) else {
            let asked = lock(&self.asked).remove(id.as_str().unwrap_or_default());
            if let Some(asked) = asked {
                asked.send(message).ok();
            }
            return;
        };
        lock(&self.received).push(message.clone());
        let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let error = |code: i32, message: String| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        match method.as_str() {
            "initialize" => self.send(result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": self.name, "version": "1" },
            }))),
            "tools/list" => self.send(match &*lock(&self.tools) {
                Ok(tools) => result(json!({ "tools": tools })),
                Err(text) => error(-32603, text.clone()),
            }),
            "tools/call" => match (self.answers)(&message["params"]) {
                Answer::Result(answer) => self.send(result(answer)),
                Answer::Error(code, text) => self.send(error(code, text)),
                Answer::Nothing(messages) => {
                    let token = &message["params"]["_meta"]["progressToken"];
                    for message in messages {
                        let text = message.to_string().replace("\"TOKEN\"", &token.to_string());
                        self.send(serde_json::from_str(&text).unwrap());
                    }
                }
                Answer::HangUp => drop(self.outbox.send(None)),
            },
            _ if !id.is_null() => self.send(error(-32601, format!("no {method} here"))),
            _ => {}
        }
        self.counts.send_modify(|counts| *counts.entry(method).or_default() += 1);
    }

    pub(crate) fn send(&self, message: Value) {
        self.outbox.send(Some(message)).ok();
    }

    pub(crate) fn notify(&self, method: &str) {
        self.send(json!({ "jsonrpc": "2.0", "method": method }));
    }

    /// Sends a request to the client, and waits for the response.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let (sender, answer) = oneshot::channel();
        lock(&self.asked).insert(method.to_owned(), sender);
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }));
        answer.await.unwrap()
    }

    /// Replaces the tools. Does not send a change notification.
    pub(crate) fn set_tools(&self, tools: impl IntoIterator<Item = Value>) {
        *lock(&self.tools) = Ok(tools.into_iter().collect());
    }

    /// Makes the server respond to `tools/list` with an error that has this message.
    pub(crate) fn refuse_to_list(&self, text: &str) {
        *lock(&self.tools) = Err(text.to_owned());
    }

    /// Returns the number of received requests and notifications with this method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.counts.borrow().get(method).copied().unwrap_or_default()
    }

    /// Returns the parameters of all received messages with this method.
    pub(crate) fn received(&self, method: &str) -> Vec<Value> {
        let received = lock(&self.received);
        let of_method = received.iter().filter(|message| message["method"] == method);
        of_method.map(|message| message["params"].clone()).collect()
    }

    /// Waits until the client has sent at least one message with this method.
    pub(crate) async fn heard(&self, method: &str) {
        let mut counts = self.counts.subscribe();
        counts.wait_for(|counts| counts.contains_key(method)).await.unwrap();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the definition of a tool that accepts any arguments.
pub(crate) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}"), "inputSchema": { "type": "object" } })
}

/// A context strategy that never shortens the conversation.
pub(crate) struct NoCompaction;

impl ContextStrategy for NoCompaction {
    fn should_compact(&self, _messages: &[Message], _token_count: usize) -> bool {
        false
    }

    async fn compact(&self, messages: Vec<Message>) -> Result<Vec<Message>, ContextError> {
        Ok(messages)
    }

    fn token_estimate(&self, _messages: &[Message]) -> usize {
        0
    }
}
