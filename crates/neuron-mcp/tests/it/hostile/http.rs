//! Tests with HTTP servers that violate the protocol.

mod server;

use std::time::Duration;

use neuron_mcp::{HttpConfig, McpClient, McpError, McpTimeout};
use tokio::time::Instant;

use self::server::HttpServer;
use crate::hostile::alone::{alone, assert_peak_below};
use crate::hostile::server::{call, client};

async fn connect(server: &HttpServer) -> McpClient {
    client().connect_http(config(server)).await.unwrap()
}

fn config(server: &HttpServer) -> HttpConfig {
    HttpConfig { url: server.url(), ..HttpConfig::default() }
}

/// Calls the tool `tool`, asserts that the call fails with a short error, and returns the error. Also asserts that the
/// next call succeeds.
async fn check(client: &McpClient, tool: &str) -> String {
    let error = call(client, tool).await.unwrap_err().to_string();
    assert!(error.len() < 2000, "{tool}: {} bytes", error.len());
    assert_eq!(call(client, "fine").await.unwrap(), "fine", "after {tool}: {error}");
    error
}

#[test]
fn huge_result_is_an_error_with_bounded_memory() {
    alone("hostile::http::huge_result_is_an_error_with_bounded_memory", &[], async {
        let server = HttpServer::start().await;
        let client = connect(&server).await;
        for tool in ["huge", "huge event", "huge refusal"] {
            check(&client, tool).await;
        }
        // The HTTP server runs in the same process, so its buffers count too.
        assert_peak_below(250);
    });
}

#[tokio::test]
async fn malformed_response_is_an_error() {
    let server = HttpServer::start().await;
    let client = connect(&server).await;
    for tool in ["no JSON", "no message", "nested", "page", "server error", "cut", "closed"] {
        check(&client, tool).await;
    }
}

#[tokio::test]
async fn missing_response_times_out() {
    let server = HttpServer::start().await;
    let start = Instant::now();
    let client = client()
        .request_timeout(Duration::from_secs(5))
        .connect_http(config(&server))
        .await
        .unwrap();
    for tool in ["silence", "silent event stream", "endless head"] {
        let error = call(&client, tool).await.unwrap_err();
        let McpError::Other(inner) = &error else { panic!("{tool}: {error:?}") };
        assert!(inner.is::<McpTimeout>(), "{tool}: {error}");
    }
    assert_eq!(call(&client, "fine").await.unwrap(), "fine");
    client.close().await;
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn event_flood_does_not_block_calls_with_bounded_memory() {
    alone("hostile::http::event_flood_does_not_block_calls_with_bounded_memory", &[], async {
        let server = HttpServer::start().await;
        let client = connect(&server).await;
        let (flooded, between) = tokio::join!(call(&client, "flood"), call(&client, "fine"));
        assert_eq!(between.unwrap(), "fine");
        assert_eq!(flooded.unwrap(), "fine");
        assert_peak_below(150);
    });
}
