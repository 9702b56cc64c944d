//! Tests with servers that send malformed lines and wrong responses.

use std::time::Duration;

use neuron_mcp::McpClient;

use crate::hostile::server::{call, call_after_the_end, client, connect, program};

/// Asserts that a call of the tool `tool` fails with an error that contains `words`, and that the next call succeeds.
async fn check(client: &McpClient, tool: &str, words: &str) {
    let error = call(client, tool).await.unwrap_err();
    assert!(error.to_string().contains(words), "{tool}: {error}");
    assert_eq!(call(client, "fine").await.unwrap(), "fine", "after {tool}");
}

#[tokio::test]
async fn malformed_lines_are_skipped() {
    let client = connect("serves").await;
    assert_eq!(call(&client, "frames").await.unwrap(), "fine");
}

#[tokio::test]
async fn unreadable_response_is_a_clear_error() {
    let client = connect("serves").await;
    check(&client, "nested", "tools/call: the server's answer cannot be read").await;
    check(&client, "closed nesting", "the server's answer cannot be read").await;
    check(&client, "not UTF-8", "the server's answer cannot be read").await;
}

#[tokio::test]
async fn response_with_a_wrong_result_is_an_error() {
    let client = connect("serves").await;
    assert!(call(&client, "no result").await.is_err());
    assert_eq!(call(&client, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn response_truncated_by_exit_is_a_clear_error() {
    let client = connect("serves").await;
    let error = call(&client, "cut").await.unwrap_err().to_string();
    assert!(error.contains("the server's answer cannot be read: EOF while parsing"), "{error}");
    assert_eq!(call_after_the_end(&client, "fine").await.unwrap(), "fine");
}

#[tokio::test]
async fn response_with_another_id_is_ignored() {
    let client = client()
        .request_timeout(Duration::from_secs(5))
        .connect_stdio(program("serves"))
        .await
        .unwrap();
    check(&client, "another id", "did not answer tools/call within 5s").await;
}
