//! Tests with servers that forget their sessions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use neuron_mcp::{LogLevel, McpClient, McpError, McpEvent};
use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::{Asked, Server, config, greet, serve, serve_slowly, status};
use crate::script::{said, text};

/// A server that accepts only its newest session. Session ids are numbers, and `newest` is the id of the newest
/// session. A test increments `newest` so that the server forgets the client's session.
#[derive(Default)]
struct Sessions {
    newest: usize,
    /// Number of received requests by session id and method, for example `1 tools/call`.
    asked: BTreeMap<String, usize>,
}

impl Sessions {
    fn answer(&mut self, asked: &Asked) -> Response<Full<Bytes>> {
        let method = asked.message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            self.newest += 1;
            let mut response = asked.result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {
                    "tools": {},
                    "logging": {},
                    "resources": { "subscribe": true },
                },
                "serverInfo": { "name": "http", "version": "1" },
            }));
            let id = self.newest.to_string().parse().unwrap();
            response.headers_mut().insert("mcp-session-id", id);
            return response;
        }
        let Some(session) = asked.header("mcp-session-id") else { return asked.served() };
        *self.asked.entry(format!("{session} {method}")).or_default() += 1;
        match session == self.newest.to_string() {
            false => status(404),
            true if matches!(method, "logging/setLevel" | "resources/subscribe") => {
                asked.result(json!({}))
            }
            true => asked.served(),
        }
    }

    /// Returns how many requests were received. `what` is a session id and a method, for example `1 tools/call`.
    fn asked(&self, what: &str) -> usize {
        self.asked.get(what).copied().unwrap_or_default()
    }
}

async fn serve_sessions() -> (Server, Arc<Mutex<Sessions>>) {
    let sessions = Arc::new(Mutex::new(Sessions::default()));
    let answering = Arc::clone(&sessions);
    (serve(move |asked| answering.lock().unwrap().answer(&asked)).await, sessions)
}

#[tokio::test]
async fn forgotten_session_is_restored_with_subscriptions_and_log_level() {
    let (server, sessions) = serve_sessions().await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    client.subscribe("file:///a").await.unwrap();
    client.set_log_level(LogLevel::Warning).await.unwrap();
    let mut events = client.events();

    // Simulate a restart of the server, which makes the client's session unknown.
    sessions.lock().unwrap().newest += 1;
    assert_eq!(greet(&client).await.unwrap(), "hello");
    {
        let sessions = sessions.lock().unwrap();
        assert_eq!(sessions.newest, 3);
        for told in ["resources/subscribe", "logging/setLevel", "tools/call"] {
            assert_eq!(sessions.asked(&format!("1 {told}")), 1, "{told}");
            assert_eq!(sessions.asked(&format!("3 {told}")), 1, "{told}");
        }
    }
    assert!(matches!(events.next().await, Some(McpEvent::Disconnected)));
    assert!(matches!(events.next().await, Some(McpEvent::Reconnected)));
    assert!(matches!(events.next().await, Some(McpEvent::ToolsChanged)));
}

#[tokio::test]
async fn session_forgotten_twice_is_an_error() {
    let server = serve(|asked| {
        let mut response = asked.served();
        if asked.is("initialize") {
            response.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
        }
        if asked.is("tools/call") { status(404) } else { response }
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let error = greet(&client).await.unwrap_err();
    assert!(matches!(&error, McpError::Transport(text) if text.contains("forgotten")), "{error}");
}

#[tokio::test]
async fn forgotten_session_closes_the_client_without_reconnect() {
    let (server, sessions) = serve_sessions().await;
    let builder = McpClient::builder().reconnect(false);
    let client = builder.connect_http(config(&server.url)).await.unwrap();
    sessions.lock().unwrap().newest += 1;
    for _ in 0..2 {
        let error = greet(&client).await.unwrap_err();
        assert!(matches!(error, McpError::Transport(_)), "{error}");
    }
    assert!(client.is_closed());
    assert_eq!(sessions.lock().unwrap().newest, 2);
}

#[tokio::test]
async fn pending_call_of_a_forgotten_session_still_gets_its_response() {
    let sessions = Arc::new(Mutex::new(Sessions::default()));
    // The slow call starts before the server forgets the session, and ends after the next session has started.
    let (begun, go_on) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let server = serve_slowly({
        let (sessions, begun, go_on) =
            (Arc::clone(&sessions), Arc::clone(&begun), Arc::clone(&go_on));
        move |asked| {
            let (sessions, begun, go_on) =
                (Arc::clone(&sessions), Arc::clone(&begun), Arc::clone(&go_on));
            async move {
                if asked.message["params"]["name"] == "slow" {
                    begun.wait().await;
                    go_on.wait().await;
                    return asked.result(said("at last"));
                }
                sessions.lock().unwrap().answer(&asked)
            }
        }
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let meanwhile = async {
        begun.wait().await;
        sessions.lock().unwrap().newest += 1;
        let (one, other) = tokio::join!(greet(&client), greet(&client));
        assert_eq!((one.unwrap().as_str(), other.unwrap().as_str()), ("hello", "hello"));
        go_on.wait().await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("slow", Value::Null), meanwhile);
    assert_eq!(text(&output.unwrap()), "at last");
    assert_eq!(sessions.lock().unwrap().newest, 3, "both share the next session");

    // Closing does not wait for pending calls of an earlier session.
    let meanwhile = async {
        begun.wait().await;
        sessions.lock().unwrap().newest += 1;
        assert_eq!(greet(&client).await.unwrap(), "hello");
        client.close().await;
    };
    let (output, ()) = tokio::join!(client.call_tool_json("slow", Value::Null), meanwhile);
    assert!(matches!(output.unwrap_err(), McpError::Transport(_)));
}

#[tokio::test]
async fn failed_reconnect_is_tried_again_with_the_next_request() {
    let initialized = Arc::new(Mutex::new(0));
    let server = serve({
        let initialized = Arc::clone(&initialized);
        move |asked| {
            let mut initialized = initialized.lock().unwrap();
            if asked.is("initialize") {
                *initialized += 1;
                // The second `initialize` fails. The old session is already forgotten, so the client has no session
                // now.
                if *initialized == 2 {
                    return status(503);
                }
                let mut response = asked.served();
                response.headers_mut().insert("mcp-session-id", "s".parse().unwrap());
                return response;
            }
            match asked.is("tools/call") && *initialized < 3 {
                true => status(404),
                false => asked.served(),
            }
        }
    })
    .await;
    let client = McpClient::connect_http(config(&server.url)).await.unwrap();
    let error = greet(&client).await.unwrap_err();
    assert!(matches!(error, McpError::Connection(_)), "{error}");
    assert_eq!(greet(&client).await.unwrap(), "hello");
}
