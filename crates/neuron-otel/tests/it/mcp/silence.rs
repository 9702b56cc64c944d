//! Tests that check that traces and metrics do not contain the messages between an agent, an MCP client and a server.

use std::collections::HashMap;

use neuron_mcp::McpError;
use neuron_testing::Reply;
use serde_json::json;

use super::served::{SECRET, kinds};
use crate::support::look::Behavior;
use crate::support::setup::context;
use crate::support::telemetry::Exported;

#[track_caller]
fn assert_silent(exported: &Exported, spans: &[&str]) {
    let text = format!("{:?} {:?}", exported.spans, exported.metrics);
    for span in spans {
        assert!(!exported.forest().all(span).is_empty(), "`{span}` is exported");
    }
    for said in [SECRET, "no light"] {
        assert!(!text.contains(said), "{said} is recorded:\n{:?}", exported.forest());
    }
}

#[tokio::test]
async fn content_between_run_and_server_is_not_recorded() {
    for kind in kinds() {
        for behavior in [Behavior::Echo, Behavior::Fail, Behavior::ErrorResult] {
            let call = Reply::tool_call("call_1", "look", json!({"at": SECRET}));
            let setup = kind.start([call.with_text(SECRET), Reply::text(SECRET)]).await;
            let served = kind.serve(behavior).await;
            let mut agent = served.agent(&setup).await;
            let answer = agent.run(SECRET, &context()).await.unwrap();
            assert_eq!(answer.response, SECRET);
            served.end().await;
            assert_silent(&setup.finish(), &["execute_tool look", "tools/call look"]);
        }
    }
}

#[tokio::test]
async fn content_of_requests_and_responses_is_not_recorded() {
    for kind in kinds() {
        let setup = kind.start([] as [Reply; 0]).await;
        let served = kind.serve(Behavior::Echo).await;
        let client = &served.client;
        let output = client.call_tool_json("look", json!({"at": SECRET})).await.unwrap();
        assert!(output.content[0].to_string().contains(SECRET));
        let arguments = || HashMap::from([("name".to_owned(), SECRET.to_owned())]);
        let prompt = client.get_prompt("greet", arguments()).await.unwrap();
        assert!(format!("{prompt:?}").contains(SECRET));
        let resource = client.read_resource("x://1").await.unwrap();
        assert!(format!("{resource:?}").contains(SECRET));
        // The error quotes the rejected argument.
        let refused: McpError = client.get_prompt("leave", arguments()).await.unwrap_err();
        drop(refused);
        client.call_tool_json("gone", json!({"at": SECRET})).await.unwrap_err();
        served.end().await;
        assert_silent(
            &setup.finish(),
            &["tools/call look", "prompts/get greet", "resources/read", "prompts/get leave"],
        );
    }
}
