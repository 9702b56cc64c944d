//! A server that answers by itself: what tools it has, the test says, and may say otherwise at any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use neuron_mcp::{McpClient, McpClientBuilder};
use neuron_types::{ContextError, ContextStrategy, Message};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot, watch};

/// What a call gets.
pub(crate) enum Answer {
    Result(Value),
    Error(i32, String),
    /// Nothing, but these messages. `TOKEN` in them stands for the progress token of the call.
    Nothing(Vec<Value>),
    /// The connection is lost.
    HangUp,
}

impl Answer {
    pub(crate) fn text(text: &str) -> Self {
        Self::Result(json!({ "content": [{ "type": "text", "text": text }] }))
    }
}

type Answers = Box<dyn Fn(&Value) -> Answer + Send + Sync>;

/// The server's side of a connection.
pub(crate) struct FakeServer {
    name: String,
    tools: Mutex<Result<Vec<Value>, String>>,
    answers: Answers,
    /// The messages of the client, how many of each method.
    counts: watch::Sender<HashMap<String, usize>>,
    received: Mutex<Vec<Value>>,
    outbox: mpsc::UnboundedSender<Option<Value>>,
    /// Who waits for the client's answers.
    asked: Mutex<HashMap<String, oneshot::Sender<Value>>>,
}

impl FakeServer {
    /// A server and its client.
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
        // Either end ends both, and with them the connection.
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

    /// Asks the client, and waits for what it says.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let (sender, answer) = oneshot::channel();
        lock(&self.asked).insert(method.to_owned(), sender);
        self.send(json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }));
        answer.await.unwrap()
    }

    /// Gives it other tools, without a word.
    pub(crate) fn set_tools(&self, tools: impl IntoIterator<Item = Value>) {
        *lock(&self.tools) = Ok(tools.into_iter().collect());
    }

    /// Lets it refuse to list its tools.
    pub(crate) fn refuse_to_list(&self, text: &str) {
        *lock(&self.tools) = Err(text.to_owned());
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.counts.borrow().get(method).copied().unwrap_or_default()
    }

    /// The parameters of all messages of a method.
    pub(crate) fn received(&self, method: &str) -> Vec<Value> {
        let received = lock(&self.received);
        let of_method = received.iter().filter(|message| message["method"] == method);
        of_method.map(|message| message["params"].clone()).collect()
    }

    /// Waits until the client has sent a message of this method.
    pub(crate) async fn heard(&self, method: &str) {
        let mut counts = self.counts.subscribe();
        counts.wait_for(|counts| counts.contains_key(method)).await.unwrap();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tool that takes anything.
pub(crate) fn tool(name: &str) -> Value {
    json!({ "name": name, "description": format!("Does {name}"), "inputSchema": { "type": "object" } })
}

/// The context strategy of an agent with few messages.
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
