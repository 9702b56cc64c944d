//! A tool whose behaviour is controlled by its arguments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError, ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::polls::Waits;

/// A tool that does what its arguments say.
///
/// Each call creates a span `work {name}` and waits for `{"delay": ms}` and `{"polls": times}`. It then performs the
/// action in `do`. The actions are `fail`, `hang`, `say no` (a failed result), `retry` (a hint) and `panic`. Without an
/// action it returns `text`.
pub(crate) struct Act {
    name: String,
    effect: ToolEffect,
    gate: Gate,
}

/// A gate at which tool calls with the argument `gated` wait until the gate is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    reached: Arc<Notify>,
    open: Arc<AtomicBool>,
}

impl Gate {
    /// Waits until a call has reached the gate.
    pub(crate) async fn reached(&self) {
        self.reached.notified().await;
    }

    pub(crate) fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    async fn pass(&self) {
        if !self.open.load(Ordering::SeqCst) {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Act {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), effect: ToolEffect::AtMostOnce, gate: Gate::default() }
    }

    /// Creates a tool whose calls with the argument `gated` wait at `gate`.
    pub(crate) fn gated(name: &str, effect: ToolEffect, gate: &Gate) -> Self {
        Self { name: name.to_owned(), effect, gate: gate.clone() }
    }

    /// Creates a tool that the loop may start before the model's response is complete.
    pub(crate) fn pure(name: &str) -> Self {
        Self { effect: ToolEffect::Pure, ..Self::new(name) }
    }
}

/// Returns a registry with these tools.
pub(crate) fn registry(tools: impl IntoIterator<Item = Act>) -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    for tool in tools {
        registry.register_dyn(Arc::new(tool));
    }
    registry
}

impl ToolDyn for Act {
    fn name(&self) -> &str {
        &self.name
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.clone(),
            description: format!("does what {} does", self.name),
            input_schema: json!({"type": "object"}),
            title: None,
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        let text = input["text"].as_str().unwrap_or("ok").to_owned();
        Box::pin(async move {
            tracing::info_span!("work", otel.name = format!("work {text}")).in_scope(|| ());
            let delay = Duration::from_millis(input["delay"].as_u64().unwrap_or(0));
            if input["gated"].is_boolean() {
                self.gate.pass().await;
            }
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            Waits(input["polls"].as_u64().unwrap_or(0)).await;
            tracing::info_span!("more", otel.name = format!("more {text}")).in_scope(|| ());
            match input["do"].as_str() {
                Some("fail") => Err(ToolError::ExecutionFailed(text.into())),
                Some("say no") => Ok(ToolOutput::error(text)),
                Some("retry") => Err(ToolError::ModelRetry(text)),
                Some("panic") => panic!("a planned panic: {text}"),
                Some("hang") => std::future::pending().await,
                _ => Ok(ToolOutput::text(text)),
            }
        })
    }
}
