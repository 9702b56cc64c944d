//! [`play`], which carries out a plan with the real providers, and checks every request.

use std::io;

use neuron_testing::Reply;
use neuron_types::{
    BoxedProvider, CompletionRequest, ContentBlock, ContentItem, Message, Provider, ProviderError,
    Role, SystemPrompt, ThinkingConfig, ToolDefinition, transcript,
};
use serde_json::{Value, json};

use super::generator::LONG_NAME;
use super::judge::{is_rejected, judge};
use super::plan::{Answer, Mark, Outcome, Part, Plan, Said, Timing, Turn};
use super::wires::{WIRES, Wire};
use crate::patterns;
use crate::vendor::Server;

/// The requests at the end of a conversation, one for each wire that accepts the conversation.
#[derive(Default)]
pub(crate) struct Played {
    /// Index of the wire that sent the last response. `None` if no wire has sent a response.
    pub(crate) from: Option<usize>,
    pub(crate) requests: Vec<Sent>,
}

/// A request that a server accepted.
pub(crate) struct Sent {
    /// Index of the wire.
    pub(crate) to: usize,
    /// Path of the request.
    pub(crate) path: String,
    /// Value of the header `anthropic-beta`.
    pub(crate) beta: Option<String>,
    pub(crate) body: Value,
}

/// Carries out a plan. At last, the conversation moves to every wire.
///
/// # Errors
///
/// Returns a description of the first failure, and the conversation as JSON.
pub(crate) async fn play(plan: &Plan) -> Result<Played, String> {
    let mut player = Player::start(plan).await.map_err(|error| error.to_string())?;
    let played = player.play(&plan.turns).await;
    played.map_err(|fault| {
        let messages = serde_json::to_string_pretty(&player.messages).unwrap_or_default();
        format!("{fault}\n\nthe conversation: {messages}")
    })
}

/// A wire with a server that runs.
struct Stage {
    wire: &'static Wire,
    server: Box<dyn Server>,
    provider: BoxedProvider,
    /// The last request that the conversation may only extend.
    before: Option<Before>,
}

/// An earlier request.
struct Before {
    model: &'static str,
    /// The conversation of the body.
    list: Vec<Value>,
}

struct Player {
    stages: Vec<Stage>,
    system: Option<SystemPrompt>,
    thinking: Option<ThinkingConfig>,
    tools: Vec<ToolDefinition>,
    messages: Vec<Message>,
    /// The wire that has paused its response, and the mark of the pause.
    paused: Option<(usize, Mark)>,
}

impl Player {
    async fn start(plan: &Plan) -> io::Result<Self> {
        let mut stages = Vec::with_capacity(WIRES.len());
        for wire in WIRES {
            let server = (wire.start)().await?;
            let provider = (wire.provider)(&server.url());
            stages.push(Stage { wire, server, provider, before: None });
        }
        let system = plan.system.map(|mark| SystemPrompt::Text(format!("Be brief. {mark}")));
        let thinking = plan.thinks.then_some(ThinkingConfig::Enabled { budget_tokens: 1024 });
        Ok(Self { stages, system, thinking, tools: tools()?, messages: Vec::new(), paused: None })
    }

    async fn play(&mut self, turns: &[Turn]) -> Result<Played, String> {
        let mut played = Played::default();
        for turn in turns {
            match turn {
                Turn::User(said) => self.user(said.iter().map(block).collect()),
                Turn::System(mark) => {
                    self.messages.push(Message::system(format!("From now on {mark}.")));
                }
                Turn::Cut(mark) => self.cut(*mark),
                Turn::Answer(answer) => {
                    if self.answer(answer).await? {
                        played.from = Some(answer.wire);
                    }
                }
            }
            self.store()?;
        }
        for place in 0..self.stages.len() {
            self.open();
            let sent = self.ask(place, 0, false, Reply::text("Fine.")).await?;
            played.requests.extend(sent.map(|(sent, _)| sent));
        }
        Ok(played)
    }

    fn user(&mut self, content: Vec<ContentBlock>) {
        self.paused = None;
        self.messages.push(Message { role: Role::User, content });
    }

    /// Replaces all messages by a summary, as a context strategy does.
    fn cut(&mut self, mark: Mark) {
        self.messages.clear();
        self.user(vec![ContentBlock::Text(format!("The conversation so far: {mark}"))]);
        self.forget();
    }

    /// Allows requests that do not extend the earlier requests.
    fn forget(&mut self) {
        self.stages.iter_mut().for_each(|stage| stage.before = None);
    }

    /// Makes the conversation end with a message of the user, unless a response is paused. A conversation must not be
    /// empty.
    fn open(&mut self) {
        let mut said = self.messages.clone();
        said.retain(|message| !is_empty(message));
        if !transcript::is_open(&said, self.paused.is_some()) {
            self.user(vec![ContentBlock::Text("go on".into())]);
        }
    }

