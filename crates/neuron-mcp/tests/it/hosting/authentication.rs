//! Tests of the authentication hook, bearer tokens, and the ownership of sessions.

use neuron_mcp::{HttpIdentity, HttpRefusal, HttpRequestHead, HttpServerConfig};
use serde_json::json;

use super::raw::{Connection, Request, begin, call, initialize, modern_call};
use super::server::{Tenant, start};

/// An authentication function that accepts the keys of alice and bob. The status is 403 for mallory's key, and 401 for
/// all other requests.
async fn by_key(request: HttpRequestHead) -> Result<HttpIdentity, HttpRefusal> {
    tokio::task::yield_now().await;
    match request.headers.get("x-key").map(|key| key.as_bytes()) {
        Some(b"of-alice") => Ok(HttpIdentity::new("alice").with(Tenant(7))),
        Some(b"of-bob") => Ok(HttpIdentity::new("bob")),
        Some(b"of-mallory") => {
            Err(HttpRefusal::forbidden().error("insufficient_scope").scope("all"))
        }
        _ => Err(HttpRefusal::unauthorized().resource_metadata("https://a.example/metadata")),
    }
}

fn with_keys(config: HttpServerConfig) -> HttpServerConfig {
    config.authenticate(by_key)
}

#[tokio::test]
async fn refused_request_gets_status_and_challenge() {
    let server = start(with_keys).await;
    let response = initialize().send(server.addr).await;
    assert_eq!(response.status, 401);
    assert_eq!(
        response.header("www-authenticate"),
        Some(r#"Bearer resource_metadata="https://a.example/metadata""#)
    );
    let response = initialize().header("x-key", "of-mallory").send(server.addr).await;
    assert_eq!(response.status, 403);
    assert_eq!(
        response.header("www-authenticate"),
        Some(r#"Bearer error="insufficient_scope", scope="all""#)
    );
    let listen = Request::listen().session("any").send(server.addr).await;
    assert_eq!(listen.status, 401);
    let delete = Request::new("DELETE").session("any").send(server.addr).await;
    assert_eq!(delete.status, 401);
}

#[tokio::test]
async fn tool_sees_the_identity_of_the_caller() {
    let server = start(with_keys).await;
    let expected = r#"Some("alice") Some(7) Some(127.0.0.1)"#;
    let alice = |request: Request| request.header("x-key", "of-alice");
    let response = alice(modern_call("whoami", &json!({}))).send(server.addr).await;
    assert_eq!(response.tool_text(), expected);
    let id = begin(server.addr, alice).await;
    let response = alice(call(&id, "whoami", &json!({}))).send(server.addr).await;
    assert_eq!(response.tool_text(), expected);
}

#[tokio::test]
async fn caller_has_no_identity_without_a_hook() {
    let server = start(|config| config).await;
    let response = modern_call("whoami", &json!({})).send(server.addr).await;
    assert_eq!(response.tool_text(), "None None Some(127.0.0.1)");
}

#[tokio::test]
async fn session_of_another_identity_is_not_found() {
    let server = start(with_keys).await;
    let alice = |request: Request| request.header("x-key", "of-alice");
    let bob = |request: Request| request.header("x-key", "of-bob");
    let id = begin(server.addr, alice).await;

    let echo = || call(&id, "echo", &json!({ "text": "mine" }));
    let unknown = bob(call("00000000", "echo", &json!({ "text": "mine" }))).send(server.addr).await;
    let others = bob(echo()).send(server.addr).await;
    assert_eq!((others.status, &others.body), (404, &unknown.body));
    assert_eq!(unknown.status, 404);
    let listen = bob(Request::listen().session(&id)).send(server.addr).await;
    assert_eq!(listen.status, 404);
    let delete = bob(Request::new("DELETE").session(&id)).send(server.addr).await;
    assert_eq!(delete.status, 404);

    let mine = alice(echo()).send(server.addr).await;
    assert_eq!(mine.tool_text(), "mine");
}

#[tokio::test]
async fn hook_runs_before_the_body_is_read() {
    let server = start(with_keys).await;
    let bytes = initialize().to_bytes();
    let head = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    let mut connection = Connection::open(server.addr).await;
    connection.write(&bytes[..head]).await;
    assert_eq!(connection.read_to_end().await.unwrap().status, 401);
}

#[tokio::test]
async fn hook_does_not_run_for_a_wrong_host_or_origin() {
    let server = start(|config| {
        config.authenticate(async |_| -> Result<HttpIdentity, HttpRefusal> { panic!("asked") })
    })
    .await;
    let response =
        initialize().without("host").header("host", "evil.example").send(server.addr).await;
    assert_eq!(response.status, 403);
    let response = initialize().header("origin", "https://evil.example").send(server.addr).await;
    assert_eq!(response.status, 403);
}

#[tokio::test]
async fn panicking_hook_closes_only_its_connection() {
    let server = start(|config| {
        config.authenticate(async |request: HttpRequestHead| {
            assert!(!request.headers.contains_key("x-panic"), "as the test wants it");
            Ok(HttpIdentity::new("anybody"))
        })
    })
    .await;
    let mut connection = Connection::open(server.addr).await;
    connection.write(initialize().header("x-panic", "1").to_bytes()).await;
    assert!(connection.read_to_end().await.is_none());
    assert_eq!(initialize().send(server.addr).await.status, 200);
}

#[tokio::test]
async fn bearer_token_is_required() {
    let server = start(|config| config.bearer_token("s3cret")).await;
    let with = |value: &str| initialize().header("authorization", value);
    assert_eq!(with("Bearer s3cret").send(server.addr).await.status, 200);
    let missing = initialize().send(server.addr).await;
    assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer")));
    let wrong = with("Bearer s3cret!").send(server.addr).await;
    let challenge = Some(r#"Bearer error="invalid_token""#);
    assert_eq!((wrong.status, wrong.header("www-authenticate")), (401, challenge));
}
