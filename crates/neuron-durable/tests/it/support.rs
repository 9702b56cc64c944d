//! Tools and helpers that the tests share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuron_context::SlidingWindowStrategy;
use neuron_loop::{Agent, AgentBuilder, Conversation, LoopConfig, Run, Start};
use neuron_tool::ToolRegistry;
use neuron_types::{
    Message, Provider, ToolAnnotations, ToolContext, ToolDefinition, ToolDyn, ToolEffect,
    ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

/// A shared list of what happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// A tool that logs each call. It waits `delay` milliseconds, and then behaves as the call's arguments say:
///
/// - `fail`: returns an error. With `fail_times`, only the first `fail_times` calls fail.
/// - `retry`: asks the model to retry.
/// - `hang`: never returns.
/// - `panic`: panics.
/// - `text`: returns this text.
#[derive(Clone)]
pub(crate) struct Act {
    pub(crate) name: &'static str,
    pub(crate) effect: ToolEffect,
    pub(crate) annotations: Option<ToolAnnotations>,
    pub(crate) log: Log,
}

impl Act {
    pub(crate) fn new(name: &'static str, log: &Log) -> Self {
        Self { name, effect: ToolEffect::AtMostOnce, annotations: None, log: log.clone() }
    }
}

impl ToolDyn for Act {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: String::new(),
            input_schema: json!({ "type": "object", "properties": { "text": {}, "path": {} } }),
            output_schema: None,
            annotations: self.annotations,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.log.push(format!("start {} {}", self.name, ctx.call_id));
            let runs = self.log.lines().iter().filter(|line| line.starts_with("start")).count();
            if let Some(delay) = input["delay"].as_u64() {
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            let fails = input["fail_times"].as_u64().is_none_or(|times| runs as u64 <= times);
            let result = if let Some(text) = input["fail"].as_str().filter(|_| fails) {
                Err(ToolError::ExecutionFailed(text.into()))
            } else if let Some(hint) = input["retry"].as_str() {
                Err(ToolError::ModelRetry(hint.into()))
            } else if !input["hang"].is_null() {
                std::future::pending().await
            } else if !input["panic"].is_null() {
                panic!("the tool panics")
            } else {
                Ok(ToolOutput::text(input["text"].as_str().unwrap_or("ok")))
            };
            self.log.push(format!("end {} {} {}", self.name, ctx.call_id, ctx.idempotency_key));
            result
        })
    }
}

pub(crate) fn registry(tools: impl IntoIterator<Item = Act>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    tools.into_iter().for_each(|tool| registry.register_dyn(Arc::new(tool)));
    registry
}

pub(crate) fn window() -> SlidingWindowStrategy {
    SlidingWindowStrategy::new(100, 1_000_000)
}

/// Creates the builder of an agent with the settings of `LoopConfig::default`, instead of the defaults for production.
pub(crate) fn bare(provider: impl Provider + 'static) -> AgentBuilder {
    Agent::builder(provider).context(window()).config(|config| *config = LoopConfig::default())
}

/// An agent and its conversation.
pub(crate) struct Chat {
    agent: Agent,
    pub(crate) conversation: Conversation,
}

impl Chat {
    pub(crate) fn new(builder: AgentBuilder) -> Self {
        Self { agent: builder.build(), conversation: Conversation::new() }
    }

    pub(crate) fn run<'a>(&'a mut self, start: impl Into<Start>, ctx: &'a ToolContext) -> Run<'a> {
        self.agent.run(&mut self.conversation, start).context(ctx)
    }

    pub(crate) fn messages(&self) -> &[Message] {
        self.conversation.messages()
    }
}
