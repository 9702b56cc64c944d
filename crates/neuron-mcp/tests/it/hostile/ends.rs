//! Tests with servers that crash, hang, or ignore the end of the connection.

use std::time::Duration;

use neuron_mcp::{McpError, McpEvent, McpTimeout};
use serde_json::{Map, json};
use tokio::time::Instant;

use crate::hostile::alone::LIMIT;
use crate::hostile::server::{call, call_after_the_end, client, connect, program, shell};

/// Maximum time of a test with short timeouts, including the start of the server on a loaded machine.
const SOON: Duration = Duration::from_secs(40);

#[tokio::test]
async fn exit_status_and_stderr_are_in_the_connect_error() {
    let error = client().connect_stdio(program("dies at once")).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("exit status 3") && text.contains("no database"), "{text}");
}

#[tokio::test]
async fn exit_during_the_handshake_is_in_the_error() {
    let error =
        client().connect_stdio(program("dies in the handshake")).await.unwrap_err().to_string();
    assert!(error.contains("exit status 4") && error.contains("I do not like you"), "{error}");
}

#[tokio::test]
async fn server_that_dies_in_a_call_is_restarted() {
    let client = connect("dies when it is called").await;
    for _ in 0..2 {
        let error = call(&client, "fine").await.unwrap_err();
        assert!(matches!(error, McpError::Transport(_)), "{error:?}");
        assert!(error.to_string().contains("lost"), "{error}");
        // The next request reconnects. The failed call is not repeated.
        client.list_tools(None).await.unwrap();
    }
}

#[tokio::test]
async fn server_that_dies_between_calls_is_restarted() {
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
async fn silent_server_fails_after_the_connect_timeout() {
    let start = Instant::now();
    let client = client().connect_timeout(Duration::from_millis(300));
    let error = client.connect_stdio(program("says nothing")).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error:?}");
    assert!(error.to_string().contains("300ms"), "{error}");
    assert!(start.elapsed() < SOON);
}

#[tokio::test]
async fn unanswered_call_times_out() {
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
async fn endless_progress_does_not_exceed_the_maximum_time() {
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
async fn call_to_a_server_that_never_reads_times_out() {
    let start = Instant::now();
    let client = client()
        .request_timeout(Duration::from_millis(300))
        .connect_stdio(program("never reads"))
        .await
        .unwrap();
    // The arguments exceed the buffer of the pipe, so the client cannot finish writing.
    let arguments = json!({"text": "x".repeat(1_000_000)});
    for _ in 0..3 {
        let error = client.call_tool_json("any", arguments.clone()).await.unwrap_err();
        assert_timeout(&error, Duration::from_millis(300));
    }
    client.close().await;
    assert!(start.elapsed() < SOON);
}

/// Asserts that an error is a timeout with this limit.
#[track_caller]
fn assert_timeout(error: &McpError, limit: Duration) {
    let McpError::Other(inner) = error else { panic!("{error:?}") };
    assert_eq!(
        inner.downcast_ref::<McpTimeout>().map(|timeout| timeout.limit),
        Some(limit),
        "{error}"
    );
}

/// Returns the command of a server that starts a helper process. Both processes ignore signals and the end of their
/// input.
fn stubborn() -> neuron_mcp::StdioConfig {
    shell("trap '' TERM HUP INT; sleep 1000 & export HELPER=$!; ", "is stubborn")
}

#[tokio::test]
async fn close_kills_a_stubborn_server_and_its_helper() {
    let client = client().connect_stdio(stubborn()).await.unwrap();
    let ids = call(&client, "ids").await.unwrap();
    assert_eq!(ids.split(' ').filter(|id| runs(id)).count(), 2, "{ids}");
    client.close().await;
    all_end(&ids).await;
}

#[tokio::test]
async fn drop_kills_a_stubborn_server_and_its_helper() {
    let client = client().connect_stdio(stubborn()).await.unwrap();
    let ids = call(&client, "ids").await.unwrap();
    drop(client);
    all_end(&ids).await;
}

#[test]
fn runtime_shutdown_kills_a_stubborn_server_and_its_helper() {
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

/// Waits until a server process and its helper process have ended. `ids` contains both process ids, separated by a
/// space.
///
/// The server must also have been reaped. The helper may remain as a zombie, because it is not a child of the test
/// process.
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

/// Returns `true` if a process exists, including a zombie.
fn exists(id: &str) -> bool {
    std::process::Command::new("kill").args(["-0", id]).output().unwrap().status.success()
}

/// Returns `true` if a process exists and is not a zombie. Used for the server's helper process, which may stay a
/// zombie.
fn runs(id: &str) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "stat=", "-p", id]).output().unwrap();
    let state = String::from_utf8_lossy(&output.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}
