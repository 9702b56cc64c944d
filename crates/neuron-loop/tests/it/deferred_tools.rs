//! Agents whose registry defers the definitions of its tools.

use std::sync::Arc;
use std::time::Duration;

use neuron_loop::{Conversation, ToolErrorPolicy};
use neuron_runtime::{ApprovalKey, LocalDurableContext};
use neuron_testing::{Reply, ScriptedProvider};
use neuron_tool::{ToolRegistry, ToolSearch, tool_middleware_fn};
use neuron_types::{
    ApprovalDecisions, CALL_TOOL, CompletionResponse, ContentBlock, HookAction, HookError,
    HookEvent, LoopError, Message, ModelCall, ModelLayer, ModelNext, ObservabilityHook, Operation,
    OperationKind, OperationScope, PendingApproval, PermissionDecision, PermissionPolicy,
    RequestRef, SEARCH_TOOLS, Session, ToolContext, ToolDefinition, ToolDyn, ToolEffect, ToolError,
    ToolOutput, WasmBoxedFuture,
};
use serde_json::{Value, json};

use crate::approval::ByArguments;
use crate::support::*;

/// A tool that logs its name, its arguments and its idempotency key. With `hang`, it never returns.
pub(crate) struct Logged {
    pub(crate) name: String,
    pub(crate) effect: ToolEffect,
    pub(crate) log: Log,
}

impl ToolDyn for Logged {
    fn name(&self) -> &str {
        &self.name
    }

    fn definition(&self) -> ToolDefinition {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
        ToolDefinition { input_schema: schema, ..Act::definition_of(&self.name) }
    }

    fn call_dyn<'a>(
        &'a self,
        input: Value,
        ctx: &'a ToolContext,
    ) -> WasmBoxedFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            self.log.push(format!("{} {input} {}", self.name, ctx.idempotency_key));
            if input["hang"] == true {
                std::future::pending::<()>().await;
            }
            Ok(ToolOutput::text(format!("ran {}", self.name)))
        })
    }

    fn effect(&self) -> ToolEffect {
        self.effect
    }

    fn check_input(&self, input: &Value) -> Result<(), ToolError> {
        match input["text"].is_number() {
            true => Err(ToolError::InvalidInput("`text` must be a string".into())),
            false => Ok(()),
        }
    }
}

pub(crate) const NAMES: [&str; 4] = ["read_file", "create_issue", "list_issues", "send_mail"];

/// Returns a registry that defers all tools except `read_file`.
fn deferred(log: &Log, effect: ToolEffect) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in NAMES {
        let (name, log) = (name.to_owned(), log.clone());
        tools.register_dyn(Arc::new(Logged { name, effect, log }));
    }
    tools.defer_tools(ToolSearch::new().visible(["read_file"])).unwrap();
    tools
}

fn tools(log: &Log) -> ToolRegistry {
    deferred(log, ToolEffect::AtMostOnce)
}

pub(crate) fn find(id: &str, query: &str) -> Reply {
    Reply::tool_call(id, SEARCH_TOOLS, json!({ "query": query }))
}

