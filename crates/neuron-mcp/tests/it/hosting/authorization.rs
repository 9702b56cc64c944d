//! Tests of a server protected by OAuth, including the resource metadata and the validation of tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use neuron_mcp::{
    HttpIdentity, HttpRefusal, HttpServerConfig, McpError, ProtectedResource, TokenClaims,
};
use serde_json::{Value, json};

use super::raw::{Connection, Request, Response, begin, call, initialize, modern_call};
use super::server::{Running, Waiting, mcp_server, start};

const RESOURCE: &str = "https://tools.example.com/mcp";
const METADATA: &str = "https://tools.example.com/.well-known/oauth-protected-resource/mcp";
const PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// Returns the Unix time, in seconds, `offset` seconds from now.
fn at(offset: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    now.saturating_add_signed(offset)
}

fn resource() -> ProtectedResource {
    ProtectedResource::new(RESOURCE, ["https://login.example.com"])
        .scopes(["files:write", "tools"])
        .required_scopes(["tools", "profile"])
        .name("Tools")
}

/// Verifies a test token. The text of the token selects the claims or the refusal that are returned.
async fn verify(token: String) -> Result<TokenClaims, HttpRefusal> {
    let good = TokenClaims {
        identity: HttpIdentity::new("alice"),
        audience: vec![RESOURCE.to_owned()],
        expires_at: at(3600),
        scopes: ["files:write", "profile", "tools"].map(str::to_owned).into(),
    };
    let audience = |list: &[&str]| {
        Ok(TokenClaims {
            audience: list.iter().map(|it| (*it).to_owned()).collect(),
            ..good.clone()
        })
    };
    match token.as_str() {
        "alice" | "alice-again" | "a-._~+/9==" => Ok(good.clone()),
        "bob" => Ok(TokenClaims { identity: HttpIdentity::new("bob"), ..good }),
        "expired" => Ok(TokenClaims { expires_at: at(-60), ..good }),
        // The server accepts a token for 30 seconds after it has expired, because clocks differ.
        "expires-now" => Ok(TokenClaims { expires_at: at(0), ..good }),
        "expires-soon" => Ok(TokenClaims { expires_at: at(-28), ..good }),
        "never-expires" => Ok(TokenClaims { expires_at: u64::MAX, ..good }),
        "never-set" => Ok(TokenClaims { expires_at: 0, ..good }),
        "one-scope" => Ok(TokenClaims { scopes: vec!["tools".to_owned()], ..good }),
        "scopes-in-one" => Ok(TokenClaims { scopes: vec!["tools profile".to_owned()], ..good }),
        "audience-list" => audience(&["https://other.example.com", RESOURCE]),
        "audience-slash" => audience(&["https://tools.example.com/mcp/"]),
        "audience-case" => audience(&["HTTPS://Tools.Example.COM:443/mcp"]),
        "audience-none" => audience(&[]),
        "audience-empty" => audience(&[""]),
        "audience-origin" => audience(&["https://tools.example.com"]),
        "audience-below" => audience(&["https://tools.example.com/mcp/admin"]),
        "audience-path-case" => audience(&["https://tools.example.com/MCP"]),
        "audience-dots" => audience(&["https://tools.example.com/other/../mcp"]),
        "audience-port" => audience(&["https://tools.example.com:8443/mcp"]),
        "audience-scheme" => audience(&["http://tools.example.com/mcp"]),
        "audience-user" => audience(&["https://x@tools.example.com/mcp"]),
        "audience-query" => audience(&["https://tools.example.com/mcp?x"]),
        "audience-fragment" => audience(&["https://tools.example.com/mcp#x"]),
        "audience-prefix" => audience(&["https://tools.example.com.evil.example/mcp"]),
        "missing-scope" => Err(HttpRefusal::forbidden().scope("tools admin")),
        "no-introspection" => Err(HttpRefusal::unavailable()),
        _ => Err(HttpRefusal::unauthorized()),
    }
}

/// Starts a server that requires tokens for [`RESOURCE`].
async fn protected() -> Running {
    start(|config| config.allowed_origins(["https://app.example"]).authorize(resource(), verify))
        .await
}

/// Calls the tool `whoami` with this `Authorization` header.
async fn send(server: &Running, authorization: &str) -> Response {
    modern_call("whoami", &json!({})).header("authorization", authorization).send(server.addr).await
}

