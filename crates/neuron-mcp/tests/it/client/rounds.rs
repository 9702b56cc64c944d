//! Input that a server wants by its results (MCP 2026-07-28).

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
async fn a_call_goes_on_with_the_answers() {
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
        // Only to be asked later.
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
async fn prompts_and_resources_may_want_input_too() {
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
async fn a_server_may_not_want_input_for_ever() {
    let builder = builder().max_input_rounds(3);
    let (client, mut server) = connected_to_modern(builder, json!({})).await;
    let serving = async {
        for _ in 0..4 {
            let call = server.expect("tools/call").await;
            server.reply(&call, wants("Ann", "again")).await;
        }
    };
    let (output, ()) = tokio::join!(client.call_tool_json("greet", Value::Null), serving);
    let error = output.unwrap_err().to_string();
    let text = "tools/call: the exchange of input has more than 3 rounds, a limit of this client \
                (`max_input_rounds`)";
    assert_eq!(error, text);
}

#[tokio::test]
async fn input_that_cannot_be_given_fails_the_call() {
    let with_handler = builder();
    let without = McpClient::builder();
    for (builder, told) in [(with_handler, "the window is closed"), (without, "offers no")] {
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
async fn a_call_is_cancelled_while_a_person_thinks() {
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
async fn a_list_may_not_want_input() {
    let (client, mut server) = connected_to_modern(builder(), json!({})).await;
    let serving = async {
        let request = server.expect("tools/list").await;
        let result = json!({ "resultType": "input_required", "requestState": "one" });
        server.reply(&request, result).await;
    };
    let (list, ()) = tokio::join!(client.list_tools(None), serving);
    assert!(matches!(list.unwrap_err(), McpError::Transport(_)));
}
