//! Agents that prefer the vendor's search for deferred tools.

use std::sync::Arc;

use neuron_runtime::LocalDurableContext;
use neuron_testing::Reply;
use neuron_tool::{ToolRegistry, ToolSearch};
use neuron_types::{
    CALL_TOOL, CompletionRequest, ContentBlock, LoopError, SEARCH_TOOLS, ToolContext, ToolEffect,
};
use serde_json::{Value, json};

use crate::approval::ByArguments;
use crate::deferred_tools::{Denies, Logged, NAMES, RemovesTools, call, chat, find, through};
use crate::support::*;

/// Returns a registry that defers all tools except `read_file`, and prefers the vendor's search.
fn tools(log: &Log) -> ToolRegistry {
    let mut tools = ToolRegistry::new();
    for name in NAMES {
        let (name, log) = (name.to_owned(), log.clone());
        tools.register_dyn(Arc::new(Logged { name, effect: ToolEffect::AtMostOnce, log }));
    }
    tools.defer_tools(ToolSearch::new().visible(["read_file"]).prefer_vendor()).unwrap();
    tools
}

/// Returns a response in which the vendor searched, and the model calls `name`.
fn searched(id: &str, name: &str, input: Value) -> Reply {
    let search = json!({ "type": "server_tool_use", "id": "s", "name": "tool_search" });
    let search = ContentBlock::Raw { provider: "vendor".into(), json: search, portable: None };
    let call = ContentBlock::ToolUse { id: id.into(), name: name.into(), input };
    Reply::message(vec![search, call])
}

/// Returns the names of the tools that the vendor may search.
fn names(request: &CompletionRequest) -> Vec<String> {
    request.view().deferred_tools().into_iter().map(|tool| tool.name).collect()
}

const DEFERRED: [&str; 3] = ["create_issue", "list_issues", "send_mail"];

#[tokio::test]
async fn tool_that_the_vendor_found_runs() {
    for way in WAYS {
        for durable in [false, true] {
            let log = Log::default();
            let text = json!({ "text": "Crash" });
            let replies = [searched("b", "create_issue", text), Reply::text("done")];
            let (provider, builder) = chat(replies, tools(&log));
            let hook = Recorder::default();
            let mut agent = builder.hook(hook.clone()).build();
            if durable {
                let engine =
                    LocalDurableContext::new(Arc::new(provider.clone()), Arc::new(tools(&log)));
                agent.set_durability(engine);
            }
            let result = run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(result.response, "done", "{way:?} {durable}");
            assert_eq!(log.count(r#"create_issue {"text":"Crash"}"#), 1);
            assert_eq!(hook.log.count("PostTool create_issue b ok"), 1);
            assert_eq!(last_results(agent.messages()), ["b: ran create_issue"]);
            check_valid(agent.messages());
            for request in provider.requests() {
                let visible: Vec<&str> = request.tools.iter().map(|tool| &*tool.name).collect();
                assert_eq!(visible, ["read_file", SEARCH_TOOLS, CALL_TOOL]);
                assert_eq!(names(&request), DEFERRED);
            }
            let block = |block: &ContentBlock| matches!(block, ContentBlock::Raw { .. });
            assert!(agent.messages()[1].content.iter().any(block), "the search stays");
        }
    }
}

#[tokio::test]
async fn own_search_works_with_a_vendor_without_a_search() {
    let log = Log::default();
    let early = call("a", "send_mail", json!({}));
    let replies =
        [early, find("b", "mail"), call("c", "send_mail", json!({})), Reply::text("done")];
    let (_, builder) = chat(replies, tools(&log));
    let mut agent = builder.build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let all = format!("{:?}", agent.messages());
    let hint = "tool not found: send_mail; the tools are: read_file. Search for other tools before you call them";
    assert!(all.contains(hint), "{all}");
    assert_eq!(last_results(agent.messages()), ["c: ran send_mail"]);
    assert_eq!(log.lines().len(), 1);
}

#[tokio::test]
async fn policy_approval_and_unknown_names_apply_to_found_tools() {
    let log = Log::default();
    let replies = [
        searched("a", "create_issue", json!({})),
        searched("b", "nothing", json!({})),
        Reply::text("done"),
    ];
    let (_, builder) = chat(replies, tools(&log));
    let mut agent = builder.permission_policy(Denies(&["create_issue"])).build();
    run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
    let all = format!("{:?}", agent.messages());
    assert!(all.contains("permission denied: no create_issue"), "{all}");
    let results = last_results(agent.messages());
    assert!(results[0].starts_with("b: !tool not found: nothing; "), "{results:?}");

    let ask = json!({ "ask": "Really?" });
    let (_, builder) = chat([searched("a", "send_mail", ask)], tools(&log));
    let builder = builder.pause_for_approval(true).permission_policy(ByArguments);
    let error = builder.build().run_text("go", &ToolContext::default()).await.unwrap_err();
    let LoopError::ApprovalRequired(pending) = error else { panic!("{error}") };
    assert!(format!("{pending:?}").contains("send_mail"));
    assert_eq!(log.lines(), [""; 0]);
}

#[tokio::test]
async fn restriction_of_a_turn_applies_to_the_vendor_too() {
    for way in WAYS {
        for (removed, left, runs) in [
            // A refused tool stays in the request, so that the vendor's prompt cache still applies.
            ("list_issues", &DEFERRED[..], true),
            ("send_mail", &DEFERRED, false),
            (SEARCH_TOOLS, &[], false),
            (CALL_TOOL, &[], false),
        ] {
            let log = Log::default();
            let replies = [searched("b", "send_mail", json!({})), Reply::text("done")];
            let (provider, builder) = chat(replies, tools(&log));
            let mut agent = builder
                .prepare_turn(move |turn| turn.retain_tools(|tool| tool.name != removed))
                .build();
            run(way, &mut agent, &ToolContext::default()).await.unwrap();
            assert_eq!(log.lines().len(), usize::from(runs), "{way:?} {removed}");
            let result = &last_results(agent.messages())[0];
            assert_eq!(result.starts_with("b: !tool not found: send_mail"), !runs, "{result}");
            for request in provider.requests() {
                assert_eq!(names(&request), left, "{removed}");
            }
        }
    }
}

#[tokio::test]
async fn layer_that_removes_the_search_leaves_the_vendor_nothing_to_search() {
    for removed in [&[SEARCH_TOOLS][..], &[CALL_TOOL]] {
        let log = Log::default();
        let both = Reply::tool_calls([
            ("b", "send_mail", json!({})),
            ("c", CALL_TOOL, through("send_mail", json!({}))),
            ("d", "read_file", json!({})),
        ]);
        let (provider, builder) = chat([both, Reply::text("done")], tools(&log));
        let mut agent = builder.layer(RemovesTools(removed)).build();
        run(Way::Run, &mut agent, &ToolContext::default()).await.unwrap();
        let results = last_results(agent.messages());
        assert!(results[0].starts_with("b: !tool not found: send_mail"), "{results:?}");
        assert!(results[1].starts_with("c: !tool not found: "), "{results:?}");
        assert_eq!(results[2], "d: ran read_file");
        assert!(provider.requests().iter().all(|request| names(request).is_empty()));
    }
}