/// Sends a tool call with the `Authorization` header `value`. Asserts the HTTP status of the response, and that its
/// header `WWW-Authenticate` contains `error`.
#[track_caller]
fn check(server: &Running, value: &str, status: u16, error: &str) -> impl Future<Output = ()> {
    async move {
        let response = send(server, value).await;
        let shown: String = value.chars().take(40).collect();
        assert_eq!(response.status, status, "{shown}: {response:?}");
        let challenge = response.header("www-authenticate").unwrap_or_default();
        assert!(challenge.contains(error), "{shown}: {challenge}");
        if status == 401 || status == 403 {
            assert!(challenge.starts_with("Bearer "), "{challenge}");
            assert!(challenge.contains(&format!("resource_metadata=\"{METADATA}\"")));
            assert!(challenge.contains("scope=\"tools "), "{challenge}");
        }
    }
}

#[tokio::test]
async fn missing_token_challenge_contains_the_metadata_url() {
    let server = protected().await;
    let response = initialize().send(server.addr).await;
    assert_eq!(response.status, 401);
    let challenge = format!(r#"Bearer resource_metadata="{METADATA}", scope="tools profile""#);
    assert_eq!(response.header("www-authenticate"), Some(challenge.as_str()));
    // A header with another scheme counts as a missing token.
    let response = send(&server, "Basic YWxpY2U6eA==").await;
    assert_eq!(response.header("www-authenticate"), Some(challenge.as_str()));
    for request in [Request::listen(), Request::new("DELETE"), Request::new("PUT")] {
        assert_eq!(request.session("any").send(server.addr).await.status, 401);
    }
}

#[tokio::test]
async fn valid_token_is_accepted() {
    let server = protected().await;
    let good = ["Bearer alice", "bearer alice", "BEARER alice", "Bearer   alice"];
    for value in good.into_iter().chain(["Bearer a-._~+/9=="]) {
        let response = send(&server, value).await;
        assert_eq!(response.tool_text(), r#"Some("alice") None Some(127.0.0.1)"#, "{value}");
    }
    for token in
        ["audience-list", "audience-slash", "audience-case", "expires-now", "never-expires"]
    {
        check(&server, &format!("Bearer {token}"), 200, "").await;
    }
}

#[tokio::test]
async fn invalid_token_is_refused() {
    let server = protected().await;
    for token in [
        "audience-none",
        "audience-empty",
        "audience-origin",
        "audience-below",
        "audience-path-case",
        "audience-dots",
        "audience-port",
        "audience-scheme",
        "audience-user",
        "audience-query",
        "audience-fragment",
        "audience-prefix",
    ] {
        let error =
            r#"error_description="the token is for another resource", error="invalid_token""#;
        check(&server, &format!("Bearer {token}"), 401, error).await;
    }
    let expired = r#"error_description="the token has expired", error="invalid_token""#;
    check(&server, "Bearer expired", 401, expired).await;
    check(&server, "Bearer never-set", 401, expired).await;
    check(&server, "Bearer unknown", 401, r#"error="invalid_token""#).await;

    let malformed = r#"error_description="the token is malformed", error="invalid_token""#;
    for value in [
        "Bearer",
        "Bearer =",
        "Bearer ==",
        "Bearer a b",
        "Bearer alice ,x",
        "Bearer alice, Bearer bob",
        "Bearer \"alice\"",
        "Bearer al=ice",
        "Bearer alic\u{e9}",
        "Bearer \talice",
    ] {
        check(&server, value, 401, malformed).await;
    }
    // These headers have another scheme than `Bearer`, so the challenge contains no error.
    check(&server, "Bearer\talice", 401, "").await;
    check(&server, "Bearer: alice", 401, "").await;
    check(&server, "Bearers alice", 401, "").await;
}

#[tokio::test]
async fn missing_scopes_are_named_in_the_challenge() {
    let server = protected().await;
    let error = r#"error="insufficient_scope""#;
    check(&server, "Bearer one-scope", 403, error).await;
    check(&server, "Bearer one-scope", 403, r#"scope="tools profile""#).await;
    check(&server, "Bearer scopes-in-one", 403, error).await;
    // The scopes in the verifier's refusal are kept.
    check(&server, "Bearer missing-scope", 403, error).await;
    check(&server, "Bearer missing-scope", 403, r#"scope="tools admin""#).await;
}

#[tokio::test]
async fn unavailable_verifier_returns_503_without_a_challenge() {
    let server = protected().await;
    let response = send(&server, "Bearer no-introspection").await;
    assert_eq!((response.status, response.header("www-authenticate")), (503, None));
}

#[tokio::test]
async fn two_authorization_headers_are_malformed() {
    let server = protected().await;
    for second in ["Bearer alice", "Bearer bob", "Basic x", ""] {
        let request = modern_call("whoami", &json!({})).header("authorization", "Bearer alice");
        let response = request.header("authorization", second).send(server.addr).await;
        assert_eq!(response.status, 400, "{response:?}");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.starts_with(r#"Bearer error="invalid_request""#), "{challenge}");
    }
}

#[tokio::test]
async fn token_outside_the_authorization_header_is_ignored() {
    let server = protected().await;
    let target = "/mcp?access_token=alice";
    let response = initialize().target(target).send(server.addr).await;
    assert_eq!(response.status, 401);
    assert!(!response.header("www-authenticate").unwrap().contains("error="));
    let form = Request::new("POST")
        .header("content-type", "application/x-www-form-urlencoded")
        .body("access_token=alice");
    assert_eq!(form.send(server.addr).await.status, 401);
    let cookie = initialize().header("cookie", "access_token=alice");
    assert_eq!(cookie.send(server.addr).await.status, 401);
    let proxy = initialize().header("proxy-authorization", "Bearer alice");
    assert_eq!(proxy.send(server.addr).await.status, 401);
}

#[tokio::test]
async fn too_long_token_is_refused() {
    let server = protected().await;
    let fits = format!("Bearer {}", "a".repeat(48 * 1024));
    check(&server, &fits, 401, r#"error="invalid_token""#).await;
    let huge = format!("Bearer {}", "a".repeat(128 * 1024));
    assert_eq!(send(&server, &huge).await.status, 431);
    check(&server, "Bearer alice", 200, "").await;
}

#[tokio::test]
async fn tool_sees_the_claims_but_not_the_token() {
    let server = protected().await;
    let token = "Bearer alice";
    let response = modern_call("claims", &json!({}))
        .header("authorization", token)
        .header("x-other", "kept")
        .send(server.addr)
        .await;
    assert_eq!(
        response.tool_text(),
        r#"["files:write", "profile", "tools"] authorization: None, x-other: Some("kept")"#
    );
    let id = begin(server.addr, |request| request.header("authorization", token)).await;
    let response =
        call(&id, "claims", &json!({})).header("authorization", token).send(server.addr).await;
    assert!(response.tool_text().contains("authorization: None"), "{response:?}");
}

#[tokio::test]
async fn session_accepts_any_valid_token_of_its_owner() {
    let server = protected().await;
    let with = |token: &str| {
        let value = format!("Bearer {token}");
        move |request: Request| request.header("authorization", &value)
    };
    let id = begin(server.addr, with("alice")).await;
    let echo = || call(&id, "echo", &json!({ "text": "mine" }));
    assert_eq!(with("alice-again")(echo()).send(server.addr).await.tool_text(), "mine");
    assert_eq!(with("bob")(echo()).send(server.addr).await.status, 404);
    assert_eq!(with("expired")(echo()).send(server.addr).await.status, 401);
    assert_eq!(with("one-scope")(echo()).send(server.addr).await.status, 403);
    assert_eq!(echo().send(server.addr).await.status, 401);
    assert_eq!(with("alice")(echo()).send(server.addr).await.tool_text(), "mine");
}

#[tokio::test]
async fn listening_stream_ends_when_its_token_expires() {
    let server = protected().await;
    let alice = |request: Request| request.header("authorization", "Bearer alice");
    let id = begin(server.addr, alice).await;
    let listen = |token: &str| {
        Request::listen()
            .session(&id)
            .header("authorization", &format!("Bearer {token}"))
            .to_bytes()
    };
    let mut soon = Connection::open(server.addr).await;
    soon.write(listen("expires-soon")).await;
    assert_eq!(soon.read_to_end().await.unwrap().status, 200);

    let mut never = Connection::open(server.addr).await;
    never.write(listen("never-expires")).await;
    never.read_until("HTTP/1.1 200").await;
    // A running request continues after its token has expired. A client would only repeat the request.
    let mut waits = Connection::open(server.addr).await;
    let call = call(&id, "wait", &json!({})).header("authorization", "Bearer expires-soon");
    waits.write(call.to_bytes()).await;
    server.waiting.began.notified().await;
    let mut soon = Connection::open(server.addr).await;
    soon.write(listen("expires-soon")).await;
    soon.read_to_end().await.unwrap();
    server.waiting.release.notify_one();
    assert_eq!(waits.read_to_end().await.unwrap().tool_text(), "waited");
}

#[tokio::test]
async fn metadata_is_served_at_both_paths() {
    let server = protected().await;
    let expected = json!({
        "resource": RESOURCE,
        "authorization_servers": ["https://login.example.com"],
        "scopes_supported": ["tools", "profile", "files:write"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Tools",
    });
    let root = "/.well-known/oauth-protected-resource";
    for path in [PATH, root, &format!("{PATH}/"), &format!("{root}/"), &format!("{PATH}?x=1")] {
        let response = Request::new("GET").target(path).send(server.addr).await;
        assert_eq!(response.status, 200, "{path}");
        assert_eq!(response.header("content-type"), Some("application/json"));
        assert_eq!(serde_json::from_str::<Value>(&response.body).unwrap(), expected, "{path}");
    }
    for path in [&format!("{PATH}/x"), "/.well-known/oauth-protected-resource/other", "/mcp/x"] {
        let response = Request::new("GET").target(path).send(server.addr).await;
        assert_eq!(response.status, 404, "{path}");
    }
}

#[tokio::test]
async fn metadata_supports_only_get_and_head() {
    let server = protected().await;
    let head = Request::new("HEAD").target(PATH).send(server.addr).await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO"] {
        let response = Request::new(method).target(PATH).body("{}").send(server.addr).await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.header("allow"), Some("GET, HEAD, OPTIONS"));
    }
    let body = "x".repeat(10_000);
    let with_body = Request::new("GET").target(PATH).body(body).send(server.addr).await;
    assert_eq!(with_body.status, 200);
    let with_token = Request::new("GET").target(PATH).header("authorization", "Bearer expired");
    assert_eq!(with_token.send(server.addr).await.status, 200);
}

#[tokio::test]
async fn allowed_origin_can_read_metadata_and_challenge() {
    let server = protected().await;
    let origin = Some("https://app.example");
    let from_page = |request: Request| request.header("origin", "https://app.example");
    let preflight = from_page(Request::new("OPTIONS").target(PATH))
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", "mcp-protocol-version")
        .send(server.addr)
        .await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), origin);
    assert_eq!(preflight.header("access-control-allow-headers"), Some("mcp-protocol-version"));
    let metadata = from_page(Request::new("GET").target(PATH)).send(server.addr).await;
    assert_eq!((metadata.status, metadata.header("access-control-allow-origin")), (200, origin));
    let refused = from_page(initialize()).send(server.addr).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, origin));
    assert!(refused.header("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));

    let evil = Request::new("GET").target(PATH).header("origin", "https://evil.example");
    assert_eq!(evil.send(server.addr).await.status, 403);
    let rebound = Request::new("GET").target(PATH).without("host").header("host", "evil.example");
    assert_eq!(rebound.send(server.addr).await.status, 403);
}

#[tokio::test]
async fn other_authentication_has_no_metadata() {
    let configs: [fn(HttpServerConfig) -> HttpServerConfig; 2] =
        [|config| config, |config| config.authorize(resource(), verify).bearer_token("s3cret")];
    for config in configs {
        let server = start(config).await;
        assert_eq!(Request::new("GET").target(PATH).send(server.addr).await.status, 404);
    }
    // With a plain bearer token instead of OAuth, a tool still sees the `Authorization` header.
    let server = start(|config| config.bearer_token("s3cret")).await;
    let request = modern_call("claims", &json!({})).header("authorization", "Bearer s3cret");
    assert!(request.send(server.addr).await.tool_text().contains("Bearer s3cret"));
}

#[tokio::test]
async fn invalid_resource_settings_are_errors() {
    let error = |uri: &str, servers: &[&str]| {
        let resource = ProtectedResource::new(uri, servers.iter().copied());
        let config = HttpServerConfig::default().authorize(resource, verify);
        match mcp_server(&Waiting::default()).http_service(config) {
            Err(McpError::Initialization(text)) => text,
            other => panic!("{uri} {servers:?}: {other:?}"),
        }
    };
    let issuer = ["https://login.example.com"];
    for uri in [
        "",
        "/mcp",
        "tools.example.com/mcp",
        "ftp://a.example/mcp",
        "https://",
        "https://a.example/m p",
        "https://a.example/mcp?x=1",
        "https://a.example?x",
        "https://a.example/mcp#x",
        "https://a@b.example/",
        "https://a.example/\u{fc}",
        "https://a.example/\"",
        "https://a.example:x/",
    ] {
        assert!(error(uri, &issuer).contains(&format!("`{uri}` is not a valid URL")), "{uri}");
        assert!(
            error(RESOURCE, &["https://b.example", uri]).contains("is not a valid URL"),
            "{uri}"
        );
    }
    assert!(error(RESOURCE, &[]).contains("has no authorization server"));
}

#[tokio::test]
async fn resource_without_a_path_has_its_metadata_at_the_root() {
    for uri in ["https://tools.example.com", "https://tools.example.com/"] {
        let resource = ProtectedResource::new(uri, ["https://login.example.com"]);
        let server = start(|config| config.path("/").authorize(resource, verify)).await;
        let response = Request::new("POST").target("/").send(server.addr).await;
        let expected = "https://tools.example.com/.well-known/oauth-protected-resource";
        let challenge = format!("Bearer resource_metadata=\"{expected}\"");
        assert_eq!(response.header("www-authenticate"), Some(challenge.as_str()));
        let path = "/.well-known/oauth-protected-resource";
        let response = Request::new("GET").target(path).send(server.addr).await;
        let document: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!(document["resource"], uri);
        assert_eq!(document.get("scopes_supported"), None);
    }
}
