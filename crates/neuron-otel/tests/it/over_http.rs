//! Tests of whole runs with a provider over HTTP. The telemetry is exported over HTTP and checked at the receiver.

use std::sync::Arc;

use futures_util::StreamExt;
use neuron_context::SlidingWindowStrategy;
use neuron_testing::Reply;
use neuron_tool::ToolRegistry;
use neuron_types::{Message, TokenUsage};
use serde_json::json;
use tokio::sync::Barrier;

use crate::support::agents::Chat;
use crate::support::attributes::Attributes;
use crate::support::conventions::Version;
use crate::support::look::{Ask, Behavior, Look};
use crate::support::setup::{Case, cases, context};

/// Returns a response that calls the tool `look`.
pub(crate) fn look() -> Reply {
    Reply::tool_call("call_1", "look", json!({"at": "the sea"}))
}

/// Asserts that the span trees equal `expected`, which has an indented line for each span. `MODEL` in `expected` stands
/// for the model name of the case.
#[track_caller]
pub(crate) fn assert_outline(case: Case, forest: &crate::support::tree::Forest, expected: &str) {
    forest.assert_outline(&expected.replace("MODEL", case.vendor.model()));
}

#[tokio::test]
async fn run_with_tools_exports_tree_of_calls() {
    for case in cases() {
        let usage = TokenUsage { input_tokens: 40, output_tokens: 5, ..TokenUsage::default() };
        let more = TokenUsage { input_tokens: 60, output_tokens: 7, ..TokenUsage::default() };
        let setup = case.start([look().usage(usage), Reply::text("Blue.").usage(more)]).await;
        let port = setup.server.port();
        setup.agent(Behavior::Echo).run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL
                inside INTERNAL
              chat MODEL CLIENT
            ",
        );
        let run = forest.root();
        for span in [run, &run.children[0], &run.children[2]] {
            let attributes = &span.attributes;
            assert_eq!(attributes.text("gen_ai.conversation.id"), Some("conversation-1"));
            assert_eq!(attributes.int("gen_ai.request.max_tokens"), Some(64));
            assert_eq!(attributes.double("gen_ai.request.temperature"), Some(0.5));
            assert_eq!(attributes.text("gen_ai.request.model"), Some(case.vendor.model()));
            let is_recorded = span.name != run.name || case.version == Version::V1_41;
            let provider = is_recorded.then_some(case.vendor.name());
            assert_eq!(attributes.text("gen_ai.provider.name"), provider);
        }
        assert_eq!(run.attributes.int("gen_ai.usage.input_tokens"), Some(100));
        assert_eq!(run.attributes.int("gen_ai.usage.output_tokens"), Some(12));
        assert_eq!(run.attributes.list("gen_ai.response.finish_reasons"), Some(vec!["stop"]));
        assert_eq!(run.attributes.text("server.address"), None);
        let first = &run.children[0].attributes;
        assert_eq!(first.int("gen_ai.usage.input_tokens"), Some(40));
        assert_eq!(first.list("gen_ai.response.finish_reasons"), Some(vec!["tool_call"]));
        assert!(first.text("gen_ai.response.id").is_some_and(|id| !id.is_empty()));
        assert_eq!(first.text("gen_ai.response.model"), Some(case.vendor.model()));
        assert_eq!(first.text("server.address"), Some("127.0.0.1"));
        assert_eq!(first.int("server.port"), Some(port));
        assert!(!first.has("gen_ai.request.stream"));
        let tool = &run.children[1].attributes;
        let is_latest = case.version == Version::Latest;
        assert_eq!(tool.text("gen_ai.agent.name"), is_latest.then_some("planner"));
        assert_eq!(tool.text("gen_ai.conversation.id"), Some("conversation-1"));
        assert_eq!(tool.text("gen_ai.tool.call.id"), Some("call_1"));
        assert_eq!(tool.text("gen_ai.tool.description"), Some("Looks at a thing"));
        assert_eq!(tool.text("gen_ai.tool.type"), Some("function"));
    }
}

#[tokio::test]
async fn parallel_tools_keep_separate_children() {
    for case in cases() {
        let ids = ["call_1", "call_2", "call_3"];
        let calls = ids.map(|id| (id, "look", json!({"at": id})));
        let setup = case.start([Reply::tool_calls(calls), Reply::text("Blue.")]).await;
        let together = Behavior::Together(Arc::new(Barrier::new(3)));
        setup.agent(together).run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL
                inside INTERNAL
              execute_tool look INTERNAL
                inside INTERNAL
              execute_tool look INTERNAL
                inside INTERNAL
              chat MODEL CLIENT
            ",
        );
        let tools = forest.all("execute_tool look");
        let mut seen = Vec::new();
        for tool in tools {
            let id = tool.attributes.text("gen_ai.tool.call.id").unwrap();
            let inside = &tool.children[0];
            assert_eq!(inside.attributes.text("call"), Some(id), "{forest:?}");
            let said: Vec<(&str, Attributes)> = inside
                .events
                .iter()
                .map(|event| (event.name.as_str(), Attributes::new(&event.attributes)))
                .collect();
            assert_eq!(
                said.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
                ["looking", "looked"]
            );
            assert!(said.iter().all(|(_, of)| of.text("call") == Some(id)), "{forest:?}");
            assert!(tool.events.is_empty(), "{forest:?}");
            seen.push(id.to_owned());
        }
        assert_eq!(seen, ids);
    }
}

