//! Tests of results that request input from the client (MCP 2026-07-28).

use std::collections::HashMap;
use std::time::Duration;

use neuron_mcp::{
    ElicitationHandler, ElicitationRequest, ElicitationResponse, McpCancelled, McpClient, McpError,
    McpRoot,
};
use neuron_types::ToolContext;
use serde_json::{Value, json};

use super::connected_to_modern;
use crate::script::{said, text};

/// An elicitation handler that waits forever, fails, or accepts after one hour, depending on the text of the message.
struct Person;

impl ElicitationHandler for Person {
    async fn elicit(&self, request: ElicitationRequest) -> Result<ElicitationResponse, McpError> {
        let ElicitationRequest::Form { message, .. } = request else { panic!("no form") };
        match message.as_str() {
            "never" => std::future::pending().await,
            "fail" => Err(McpError::Other("the window is closed".into())),
            _ => {
                tokio::time::sleep(Duration::from_secs(3600)).await;
                Ok(ElicitationResponse::Accept(json!({ "name": message })))
            }
        }
    }
}

/// Returns a result that requires two inputs from the client, a form with the text `message` and the roots. `state` is
/// the `requestState`, which the client must send back.
fn wants(message: &str, state: &str) -> Value {
    let params =
        json!({ "message": message, "requestedSchema": { "type": "object", "properties": {} } });
    json!({
        "resultType": "input_required",
        "inputRequests": {
            "who": { "method": "elicitation/create", "params": params },
            "where": { "method": "roots/list", "params": {} },
        },
        "requestState": state,
    })
}

fn builder() -> neuron_mcp::McpClientBuilder {
    McpClient::builder().elicitation(Person).roots(vec![McpRoot::new("file:///work")])
}

#[tokio::test(start_paused = true)]
async fn call_is_repeated_with_the_responses() {
    let (client, mut server) = connected_to_modern(builder(), json!({ "tools": {} })).await;
    let serving = async {
        let call = server.expect("tools/call").await;
        server.reply(&call, wants("Ann", "one")).await;
        let call = server.expect("tools/call").await;
        assert_eq!(call["params"]["name"], "greet");
        assert_eq!(call["params"]["arguments"], json!({ "loud": true }));
        assert_eq!(call["params"]["requestState"], "one");
        let answers = &call["params"]["inputResponses"];
        assert_eq!(answers["who"], json!({ "action": "accept", "content": { "name": "Ann" } }));
        assert_eq!(answers["where"]["roots"][0]["uri"], "file:///work");
        // A result with a state but without input requests asks the client to repeat the call.
        server.reply(&call, json!({ "resultType": "input_required", "requestState": "two" })).await;
        let call = server.expect("tools/call").await;
        assert_eq!(call["params"]["requestState"], "two");
        assert_eq!(call["params"].get("inputResponses"), None, "{call}");
        server.reply(&call, said("HELLO")).await;
    };
    let (output, ()) =
        tokio::join!(client.call_tool_json("greet", json!({ "loud": true })), serving);
    assert_eq!(text(&output.unwrap()), "HELLO");
}

#[tokio::test(start_paused = true)]
async fn prompts_and_resources_can_request_input() {
    let (client, mut server) = connected_to_modern(builder(), json!({})).await;
    let serving = async {
        let request = server.expect("prompts/get").await;
        server.reply(&request, wants("Ann", "one")).await;
        let request = server.expect("prompts/get").await;
        assert_eq!(request["params"]["inputResponses"]["who"]["action"], "accept");
        server.reply(&request, json!({ "messages": [] })).await;
        let request = server.expect("resources/read").await;
        server.reply(&request, wants("Ann", "one")).await;
        let request = server.expect("resources/read").await;
        assert_eq!(request["params"]["inputResponses"]["who"]["action"], "accept");
        server.reply(&request, json!({ "contents": [] })).await;
    };
    let asking = async {
        client.get_prompt("greet", HashMap::new()).await.unwrap();
        client.read_resource("file:///a").await.unwrap();
    };
    tokio::join!(asking, serving);
}

#[tokio::test(start_paused = true)]
async fn input_rounds_are_limited() {
    let (client, mut server) = connected_to_modern(builder(), json!({})).await;
    let serving = async {
        for _ in 0..11 {
            let call = server.expect("tools/call").await;
            server.reply(&call, wants("Ann", "again")).await;
        }
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    let text = "tools/call: the exchange of input has more than 10 rounds, a limit of this client";
    assert_eq!(error, text);
}

#[tokio::test]
async fn failed_or_missing_handler_fails_the_call() {
    let with_handler = builder();
    let without = McpClient::builder();
    for (builder, told) in [(with_handler, "the window is closed"), (without, "does not support")] {
        let (client, mut server) = connected_to_modern(builder, json!({})).await;
        let serving = async {
            let call = server.expect("tools/call").await;
            server.reply(&call, wants("fail", "one")).await;
        };
        let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
        let error = output.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[tokio::test]
async fn call_can_be_cancelled_during_elicitation() {
    let (client, mut server) = connected_to_modern(builder(), json!({})).await;
    let ctx = ToolContext::default();
    let serving = async {
        let call = server.expect("tools/call").await;
        server.reply(&call, wants("never", "one")).await;
        ctx.cancellation_token.cancel();
    };
    let (output, ()) = tokio::join!(client.call_tool_in("greet", Value::Null, &ctx), serving);
    let McpError::Other(error) = output.unwrap_err() else { panic!("another error") };
    assert!(error.is::<McpCancelled>());
}

#[tokio::test]
async fn list_result_that_requests_input_is_an_error() {
    let (client, mut server) = connected_to_modern(builder(), json!({})).await;
    let serving = async {
        let request = server.expect("tools/list").await;
        let result = json!({ "resultType": "input_required", "requestState": "one" });
        server.reply(&request, result).await;
    };
    let (list, ()) = tokio::join!(client.list_tools(None), serving);
    assert!(matches!(list.unwrap_err(), McpError::Transport(_)));
}
