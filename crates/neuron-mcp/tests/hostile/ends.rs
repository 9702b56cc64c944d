//! Servers that die, hang, or do not want to go.

use std::time::Duration;

use neuron_mcp::{McpError, McpEvent, McpTimeout};
use serde_json::{Map, json};
use tokio::time::Instant;

use crate::alone::LIMIT;
use crate::server::{call, call_after_the_end, client, connect, program, shell};

/// How long a client with the limits of these tests may take on a busy machine.
const SOON: Duration = Duration::from_secs(40);

#[tokio::test]
async fn a_server_that_dies_at_once_says_why() {
    let error = client().connect_stdio(program("dies at once")).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("exit status 3") && text.contains("no database"), "{text}");
}

#[tokio::test]
async fn a_server_that_dies_in_the_handshake_says_why() {
    let error =
        client().connect_stdio(program("dies in the handshake")).await.unwrap_err().to_string();
    assert!(error.contains("exit status 4") && error.contains("I do not like you"), "{error}");
}

#[tokio::test]
async fn a_server_that_dies_in_a_call_fails_it_and_is_started_anew() {
    let client = connect("dies when it is called").await;
    for _ in 0..2 {
        let error = call(&client, "fine").await.unwrap_err();
        assert!(matches!(error, McpError::Transport(_)), "{error:?}");
        assert!(error.to_string().contains("lost"), "{error}");
        // The next request makes the connection anew; what failed is not repeated.
        client.list_tools(None).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_dies_between_calls_is_started_anew() {
    let client = connect("serves").await;
    let mut events = client.events();
    let first = call(&client, "last words").await.unwrap();
    let second = call_after_the_end(&client, "last words").await.unwrap();
    assert_ne!(first, second, "it is the same process");
    for expected in [McpEvent::Disconnected, McpEvent::Reconnected] {
        let seen = tokio::time::timeout(LIMIT, events.next()).await.unwrap();
        assert_eq!(seen, Some(expected));
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_in_time() {
    let start = Instant::now();
    let client = client().connect_timeout(Duration::from_millis(300));
    let error = client.connect_stdio(program("says nothing")).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error:?}");
    assert!(error.to_string().contains("300ms"), "{error}");
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn a_call_that_never_ends_is_given_up_in_time() {
    let start = Instant::now();
    let client = client()
        .request_timeout(Duration::from_millis(300))
        .connect_stdio(program("never ends a request"))
        .await
        .unwrap();
    let error = client.call_tool("any", Map::new()).await.unwrap_err();
    assert_timeout(&error, Duration::from_millis(300));
    client.close().await;
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn progress_without_end_does_not_make_time_without_end() {
    let start = Instant::now();
    let client = client()
        .max_request_time(Duration::from_secs(1))
        .connect_stdio(program("serves"))
        .await
        .unwrap();
    let error = client.call_tool("endless progress", Map::new()).await.unwrap_err();
    assert_timeout(&error, Duration::from_secs(1));
    client.close().await;
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn a_server_that_never_reads_is_given_up_in_time() {
    let start = Instant::now();
    let client = client()
        .request_timeout(Duration::from_millis(300))
        .connect_stdio(program("never reads"))
        .await
        .unwrap();
    // More than a pipe holds.
    let arguments = json!({"text": "x".repeat(1_000_000)});
    for _ in 0..3 {
        let error = client.call_tool_json("any", arguments.clone()).await.unwrap_err();
        assert_timeout(&error, Duration::from_millis(300));
    }
    client.close().await;
    assert!(start.elapsed() < SOON);
}

#[track_caller]
fn assert_timeout(error: &McpError, limit: Duration) {
    let McpError::Other(inner) = error else { panic!("{error:?}") };
    assert_eq!(
        inner.downcast_ref::<McpTimeout>().map(|timeout| timeout.limit),
        Some(limit),
        "{error}"
    );
}

/// It and its helper ignore signals, and the end of their input.
fn stubborn() -> neuron_mcp::StdioConfig {
    shell("trap '' TERM HUP INT; sleep 1000 & export HELPER=$!; ", "is stubborn")
}

#[tokio::test]
async fn closing_ends_a_server_and_its_helper_that_ignore_it() {
    let client = client().connect_stdio(stubborn()).await.unwrap();
    let ids = call(&client, "ids").await.unwrap();
    assert_eq!(ids.split(' ').filter(|id| runs(id)).count(), 2, "{ids}");
    client.close().await;
    all_end(&ids).await;
}

#[tokio::test]
async fn dropping_ends_a_server_and_its_helper_that_ignore_it() {
    let client = client().connect_stdio(stubborn()).await.unwrap();
    let ids = call(&client, "ids").await.unwrap();
    drop(client);
    all_end(&ids).await;
}

#[test]
fn the_end_of_the_runtime_ends_a_server_and_its_helper() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, ids) = runtime.block_on(async {
        let client = client().connect_stdio(stubborn()).await.unwrap();
        let ids = call(&client, "ids").await.unwrap();
        (client, ids)
    });
    drop(runtime);
    drop(client);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(all_end(&ids));
}

/// Waits until the processes run no more. The first, which is our child, leaves no zombie either.
async fn all_end(ids: &str) {
    let mut ids = ids.split(' ');
    let (leader, helper) = (ids.next().unwrap(), ids.next().unwrap());
    let end = async {
        while exists(leader) || runs(helper) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, end).await.expect("a process is left");
}

fn exists(id: &str) -> bool {
    std::process::Command::new("kill").args(["-0", id]).output().unwrap().status.success()
}

/// Whether a process is there and not only waited for: its parent may be one that waits for nobody.
fn runs(id: &str) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", id]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}
