//! Tests of paths, methods, malformed requests and settings of the HTTP endpoint.

use neuron_mcp::{HttpServerConfig, McpError, McpServer};
use neuron_tool::ToolRegistry;
use serde_json::json;

use super::raw::{self, Connection, Request, begin, call, initialize, modern_call, within};
use super::server::{Waiting, mcp_server, start};

#[tokio::test]
async fn tool_is_called_in_a_session() {
    let server = start(|config| config).await;
    let id = begin(server.addr, |request| request).await;
    let response = call(&id, "echo", &json!({ "text": "hé" })).send(server.addr).await;
    assert_eq!((response.status, response.tool_text().as_str()), (200, "hé"));
    assert_eq!(response.header("content-type"), Some("text/event-stream"));

    let response = Request::new("DELETE").session(&id).send(server.addr).await;
    assert_eq!(response.status, 204);
    let response = call(&id, "echo", &json!({ "text": "again" })).send(server.addr).await;
    assert_eq!(response.status, 404);
}

#[tokio::test]
async fn tool_is_called_without_a_session_since_2026() {
    let server = start(|config| config).await;
    let response = modern_call("echo", &json!({ "text": "new" })).send(server.addr).await;
    assert_eq!((response.status, response.tool_text().as_str()), (200, "new"));
    assert_eq!(response.header("mcp-session-id"), None);
    // Version 2026-07-28 has no sessions, so the header with a session id is ignored.
    let request = modern_call("echo", &json!({ "text": "new" })).session("none");
    assert_eq!(request.send(server.addr).await.status, 200);
}

#[tokio::test]
async fn only_the_configured_path_is_served() {
    let server = start(|config| config.path("/tools/mcp")).await;
    assert_eq!(server.url, format!("http://{}/tools/mcp", server.addr));
    assert_eq!(initialize().target("/tools/mcp").send(server.addr).await.status, 200);
    assert_eq!(initialize().target("/tools/mcp?a=b").send(server.addr).await.status, 200);
    for other in ["/mcp", "/", "/tools/mcp/", "/tools"] {
        let response = initialize().target(other).send(server.addr).await;
        assert_eq!(response.status, 404, "{other}");
        assert_eq!(response.body, "Not Found: the endpoint is /tools/mcp");
    }
}

#[tokio::test]
async fn other_http_methods_are_refused() {
    let server = start(|config| config).await;
    for method in ["PUT", "HEAD", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        let response = Request::new(method).send(server.addr).await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.header("allow"), Some("GET, POST, DELETE"));
    }
}

#[tokio::test]
async fn body_that_is_no_message_is_refused() {
    let server = start(|config| config).await;
    for body in ["", "{", "nonsense", "{}", "[]", "null", r#"{"jsonrpc":"1.0"}"#, "\u{0}"] {
        let response = initialize().body(body).send(server.addr).await;
        assert_eq!(response.status, 400, "{body}");
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(response.messages()[0]["error"]["code"], -32700, "{body}");
    }
    let request = initialize().without("content-type");
    assert_eq!(request.send(server.addr).await.status, 415);
    let request = initialize().without("content-type").header("content-type", "text/plain");
    assert_eq!(request.send(server.addr).await.status, 415);
    let request = initialize().without("accept");
    assert_eq!(request.send(server.addr).await.status, 406);
    let response = raw::send(server.addr, "nonsense\r\n\r\n").await;
    assert_eq!(response.status, 400);
}

#[tokio::test]
async fn truncated_requests_do_not_affect_other_clients() {
    let server = start(|config| config).await;
    let whole = initialize().to_bytes();
    for end in (0..whole.len()).step_by(7) {
        let mut connection = Connection::open(server.addr).await;
        connection.write(&whole[..end]).await;
    }
    assert_eq!(initialize().send(server.addr).await.status, 200);
}

#[tokio::test]
async fn two_hundred_concurrent_clients_are_served() {
    let server = start(|config| config).await;
    let clients = (0..200).map(|number| async move {
        let text = format!("client {number}");
        if number % 2 == 0 {
            let id = begin(server.addr, |request| request).await;
            let response = call(&id, "echo", &json!({ "text": text })).send(server.addr).await;
            assert_eq!(response.tool_text(), text);
        } else {
            let response = modern_call("echo", &json!({ "text": text })).send(server.addr).await;
            assert_eq!(response.tool_text(), text);
        }
    });
    within(futures_util::future::join_all(clients)).await;
}

#[tokio::test]
async fn public_address_requires_allowed_hosts() {
    let server = McpServer::new(ToolRegistry::new());
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let error = server.serve_http(everywhere).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "initialization failed: other machines can reach a server at 0.0.0.0:0: set its host \
         names with `HttpServerConfig::allowed_hosts`, or listen on 127.0.0.1"
    );
    assert!(matches!(error, McpError::Initialization(_)));
    let named = HttpServerConfig::new("[::ffff:127.0.0.1]:0".parse().unwrap());
    assert!(matches!(server.bind_http(named).await, Err(McpError::Initialization(_))));
}

#[tokio::test]
async fn invalid_settings_are_errors() {
    let server = mcp_server(&Waiting::default());
    let bad = [
        HttpServerConfig::default().path("mcp"),
        HttpServerConfig::default().path(""),
        HttpServerConfig::default().allowed_hosts(["http://localhost"]),
        HttpServerConfig::default().allowed_origins(["localhost"]),
    ];
    for config in bad {
        let error = server.bind_http(config).await.unwrap_err();
        assert!(matches!(error, McpError::Initialization(_)), "{error}");
    }
    let error =
        server.http_service(HttpServerConfig::default().allowed_hosts(["a b"])).unwrap_err();
    assert!(error.to_string().contains("`a b` is not a valid host"), "{error}");
}

#[tokio::test]
async fn address_in_use_is_an_error() {
    let running = start(|config| config).await;
    let error = mcp_server(&Waiting::default()).serve_http(running.addr).await.unwrap_err();
    let McpError::Connection(text) = error else { panic!("{error}") };
    assert!(text.starts_with(&format!("cannot listen on {}: ", running.addr)), "{text}");
}