    /// Stores the conversation as JSON and loads it.
    fn store(&mut self) -> Result<(), String> {
        let stored = serde_json::to_string(&self.messages).map_err(|error| error.to_string())?;
        let loaded: Vec<Message> =
            serde_json::from_str(&stored).map_err(|error| error.to_string())?;
        if loaded != self.messages {
            return Err("the loaded conversation differs from the stored one".into());
        }
        self.messages = loaded;
        transcript::validate(&self.messages).map_err(|violation| violation.to_string())
    }

    /// Plays a response. Returns `false` if the wire does not accept the conversation.
    async fn answer(&mut self, answer: &Answer) -> Result<bool, String> {
        self.open();
        // After a message of the system, the request leaves out the call before the pause, so the server cannot continue
        // it.
        let is_continued =
            self.messages.last().is_some_and(|message| message.role == Role::Assistant);
        let reply = reply(answer, self.paused.filter(|_| is_continued));
        let Some((_, message)) =
            self.ask(answer.wire, answer.model, answer.is_streamed, reply).await?
        else {
            return Ok(false);
        };
        transcript::check_answer(&message).map_err(|error| error.to_string())?;
        for part in &answer.parts {
            let Part::Call { name, .. } = part else { continue };
            let is_tool = self.tools.iter().any(|tool| tool.name == *name);
            if is_tool && !message.tool_uses().any(|call| call.name == *name) {
                return Err(format!("the call of `{name}` has another name: {message:?}"));
            }
        }
        self.paused = answer.parts.iter().rev().find_map(|part| match part {
            Part::Pause(mark) => Some((answer.wire, *mark)),
            _ => None,
        });
        let results: Vec<ContentBlock> = message
            .tool_uses()
            .enumerate()
            .map(|(index, call)| result(call.id, answer.results.get(index)))
            .collect();
        self.messages.push(message);
        if !results.is_empty() {
            self.results(results, answer.timing);
        }
        Ok(true)
    }

    /// Adds the results of the last response.
    fn results(&mut self, mut results: Vec<ContentBlock>, timing: Timing) {
        let text = |mark: Mark| ContentBlock::Text(format!("and {mark}"));
        match timing {
            Timing::Now => self.user(results),
            Timing::WithText(mark) => {
                results.push(text(mark));
                self.user(results);
            }
            Timing::Late(mark) => {
                self.user(vec![text(mark)]);
                self.user(results);
            }
            Timing::Never => {}
        }
        self.paused = None;
        self.messages = transcript::repair(std::mem::take(&mut self.messages));
    }

    /// Sends the conversation to a wire, and checks the request. Returns the request and the response. Returns `None`
    /// if the provider rejects the conversation as documented.
    async fn ask(
        &mut self,
        place: usize,
        model: usize,
        is_streamed: bool,
        reply: Reply,
    ) -> Result<Option<(Sent, Message)>, String> {
        let stage = &mut self.stages[place];
        let wire = stage.wire;
        let model = wire.models.get(model).copied().unwrap_or_default();
        let request = CompletionRequest {
            model: model.to_owned(),
            messages: self.messages.clone(),
            system: self.system.clone(),
            tools: self.tools.clone(),
            max_tokens: Some(4096),
            thinking: self.thinking,
            ..CompletionRequest::default()
        };
        let before = stage.server.requests().len();
        let fault = |what: String| format!("{} ({model}): {what}", wire.name);
        let must_reject = is_rejected(wire, &self.messages);
        if !must_reject {
            stage.server.push(reply.into());
        }
        let response = if is_streamed {
            match stage.provider.complete_stream_ref(request.view()).await {
                Ok(handle) => handle.into_response().await,
                Err(error) => Err(error),
            }
        } else {
            stage.provider.complete_ref(request.view()).await
        };
        let sent = stage.server.requests().into_iter().nth(before);
        let (response, sent) = match (response, sent, must_reject) {
            (Err(ProviderError::InvalidRequest(_)), None, true) => return Ok(None),
            (_, _, true) => return Err(fault("accepts a file that it must reject".into())),
            (Err(error), sent, _) => {
                let body = sent.and_then(|sent| sent.json).unwrap_or_default();
                return Err(fault(format!("{error}\n\nthe body: {body:#}")));
            }
            (Ok(_), None, _) => return Err(fault("a response without a request".into())),
            (Ok(response), Some(sent), _) => (response, sent),
        };
        let body = sent.json.clone().unwrap_or_default();
        let with_body = |what: String| fault(format!("{what}\n\nthe body: {body:#}"));
        judge(wire, model, &self.messages, &body).map_err(with_body)?;
        patterns::check(&sent.path, &body).map_err(with_body)?;
        let list = body.get(wire.list).and_then(Value::as_array).cloned().unwrap_or_default();
        if let Some(before) = stage.before.as_ref().filter(|before| before.model == model)
            && !extends(&list, &before.list)
        {
            let what = format!("an earlier message changed: before {:#?}", before.list);
            return Err(with_body(what));
        }
        // A paused response may be continued in the same entry of the list.
        let last = self.messages.iter().rfind(|message| !is_empty(message));
        if last.is_some_and(|message| message.role != Role::Assistant) {
            stage.before = Some(Before { model, list });
        }
        let beta = sent.header("anthropic-beta").map(str::to_owned);
        Ok(Some((Sent { to: place, path: sent.path, beta, body }, response.message)))
    }
}

