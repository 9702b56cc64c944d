//! Tests of runs whose telemetry cannot be delivered or is disabled.

use std::time::Duration;

use futures_util::StreamExt;
use neuron_testing::Reply;
use neuron_types::Message;
use opentelemetry_sdk::trace::Sampler;
use serde_json::json;

use crate::support::agents::Chat;
use crate::support::conventions::Version;
use crate::support::look::Behavior;
use crate::support::receiver::Answer;
use crate::support::setup::{cases, context};
use crate::support::telemetry::Telemetry;

fn replies() -> [Reply; 2] {
    [Reply::tool_call("call_1", "look", json!({"at": "the sea"})), Reply::text("Blue.")]
}

#[tokio::test]
async fn failing_or_hanging_receiver_does_not_affect_run() {
    for answer in [Answer::Status(500), Answer::Status(400), Answer::Never] {
        for case in cases() {
            let replies = [replies(), replies(), replies()].concat();
            let setup = case.start_with(Telemetry::at_once(), replies).await;
            let receiver = setup.telemetry.receiver();
            receiver.answer(answer);
            let run = async || {
                let mut agent = setup.agent(Behavior::Echo);
                agent.run("What is it like?", &context()).await.unwrap()
            };
            assert_eq!(run().await.response, "Blue.");
            let asked = async {
                while receiver.requests() == 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), asked).await.expect("spans are sent");
            // The exporter has now failed, or is waiting for the receiver.
            assert_eq!(run().await.response, "Blue.");
            assert_eq!(receiver.spans(), []);
            // The receiver accepts requests again, so later telemetry must arrive.
            receiver.answer(Answer::Accept);
            assert_eq!(run().await.response, "Blue.");
            let arrived = setup.finish().spans.len();
            assert!((5..=15).contains(&arrived), "{case:?}: {arrived}");
        }
    }
}

#[tokio::test]
async fn unsampled_trace_is_measured() {
    for case in cases() {
        let setup = case.start_with(Telemetry::with_sampler(Sampler::AlwaysOff), replies()).await;
        let mut agent = setup.agent(Behavior::Echo);
        agent.run("What is it like?", &context()).await.unwrap();
        let exported = setup.finish();
        assert_eq!(exported.spans, []);
        assert!(!exported.metrics.is_empty());
    }
}

/// Checks an agent with two hooks. The model calls that each hook records must have the session id and the time to the
/// first chunk. Regression test. The first hook recorded neither.
#[tokio::test]
async fn two_hooks_on_one_agent_export_everything() {
    for case in cases() {
        let setup = case.start(replies()).await;
        let (one, other) = (setup.hook(), setup.hook());
        let mut agent = Chat::new(setup.plain(Behavior::Echo).hook(one).hook(other));
        let (message, ctx) = (Message::user("What is it like?"), context());
        agent.run(message, &ctx).stream().collect::<Vec<_>>().await;
        let exported = setup.finish();
        let forest = exported.forest();
        assert_eq!(forest.all("invoke_agent planner").len(), 2, "{forest:?}");
        assert_eq!(forest.all("execute_tool look").len(), 2, "{forest:?}");
        let chats = forest.all(&format!("chat {}", case.vendor.model()));
        assert_eq!(chats.len(), 4, "{forest:?}");
        for chat in chats {
            let attributes = &chat.attributes;
            assert_eq!(attributes.text("gen_ai.conversation.id"), Some("conversation-1"));
            assert!(attributes.has("gen_ai.response.time_to_first_chunk"), "{forest:?}");
        }
        if case.version == Version::Latest {
            let runs = exported.points("gen_ai.invoke_agent.inference_calls");
            assert_eq!(
                runs.iter().map(|(_, runs, calls)| (*runs, *calls)).collect::<Vec<_>>(),
                [(2, 4.0)]
            );
        }
    }
}

#[tokio::test]
async fn run_works_with_subscriber_without_layer() {
    for case in cases() {
        let setup = case.start(replies()).await;
        let plain = tracing::subscriber::set_default(tracing_subscriber::registry());
        let mut agent = setup.agent(Behavior::Echo);
        agent.run("What is it like?", &context()).await.unwrap();
        drop(plain);
        let exported = setup.finish();
        assert_eq!(exported.spans, []);
        assert!(!exported.metrics.is_empty());
    }
}