#[tokio::test]
async fn parallel_agents_keep_separate_traces() {
    for case in cases() {
        let setup = case.start([look(), look(), Reply::text("Blue."), Reply::text("Blue.")]).await;
        let together = Behavior::Together(Arc::new(Barrier::new(2)));
        let (mut one, mut other) = (setup.agent(together.clone()), setup.agent(together));
        let (first, second) = (context(), context());
        let (one, other) = tokio::join!(one.run("One?", &first), other.run("Other?", &second));
        assert_eq!((one.unwrap().turns, other.unwrap().turns), (2, 2));
        let exported = setup.finish();
        let run = "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL
                inside INTERNAL
              chat MODEL CLIENT";
        assert_outline(case, &exported.forest(), &format!("{run}{run}"));
    }
}

#[tokio::test]
async fn streamed_run_exports_tree_of_calls() {
    for case in cases() {
        let setup = case.start([look(), Reply::text("Blue.")]).await;
        let mut agent = setup.agent(Behavior::Echo);
        let ctx = context();
        let events: Vec<_> = agent.run("What is it like?", &ctx).stream().collect().await;
        assert!(!events.is_empty());
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL
                inside INTERNAL
              chat MODEL CLIENT
            ",
        );
        for chat in forest.all(&format!("chat {}", case.vendor.model())) {
            assert_eq!(chat.attributes.bool("gen_ai.request.stream"), Some(true));
            let first = chat.attributes.double("gen_ai.response.time_to_first_chunk").unwrap();
            let span = &chat.span;
            let whole = (span.end_time_unix_nano - span.start_time_unix_nano) as f64 / 1e9;
            assert!(first > 0.0 && first <= whole, "{first} of {whole}");
        }
    }
}

#[tokio::test]
async fn compaction_has_a_span() {
    for case in cases() {
        let setup = case.start([look(), Reply::text("Blue.")]).await;
        let history = (0..6).flat_map(|turn| {
            let text = format!("{turn} {}", "and so on ".repeat(20));
            [Message::user(text.as_str()), Message::assistant(text.as_str())]
        });
        let mut agent = Chat::new(
            setup
                .plain(Behavior::Echo)
                .context(SlidingWindowStrategy::new(4, 400))
                .hook(setup.hook()),
        );
        agent.conversation = history.collect::<Vec<_>>().into();
        agent.run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        let forest = exported.forest();
        assert_outline(
            case,
            &forest,
            "
            invoke_agent planner INTERNAL
              neuron.context.compaction INTERNAL
              chat MODEL CLIENT
              execute_tool look INTERNAL
                inside INTERNAL
              chat MODEL CLIENT
            ",
        );
        let compaction = &forest.one("neuron.context.compaction").attributes;
        let tokens = |name: &str| compaction.int(&format!("neuron.context.{name}")).unwrap();
        assert!(tokens("new_tokens") < tokens("old_tokens"), "{compaction:?}");
        let compacted: Vec<Option<bool>> = forest
            .all(&format!("chat {}", case.vendor.model()))
            .iter()
            .map(|chat| chat.attributes.bool("gen_ai.conversation.compacted"))
            .collect();
        let is_latest = case.version == Version::Latest;
        assert_eq!(compacted, [is_latest.then_some(true), None]);
    }
}

#[tokio::test]
async fn nested_agent_is_child_of_tool_call() {
    for case in cases() {
        let inner = Reply::tool_call("call_2", "look", json!({"at": "the sky"}));
        let outer = Reply::tool_call("call_1", "ask", json!({"prompt": "Look."}));
        let replies = [outer, inner, Reply::text("Blue."), Reply::text("It is blue.")];
        let setup = case.start(replies).await;
        let mut tools = ToolRegistry::new();
        tools.register_dyn(Arc::new(Look(Behavior::Echo)));
        tools.register_dyn(Arc::new(Ask(setup.provider())));
        let builder = setup.plain(Behavior::Echo).tools(tools).hook(setup.hook());
        let mut agent = Chat::new(builder);
        agent.run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        assert_outline(
            case,
            &exported.forest(),
            "
            invoke_agent planner INTERNAL
              chat MODEL CLIENT
              execute_tool ask INTERNAL
                invoke_agent helper INTERNAL
                  chat MODEL CLIENT
                  execute_tool look INTERNAL
                    inside INTERNAL
                  chat MODEL CLIENT
              chat MODEL CLIENT
            ",
        );
        if case.version == Version::Latest {
            let mut calls: Vec<(String, f64)> = exported
                .points("gen_ai.invoke_agent.inference_calls")
                .iter()
                .map(|(of, _, sum)| (of.text("gen_ai.agent.name").unwrap().to_owned(), *sum))
                .collect();
            calls.sort_by(|a, b| a.0.cmp(&b.0));
            // Each call is counted for the agent that made the call.
            assert_eq!(calls, [("helper".to_owned(), 2.0), ("planner".to_owned(), 2.0)]);
        }
    }
}
