//! A scripted model, tools with effects, and the log of all effects.
//!
//! The first line of the user's message is the script of the model. It has one word per turn, separated by spaces:
//!
//! - `tool:number` or `tool:number:milliseconds` is a tool call. Several calls in one turn are separated by commas.
//! - `helper:number` is a call of a nested agent with its own script.
//! - `answer:bytes` ends the run with a response of this length.
//! - `panic` makes the model panic.
//!
//! After the last word the model responds `done`.
//!
//! The second line of the message has steps that the agent executes before its loop, for example `sleep:10`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_tool::ToolRegistry;
use neuron_types::{
    CompletionRequest, CompletionResponse, ContentBlock, Message, Provider, ProviderError, Role,
    StopReason, StreamEvent, StreamHandle, TokenUsage, ToolContext, ToolDefinition, ToolDyn,
    ToolEffect, ToolError, ToolOutput, WasmBoxedFuture, message_events,
};
use serde_json::{Value, json};

/// Scripts of the nested agent `helper`, in the format of this module. The call `helper:0` runs the first script, and
/// `helper:1` runs the second script.
const HELPER: [&str; 2] = ["pay:7 wire:1 pay:7", "again:1:5000"];

/// The file in which all processes log their effects.
#[derive(Clone, Debug)]
pub(crate) struct Effects(pub(crate) PathBuf);

impl Effects {
    pub(crate) fn write(&self, line: &str) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&self.0).unwrap();
        // A single write, so that lines of concurrent tools do not mix.
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Returns the file to which a process writes its heartbeats.
    pub(crate) fn beats(&self, process: u32) -> PathBuf {
        self.0.with_extension(process.to_string())
    }

    pub(crate) fn read(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// Settings of the scripted model that are not part of the script in the user's message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moods {
    /// Delay of each response in milliseconds.
    pub(crate) millis: u64,
}

pub(crate) struct Model {
    pub(crate) effects: Effects,
    pub(crate) moods: Moods,
}

impl Model {
    fn answer(request: &CompletionRequest) -> CompletionResponse {
        let script = request.messages.iter().find(|m| m.role == Role::User).unwrap().text();
        let script = script.lines().next().unwrap_or_default().to_owned();
        let turns: Vec<&str> = script.split_whitespace().collect();
        let turn = request.messages.iter().filter(|m| m.role == Role::Assistant).count();
        let (content, stop_reason) = match turns.get(turn).copied() {
            None => (vec![ContentBlock::Text("done".into())], StopReason::EndTurn),
            Some("panic") => panic!("as told"),
            Some(long) if long.starts_with("answer:") => {
                let length: usize = long["answer:".len()..].parse().unwrap();
                (vec![ContentBlock::Text("x".repeat(length))], StopReason::EndTurn)
            }
            Some(calls) => {
                let call = |(index, call): (usize, &str)| {
                    let mut parts = call.split(':');
                    let name = parts.next().unwrap().to_owned();
                    let mut number = || parts.next().map_or(0, |part| part.parse::<u64>().unwrap());
                    let input = match &*name {
                        "helper" => json!({"prompt": HELPER[number() as usize]}),
                        _ => json!({"n": number(), "ms": number()}),
                    };
                    ContentBlock::ToolUse { id: format!("call-{turn}-{index}"), name, input }
                };
                let said = ContentBlock::Text(format!("turn {turn}"));
                let calls = calls.split(',').enumerate().map(call);
                (std::iter::once(said).chain(calls).collect(), StopReason::ToolUse)
            }
        };
        let usage =
            TokenUsage { input_tokens: 10 * (turn + 1), output_tokens: 5, ..Default::default() };
        CompletionResponse {
            id: format!("answer-{turn}"),
            model: "script".into(),
            message: Message { role: Role::Assistant, content },
            usage,
            stop_reason,
        }
    }
}

impl Provider for Model {
    async fn complete(
        &self,
        request: CompletionRequest,
    ) -> Result<CompletionResponse, ProviderError> {
        let turn = request.messages.iter().filter(|m| m.role == Role::Assistant).count();
        self.effects.write(&format!("model {turn}"));
        tokio::time::sleep(Duration::from_millis(self.moods.millis)).await;
        Ok(Self::answer(&request))
    }

    async fn complete_stream(
        &self,
        request: CompletionRequest,
    ) -> Result<StreamHandle, ProviderError> {
        let response = self.complete(request).await?;
        let mut events: Vec<_> = message_events(&response.message).collect();
        events.push(StreamEvent::ResponseComplete(Box::new(response)));
        let (sender, receiver) = tokio::sync::mpsc::channel(events.len());
        for event in events {
            sender.try_send(event).unwrap();
        }
        Ok(StreamHandle { receiver: receiver.into() })
    }
}

struct Effectful {
    name: &'static str,
    effect: ToolEffect,
    effects: Effects,
}

impl ToolDyn for Effectful {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            description: "Writes to the log".into(),
            input_schema: json!({"type": "object"}),
            title: None,
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        (self.name == "pay").then(|| input["n"].to_string())
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let n = input["n"].as_u64().unwrap();
            let key = &ctx.idempotency_key;
            self.effects.write(&format!("begin {} {n} {key}", self.name));
            ctx.usage.add(&TokenUsage { input_tokens: 1000, ..Default::default() });
            let wait = tokio::time::sleep(Duration::from_millis(input["ms"].as_u64().unwrap()));
            if ctx.cancellation_token.run_until_cancelled(wait).await.is_none() {
                self.effects.write(&format!("cancelled {} {n}", self.name));
                return Err(ToolError::Cancelled);
            }
            self.effects.write(&format!("end {} {n}", self.name));
            match self.name {
                "fussy" => Err(ToolError::ModelRetry(format!("not {n}"))),
                // The second attempt succeeds, in any process.
                "flaky" if Effects::read(&self.effects.0).len() < 4 => {
                    Err(ToolError::ExecutionFailed("not yet".into()))
                }
                "huge" => Ok(ToolOutput::text("x".repeat(3 << 20))),
                _ => {
                    let mut names: Vec<&String> = ctx.environment.keys().collect();
                    names.sort();
                    Ok(ToolOutput::text(format!("{} {n} with {names:?}", self.name)))
                }
            }
        })
    }
}

/// Returns the tools of the tests, which include the nested agent `helper`. The parameter `helper` is the system prompt
/// of that agent.
pub(crate) fn tools(effects: &Effects, helper: &str) -> Arc<ToolRegistry> {
    let mut tools = ToolRegistry::new();
    // The tool `huge` returns more than a journal accepts.
    tools.set_max_output_characters(usize::MAX);
    for (name, effect) in [
        ("once", ToolEffect::AtMostOnce),
        ("again", ToolEffect::Idempotent),
        ("pure", ToolEffect::Pure),
        ("fussy", ToolEffect::Idempotent),
        ("huge", ToolEffect::Idempotent),
        ("flaky", ToolEffect::Idempotent),
        ("wire", ToolEffect::AtMostOnce),
        ("pay", ToolEffect::AtMostOnce),
    ] {
        tools.register_dyn(Arc::new(Effectful { name, effect, effects: effects.clone() }));
    }
    let config = SubAgentConfig {
        description: "Helps".into(),
        tools: vec!["pay".into(), "wire".into(), "again".into()],
        system_prompt: helper.into(),
        effect: ToolEffect::Idempotent,
        ..SubAgentConfig::default()
    };
    let mut agents = SubAgentManager::new();
    agents.register("helper", config);
    let model = Model { effects: effects.clone(), moods: Moods::default() };
    agents.add_to(&mut tools, model).unwrap();
    Arc::new(tools)
}
