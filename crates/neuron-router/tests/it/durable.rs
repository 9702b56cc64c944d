//! A router inside the calls that a durable engine journals.

use std::sync::Arc;

use neuron_durable_sqlite::SqliteDurableContext;
use neuron_loop::{Agent, Conversation};
use neuron_model::{AnswerRoute, Message};
use neuron_router::Router;
use neuron_testing::Reply;
use serde_json::json;

use crate::support::{busy, calls, router, script};
use crate::vendors::Step;

/// Runs the agent to its end, or replays it. Returns the conversation and the steps that the tool made.
async fn run(journal: &std::path::Path, router: &Router) -> (Vec<Message>, Vec<u64>) {
    let (step, provider) = (Step::default(), Arc::new(router.clone()));
    let agent = Agent::builder(provider.clone()).tools(step.registry()).build();
    let tools = Arc::new(step.registry());
    let durable = SqliteDurableContext::open(journal, "run", provider, tools).await.unwrap();
    let start = durable.start("Make a step.").await.unwrap();
    let mut conversation = Conversation::new();
    agent.run(&mut conversation, start).durable(durable).await.unwrap();
    (conversation.messages().to_vec(), step.take())
}

#[tokio::test]
async fn replay_calls_no_route_and_has_the_routes_that_answered() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("runs.db");
    let call = Reply::tool_call("call_1", "step", json!({"step": 1}));
    let providers = [script([Reply::error(busy())]), script([call, Reply::text("Done.")])];
    let (messages, steps) = run(&journal, &router(&providers)).await;
    assert_eq!((steps, calls(&providers)), (vec![1], vec![1, 2]));
    let routes = messages.iter().filter_map(Message::metadata).filter_map(|it| it.route);
    let routes: Vec<AnswerRoute> = routes.collect();
    assert_eq!(routes.iter().map(|it| &*it.name).collect::<Vec<_>>(), ["b", "b"]);
    assert_eq!(&*routes[0].failed[0].name, "a");

    // The second process has other routes, and calls none of them.
    let others = [script([]), script([]), script([])];
    let (replayed, steps) = run(&journal, &router(&others)).await;
    assert_eq!((replayed, steps, calls(&others)), (messages, vec![], vec![0, 0, 0]));
}