pub(crate) fn through(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

pub(crate) fn call(id: &str, name: &str, arguments: Value) -> Reply {
    Reply::tool_call(id, CALL_TOOL, through(name, arguments))
}

/// Returns a chat with these replies that returns the errors of tools to the model.
pub(crate) fn chat<R: Into<Reply>>(
    replies: impl IntoIterator<Item = R>,
    tools: ToolRegistry,
) -> (ScriptedProvider, ChatBuilder<'static>) {
    let provider = ScriptedProvider::new(replies);
    let builder = Chat::builder(provider.clone(), window()).tools(tools);
    (provider, builder.tool_errors(ToolErrorPolicy::ReturnToModel))
}

const NOT_FOUND: &str = "the tools are: read_file, search_tools, call_tool. Find other tools with `search_tools` before \
                         you call them";

#[tokio::test]
async fn model_finds_and_calls_a_tool() {
    for way in WAYS {
        for durable in [false, true] {
            let log = Log::default();
            let text = json!({ "text": "Crash" });
            let replies =
                [find("a", "issue"), call("b", "create_issue", text), Reply::text("done")];
            let (provider, builder) = chat(replies, tools(&log));
            let hook = Recorder::default();
            let builder = builder.hook(hook.clone());
            let stop = |run: &neuron_types::RunView<'_>| run.called("send_mail");
            let mut agent = builder.stop_when(stop).build();
            if durable {
                let engine =
                    LocalDurableContext::new(Arc::new(provider.clone()), Arc::new(tools(&log)));
                agent.set_durability(engine);
            }
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "done", "{way:?} {durable}");
            let lines = log.lines();
            assert_eq!(lines.len(), 1);
            assert!(lines[0].starts_with(r#"create_issue {"text":"Crash"} "#), "{lines:?}");
            assert!(lines[0].ends_with("/1/0/b"), "the key has the place of the call: {lines:?}");
            assert_eq!(last_results(agent.messages()), ["b: ran create_issue"]);
            // The hooks receive the tool that runs.
            assert_eq!(hook.log.count(r#"PreTool create_issue b {"text":"Crash"}"#), 1);
            assert_eq!(hook.log.count("PostTool create_issue b ok"), 1);
            assert_eq!(hook.log.count(CALL_TOOL), 0);
            check_pairs(&hook.log.lines());
            check_valid(agent.messages());
            for request in provider.requests() {
                let names: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
                assert_eq!(names, ["read_file", SEARCH_TOOLS, CALL_TOOL]);
            }
        }
    }
}

#[tokio::test]
async fn tool_that_was_not_found_does_not_run() {
    // Through `call_tool`, by its own name, and beside the search in the same response.
    let beside = Reply::tool_calls([
        ("a", SEARCH_TOOLS, json!({ "query": "mail" })),
        ("b", CALL_TOOL, through("send_mail", json!({}))),
    ]);
    let unknown =
        [call("b", "send_mail", json!({})), Reply::tool_call("b", "send_mail", json!({})), beside];
    for reply in unknown {
        for parallel in [false, true] {
            let log = Log::default();
            let (_, builder) =
                chat([find("a", "issue"), reply.clone(), Reply::text("sorry")], tools(&log));
            let mut agent = builder.parallel_tool_execution(parallel).build();
            run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
            let results = last_results(agent.messages());
            let expected = format!("b: !tool not found: send_mail; {NOT_FOUND}");
            assert_eq!(results.last(), Some(&expected));
            assert_eq!(log.lines(), [""; 0]);
            check_valid(agent.messages());
        }
    }
}

#[tokio::test]
async fn unknown_tool_is_refused_with_every_policy() {
    for (name, policy) in [
        ("nothing", ToolErrorPolicy::ReturnToModel),
        ("nothing", ToolErrorPolicy::EndRun),
        ("send_mail", ToolErrorPolicy::EndRun),
    ] {
        let log = Log::default();
        let (_, builder) = chat(
            [find("a", "issue"), call("b", name, json!({})), Reply::text("sorry")],
            tools(&log),
        );
        let mut agent = builder.tool_errors(policy).build();
        let ended = run(Way::Run, &mut agent, &ToolContext::default()).await;
        match policy {
            ToolErrorPolicy::EndRun => {
                let error = ended.unwrap_err();
                assert_eq!(error, format!("tool error: tool not found: {name}"));
            }
            _ => {
                ended.unwrap();
                let expected = format!("b: !tool not found: {name}; {NOT_FOUND}");
                assert_eq!(last_results(agent.messages()), [expected]);
            }
        }
        assert_eq!(log.lines(), [""; 0]);
    }
}

#[tokio::test]
async fn visible_tool_runs_through_call_tool_without_a_search() {
    let log = Log::default();
    let (_, builder) = chat([call("a", "read_file", json!({})), Reply::text("done")], tools(&log));
    run(Way::Run, &mut builder.build(), &ToolContext::default()).await.unwrap();
    assert_eq!(log.count("read_file"), 1);
}

#[tokio::test]
async fn two_searches_add_up_and_a_search_without_match_adds_nothing() {
    let log = Log::default();
    let both = Reply::tool_calls([
        ("d", CALL_TOOL, through("send_mail", json!({}))),
        ("e", CALL_TOOL, through("list_issues", json!({}))),
        ("f", "read_file", json!({})),
    ]);
    let replies =
        [find("a", "issues"), find("b", "weather"), find("c", "mail"), both, Reply::text("done")];
    let (provider, builder) = chat(replies, tools(&log));
    let mut agent = builder.build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let expected = ["d: ran send_mail", "e: ran list_issues", "f: ran read_file"];
    assert_eq!(last_results(agent.messages()), expected);
    let messages = &provider.requests()[2].messages;
    let nothing = "b: none of the 3 tools matches `weather`; search for other words of a tool's name or description";
    assert_eq!(last_results(messages), [nothing]);
    // Every request begins with the previous one.
    for pair in provider.requests().windows(2) {
        assert_eq!(pair[0].tools, pair[1].tools);
        assert!(pair[1].messages.starts_with(&pair[0].messages));
    }
}

#[tokio::test]
async fn incomplete_calls_get_an_error_that_names_the_arguments() {
    let invalid = neuron_types::ToolCall::invalid_json_input("{\"name\":");
    let inputs = [
        json!({}),
        json!({ "name": "send_mail" }),
        json!({ "name": "send_mail", "arguments": "{" }),
        through(CALL_TOOL, through("send_mail", json!({}))),
        invalid,
    ];
    for input in inputs {
        let log = Log::default();
        let replies = [
            find("a", "mail"),
            Reply::tool_call("b", CALL_TOOL, input.clone()),
            Reply::text("sorry"),
        ];
        let (_, builder) = chat(replies, tools(&log));
        let mut agent = builder.permission_policy(Denies(&["send_mail"])).build();
        run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
        let results = last_results(agent.messages());
        assert!(results[0].starts_with("b: !invalid input: "), "{input} {results:?}");
        assert_eq!(log.lines(), [""; 0]);
    }
}

/// Denies the tools with a name in the list, and asserts that it is never asked about `call_tool`.
pub(crate) struct Denies(pub(crate) &'static [&'static str]);

impl PermissionPolicy for Denies {
    fn check(&self, tool_name: &str, input: &Value) -> PermissionDecision {
        assert_ne!(tool_name, CALL_TOOL);
        assert!(input.get("arguments").is_none());
        match self.0.contains(&tool_name) {
            true => PermissionDecision::Deny(format!("no {tool_name}")),
            false => PermissionDecision::Allow,
        }
    }
}

#[tokio::test]
async fn policy_and_middleware_receive_the_tool_that_runs() {
    let (log, seen) = (Log::default(), Log::default());
    let mut registry = tools(&log);
    let lines = seen.clone();
    registry.add_tool_middleware(
        "send_mail",
        tool_middleware_fn(move |call, ctx, next| {
            let lines = lines.clone();
            Box::pin(async move {
                lines.push(format!("{} {} {}", call.id, call.name, call.input));
                next.run(call, ctx).await
            })
        }),
    );
    let both = Reply::tool_calls([
        ("b", CALL_TOOL, through("send_mail", json!({ "text": "x" }))),
        ("c", CALL_TOOL, through("create_issue", json!({}))),
    ]);
    let (_, builder) = chat([find("a", "mail issue"), both, Reply::text("done")], registry);
    let mut agent = builder.permission_policy(Denies(&["create_issue"])).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let expected = ["b: ran send_mail", "c: !permission denied: no create_issue"];
    assert_eq!(last_results(agent.messages()), expected);
    assert_eq!(seen.lines(), [r#"b send_mail {"text":"x"}"#]);
    assert_eq!(log.lines().len(), 1);
}

/// Runs a chat until the call of `send_mail` waits for an approval.
async fn waiting(log: &Log, key: &ApprovalKey) -> (Chat<'static>, Box<PendingApproval>) {
    let ask = json!({ "ask": "Really?", "text": "x" });
    let (_, builder) =
        chat([find("a", "mail"), call("b", "send_mail", ask), Reply::text("done")], tools(log));
    let builder = builder.pause_for_approval(true).permission_policy(ByArguments);
    let mut agent = builder.approval_signer(key.clone()).build();
    let error = agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
    assert_eq!(log.lines(), [""; 0]);
    (agent, pending)
}

#[tokio::test]
async fn approval_is_about_the_tool_that_runs() {
    let key = ApprovalKey::new([7; 32]);
    let log = Log::default();
    let (mut agent, pending) = waiting(&log, &key).await;
    let [waits] = &pending.calls[..] else { panic!("{pending:?}") };
    assert_eq!((&*waits.call.id, &*waits.call.name), ("b", "send_mail"));
    assert_eq!(waits.call.input, json!({ "ask": "Really?", "text": "x" }));
    let wrong = ApprovalDecisions::new().approve_edited("b", json!({ "text": 1 }));
    let error = agent.resume(wrong, &ToolContext::default()).await.unwrap_err();
    assert!(error.to_string().contains("`text` must be a string"), "{error}");

    let decisions = ApprovalDecisions::new().approve_edited("b", json!({ "text": "y" }));
    agent.resume(decisions, &ToolContext::default()).await.unwrap();
    assert_eq!(log.count(r#"send_mail {"text":"y"}"#), 1);
    let expected = r#"b: [approved with other arguments: {"text":"y"}]"#;
    assert_eq!(last_results(agent.messages()), [expected]);
}

#[tokio::test]
async fn stored_approval_runs_the_tool_in_another_process() {
    let key = ApprovalKey::new([7; 32]);
    for from_session in [false, true] {
        let log = Log::default();
        let (agent, pending) = waiting(&log, &key).await;
        let stored = match from_session {
            true => serde_json::to_string(&agent.conversation).unwrap(),
            false => serde_json::to_string(&pending).unwrap(),
        };
        let (_, builder) = chat(["done"], tools(&log));
        let builder = builder.pause_for_approval(true).permission_policy(ByArguments);
        let mut other = builder.approval_signer(key.clone()).build();
        other.conversation = match from_session {
            true => serde_json::from_str(&stored).unwrap(),
            false => {
                let pending: PendingApproval = serde_json::from_str(&stored).unwrap();
                Conversation::try_from(pending).unwrap()
            }
        };
        let decisions = ApprovalDecisions::new().approve("b");
        let result = other.resume(decisions, &ToolContext::default()).await.unwrap();
        assert_eq!((result.response.as_str(), log.count("send_mail")), ("done", 1));
        assert_eq!(last_results(other.messages()), ["b: ran send_mail"]);
        check_valid(other.messages());
    }
}

#[tokio::test]
async fn loaded_session_knows_the_found_tools() {
    let log = Log::default();
    let (_, builder) = chat([find("a", "mail"), Reply::text("found")], tools(&log));
    let mut agent = builder.build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let mut session = Session::new("s", "/srv".into());
    agent.write_session(&mut session);
    let session: Session = serde_json::from_str(&serde_json::to_string(&session).unwrap()).unwrap();

    let calls = Reply::tool_calls([
        ("b", CALL_TOOL, through("send_mail", json!({}))),
        ("c", CALL_TOOL, through("create_issue", json!({}))),
    ]);
    let (_, builder) = chat([calls, Reply::text("done")], tools(&log));
    let mut other = builder.build();
    other.restore_session(&session);
    other.run_text("more", &ToolContext::default()).await.unwrap();
    let results = last_results(other.messages());
    assert_eq!(results[0], "b: ran send_mail");
    assert!(results[1].starts_with("c: !tool not found: create_issue;"), "{results:?}");
}

#[tokio::test]
async fn removed_result_means_that_the_tool_is_not_found() {
    let log = Log::default();
    let (_, builder) = chat([find("a", "mail"), Reply::text("found")], tools(&log));
    let mut agent = builder.build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    // A strategy that clears old results does the same.
    let mut messages = agent.messages().to_vec();
    for block in messages.iter_mut().flat_map(|message| &mut message.content) {
        if let ContentBlock::ToolResult { content, .. } = block {
            *content = vec![neuron_types::ContentItem::Text("[cleared]".into())];
        }
    }
    let (_, builder) = chat([call("b", "send_mail", json!({})), Reply::text("done")], tools(&log));
    let mut agent = builder.messages(messages).build();
    agent.run_text("more", &ToolContext::default()).await.unwrap();
    assert_eq!(
        last_results(agent.messages()),
        [format!("b: !tool not found: send_mail; {NOT_FOUND}")]
    );
}

/// Regression test. A stop condition ended the run at a call that was refused because the model had not found the tool.
#[tokio::test]
async fn refused_call_meets_no_stop_condition() {
    for way in WAYS {
        let log = Log::default();
        let submit = || call("b", "send_mail", json!({}));
        let (_, builder) = chat([submit(), find("a", "mail"), submit()], tools(&log));
        let mut agent = builder.stop_when(|run| run.called("send_mail")).build();
        let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
        assert_eq!((result.turns, log.count("send_mail")), (3, 1), "{way:?}");
    }
}

/// Regression test. Calls of different tools that were not found yet counted as calls of one tool that does not exist.
#[tokio::test]
async fn retry_limit_counts_each_tool_that_was_not_found() {
    let early = |name: &str| {
        let input = json!({ "query": name });
        let calls = [("a", SEARCH_TOOLS, input), ("b", CALL_TOOL, through(name, json!({})))];
        Reply::tool_calls(calls)
    };
    let others = [early("create_issue"), early("list_issues"), early("send_mail")];
    let (_, builder) =
        chat(others.into_iter().chain([Reply::text("done")]), tools(&Log::default()));
    let mut agent = builder.tool_retry_limit(1).build();
    let result = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");

    // A removed tool has the same counter, so that a replay counts the same calls.
    for name in ["send_mail", "nothing"] {
        let again = || call("b", name, json!({}));
        let (_, builder) = chat([again(), again()], tools(&Log::default()));
        let mut agent = builder.tool_retry_limit(1).build();
        let error = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap_err();
        assert!(error.contains(&format!("calls of `{name}` failed in 2 turns")), "{error}");
    }
}

/// Asks about each call.
struct Asks;

impl PermissionPolicy for Asks {
    fn check(&self, tool_name: &str, _: &Value) -> PermissionDecision {
        PermissionDecision::Ask(format!("{tool_name}?"))
    }
}

/// Regression test. The policy was not asked about a tool that was removed after the model had found it.
#[tokio::test]
async fn policy_decides_on_a_found_tool_that_was_removed() {
    let log = Log::default();
    let (_, builder) = chat([find("a", "mail"), Reply::text("found")], tools(&log));
    let mut agent = builder.build();
    agent.run_text("go", &ToolContext::default()).await.unwrap();
    let messages = agent.messages().to_vec();
    let after = |reply: Reply| {
        let mut registry = tools(&log);
        registry.remove("send_mail").unwrap();
        let (_, builder) = chat([reply, Reply::text("done")], registry);
        builder.messages(messages.clone())
    };

    let mut agent =
        after(call("b", "send_mail", json!({}))).permission_policy(Denies(&["send_mail"])).build();
    agent.run_text("more", &ToolContext::default()).await.unwrap();
    assert_eq!(last_results(agent.messages()), ["b: !permission denied: no send_mail"]);

    let ask = call("b", "send_mail", json!({}));
    let mut agent = after(ask).pause_for_approval(true).permission_policy(Asks).build();
    let error = agent.run_text("more", &ToolContext::default()).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
    assert_eq!(pending.calls[0].call.name, "send_mail");
    let approved = ApprovalDecisions::new().approve("b");
    agent.resume(approved, &ToolContext::default()).await.unwrap();
    let results = last_results(agent.messages());
    assert!(results[0].starts_with("b: !tool not found: send_mail"), "{results:?}");

    // The policy is not asked about a tool that the model has not found.
    let mut agent = after(call("b", "create_issue", json!({})))
        .permission_policy(Denies(&["create_issue"]))
        .build();
    agent.run_text("more", &ToolContext::default()).await.unwrap();
    let results = last_results(agent.messages());
    assert!(results[0].starts_with("b: !tool not found: create_issue"), "{results:?}");
}

#[tokio::test]
async fn effect_of_the_tool_decides_after_an_interruption() {
    for (effect, runs) in [(ToolEffect::Idempotent, 2), (ToolEffect::AtMostOnce, 1)] {
        let log = Log::default();
        let hang = json!({ "hang": true });
        let (_, builder) =
            chat([find("a", "mail"), call("b", "send_mail", hang)], deferred(&log, effect));
        let mut agent = builder.build();
        let ctx = ToolContext::default();
        let run = tokio::time::timeout(Duration::from_millis(50), agent.run_text("go", &ctx));
        run.await.unwrap_err();
        assert_eq!(log.lines().len(), 1);
        let stored = serde_json::to_string(&agent.conversation).unwrap();

        let (_, builder) = chat(["done"], deferred(&log, effect));
        let mut other = builder.build();
        other.conversation = serde_json::from_str(&stored).unwrap();
        let run = tokio::time::timeout(Duration::from_millis(50), other.continue_run(&ctx)).await;
        assert_eq!(run.is_ok(), effect == ToolEffect::AtMostOnce, "the call hangs again");
        let lines = log.lines();
        assert_eq!(lines.len(), runs, "{effect:?}");
        assert_eq!(lines.first(), lines.last(), "with the same idempotency key");
    }
}

#[tokio::test]
async fn tools_that_start_early_have_been_found() {
    let log = Log::default();
    let calls = || {
        Reply::tool_calls([
            ("b", "send_mail", json!({})),
            ("c", CALL_TOOL, through("create_issue", json!({}))),
            ("d", "read_file", json!({})),
        ])
    };
    let replies = [calls(), find("a", "mail issue"), calls(), Reply::text("done")];
    let (_, builder) = chat(replies, deferred(&log, ToolEffect::Pure));
    let hook = Recorder::default();
    let mut agent = builder.early_tools(true).hook(hook.clone()).build();
    run(Way::Stream, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(hook.log.count("PreTool call_tool"), 0, "the hooks receive the named tool");
    check_pairs(&hook.log.lines());
    let names: Vec<String> =
        log.lines().iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["read_file", "send_mail", "create_issue", "read_file"]);
    let expected = ["b: ran send_mail", "c: ran create_issue", "d: ran read_file"];
    assert_eq!(last_results(agent.messages()), expected);
}

#[tokio::test]
async fn removed_call_tool_cannot_be_called() {
    let log = Log::default();
    let replies = [find("a", "mail"), call("b", "send_mail", json!({})), Reply::text("done")];
    let (_, builder) = chat(replies, tools(&log));
    let builder = builder.prepare_turn(|turn| turn.retain_tools(|tool| tool.name != CALL_TOOL));
    let mut agent = builder.build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let results = last_results(agent.messages());
    assert!(results[0].starts_with("b: !tool not found: call_tool;"), "{results:?}");
    assert_eq!(log.lines(), [""; 0]);
}

/// Removes tools from the request, but does not refuse deferred tools.
pub(crate) struct RemovesTools(pub(crate) &'static [&'static str]);

impl ModelLayer for RemovesTools {
    async fn call(
        &self,
        call: ModelCall<'_>,
        next: ModelNext<'_>,
    ) -> Result<CompletionResponse, LoopError> {
        let mut tools = call.request.tools.to_vec();
        tools.retain(|tool| !self.0.contains(&&*tool.name));
        next.run(call.with_request(RequestRef { tools: &tools, ..call.request })).await
    }
}

#[tokio::test]
async fn restriction_of_a_turn_applies_to_found_tools() {
    type Keeps = fn(&str) -> bool;
    let keeps: [(Keeps, bool); 4] = [
        (|name| name == "read_file", false),
        (|name| name != "send_mail", false),
        (|name| [SEARCH_TOOLS, CALL_TOOL].contains(&name), false),
        (|name| name != "create_issue", true),
    ];
    for way in WAYS {
        for (keeps, runs) in keeps {
            for is_direct in [false, true] {
                let (log, seen) = (Log::default(), Log::default());
                let calls = match is_direct {
                    true => Reply::tool_call("b", "send_mail", json!({})),
                    false => call("b", "send_mail", json!({})),
                };
                let replies = [find("a", "mail"), calls, Reply::text("done")];
                let (provider, builder) = chat(replies, tools(&log));
                let asked = seen.clone();
                let builder = builder
                    .prepare_turn(move |turn| {
                        turn.retain_tools(|tool| {
                            asked.push(tool.name.clone());
                            // The first turn searches.
                            tool.name == SEARCH_TOOLS || keeps(&tool.name)
                        });
                        assert!(turn.tools().all(|tool| tool.name != "send_mail"));
                    })
                    // A later callback does not allow the tool again.
                    .prepare_turn(|turn| turn.retain_tools(|_| true));
                let mut agent = builder.build();
                run(way, &mut agent, &ToolContext::default()).await.unwrap();
                assert_eq!(log.lines().len(), usize::from(runs), "{way:?} {is_direct}");
                let result = &last_results(agent.messages())[0];
                assert_eq!(result.starts_with("b: !tool not found: "), !runs, "{result}");
                for name in ["read_file", SEARCH_TOOLS, CALL_TOOL, "create_issue", "send_mail"] {
                    assert_eq!(seen.count(name), 3, "the callback decides on each tool");
                }
                let sent = provider.requests();
                assert!(
                    sent.iter().all(|sent| sent.tools.iter().all(|tool| tool.name != "send_mail"))
                );
            }
        }
    }
}

#[tokio::test]
async fn layer_that_removes_call_tool_prevents_all_deferred_tools() {
    let log = Log::default();
    let both = Reply::tool_calls([
        ("b", "send_mail", json!({})),
        ("c", CALL_TOOL, through("send_mail", json!({}))),
        ("d", "read_file", json!({})),
    ]);
    let (_, builder) = chat([find("a", "mail"), both, Reply::text("done")], tools(&log));
    let mut agent = builder.layer(RemovesTools(&[CALL_TOOL])).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let results = last_results(agent.messages());
    assert!(results[0].starts_with("b: !tool not found: send_mail;"), "{results:?}");
    assert!(results[1].starts_with("c: !tool not found: call_tool;"), "{results:?}");
    assert_eq!(results[2], "d: ran read_file");
}

#[tokio::test]
async fn stored_calls_remember_only_the_refused_tools_that_were_called() {
    let log = Log::default();
    let both = Reply::tool_calls([
        ("b", "send_mail", json!({ "ask": "?" })),
        ("c", "read_file", json!({ "ask": "?" })),
    ]);
    let (_, builder) = chat([find("a", "mail"), both], tools(&log));
    let builder = builder.pause_for_approval(true).permission_policy(ByArguments);
    let mut agent =
        builder.prepare_turn(|turn| turn.retain_tools(|tool| NAMES[0] == tool.name)).build();
    agent.run_text("go", &ToolContext::default()).await.unwrap_err();
    let stored = serde_json::to_string(&agent.conversation).unwrap();
    assert!(stored.contains(r#""hidden":["send_mail""#), "{stored}");
    assert!(!stored.contains("list_issues"), "{stored}");
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    sum: u32,
}

#[tokio::test]
async fn typed_output_works_beside_deferred_tools() {
    let log = Log::default();
    let output = Reply::tool_call("c", "final_output", json!({ "sum": 3 }));
    let replies = [find("a", "mail"), call("b", "send_mail", json!({})), output];
    let (provider, builder) = chat(replies, tools(&log));
    let mut agent = builder.build();
    let ctx = ToolContext::default();
    let result = agent.run_typed::<Sum>(Message::user("go"), &ctx).await.unwrap();
    assert_eq!((result.value, log.lines().len()), (Sum { sum: 3 }, 1));
    let names: Vec<String> =
        provider.requests()[2].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, ["read_file", SEARCH_TOOLS, CALL_TOOL, "final_output"]);
}

#[tokio::test]
async fn typed_output_through_call_tool_is_not_accepted() {
    let through_call = || call("a", "final_output", json!({ "sum": 1 }));
    let direct = || Reply::tool_call("b", "final_output", json!({ "sum": 3 }));
    let both = Reply::tool_calls([
        ("a", CALL_TOOL, through("final_output", json!({ "sum": 1 }))),
        ("b", "final_output", json!({ "sum": 3 })),
    ]);
    for replies in [vec![through_call(), direct()], vec![both]] {
        let (_, builder) = chat(replies, tools(&Log::default()));
        let mut agent = builder.build();
        let ctx = ToolContext::default();
        let result = agent.run_typed::<Sum>(Message::user("go"), &ctx).await.unwrap();
        assert_eq!(result.value, Sum { sum: 3 });
        let results = last_results(&agent.messages()[..3]);
        assert_eq!(results[0], "a: !call `final_output` directly, without `call_tool`");
        check_valid(agent.messages());
    }
    let (_, builder) = chat([through_call(), Reply::text("1")], tools(&Log::default()));
    let mut agent = builder.max_turns(1).build();
    let ctx = ToolContext::default();
    agent.run_typed::<Sum>(Message::user("go"), &ctx).await.unwrap_err();
}

/// Logs the tools that the scope of each tool call receives.
#[derive(Clone)]
struct Scopes(Log);

impl ObservabilityHook for Scopes {
    async fn on_event(&self, _: HookEvent<'_>) -> Result<HookAction, HookError> {
        Ok(HookAction::Continue)
    }

    fn scope(&self, operation: &Operation<'_>) -> Option<Box<dyn OperationScope>> {
        if let OperationKind::ToolCall { call, offered } = operation.kind {
            let is_known = offered.iter().any(|tool| tool.name == call.name);
            self.0.push(format!("{} {is_known}", call.name));
        }
        None
    }
}

#[tokio::test]
async fn scope_of_a_call_receives_the_definition_of_the_deferred_tool() {
    let (log, scopes) = (Log::default(), Log::default());
    let replies = [find("a", "mail"), call("b", "send_mail", json!({})), Reply::text("done")];
    let (_, builder) = chat(replies, tools(&log));
    let mut agent = builder.hook(Scopes(scopes.clone())).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(scopes.lines(), ["search_tools true", "send_mail true"]);
}

#[tokio::test]
async fn tool_named_call_tool_is_an_ordinary_tool_without_a_search() {
    let log = Log::default();
    let mut registry = ToolRegistry::new();
    for name in [CALL_TOOL, "send_mail"] {
        let (name, log) = (name.to_owned(), log.clone());
        registry.register_dyn(Arc::new(Logged { name, effect: ToolEffect::Pure, log }));
    }
    let (_, builder) = chat([call("a", "send_mail", json!({})), Reply::text("done")], registry);
    // The model did not call the tool that the arguments name.
    let mut agent = builder.stop_when(|run| run.called("send_mail")).build();
    let result = run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    assert_eq!(result.response, "done");
    assert_eq!(log.count(r#"call_tool {"name":"send_mail""#), 1);
}

#[tokio::test]
async fn requests_of_a_huge_registry_stay_small() {
    let log = Log::default();
    let mut registry = ToolRegistry::new();
    for number in 0..1_000 {
        let name = format!("server_{number}_act");
        let tool = Logged { name, effect: ToolEffect::Pure, log: log.clone() };
        registry.register_dyn(Arc::new(tool));
    }
    registry.defer_tools(ToolSearch::new()).unwrap();
    let mut replies = Vec::new();
    for number in 0..20 {
        let name = format!("server_{}_act", number * 37);
        replies.push(find(&format!("a{number}"), &name));
        replies.push(call(&format!("b{number}"), &name, json!({})));
    }
    replies.push(Reply::text("done"));
    let (provider, builder) = chat(replies, registry);
    run(Way::Run, &mut builder.build(), &ToolContext::default()).await.unwrap();
    assert_eq!(log.lines().len(), 20);
    let requests = provider.requests();
    let sizes: Vec<usize> =
        requests.iter().map(|request| serde_json::to_string(request).unwrap().len()).collect();
    assert!(sizes[0] < 1_500, "{sizes:?}");
    // A turn adds its call and its result only.
    assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] < 2_000), "{sizes:?}");
}