/// Returns `true` if a list has all messages of an earlier list. The last message may have got more content, because
/// Bedrock treats neighbouring messages of the user as one message.
fn extends(list: &[Value], before: &[Value]) -> bool {
    let Some((last, others)) = before.split_last() else { return true };
    let mut begun = list.get(others.len()).cloned().unwrap_or_default();
    let content = |message: &Value| message.get("content").and_then(Value::as_array).map(Vec::len);
    if let (Some(length), Some(Value::Array(items))) = (content(last), begun.get_mut("content")) {
        items.truncate(length);
    }
    list.starts_with(others) && begun == *last
}

/// Returns `true` if a message has no content, or only empty texts.
fn is_empty(message: &Message) -> bool {
    let is_empty =
        |block: &ContentBlock| block.is_mark() || block.as_text().is_some_and(str::is_empty);
    message.content.iter().all(is_empty)
}

fn block(said: &Said) -> ContentBlock {
    match said {
        Said::Text(text) => ContentBlock::Text(text.to_string()),
        Said::Image(source) => ContentBlock::Image { source: source.clone() },
        Said::Document(source) => ContentBlock::Document { source: source.clone() },
    }
}

fn tools() -> serde_json::Result<Vec<ToolDefinition>> {
    let tool = |name: &str, schema: Value| json!({"name": name, "description": "Looks around.", "input_schema": schema});
    let object = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    // Most vendors reject these names and schemas.
    let alternatives = json!({"oneOf": [object, {"type": "string", "const": "all"}]});
    let parts = json!({"$ref": "#/$defs/A", "allOf": [object], "$defs": {"A": object}});
    serde_json::from_value(json!([
        tool("look", object.clone()),
        tool("find_all", json!({})),
        tool("fs.read", alternatives),
        tool("ns/tool", parts),
        tool(LONG_NAME, json!({"anyOf": [object]})),
    ]))
}

/// Returns the reply of the server for a planned response.
fn reply(answer: &Answer, paused: Option<(usize, Mark)>) -> Reply {
    let wire = &WIRES[answer.wire];
    let mut blocks = Vec::new();
    if let (Some((_, ended)), Some((_, mark))) =
        (wire.pause, paused.filter(|(place, _)| *place == answer.wire))
    {
        blocks.extend(ended(mark));
    }
    let mut calls = 0;
    for part in &answer.parts {
        match part {
            Part::Text(text) => blocks.push(ContentBlock::Text(text.to_string())),
            Part::Thinking(mark) => blocks.push(ContentBlock::Thinking {
                thinking: format!("thinks {}", mark.0),
                signature: format!("signature-secret-{}-", mark.0),
            }),
            Part::Call { mark, id, name, args } => {
                blocks.push(ContentBlock::ToolUse {
                    id: id.text(*mark, calls),
                    name: sent_name(wire, name).to_owned(),
                    input: args.json(*mark),
                });
                calls += 1;
            }
            Part::Own { mark, kind } => {
                blocks.extend(wire.own.get(*kind).map(|make| make(*mark)).unwrap_or_default());
            }
            Part::Pause(mark) => {
                blocks.extend(wire.pause.map(|(begun, _)| begun(*mark)).unwrap_or_default());
            }
        }
    }
    let reply = Reply::message(blocks).chunk_chars(7);
    match &answer.stop {
        Some(stop) => reply.stop_reason(stop.clone()),
        None => reply,
    }
}

/// Returns the name of a tool in the requests of a wire.
fn sent_name<'n>(wire: &Wire, name: &'n str) -> &'n str {
    match (wire.vendor, name) {
        ("ollama", name) => name,
        ("gemini", "fs.read") | ("anthropic", LONG_NAME) => name,
        (_, "fs.read") => "fs_read",
        (_, "ns/tool") => "ns_tool",
        (_, LONG_NAME) => LONG_NAME.get(..64).unwrap_or_default(),
        (_, name) => name,
    }
}

fn result(id: &str, outcome: Option<&Outcome>) -> ContentBlock {
    let done = || vec![ContentItem::Text("done".into())];
    ContentBlock::ToolResult {
        tool_use_id: id.to_owned(),
        content: outcome.map_or_else(done, |outcome| outcome.content.clone()),
        is_error: outcome.is_some_and(|outcome| outcome.is_error),
    }
}
