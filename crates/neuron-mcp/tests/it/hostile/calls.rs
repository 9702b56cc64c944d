//! Tests with servers that send unexpected responses, requests and lists.

use neuron_mcp::{McpError, McpLimitExceeded};

use crate::hostile::server::{call, client, connect, program};

#[tokio::test]
async fn second_response_to_a_request_is_ignored() {
    let client = connect("serves").await;
    for _ in 0..10 {
        assert_eq!(call(&client, "twice").await.unwrap(), "once");
        assert_eq!(call(&client, "fine").await.unwrap(), "fine");
    }
}

#[tokio::test]
async fn requests_without_a_handler_are_refused_during_a_call() {
    let client = connect("serves").await;
    let said = call(&client, "asks").await.unwrap();
    let said: Vec<_> = said.split(' ').collect();
    // In order: sampling, elicitation, roots, an unknown method, invalid parameters, a ping.
    for refused in &said[..5] {
        assert!(refused.starts_with("-32"), "{said:?}");
    }
    assert_eq!(said[3], "-32601", "{said:?}");
    assert_eq!(said[5], "ok", "{said:?}");
    assert_eq!(call(&client, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn tool_removed_during_a_call_is_a_tool_call_error() {
    let client = connect("serves").await;
    let mut events = client.events();
    let error = call(&client, "vanishes").await.unwrap_err();
    assert!(matches!(error, McpError::ToolCall(_)), "{error:?}");
    assert!(error.to_string().contains("Unknown tool: vanishes"), "{error}");
    assert_eq!(events.next().await, Some(neuron_mcp::McpEvent::ToolsChanged));
    assert_eq!(client.list_all_tools().await.unwrap().len(), 2);
}

#[tokio::test]
async fn endless_list_exceeds_the_page_limit() {
    let client = client().connect_stdio(program("has endless lists")).await.unwrap();
    let error = client.list_all_tools().await.unwrap_err();
    let McpError::Other(error) = error else { panic!("{error:?}") };
    let exceeded: &McpLimitExceeded = error.downcast_ref().unwrap();
    assert_eq!((exceeded.limit, exceeded.unit, exceeded.setting), (2000, "pages", None));
    assert_eq!(call(&client, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn list_with_repeated_cursors_ends() {
    let client = client().connect_stdio(program("has circular lists")).await.unwrap();
    // Four pages with two tools each. The fourth page repeats the cursor of the first.
    assert_eq!(client.list_all_tools().await.unwrap().len(), 8);
    assert_eq!(call(&client, "fine").await.unwrap(), "fine");
}
