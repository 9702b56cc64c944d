//! Arguments that models write in a wrong form. They are corrected before anything else sees them.

use std::sync::{Arc, Mutex};

use neuron_loop::{Agent, Conversation};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    CompletionResponse, ContentBlock, HookAction, HookError, HookEvent, LoopError, Message,
    ModelCall, ModelLayer, ModelNext, ObservabilityHook, PermissionDecision, PermissionPolicy,
    Role, StopReason, TokenUsage, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::support::*;

/// What the parts of an agent saw of the arguments.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<(&'static str, Value)>>>);

impl Seen {
    fn note(&self, who: &'static str, input: &Value) {
        self.0.lock().unwrap().push((who, input.clone()));
    }
}

impl PermissionPolicy for Seen {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        self.note("policy", input);
        let is_secret = |path: &Value| path == "/etc/passwd";
        match input["paths"].as_array().is_some_and(|paths| paths.iter().any(is_secret)) {
            true => PermissionDecision::Deny("no".into()),
            false => PermissionDecision::Allow,
        }
    }
}

impl ObservabilityHook for Seen {
    async fn on_event(&self, event: HookEvent<'_>) -> Result<HookAction, HookError> {
        match event {
            HookEvent::PostLlmCall { response } => {
                response.message.tool_uses().for_each(|call| self.note("hook", call.input));
            }
            HookEvent::PreToolExecution { input, .. } => self.note("before", input),
            _ => {}
        }
        Ok(HookAction::Continue)
    }
}

/// A tool that reads paths.
struct Read(Seen);

impl ToolDyn for Read {
    fn name(&self) -> &str {
        "read"
    }

    fn definition(&self) -> ToolDefinition {
        let input_schema = json!({ "type": "object", "properties": {
            "paths": { "type": "array", "items": { "type": "string" } },
        } });
        ToolDefinition { input_schema, ..Act::definition_of("read") }
    }

    fn effect(&self) -> ToolEffect {
        ToolEffect::Pure
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        _: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        self.0.note("tool", &input);
        Box::pin(async { Ok(ToolOutput::text("ok")) })
    }
}

fn registry(seen: &Seen) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    tools.register_dyn(Arc::new(Read(seen.clone())));
    tools
}

fn call(paths: &str) -> ContentBlock {
    ContentBlock::ToolUse { id: "c".into(), name: "read".into(), input: json!({ "paths": paths }) }
}

/// A rule on arrays must see the array: a text that holds `/etc/passwd` must not pass it.
#[tokio::test]
async fn text_with_an_array_is_read_before_the_policy() {
    for (paths, runs) in [(r#"["a"]"#, true), (r#"["/etc/passwd"]"#, false)] {
        let seen = Seen::default();
        let replies = [Reply::message(vec![call(paths)]), Reply::text("done")];
        let provider = ScriptedProvider::new(replies);
        let builder = Agent::builder(provider.clone()).tools(registry(&seen));
        let agent = builder.permission_policy(seen.clone()).hook(seen.clone()).build();
        let mut chat = Conversation::new();
        agent.run(&mut chat, "go").await.unwrap();
        let input = json!({ "paths": serde_json::from_str::<Value>(paths).unwrap() });
        let seen = std::mem::take(&mut *seen.0.lock().unwrap());
        assert!(seen.iter().all(|(_, seen)| *seen == input), "{seen:?}");
        let who: Vec<_> = seen.iter().map(|(who, _)| *who).collect();
        assert!(who.contains(&"hook") && who.contains(&"policy"), "{who:?}");
        assert_eq!(who.contains(&"tool"), runs);
        // The model sees the call as it was made.
        let request = provider.requests().pop().unwrap();
        let sent = request.messages.iter().flat_map(Message::tool_uses).next().unwrap();
        assert_eq!(*sent.input, input);
    }
}

#[tokio::test]
async fn early_call_has_the_corrected_arguments() {
    let seen = Seen::default();
    let replies = [Reply::message(vec![call(r#"["a"]"#)]), Reply::text("done")];
    let agent = Agent::builder(ScriptedProvider::new(replies)).tools(registry(&seen));
    let agent =
        agent.permission_policy(seen.clone()).config(|config| config.early_tools = true).build();
    let mut chat = Conversation::new();
    let mut events = agent.run(&mut chat, "go").stream();
    while events.next().await.is_some() {}
    drop(events);
    let seen = std::mem::take(&mut *seen.0.lock().unwrap());
    assert!(seen.iter().all(|(_, input)| *input == json!({ "paths": ["a"] })), "{seen:?}");
    assert_eq!(seen.iter().filter(|(who, _)| *who == "tool").count(), 1);
}

/// A layer that answers the first call itself.
struct Canned;

impl ModelLayer for Canned {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        if call.request.messages.len() > 1 {
            return next.run(call).await;
        }
        Ok(CompletionResponse {
            id: String::new(),
            model: String::new(),
            message: Message { role: Role::Assistant, content: vec![self::call(r#"["a"]"#)] },
            usage: TokenUsage::default(),
            stop_reason: StopReason::ToolUse,
        })
    }
}

#[tokio::test]
async fn call_of_a_layer_is_corrected() {
    let seen = Seen::default();
    let agent = Agent::builder(ScriptedProvider::new([Reply::text("done")])).tools(registry(&seen));
    let agent = agent.permission_policy(seen.clone()).layer(Canned).build();
    agent.run(&mut Conversation::new(), "go").await.unwrap();
    let seen = std::mem::take(&mut *seen.0.lock().unwrap());
    assert_eq!(seen, ["policy", "tool"].map(|who| (who, json!({ "paths": ["a"] }))));
}

/// The arguments of a tool behind `call_tool` are corrected too.
#[tokio::test]
async fn arguments_of_a_deferred_tool_are_corrected() {
    let seen = Seen::default();
    let mut tools = registry(&seen);
    tools.defer_tools(ToolSearch::new()).unwrap();
    let search = ContentBlock::ToolUse {
        id: "s".into(),
        name: "search_tools".into(),
        input: json!({ "query": "read" }),
    };
    let call = ContentBlock::ToolUse {
        id: "c".into(),
        name: "call_tool".into(),
        input: json!({ "name": "read", "arguments": r#"{"paths": "[\"a\"]"}"# }),
    };
    let replies = [Reply::message(vec![search]), Reply::message(vec![call]), Reply::text("done")];
    let agent = Agent::builder(ScriptedProvider::new(replies)).tools(tools).build();
    agent.run(&mut Conversation::new(), "go").await.unwrap();
    let seen = std::mem::take(&mut *seen.0.lock().unwrap());
    assert_eq!(seen, [("tool", json!({ "paths": ["a"] }))]);
}
