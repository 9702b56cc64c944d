//! Tests that check that content is exported only if the application enables it, and then only in the defined places.

use std::fmt;
use std::sync::{Arc, Mutex};

use neuron_loop::{AgentBuilder, ToolErrorPolicy};
use neuron_otel::{ContentCapture, ContentKind, OtelHook, SemanticConventions};
use neuron_subagent::{SubAgentConfig, SubAgentManager};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_types::{
    ApprovalDecisions, HookAction, HookError, HookEvent, LoopError, ObservabilityHook,
    PermissionDecision, PermissionPolicy, ProviderError, SystemPrompt, ToolContext,
};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::support::agents::{Chat, EndsAt, MODES, WAYS, bare, hook, looks, run, scout_of};
use crate::support::memory::{Memory, attribute};
use crate::support::tools::{Act, registry};

/// Text that every piece of content contains.
const SECRET: &str = "SENTINEL";

fn secret(what: &str) -> String {
    format!("{SECRET}-{what}")
}

/// Returns all exported spans as text.
fn exported(memory: &Memory) -> String {
    let spans = memory.spans().into_iter().filter(|span| {
        // The spans of the test's own tool are excluded.
        !span.name.starts_with("work") && !span.name.starts_with("more")
    });
    format!("{:?}", spans.collect::<Vec<_>>())
}

#[track_caller]
fn check_silent(memory: &Memory, at: &str) {
    let spans = exported(memory);
    assert!(spans.contains("invoke_agent"), "{at}: something is exported");
    for text in [&spans, &memory.all_measured()] {
        if let Some(found) = text.find(SECRET) {
            let from = found.saturating_sub(300);
            panic!("{at}: {}", &text[from..text.len().min(found + 60)]);
        }
    }
    memory.check_closed();
}

/// Returns the model's responses for several runs, each with a name. Every text contains a secret.
fn scripts() -> Vec<(&'static str, Vec<Reply>)> {
    let call = |deed: &str| {
        looks([json!({"text": secret("tool-result"), "do": deed, "other": secret("argument")})])
            .with_text(secret("text-before-call"))
            .thinking(secret("thinking"), secret("signature"))
    };
    let done = || Reply::text(secret("answer"));
    let fails = |error: ProviderError| vec![call("give"), Reply::error(error)];
    vec![
        ("an answer", vec![call("give"), done()]),
        ("a tool that fails", vec![call("fail"), done()]),
        ("a result that is an error", vec![call("say no"), done()]),
        ("a hint", vec![call("retry"), done()]),
        ("a tool that panics", vec![call("panic"), done()]),
        (
            "a vendor that quotes the request",
            fails(ProviderError::InvalidRequest(secret("what-was-sent"))),
        ),
        ("an error of another kind", fails(ProviderError::Other(secret("other").into()))),
        ("a stream's error", fails(ProviderError::StreamError(secret("stream")))),
        (
            "a stream that breaks",
            vec![done().fail_after(1, ProviderError::StreamError(secret("broken")))],
        ),
        ("a stream that ends early", vec![done().end_early_after(1)]),
        (
            "arguments that are no JSON",
            vec![
                Reply::tool_call(
                    "c0",
                    "look",
                    neuron_types::ToolCall::invalid_json_input(secret("no-json")),
                ),
                done(),
            ],
        ),
    ]
}

fn agent(hook: OtelHook, replies: Vec<Reply>, policy: ToolErrorPolicy) -> AgentBuilder {
    scout_of(ScriptedProvider::new(replies))
        .system_prompt(SystemPrompt::from(secret("system")).and(secret("persistent")))
        .config(|config| config.tool_errors = policy)
        .hook(hook)
}

