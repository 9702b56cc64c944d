//! Tests of the allowed `Host` and `Origin` headers.

use super::raw::{Request, initialize};
use super::server::start;

/// Sends `initialize` with these headers and without the default `Host` header. Returns the HTTP status.
async fn status(addr: std::net::SocketAddr, headers: &[(&str, &str)]) -> u16 {
    let request = initialize().without("host");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(name, value));
    request.send(addr).await.status
}

#[tokio::test]
async fn request_for_another_host_is_refused() {
    let server = start(|config| config).await;
    let with_port = format!("localhost:{}", server.addr.port());
    for host in ["localhost", "LocalHost", "127.0.0.1", "[::1]", "localhost:1", &with_port] {
        assert_eq!(status(server.addr, &[("host", host)]).await, 200, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "10.0.0.1"]
    {
        assert_eq!(status(server.addr, &[("host", host)]).await, 403, "{host}");
    }
}

#[tokio::test]
async fn request_without_exactly_one_host_is_refused() {
    let server = start(|config| config).await;
    assert_eq!(status(server.addr, &[]).await, 400);
    assert_eq!(status(server.addr, &[("host", "")]).await, 400);
    assert_eq!(status(server.addr, &[("host", "x@localhost")]).await, 400);
    assert_eq!(status(server.addr, &[("host", "localhost"), ("host", "localhost")]).await, 400);
    let twice = [("host", "localhost"), ("Host", "evil.example")];
    assert_eq!(status(server.addr, &twice).await, 400);
    let twice = [("host", "evil.example"), ("Host", "localhost")];
    assert_eq!(status(server.addr, &twice).await, 400);
}

#[tokio::test]
async fn host_of_an_absolute_target_is_checked() {
    let server = start(|config| config).await;
    let request = || initialize().target("http://localhost/mcp");
    assert_eq!(request().send(server.addr).await.status, 200);
    let request = || initialize().target("http://evil.example/mcp");
    assert_eq!(request().send(server.addr).await.status, 403);
    let evil = request().without("host").header("host", "evil.example");
    assert_eq!(evil.send(server.addr).await.status, 403);
    let inside = initialize().target("http://localhost/mcp").without("host");
    let inside = inside.header("host", "evil.example");
    assert_eq!(inside.send(server.addr).await.status, 403);
}

#[tokio::test]
async fn only_configured_hosts_and_the_bound_address_are_allowed() {
    let server = start(|config| config.allowed_hosts(["tools.example.com", "b.example:81"])).await;
    for host in ["tools.example.com", "tools.example.com:8443", "b.example:81", "127.0.0.1"] {
        assert_eq!(status(server.addr, &[("host", host)]).await, 200, "{host}");
    }
    for host in ["localhost", "b.example", "b.example:80", "example.com"] {
        assert_eq!(status(server.addr, &[("host", host)]).await, 403, "{host}");
    }
}

#[tokio::test]
async fn request_with_an_origin_is_refused_by_default() {
    let server = start(|config| config).await;
    let own = format!("http://{}", server.addr);
    for origin in ["null", "https://evil.example", "http://localhost", &own, "file://", ""] {
        let headers = [("host", "localhost"), ("origin", origin)];
        assert_eq!(status(server.addr, &headers).await, 403, "{origin}");
    }
}

#[tokio::test]
async fn allowed_origin_gets_cors_headers() {
    let server = start(|config| config.allowed_origins(["https://app.example:8443"])).await;
    let origin = |origin| initialize().header("origin", origin);
    let response = origin("https://app.example:8443").send(server.addr).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("access-control-allow-origin"), Some("https://app.example:8443"));
    let exposed = response.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("Mcp-Session-Id"), "{exposed}");
    assert_eq!(response.header("vary"), Some("Origin"));
    for other in ["https://app.example", "https://app.example:1", "http://app.example:8443", "null"]
    {
        let response = origin(other).send(server.addr).await;
        assert_eq!((response.status, response.header("access-control-allow-origin")), (403, None));
    }
    let twice = origin("https://app.example:8443").header("origin", "https://app.example:8443");
    assert_eq!(twice.send(server.addr).await.status, 403);
}

#[tokio::test]
async fn preflight_is_answered_without_authentication() {
    let server = start(|config| {
        let config = config.allowed_origins(["http://localhost:*"]);
        // A preflight request has no credentials and must be answered without them.
        config.bearer_token("s3cret")
    })
    .await;
    let preflight = |origin| {
        Request::new("OPTIONS")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,mcp-session-id")
    };
    let response = preflight("http://localhost:5173").send(server.addr).await;
    assert_eq!(response.status, 204);
    assert_eq!(response.header("access-control-allow-origin"), Some("http://localhost:5173"));
    assert_eq!(response.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    assert_eq!(
        response.header("access-control-allow-headers"),
        Some("content-type,mcp-session-id")
    );
    assert_eq!(preflight("http://evil.example").send(server.addr).await.status, 403);
}
