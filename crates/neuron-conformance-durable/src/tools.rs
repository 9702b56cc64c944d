//! The tools of the scenarios, and the scopes of their calls.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use neuron_tool::ToolRegistry;
use neuron_types::{
    HookAction, HookError, HookEvent, Money, ObservabilityHook, Operation, OperationKind,
    OperationScope, TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::boundary::boundary;
use crate::effects::{EffectKind, EffectLog};
use crate::scenario::Kind;
use crate::team;

/// Size in bytes of a tool result that is too long for a journal record, 3 MiB.
pub(crate) const HUGE: usize = 3 << 20;

/// All tools, with their effects.
const TOOLS: [(&str, ToolEffect); 15] = [
    ("look", ToolEffect::Pure),
    ("book", ToolEffect::Idempotent),
    ("pay", ToolEffect::AtMostOnce),
    ("order", ToolEffect::Idempotent),
    ("wire", ToolEffect::AtMostOnce),
    ("research", ToolEffect::Idempotent),
    ("break", ToolEffect::AtMostOnce),
    ("steal", ToolEffect::AtMostOnce),
    ("ponder", ToolEffect::Pure),
    ("flicker", ToolEffect::Idempotent),
    ("snap", ToolEffect::AtMostOnce),
    ("read", ToolEffect::AtMostOnce),
    ("fetch", ToolEffect::Pure),
    (SETTLE, ToolEffect::AtMostOnce),
    (PAUSE, ToolEffect::Pure),
];

/// Name of the only tool with [effect keys](neuron_types::Tool::effect_key). Only two scenarios have this tool. The tools
/// of all other scenarios must not change, because stored histories contain them.
const SETTLE: &str = "settle";

/// Name of a tool that waits until the suite has sent certain signals. These signals must arrive before the agent waits
/// for them.
pub(crate) const PAUSE: &str = "pause";

/// Returns the declared effect of a tool, which decides if an interrupted call may run again. A nested agent is pure,
/// because its own steps are journaled.
pub(crate) fn effect_of(tool: &str) -> ToolEffect {
    if team::Member::ALL.iter().any(|agent| agent.name() == tool) {
        return ToolEffect::Pure;
    }
    let found = TOOLS.iter().find(|(name, _)| *name == tool);
    found.map_or(ToolEffect::AtMostOnce, |(_, effect)| *effect)
}

/// Returns the tools of a scenario.
pub(crate) fn registry(kind: Kind, log: &EffectLog) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    // The tool `read` returns more than a journal accepts.
    tools.set_max_output_characters(usize::MAX);
    let is_there =
        |(name, _): &_| *name != SETTLE || matches!(kind, Kind::EffectKeys | Kind::TeamSettles);
    for (name, effect) in TOOLS.into_iter().filter(is_there) {
        tools.register_dyn(Arc::new(ScenarioTool { name, effect, log: log.clone() }));
    }
    if matches!(kind, Kind::Team | Kind::TeamAsks | Kind::TeamSettles) {
        team::add_to(&mut tools, kind, log);
    }
    tools
}

/// A tool of a scenario. It logs each call.
struct ScenarioTool {
    name: &'static str,
    effect: ToolEffect,
    log: EffectLog,
}

impl ScenarioTool {
    /// Executes the call, and returns the scripted result of the tool.
    async fn work(&self, input: &Value, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let number = |name: &str| input.get(name).and_then(Value::as_u64);
        match self.name {
            "order" if number("quantity") == Some(0) => {
                Err(ToolError::ModelRetry("order one at least".into()))
            }
            "break" => Err(ToolError::ExecutionFailed("it broke".into())),
            "flicker" | "snap" if self.log.starts_of(self.name) == 1 => {
                Err(ToolError::ExecutionFailed("it failed at first".into()))
            }
            "research" => {
                let (input_tokens, output_tokens) = (1000, 7);
                // The engine must journal the cost too.
                let cost = Some(Money::from_dollars(3).into());
                let usage = TokenUsage { input_tokens, output_tokens, cost, ..Default::default() };
                ctx.usage.add(&usage);
                Ok(ToolOutput::text("they run on time"))
            }
            "ponder" => {
                tokio::time::sleep(Duration::from_millis(number("millis").unwrap_or(0))).await;
                Ok(ToolOutput::text(format!("pondered: {input}")))
            }
            "read" => Ok(ToolOutput::text("y".repeat(HUGE))),
            "fetch" => {
                let page = number("page").unwrap_or(0);
                Ok(ToolOutput::text(format!("page {page:04} ").repeat(410)))
            }
            PAUSE => {
                let sent = EffectKind::SignalSent { signal: "twice".into(), number: 1 };
                match self.log.reached(|kind| *kind == sent).await {
                    true => Ok(ToolOutput::text("paused")),
                    false => Err(ToolError::ExecutionFailed("the signals are not sent".into())),
                }
            }
            name => Ok(ToolOutput::text(format!("{name}: {input}"))),
        }
    }
}

impl ToolDyn for ScenarioTool {
    fn name(&self) -> &str {
        self.name
    }

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: self.name.into(),
            title: None,
            description: format!("The tool {} of a scenario", self.name),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            annotations: None,
            cache_control: None,
        }
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn effect_key(&self, input: &Value) -> Option<String> {
        Some(format!("invoice {}", input.get("invoice")?))
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let (tool, call_id) = (self.name.to_owned(), ctx.call_id.clone());
            let at = |moment: &str| boundary(&format!("tool: {call_id} of {tool} {moment}"));
            let inside = || INSIDE.with_borrow(Clone::clone);
            let polled = || EffectKind::ToolPolled { call_id: call_id.clone(), inside: inside() };
            at("is called");
            self.log.append(EffectKind::ToolStarted {
                tool: tool.clone(),
                call_id: call_id.clone(),
                key: self.effect_key(&input).unwrap_or_else(|| ctx.idempotency_key.clone()),
            });
            at("has begun");
            self.log.append(polled());
            let result = self.work(&input, ctx).await;
            self.log.append(polled());
            let ended = EffectKind::ToolEnded { tool: tool.clone(), call_id: call_id.clone() };
            self.log.append(ended);
            at("returns");
            result
        })
    }
}

thread_local! {
    /// Ids of the tool calls whose [scopes](neuron_types::OperationScope) this thread has entered, outermost first. The
    /// loop enters the scope of a call for each poll of the call.
    static INSIDE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A hook that opens a scope around each tool call, and logs the first entry of each scope.
pub(crate) struct CallScopes(pub(crate) EffectLog);

impl ObservabilityHook for CallScopes {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        let OperationKind::ToolCall { call, .. } = operation.kind else { return None };
        let (call_id, log) = (call.id.clone(), self.0.clone());
        Some(Box::new(Scope { call_id, log, is_entered: false }))
    }
}

/// A scope that the agent loop enters around each poll of one tool call. It logs its first entry.
struct Scope {
    call_id: String,
    log: EffectLog,
    is_entered: bool,
}

impl OperationScope for Scope {
    fn around(&mut self, poll: &mut dyn FnMut()) {
        if !std::mem::replace(&mut self.is_entered, true) {
            self.log.append(EffectKind::ScopeEntered { call_id: self.call_id.clone() });
        }
        INSIDE.with_borrow_mut(|inside| inside.push(self.call_id.clone()));
        let _left = Left;
        poll();
    }
}

/// A guard that removes the innermost call from [`INSIDE`] when it is dropped, even if the poll panics.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.pop());
    }
}