#[tokio::test]
async fn content_is_not_exported_by_default() {
    for conventions in MODES {
        for policy in [ToolErrorPolicy::EndRun, ToolErrorPolicy::ReturnToModel] {
            for way in WAYS {
                for (script, replies) in scripts() {
                    let memory = Memory::new();
                    let hook = hook(&memory).with_conventions(conventions);
                    let mut agent = Chat::new(agent(hook, replies, policy));
                    agent.conversation = vec![
                        neuron_types::Message::user(secret("earlier")),
                        neuron_types::Message::assistant(secret("answered")),
                    ]
                    .into();
                    run(way, &mut agent, &ToolContext::default()).await;
                    check_silent(&memory, &format!("{conventions:?} {policy:?} {way:?}: {script}"));
                }
            }
        }
    }
}

#[tokio::test]
async fn reason_of_hook_that_ends_run_is_not_exported_by_default() {
    for index in 0..8 {
        let memory = Memory::new();
        let replies = vec![looks([json!({})]), Reply::text("done")];
        let builder = agent(hook(&memory), replies, ToolErrorPolicy::default());
        let mut agent = Chat::new(builder.hook(EndsAt::new(index, "because of SENTINEL-reason")));
        agent.run("go", &ToolContext::default()).await.unwrap_err();
        check_silent(&memory, &index.to_string());
    }
}

/// A permission policy that requires approval for every call and quotes the arguments in its reason.
struct AlwaysRequiresApproval;

impl PermissionPolicy for AlwaysRequiresApproval {
    fn check(&self, _: &str, input: &Value) -> PermissionDecision {
        match input["deny"].as_str() {
            Some(reason) => PermissionDecision::Deny(reason.into()),
            None => PermissionDecision::Ask(format!("may it {input}?")),
        }
    }
}

#[tokio::test]
async fn content_of_approvals_is_not_exported_by_default() {
    let memory = Memory::new();
    let call = looks([json!({"text": secret("argument")}), json!({"deny": secret("denied")})]);
    let replies = vec![call, Reply::text(secret("answer"))];
    let mut agent = Chat::new(
        agent(hook(&memory), replies, ToolErrorPolicy::default())
            .permission_policy(AlwaysRequiresApproval)
            .config(|config| config.pause_for_approval = true),
    );
    let ctx = ToolContext::default();
    let error = agent.run(secret("user"), &ctx).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error:?}") };
    check_silent(&memory, "paused");
    let id = pending.calls[0].call.id.clone();
    let decisions = ApprovalDecisions::new().deny(&id, secret("no"));
    agent.run(decisions, &ctx).await.unwrap();
    check_silent(&memory, "resumed");
}

#[tokio::test]
async fn content_of_nested_agents_is_not_exported_by_default() {
    for conventions in MODES {
        let memory = Memory::new();
        let inner = ScriptedProvider::new([
            Reply::tool_call("i1", "look", json!({"text": secret("inner-argument")})),
            Reply::text(secret("inner-answer")),
        ]);
        let mut agents = SubAgentManager::new();
        let config = SubAgentConfig {
            system_prompt: secret("inner-system").into(),
            tools: vec!["look".into()],
            ..SubAgentConfig::default()
        };
        agents.register("helper", config);
        let mut tools = registry([Act::new("look")]);
        agents.add_to(&mut tools, inner).unwrap();
        let prompt = json!({"prompt": secret("inner-prompt")});
        let outer = ScriptedProvider::new([
            Reply::tool_call("o1", "helper", prompt),
            Reply::text(secret("answer")),
        ]);
        let mut agent = Chat::new(
            bare(outer)
                .name("scout")
                .tools(tools)
                .hook(hook(&memory).with_conventions(conventions)),
        );
        let ctx = ToolContext { session_id: "s-outer".into(), ..ToolContext::default() };
        agent.run(secret("user"), &ctx).await.unwrap();
        check_silent(&memory, "nested");
        // The inner agent has a separate conversation. Its run has no conversation id, or the id of the outer run.
        let inner = memory.one("invoke_agent helper");
        assert_eq!(attribute(&inner, "gen_ai.agent.name").as_deref(), Some("helper"));
    }
}

/// Returns the names of all span attributes that contain `secret`, each with the name of its span.
fn attributes_with(memory: &Memory, secret: &str) -> Vec<String> {
    let mut found = Vec::new();
    for span in memory.spans() {
        let is_work = span.name.starts_with("work") || span.name.starts_with("more");
        for attribute in span.attributes.iter().filter(|_| !is_work) {
            if attribute.value.to_string().contains(secret) {
                let operation = span.name.split(' ').next().unwrap();
                found.push(format!("{operation} {}", attribute.key));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn whole() -> Vec<Reply> {
    let arguments = json!({"text": secret("tool-result"), "other": secret("argument")});
    vec![
        looks([arguments]).with_text(secret("before")).thinking(secret("thinking"), "sig"),
        Reply::text(secret("answer")),
    ]
}

#[tokio::test]
async fn content_in_spans_has_conventional_attributes() {
    for conventions in [SemanticConventions::V1_41, SemanticConventions::Latest] {
        for way in WAYS {
            let memory = Memory::new();
            let hook =
                hook(&memory).with_conventions(conventions).with_content(ContentCapture::Spans);
            let mut agent = Chat::new(agent(hook, whole(), ToolErrorPolicy::default()));
            run(way, &mut agent, &ToolContext::default()).await;
            memory.check_closed();
            let at = |what: &str| attributes_with(&memory, &secret(what));
            let (input, output) = ("gen_ai.input.messages", "gen_ai.output.messages");
            let system =
                ["chat gen_ai.system_instructions", "invoke_agent gen_ai.system_instructions"];
            assert_eq!(at("system"), system);
            assert_eq!(
                at("answer"),
                [format!("chat {output}"), format!("invoke_agent {output}")],
                "{way:?}"
            );
            // The next request contains the response too.
            let before = [format!("chat {input}"), format!("chat {output}")];
            assert_eq!(at("thinking"), before);
            assert_eq!(at("before"), before);
            let argument = "execute_tool gen_ai.tool.call.arguments".to_owned();
            assert_eq!(
                at("argument"),
                [format!("chat {input}"), format!("chat {output}"), argument]
            );
            assert!(at("tool-result").contains(&"execute_tool gen_ai.tool.call.result".to_owned()));
            assert!(!memory.all_measured().contains(SECRET));
            // The value of each attribute must be JSON.
            for span in memory.spans() {
                for name in [input, output, "gen_ai.system_instructions", "gen_ai.tool.definitions"]
                {
                    if let Some(text) = attribute(&span, name) {
                        let value: Value = serde_json::from_str(&text).unwrap();
                        assert!(value.is_array(), "{name}: {text}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn captured_content_includes_error_texts_but_not_in_metrics() {
    for (kind, error) in [
        ("other", ProviderError::Other(secret("other").into())),
        ("stream", ProviderError::StreamError(secret("stream"))),
    ] {
        let memory = Memory::new();
        let hook = hook(&memory).with_content(ContentCapture::Spans);
        let mut agent =
            Chat::new(agent(hook, vec![Reply::error(error)], ToolErrorPolicy::default()));
        agent.run("go", &ToolContext::default()).await.unwrap_err();
        assert!(memory.tree().contains(&secret(kind)), "{}", memory.tree());
        assert!(!memory.all_measured().contains(SECRET));
    }
}

// Errors of strategies, guards and hooks are logged, and the layer exports everything that is logged within a span.
#[tokio::test]
async fn error_of_failing_hook_is_only_logged() {
    struct Failing;

    impl ObservabilityHook for Failing {
        async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
            Err(HookError::Failed(secret("hook")))
        }
    }

    let memory = Memory::new();
    let mut agent = Chat::new(
        agent(hook(&memory), vec![Reply::text(secret("answer"))], ToolErrorPolicy::default())
            .hook(Failing),
    );
    agent.run("go", &ToolContext::default()).await.unwrap();
    check_silent(&memory, "a hook that fails");
}

// The redaction does not receive error texts. Regression test. These texts were recorded together with redacted
// content. They were also recorded on spans although only events were enabled.
#[tokio::test]
async fn error_texts_are_recorded_only_with_unredacted_content() {
    let withheld = |hook: OtelHook| hook.with_redaction(|_, _| None);
    for (capture, redacts) in [
        (ContentCapture::Spans, true),
        (ContentCapture::SpansAndEvents, true),
        (ContentCapture::Events, false),
    ] {
        for replies in [
            vec![looks([json!({"text": secret("tool"), "do": "fail"})])],
            vec![Reply::error(ProviderError::InvalidRequest(secret("vendor")))],
        ] {
            let memory = Memory::new();
            let hook = hook(&memory).with_content(capture);
            let hook = if redacts { withheld(hook) } else { hook };
            let mut agent = Chat::new(agent(hook, replies, ToolErrorPolicy::EndRun));
            agent.run("go", &ToolContext::default()).await.unwrap_err();
            check_silent(&memory, &format!("{capture:?} {redacts}"));
        }
    }
}

#[tokio::test]
async fn panicking_redaction_omits_piece_and_run_continues() {
    let memory = Memory::new();
    let hook = hook(&memory)
        .with_content(ContentCapture::Spans)
        .with_redaction(|_, _| panic!("a planned panic"));
    let replies = vec![looks([json!({"text": secret("tool")})]), Reply::text(secret("answer"))];
    let mut agent = Chat::new(agent(hook, replies, ToolErrorPolicy::default()));
    agent.run("go", &ToolContext::default()).await.unwrap();
    check_silent(&memory, "a redaction that panics");
}

/// The name of an event, and the names and values of its fields.
type Event = (String, Vec<(String, String)>);

/// A layer that collects the events of `tracing`.
#[derive(Clone, Default)]
struct Events(Arc<Mutex<Vec<Event>>>);

impl<S: tracing::Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Fields(Vec<(String, String)>);
        impl Visit for Fields {
            fn record_str(&mut self, field: &Field, value: &str) {
                self.0.push((field.name().to_owned(), value.to_owned()));
            }

            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0.push((field.name().to_owned(), format!("{value:?}")));
            }
        }
        if event.metadata().target() == "neuron_otel" {
            let mut fields = Fields(Vec::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push((event.metadata().name().to_owned(), fields.0));
        }
    }
}

// The layer exports events together with their span. Regression test. Content was exported with the span, although only
// events were enabled.
#[tokio::test]
async fn content_in_events_is_not_in_spans() {
    for conventions in MODES {
        for way in WAYS {
            let memory = Memory::new();
            let events = Events::default();
            let layer = memory.layer();
            let subscriber = tracing_subscriber::registry().with(layer).with(events.clone());
            let _guard = tracing::subscriber::set_default(subscriber);
            let hook =
                hook(&memory).with_conventions(conventions).with_content(ContentCapture::Events);
            let mut agent = Chat::new(agent(hook, whole(), ToolErrorPolicy::default()));
            run(way, &mut agent, &ToolContext::default()).await;
            check_silent(&memory, &format!("{conventions:?} {way:?}"));
            let events = events.0.lock().unwrap().clone();
            assert_eq!(events.len(), 2, "one for each call of the model");
            for (name, _) in &events {
                assert_eq!(name, "gen_ai.client.inference.operation.details");
            }
            let field = |index: usize, name: &str| {
                let fields: &Vec<(String, String)> = &events[index].1;
                fields.iter().find(|field| field.0 == name).map(|field| field.1.clone())
            };
            let contains = |index, name, what: &str| {
                assert!(field(index, name).unwrap().contains(&secret(what)), "{index} {name}");
            };
            contains(0, "gen_ai.system_instructions", "system");
            contains(0, "gen_ai.output.messages", "thinking");
            contains(0, "gen_ai.output.messages", "argument");
            contains(1, "gen_ai.input.messages", "tool-result");
            contains(1, "gen_ai.output.messages", "answer");
            assert_eq!(field(0, "gen_ai.operation.name").as_deref(), Some("chat"));
            assert_eq!(field(0, "gen_ai.provider.name").as_deref(), Some("scripted"));
            assert!(field(0, "gen_ai.tool.definitions").unwrap().contains("look"));
        }
    }
}

#[tokio::test]
async fn failed_call_has_event_with_error_and_request() {
    let memory = Memory::new();
    let events = Events::default();
    let subscriber = tracing_subscriber::registry().with(memory.layer()).with(events.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let hook = hook(&memory).with_content(ContentCapture::Events);
    let replies = vec![Reply::error(ProviderError::RateLimit { retry_after: None })];
    let mut agent = Chat::new(agent(hook, replies, ToolErrorPolicy::default()));
    agent.run(secret("user"), &ToolContext::default()).await.unwrap_err();
    check_silent(&memory, "failed");
    let events = events.0.lock().unwrap().clone();
    let [(_, fields)] = events.as_slice() else { panic!("{events:?}") };
    let find = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| &field.1);
    assert!(find("gen_ai.input.messages").unwrap().contains(&secret("user")));
    assert_eq!(find("error.type").unwrap(), "RateLimit");
    assert!(find("gen_ai.output.messages").is_none());
}

#[tokio::test]
async fn redaction_receives_every_piece_with_its_kind() {
    use ContentKind::{
        InputMessages, OutputMessages, SystemInstructions, ToolArguments, ToolDefinitions,
        ToolResult,
    };
    let memory = Memory::new();
    let seen: Arc<Mutex<Vec<(ContentKind, String)>>> = Arc::default();
    let sees = seen.clone();
    let hook =
        hook(&memory).with_content(ContentCapture::Spans).with_redaction(move |kind, value| {
            sees.lock().unwrap().push((kind, value.to_string()));
            match kind {
                ToolArguments => Some(json!("changed")),
                ToolDefinitions => Some(value),
                _ => None,
            }
        });
    let mut agent = Chat::new(agent(hook, whole(), ToolErrorPolicy::default()));
    agent.run(secret("user"), &ToolContext::default()).await.unwrap();
    check_silent(&memory, "redacted");
    let tool = memory.one("execute_tool look");
    assert_eq!(attribute(&tool, "gen_ai.tool.call.arguments").as_deref(), Some("\"changed\""));
    assert_eq!(attribute(&tool, "gen_ai.tool.call.result"), None);
    for span in memory.spans() {
        for name in
            ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"]
        {
            assert_eq!(attribute(&span, name), None, "{}", span.name);
        }
    }
    let seen = seen.lock().unwrap();
    for (kind, what) in [
        (SystemInstructions, "system"),
        (InputMessages, "user"),
        (OutputMessages, "answer"),
        (ToolArguments, "argument"),
        (ToolResult, "tool-result"),
    ] {
        let is_seen = seen.iter().any(|(of, text)| *of == kind && text.contains(&secret(what)));
        assert!(is_seen, "{kind:?}: {seen:?}");
    }
    assert!(seen.iter().any(|(kind, text)| *kind == ToolDefinitions && text.contains("look")));
}

#[tokio::test]
async fn redaction_is_not_called_without_captured_content() {
    let memory = Memory::new();
    let hook = hook(&memory).with_redaction(|kind, _| panic!("it sees {kind:?}"));
    let mut agent = Chat::new(agent(hook, whole(), ToolErrorPolicy::default()));
    agent.run("go", &ToolContext::default()).await.unwrap();
    check_silent(&memory, "nothing is captured");
}
